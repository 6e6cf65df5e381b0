"""Each trial once: two entries of a suite that come to the same one are a mistake, but for who names the scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from initbench.arguments import dotted
from initbench.comparing.labels import component_labels

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
                raise self.document.error(choice.key, self._same(spec, choice, other))
        asked = self.document.data.get("recipe", {})
        crossed = {f"recipe.{name}" for name, value in asked.items() if isinstance(value, list)}
        why = self._set(crossed & {*spec.set_by_rules})
        raise self.document.error(("recipe",), f"two of its combinations come to the same trial{why}")

    def _same(self, spec: TrialSpec, choice: Choice, other: Choice) -> str:
        """Return by which labels two components are told apart that come to the same trial, and why they do."""
        names = component_labels([choice.spec.model_dump(), other.spec.model_dump()])
        if names[0] == names[1]:
            return f"comes to the same trial as {dotted(other.key)} (defaults and rules applied)"
        mine, its = choice.spec.arguments, other.spec.arguments
        differ = {f"initializer.{name}" for name in {*mine, *its} if mine.get(name) != its.get(name)}
        where = "" if choice.key == other.key else f" of {dotted(other.key)}"
        return f"{names[0]} comes to the same trial as {names[1]}{where}{self._set(differ & {*spec.set_by_rules})}"

    def _set(self, keys: set[str]) -> str:
        """Return which rules set these keys (``recipe.lr``), in words that follow; nothing where none does."""
        rules = self.document.data.get("rules", [])
        parts = []
        for key in sorted(keys):
            kind, _, name = key.partition(".")
            setting = [dotted(("rules", index)) for index, rule in enumerate(rules) if name in rule.get(kind, {})]
            parts.append(f"{' or '.join(setting)} sets {key}")
        return f": {', '.join(parts)}" if parts else ""

    def trials(self) -> tuple[tuple[TrialSpec, ...], tuple[TrialSpec, ...]]:
        """Return those that run and the others, in the order in which they were taken in."""
        selected = tuple(planned.spec for planned in self._planned.values() if planned.selected)
        return selected, tuple(planned.spec for planned in self._planned.values() if not planned.selected)
