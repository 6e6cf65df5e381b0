"""The page of what came of every initializer on models that others wrote, made from the outcomes of all pairs."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from model_pair import AS_BUILT, STEPS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from model_pair import Method, Outcome

    Outcomes = Mapping[tuple[str, str], Outcome]
    Kinds = Mapping[str, Mapping[str, Sequence[str]]]

MISTAKES = ("silent", "fails", "slow")
"""What comes of a pair that neither trains nor has a reason, which is a silent failure."""


def page(outcomes: Outcomes, before: Kinds, models: Sequence[str], methods: Sequence[Method]) -> str:
    """Return the made part of the page.

    Args:
        outcomes: by model and method.
        before: those of an earlier version, see `kinds`.
        models: in the order of the rows.
        methods: in the order of the columns.
    """
    names = [str(method) for method in methods]
    notes = _Notes(methods)
    on_standard = [str(method) for method in methods if method.scheme == "standard"]
    rewritten = [name for name in names if name not in on_standard]
    cells = {(model, name): notes.cell(model, name, outcomes[model, name]) for model in models for name in names}
    return "\n".join(
        [
            _finding(outcomes, before, models, names),
            "",
            "## How many models each method covers",
            "",
            f"Of {len(models)} models, those that the method sets and that then train.",
            "",
            _coverage(outcomes, before, models, names),
            "",
            "## Initializers on the models as they are",
            "",
            _table(cells, models, on_standard),
            "",
            "## Methods on rewritten models",
            "",
            _table(cells, models, rewritten),
            "",
            "## Reasons",
            "",
            "A reason is the library's own message on the first model that has it.",
            "",
            *notes.lines(),
            "",
            "## Tensors that do not move",
            "",
            *_unmoved(outcomes, models),
            "",
            "## Weights that are passed over",
            "",
            *_passed_over(outcomes, models, names),
        ]
    )


def kinds(outcomes: Outcomes, models: Sequence[str], methods: Sequence[Method]) -> dict[str, dict[str, list[str]]]:
    """Return the methods by model and by what came of them, for comparison with a later version."""
    found: dict[str, dict[str, list[str]]] = {}
    for model in models:
        found[model] = {}
        for method in methods:
            found[model].setdefault(outcomes[model, str(method)].kind, []).append(str(method))
    return found


def mistakes(outcomes: Outcomes) -> list[str]:
    """Return a line for each pair that neither trains nor has a reason."""
    return [f"{m}, {name}: {o.kind}: {o.reason}" for (m, name), o in outcomes.items() if o.kind in MISTAKES]


def _finding(outcomes: Outcomes, before: Kinds, models: Sequence[str], names: Sequence[str]) -> str:
    now = Counter(outcomes[model, name].kind for model in models for name in names)
    then = Counter({kind: sum(len(of.get(kind, ())) for of in before.values()) for kind in ("trains", *MISTAKES)})
    lost = sum(now[kind] for kind in MISTAKES)
    others = [f"{now['refused']:,} are refused with a reason"]
    others += [
        f"{now[kind]:,} {kind if now[kind] == 1 else kind[:-1]}" for kind in ("diverges", "saturates") if now[kind]
    ]
    return (
        f"**{now['trains']:,} of {len(models) * len(names):,} pairs of a model and a method train, "
        f"{', '.join(others)}; silent failures: {lost or 'none'}.** Before this work, at 374c7a4, "
        f"{then['trains']:,} pairs trained and {sum(then[kind] for kind in MISTAKES):,} failed silently."
    )


def _coverage(outcomes: Outcomes, before: Kinds, models: Sequence[str], names: Sequence[str]) -> str:
    rows = ["| method | before | now | silent failures before |", "|---|--:|--:|--:|"]
    for name in names:
        now = sum(outcomes[model, name].kind == "trains" for model in models)
        then = _count(before, name, ["trains"])
        silent = _count(before, name, MISTAKES)
        rows.append(f"| {_code(name)} | {then} | {now} | {silent} |")
    return "\n".join(rows)


def _count(before: Kinds, name: str, kinds: Collection[str]) -> int | str:
    """Return the number of models with an outcome of these kinds; a dash if there was no such method."""
    outcomes = [kind for of in before.values() for kind, names in of.items() if name in names]
    return sum(kind in kinds for kind in outcomes) if outcomes else "–"


def _table(cells: Mapping[tuple[str, str], str], models: Sequence[str], names: Sequence[str]) -> str:
    rows = [f"| model | {' | '.join(map(_code, names))} |", f"|---|{':-:|' * len(names)}"]
    rows += [f"| {model} | {' | '.join(cells[model, name] for name in names)} |" for model in models]
    return "\n".join(rows)


def _code(name: str) -> str:
    return " on ".join(f"`{part}`" for part in name.split(" on "))


class _Notes:
    """The reasons by number; such as differ in names and numbers alone are one."""

    def __init__(self, methods: Sequence[Method]) -> None:
        self._methods = {name for method in methods for name in (method.initializer, method.scheme)}
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def cell(self, model: str, method: str, outcome: Outcome) -> str:
        if outcome.kind == "trains":
            return "✓°" if outcome.passed_over else "✓"
        text = outcome.reason
        for name in self._methods:
            text = text.removeprefix(f"{name}: ")
        text = text if outcome.kind == "refused" else f"{outcome.kind}: {text}"
        # Names of the method, parameters and classes, and numbers.
        key = re.sub(rf"\b({method.replace(' on ', '|')})\b|\w+(\.\w+)+|\b[A-Z]\w*|\d+", "·", text)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self._texts.append(f"{text} (`{model}`)")
        number = str(self._numbers[key])
        return f"**{number}**" if outcome.kind in MISTAKES else number

    def lines(self) -> list[str]:
        return [f"{number}. {text}" for number, text in enumerate(self._texts, start=1)]


def _unmoved(outcomes: Outcomes, models: Sequence[str]) -> list[str]:
    """Return a line for each model of which tensors do not move under any method, as it is built neither."""
    lines = []
    for model in models:
        built = outcomes[model, AS_BUILT].unmoved
        if built:
            shown = [f"{name} ({why})" for name, why in built.items()]
            lines.append(f"- {model}, as it is built too: {', '.join(shown)}")
    return lines or [f"{STEPS} steps move all of all models."]


def _passed_over(outcomes: Outcomes, models: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return a line for each model and weights of it that methods do not set, with their records' reason."""
    lines = []
    for model in models:
        groups: dict[str, list[str]] = {}
        for name in names:
            passed_over = outcomes[model, name].passed_over
            if outcomes[model, name].kind == "trains" and passed_over:
                first, why = next(iter(passed_over.items()))
                further = f" and {len(passed_over) - 1} more" if len(passed_over) > 1 else ""
                groups.setdefault(f"{first}{further}: {why}", []).append(_code(name))
        lines += [f"- {model}, {', '.join(of)}: {text}" for text, of in groups.items()]
    return lines or ["There are none."]
