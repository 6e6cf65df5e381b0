"""A law: a claim of a paper that is judged by a measurement without training, as a function."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Status = Literal["held", "did_not_hold", "undecided"]


@dataclass(frozen=True)
class Finding:
    """What was found of one claim.

    Attributes:
        status: ``held`` or ``did_not_hold`` by the criterion of the claim's ``twin`` in docs/claims.yaml, else
            ``undecided``.
        measured: the numbers that decide, in plain text.
        n: how many seeds or draws they come from.
        interval: the least and largest of the number that the criterion is about, or a confidence interval, as
            `measured` says; None where there is none.
        note: what a reader must know beside the numbers, such as how an ambiguous criterion was read.
    """

    status: Status
    measured: str
    n: int
    interval: tuple[float, float] | None = None
    note: str = ""


@dataclass(frozen=True)
class Law:
    """A claim and the function that judges it.

    Attributes:
        claim: its id in docs/claims.yaml.
        measure: takes no arguments; every random number in it has a fixed seed.
        slow: whether it takes more than some ten seconds.
        by_command: whether `measure_laws.py` alone judges it and no test: it takes minutes, or measures time.
    """

    claim: str
    measure: Callable[[], Finding]
    slow: bool
    by_command: bool = False


LAWS: dict[str, Law] = {}


def law(
    claim: str, *, slow: bool = False, by_command: bool = False
) -> Callable[[Callable[[], Finding]], Callable[[], Finding]]:
    """Register the decorated function, without arguments, as the one that judges a claim.

    Raises:
        ValueError: another function judges it.
    """

    def register(measure: Callable[[], Finding]) -> Callable[[], Finding]:
        if claim in LAWS:
            raise ValueError(f"{claim} is judged twice")
        LAWS[claim] = Law(claim, measure, slow, by_command)
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
    return "held" if held else "did_not_hold" if not_held else "undecided"


def held_or_not(held: bool) -> Status:
    """Return the status of a claim whose criterion is "held if ..., not held otherwise"."""
    return "held" if held else "did_not_hold"
