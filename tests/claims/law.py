"""A law: a claim of a paper that is judged by a measurement without training, as a function."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Status = Literal["held", "did not hold", "undecided"]
Evidence = Literal["identity", "at initialization"]


@dataclass(frozen=True)
class Finding:
    """What a measurement says about one claim.

    Attributes:
        status: ``held`` or ``did not hold`` by the claim's criterion, else ``undecided``.
        measured: the numbers that decide, in plain text.
        n: how many draws, seeds or networks they come from.
        of: what `n` counts, in the plural.
        values: raw numbers, from which the verdict can be recomputed. A list has one entry per draw unless its key or a
            list beside it says otherwise; None stands for what did not happen.
        interval: the least and largest of the number that the criterion is about, or a confidence interval, as
            `measured` says; None if there is none.
        note: what a reader must know beside the numbers, such as how an ambiguous criterion was read.
        part: the part of the claim that `status` judges, if it does not judge the whole claim.
    """

    status: Status
    measured: str
    n: int
    of: str
    values: dict[str, list]
    interval: tuple[float, float] | None = None
    note: str = ""
    part: str = ""


@dataclass(frozen=True)
class Confirmation:
    """A second measurement by the same criterion, for a law whose criterion was written after a pilot measurement.

    Attributes:
        network: what differs from the law's own measurement, in plain text.
        arguments: of the law's function; fresh seeds are among them.
    """

    network: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Law:
    """A claim and the function that judges it.

    Attributes:
        claim: its id in docs/claims.yaml.
        measure: works without arguments; every random number in it has a fixed seed.
        evidence: ``identity`` if the claim is algebra, so that a failure can only be one of the code or of the claim
            itself and never of a network; ``at initialization`` if networks can differ in it.
        slow: whether it takes more than some ten seconds.
        by_command: whether `measure_laws.py` alone judges it and no test: it takes minutes, or measures time.
        digits: significant digits of stored values.
        confirmation: None if the criterion was not written after a pilot measurement.
    """

    claim: str
    measure: Callable[..., Finding]
    evidence: Evidence
    slow: bool = False
    by_command: bool = False
    digits: int = 6
    confirmation: Confirmation | None = None

    def confirm(self) -> Finding:
        """Return what the confirmation says.

        Raises:
            ValueError: the law has none.
        """
        if self.confirmation is None:
            raise ValueError(f"{self.claim} has no confirmation")
        return self.measure(**self.confirmation.arguments)


LAWS: dict[str, Law] = {}


def law(
    claim: str,
    *,
    evidence: Evidence,
    slow: bool = False,
    by_command: bool = False,
    digits: int = 6,
    confirmation: Confirmation | None = None,
) -> Callable[[Callable[..., Finding]], Callable[..., Finding]]:
    """Register the decorated function as the one that judges a claim; the arguments are attributes of `Law`.

    Raises:
        ValueError: another function judges it.
    """

    def register(measure: Callable[..., Finding]) -> Callable[..., Finding]:
        if claim in LAWS:
            raise ValueError(f"{claim} is judged twice")
        LAWS[claim] = Law(claim, measure, evidence, slow, by_command, digits, confirmation)
        return measure

    return register


def all_laws() -> dict[str, Law]:
    """Return every law of this folder's modules ``laws_of_*.py`` by its claim."""
    for path in sorted(Path(__file__).parent.glob("laws_of_*.py")):
        importlib.import_module(path.stem)
    return LAWS


def judged(*, held: bool, not_held: bool) -> Status:
    """Return the status of a claim from its two criteria; what is neither is undecided.

    Raises:
        ValueError: both are met, so that the criteria are wrong.
    """
    if held and not_held:
        raise ValueError("a claim cannot be held and not held at once")
    return "held" if held else "did not hold" if not_held else "undecided"


def held_or_not(held: bool) -> Status:
    """Return the status of a claim whose criterion is "held if ..., not held otherwise"."""
    return "held" if held else "did not hold"
