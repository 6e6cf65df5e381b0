"""From a suite to its plan. Pure: nothing is read or written."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.claims.check import check_claims
from initbench.comparing.conditions import Matcher, Seen, properties
from initbench.errors import DataError, SuiteError
from initbench.suite.compatibility import Compatibility, Refusal
from initbench.suite.crossing import MOST_TRIALS
from initbench.suite.datasets import Awaited
from initbench.suite.load import needed_scheme
from initbench.suite.once import Once
from initbench.suite.overrides import parse_only
from initbench.suite.planned import Incompatible, Plan, Undescribed
from initbench.suite.rules import Rules
from initbench.suite.schema import recipe_of
from initbench.suite.search import Tries, in_order
from initbench.suite.spec import TrialDraft

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from initbench.arguments import Key
    from initbench.suite.choice import Searched
    from initbench.suite.datasets import Described
    from initbench.suite.load import Choice, Suite
    from initbench.suite.search import TunedTrial
    from initbench.suite.spec import DatasetSpec

_KINDS = {
    "architectures": "architecture",
    "initializers": "initializer",
    "dataset": "dataset",
    "recipe": "recipe",
    "seeds": "seed",
}
"""What conditions call the sections of a suite, see `initbench.comparing.conditions.kind_of`."""


def plan(
    suite: Suite,
    only: Iterable[str] = (),
    *,
    descriptions: Sequence[Described],
    found: Mapping[str, Searched] | None = None,
) -> Plan:
    """Return the plan of a suite.

    Args:
        suite: checked by `load_suite`.
        only: ``KEY=VALUE,VALUE`` filters; a trial must meet all of them. What is tuned has there the value as written.
        descriptions: of its datasets, as `initbench.suite.datasets.describe_datasets` returns them.
        found: what search trials came to, by id, of a suite that tunes: its final trials follow from them.

    Raises:
        SuiteError: a rule, ``exclude`` or filter that no trial meets; an architecture that serves none of the tasks; a
            rule or an argument that the component refuses; two entries or rules that make the same trial.
    """
    datasets = [_dataset(*described) for described in zip(suite.datasets, descriptions, strict=True)]
    _check_tasks(suite, [dataset.task for dataset in datasets])
    cells = list(itertools.product(datasets, suite.architectures, suite.recipes, suite.initializers))
    each = 1 if suite.search is None else suite.search.tries + len(suite.search.protocols)
    if len(cells) * len(suite.seeds) * each > MOST_TRIALS:
        raise suite.document.error((), f"comes to more than {MOST_TRIALS} trials")
    planner = _Planner(suite, list(only))
    for seed in suite.seeds:
        for cell in cells:
            planner.add(seed, *cell)
    return planner.plan(datasets, found or {})


@dataclass(frozen=True)
class _Dataset:
    choice: Choice
    spec: DatasetSpec | None
    absent: DataError | None

    @property
    def task(self) -> str:
        task: str = self.choice.component.traits.task if self.spec is None else self.spec.task
        return task


def _dataset(choice: Choice, described: Described) -> _Dataset:
    if isinstance(described, DataError):
        return _Dataset(choice, None, described)
    if isinstance(described, Awaited):
        return _Dataset(choice, described.spec, described.reason)
    return _Dataset(choice, described, None)


def _check_tasks(suite: Suite, tasks: list[str]) -> None:
    for architecture in suite.architectures:
        serves = architecture.component.traits.tasks
        if set(serves).isdisjoint(tasks):
            problem = (
                f"{architecture.spec.name} serves {' and '.join(serves)}, the data of the suite are for "
                f"{' and '.join(dict.fromkeys(tasks))}"
            )
            raise suite.document.error(architecture.key, problem)


class _Planner:
    """Takes the trials of a suite one after another.

    Args:
        suite: gives rules and conditions.
        only: the filters of the command line.
    """

    def __init__(self, suite: Suite, only: list[str]) -> None:
        self.suite, self.only = suite, only
        self.rules = Rules(suite)
        self.exclude = [Matcher(condition) for condition in suite.exclude]
        self.filters = [Matcher(parse_only(option)) for option in only]
        self.compatibility = Compatibility(suite.document)
        self.seen = Seen()
        self.once = Once(suite.document)
        self.tries = None if suite.search is None else Tries(suite, suite.search)
        self.incompatible: dict[tuple[Any, ...], Incompatible] = {}
        self.refused: dict[str, Incompatible] = {}
        self.undescribed: dict[int, list[TrialDraft]] = {}
        self.excluded = 0
        self.claimed: list[dict[str, Any]] = []

    def add(
        self, seed: int, dataset: _Dataset, architecture: Choice, recipe: dict[str, Any], initializer: Choice
    ) -> None:
        """Take in one trial, whatever becomes of it."""
        draft, needed = self._ruled(seed, dataset, architecture, recipe, initializer)
        found = properties(draft)
        self.seen.add(found)
        met, meets = ([condition(found) for condition in asked] for asked in (self.exclude, self.filters))
        if any(met):  # each was asked, to know whether it is ever met
            self.excluded += 1
            return
        selected = all(meets)
        if seed == self.suite.seeds[0] and (self.suite.claims or self.suite.published):
            self.claimed.append(found)
        refusal = self._refusal(draft, dataset, architecture, needed)
        tries = () if self.tries is None or refusal is not None else self.tries.made(draft)
        for one in tries:  # a cell that could not try all that the others try runs at none of it
            tried = draft.model_copy(update={"recipe": one.recipe, "initializer": one.initializer})
            refusal = refusal or self._refusal(tried, dataset, architecture, needed)
        if refusal is not None:
            pair = Incompatible(draft, refusal.reason, refusal.other)
            self.refused.setdefault(draft.model_dump_json(exclude={"seed"}), pair)
            if selected:
                self._refuse(pair, dataset, architecture)
        elif dataset.absent is not None or dataset.spec is None:
            drafts = self.undescribed.setdefault(id(dataset), [])
            if selected:
                drafts.append(draft)
        else:
            spec = draft.on(dataset.spec)
            self.once.add(spec, (dataset.choice, architecture, initializer), selected=selected)
            if self.tries is not None:
                self.tries.add(spec, tries)

    def _ruled(
        self, seed: int, dataset: _Dataset, architecture: Choice, recipe: dict[str, Any], initializer: Choice
    ) -> tuple[TrialDraft, str | None]:
        """Return one trial after the rules, and the scheme that its initializer needs then."""
        draft = self._draft(seed, dataset, architecture, recipe, initializer)
        self.seen.add(properties(draft))
        draft = self.rules.apply(draft, recipe)
        if draft.initializer is initializer.spec:
            return draft, initializer.scheme
        needed = needed_scheme(draft.initializer)  # a rule may have changed what it starts from
        return draft.model_copy(update=_scheme(architecture, needed)), needed

    def _refusal(
        self, draft: TrialDraft, dataset: _Dataset, architecture: Choice, needed: str | None
    ) -> Refusal | None:
        """Return why a trial cannot run."""
        refusal = self.compatibility.task(dataset.task, architecture)
        refusal = refusal or self.compatibility.declared(draft, architecture, needed)
        if refusal is not None or dataset.spec is None:
            return refusal
        return self.compatibility.tried(draft, dataset.spec, architecture)

    def _refuse(self, refused: Incompatible, dataset: _Dataset, architecture: Choice) -> None:
        """Take in a pair that cannot run, once for each reason: the other trials of it are the same pair."""
        draft = refused.spec
        parts: dict[Any, Any] = {"initializer": draft.initializer.model_dump_json(), "dataset": id(dataset)}
        pair = (id(architecture), draft.scheme, parts.get(refused.other), refused.reason)
        self.incompatible.setdefault(pair, refused)

    def _draft(
        self, seed: int, dataset: _Dataset, architecture: Choice, recipe: dict[str, Any], initializer: Choice
    ) -> TrialDraft:
        """Return one trial before the rules."""
        return TrialDraft(
            suite=self.suite.name,
            architecture=architecture.spec,
            initializer=initializer.spec,
            dataset=dataset.choice.spec,
            recipe=recipe_of(self.suite.document, recipe, ("recipe",)),
            probes=self.suite.probes,
            seed=seed,
            tuned=() if self.suite.search is None else self.suite.search.keys(initializer.spec.name),
            **_scheme(architecture, initializer.scheme),
        )

    def plan(self, datasets: Iterable[_Dataset], found: Mapping[str, Searched]) -> Plan:
        """Return the plan of all that was taken in.

        Raises:
            SuiteError: see `plan`.
        """
        _check_conditions(self.suite, self.rules.conditions, self.exclude, self.seen)
        wrong = check_claims(
            self.suite.claims,
            self.suite.published,
            self.claimed,
            self.seen,
            probes=[probe.name for probe in self.suite.probes],
            tuned=self.suite.document.data.get("tune") or (),  # a smoke run plans no search
            changed=_changed(self.suite),
        )
        for key, problem in wrong:
            raise self.suite.document.error(key, problem)
        _check_filters(self.only, self.filters, self.seen)
        trials, unselected = self.once.trials()
        if not trials and not self.incompatible and not any(self.undescribed.values()):
            if not unselected and not self.undescribed:
                raise self.suite.document.error(("exclude",), "leaves no trial")
            raise SuiteError("no trial meets all of them", " ".join(f"--only {option}" for option in self.only))
        undescribed = [
            Undescribed(tuple(self.undescribed[id(dataset)]), dataset.choice.key, dataset.absent, dataset.spec)
            for dataset in datasets
            if dataset.absent is not None and self.undescribed.get(id(dataset))
        ]
        incompatible, refused = tuple(self.incompatible.values()), tuple(self.refused.values())
        tuned: tuple[TunedTrial, ...] = ()
        if self.tries is not None:  # also of the others: a rate that all share is theirs too
            every = self.tries.trials([*trials, *unselected], found)
            tuned, others = every[: len(trials)], every[len(trials) :]
            trials = in_order(tuned)
            known = {trial.id for trial in trials}
            unselected = tuple(trial for trial in in_order(others) if trial.id not in known)
        return Plan(trials, incompatible, self.excluded, unselected, tuple(undescribed), refused, tuned)


def _scheme(architecture: Choice, needed: str | None) -> dict[str, Any]:
    """Return the scheme of a trial and who names it."""
    if architecture.scheme is None and needed is not None:
        return {"scheme": needed, "scheme_named_by": ("initializer",)}
    return {"scheme": architecture.scheme or "standard", "scheme_named_by": ("suite",)}


def _changed(suite: Suite) -> set[str]:
    """Return the kinds that the command line has changed, as conditions call them."""
    return {_KINDS[str(key[0])] for key in suite.document.overrides if key[0] in _KINDS}


def _check_conditions(suite: Suite, rules: list[Matcher], exclude: list[Matcher], seen: Seen) -> None:
    """Refuse conditions that are never met: they are misspelled."""
    changed = _changed(suite)
    conditions: list[tuple[Key, Matcher]] = [(("rules", index, "when"), rule) for index, rule in enumerate(rules)]
    conditions += [(("exclude", index), condition) for index, condition in enumerate(exclude)]
    for key, matcher in conditions:
        problem = matcher.problem(seen, changed)
        if problem:
            raise suite.document.error((*key, problem[0]) if problem[0] else key, problem[1])


def _check_filters(options: list[str], filters: list[Matcher], seen: Seen) -> None:
    for option, matcher in zip(options, filters, strict=True):
        problem = matcher.problem(seen)
        if problem:
            raise SuiteError(problem[1], f"--only {option}", None, problem[0] or "")
