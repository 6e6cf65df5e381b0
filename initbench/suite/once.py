"""Each trial once: two entries of a suite that come to the same one are a mistake, but for who names the scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from initbench.suite.document import dotted

if TYPE_CHECKING:
    from initbench.suite.document import Document
    from initbench.suite.load import Choice
    from initbench.suite.spec import TrialSpec


@dataclass
class _Planned:
    """A trial that was taken in.

    Attributes:
        spec: the trial.
        choices: dataset, architecture and initializer that it is of.
        selected: whether it runs.
    """

    spec: TrialSpec
    choices: tuple[Choice, ...]
    selected: bool


class Once:
    """The trials of a plan by id.

    Args:
        document: for messages.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._planned: dict[str, _Planned] = {}

    def add(self, spec: TrialSpec, choices: tuple[Choice, ...], *, selected: bool) -> None:
        """Take in a trial; one that a suite comes to with a scheme of its own, and through an initializer, stands once.

        Raises:
            SuiteError: it is there already; both places are named.
        """
        known = self._planned.get(spec.id)
        if known is None:
            self._planned[spec.id] = _Planned(spec, choices, selected)
            return
        named_by = known.spec.scheme_named_by
        if set(named_by).isdisjoint(spec.scheme_named_by):
            both = tuple(sorted({*named_by, *spec.scheme_named_by}))
            known.spec = known.spec.model_copy(update={"scheme_named_by": both})
            return
        for choice, other in zip(choices, known.choices, strict=True):
            if choice is not other:
                problem = f"comes to the same trial as {dotted(other.key)} (defaults and rules applied)"
                raise self.document.error(choice.key, problem)
        raise self.document.error(("recipe",), "two of its combinations come to the same trial")

    def trials(self) -> tuple[tuple[TrialSpec, ...], tuple[TrialSpec, ...]]:
        """Return those that run and the others, in the order in which they were taken in."""
        selected = tuple(planned.spec for planned in self._planned.values() if planned.selected)
        return selected, tuple(planned.spec for planned in self._planned.values() if not planned.selected)
