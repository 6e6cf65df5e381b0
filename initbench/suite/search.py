"""The trials of a suite that tunes: the searches, and the final trials at the values that they come to.

A pure function of the suite and of what its search trials came to: called again when these are in the ledger, it knows
the final trials. A seed is the whole procedure: each final seed has a search of its own, on the validation split and
with random streams of its own, and then trains afresh at what it chose (Bouthillier et al., Accounting for Variance in
Machine Learning Benchmarks, MLSys 2021, the ideal estimator).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.comparing.treatments import standings
from initbench.registry import INITIALIZERS
from initbench.suite.choice import best_at_rates, own_choice, shared_choice
from initbench.suite.load import checked_spec
from initbench.suite.schema import recipe_of
from initbench.suite.spec import cell_id
from initbench.suite.tune import written_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.comparing.keys import Key
    from initbench.suite.choice import Searched
    from initbench.suite.load import Suite
    from initbench.suite.spec import ComponentSpec, Protocol, TrialDraft, TrialSpec
    from initbench.suite.tune import Search
    from initbench.training.recipe import Recipe


class Try(NamedTuple):
    """A trial's parts with the values of one point in them.

    Attributes:
        rate: the learning rate.
        recipe: with what the point sets of it.
        initializer: likewise.
    """

    rate: float
    recipe: Recipe
    initializer: ComponentSpec


@dataclass(frozen=True)
class TunedTrial:
    """One seed of one cell: what it searches, and what it comes to.

    Attributes:
        written: the trial with the values that the suite writes.
        searches: the search trials, in ascending order of what they try.
        finals: the final trials that are known, each under the protocols that come to it.
        awaited: the protocols whose final trial is known only when searches are in the ledger.
    """

    written: TrialSpec
    searches: tuple[TrialSpec, ...]
    finals: tuple[TrialSpec, ...]
    awaited: tuple[Protocol, ...]


class Tries:
    """The tries of every cell of a suite.

    Args:
        suite: gives the document.
        search: what it tunes.
    """

    def __init__(self, suite: Suite, search: Search) -> None:
        self.suite, self.search = suite, search
        self._initializers: dict[tuple[str, Any], ComponentSpec] = {}
        self._of: dict[str, tuple[Try, ...]] = {}

    def made(self, draft: TrialDraft) -> tuple[Try, ...]:
        """Return the tries of a cell's search at one seed.

        Args:
            draft: with the values that the suite writes.

        Raises:
            SuiteError: a value is refused, or the number of tries is not that of the others.
        """
        seed = draft.seed if self.search.block.search == "each" else self.suite.seeds[0]
        return tuple(self._try(draft, dict(point)) for point in self.search.points(draft, seed))

    def add(self, written: TrialSpec, tries: tuple[Try, ...]) -> None:
        """Keep the tries of a trial."""
        self._of[written.id] = tries

    def _try(self, draft: TrialDraft, point: Mapping[str, Any]) -> Try:
        document = self.suite.document
        fields = {key.partition(".")[2]: value for key, value in point.items() if key.startswith("recipe.")}
        recipe = recipe_of(document, draft.recipe.model_dump() | fields, ("tune", "recipe")) if fields else draft.recipe
        values = {key.partition(".")[2]: value for key, value in point.items() if key.startswith("initializer.")}
        if not values:
            return Try(recipe.lr, recipe, draft.initializer)
        known = (draft.initializer.model_dump_json(), tuple(values.items()))
        if known not in self._initializers:
            component, arguments = INITIALIZERS.get(draft.initializer.name), draft.initializer.arguments | values
            self._initializers[known] = checked_spec(document, component, arguments, ("tune", "initializer"))
        return Try(recipe.lr, recipe, self._initializers[known])

    def trials(self, written: Sequence[TrialSpec], found: Mapping[str, Searched]) -> tuple[TunedTrial, ...]:
        """Return what each trial of the suite searches and comes to.

        Args:
            written: the trials with the values that the suite writes.
            found: of search trials that have a result, by id.

        Raises:
            SuiteError: two cells differ in nothing but what is tuned.
        """
        searches = [self._searches(trial) for trial in written]
        self._check_apart(written)
        results = [
            [found[own.id] for own in searched] if all(own.id in found for own in searched) else None
            for searched in searches
        ]
        shared = self._shared(written, results)
        return tuple(map(self._tuned, written, searches, results, shared))

    def _searches(self, written: TrialSpec) -> tuple[TrialSpec, ...]:
        seed = written.seed if self.search.block.search == "each" else self.suite.seeds[0]
        labels = {"phase": "search", "probes": (), "seed": seed}
        return tuple(
            written.model_copy(update={"recipe": own.recipe, "initializer": own.initializer} | labels)
            for own in self._of[written.id]
        )

    def _check_apart(self, written: Sequence[TrialSpec]) -> None:
        known: dict[tuple[str, int], TrialSpec] = {}
        for trial in written:
            other = known.setdefault((cell_id(trial.identity, trial.tuned), trial.seed), trial)
            if other is not trial:
                key = next(key for key in trial.tuned if written_value(trial, key) != written_value(other, key))
                raise self.suite.document.error(("tune", key), "is tuned, and the suite gives it several values too")

    def _shared(
        self, written: Sequence[TrialSpec], results: Sequence[list[Searched] | None]
    ) -> list[tuple[float | None, bool]]:
        """Return for each trial the rate that its workload shares at its seed, and whether that is known."""
        if "shared" not in self.search.protocols:
            return [(None, True)] * len(written)
        workloads: dict[int, tuple[Key, int]] = {}
        members: dict[tuple[Key, int], set[int]] = defaultdict(set)
        for standing in standings([trial.model_dump(mode="json") for trial in written], self.suite.compare):
            workload = standing.workload, written[standing.trial].seed
            members[workload].add(standing.trial)
            workloads.setdefault(standing.trial, workload)
        rates: dict[tuple[Key, int], tuple[float | None, bool]] = {}
        for workload, trials in members.items():
            known = [(self._of[written[i].id], results[i]) for i in sorted(trials)]
            common = set[float].intersection(*({own.rate for own in tries} for tries, _ in known))
            if not common and self.search.protocols == ("shared",):
                problem = "shared needs a rate that all treatments of a workload try, and some workload has none"
                raise self.suite.document.error(("tune", "protocols"), problem)
            best = [best_at_rates([t.rate for t in tries], own) for tries, own in known if own is not None]
            rates[workload] = (shared_choice(best), True) if len(best) == len(known) else (None, False)
        return [rates[workloads[i]] for i in range(len(written))]

    def _tuned(
        self,
        written: TrialSpec,
        searches: tuple[TrialSpec, ...],
        found: list[Searched] | None,
        shared: tuple[float | None, bool],
    ) -> TunedTrial:
        tries, (rate, is_known) = self._of[written.id], shared
        chosen: dict[Protocol, Try | None] = {"recipe": Try(written.recipe.lr, written.recipe, written.initializer)}
        chosen["own"] = None if found is None else tries[own_choice(found)]
        if not is_known or found is None:
            chosen["shared"] = None
        elif rate is not None:
            at_rate = [index for index, own in enumerate(tries) if own.rate == rate]
            chosen["shared"] = tries[at_rate[own_choice([found[index] for index in at_rate])]]
        asked = [protocol for protocol in self.search.protocols if protocol in chosen]
        trials: dict[str, TrialSpec] = {}
        for protocol in asked:
            if (own := chosen[protocol]) is not None:
                trial = written.model_copy(update={"recipe": own.recipe, "initializer": own.initializer})
                known = trials.setdefault(trial.id, trial)
                trials[trial.id] = known.model_copy(update={"protocols": (*known.protocols, protocol)})
        awaited = tuple(protocol for protocol in asked if chosen[protocol] is None)
        return TunedTrial(written, searches, tuple(trials.values()), awaited)


def in_order(tuned: Sequence[TunedTrial]) -> tuple[TrialSpec, ...]:
    """Return all trials that are known, each once, in the order in which they run.

    One seed after the other; within it all cells try their first value before their second, so that networks which an
    initializer has made for one rate are there for the next; then the final trials.
    """
    by_seed: dict[int, list[TunedTrial]] = defaultdict(list)
    for trial in tuned:
        by_seed[trial.written.seed].append(trial)
    ordered: dict[str, TrialSpec] = {}
    for trials in by_seed.values():
        most = max(len(trial.searches) for trial in trials)
        rounds = [trial.searches[n] for n in range(most) for trial in trials if n < len(trial.searches)]
        for spec in [*rounds, *(final for trial in trials for final in trial.finals)]:
            ordered.setdefault(spec.id, spec)
    return tuple(ordered.values())
