"""From what searches found to the final trials: own and shared choices, and a plan that is a pure function of them."""

from __future__ import annotations

import copy
import math
import random

import tuned

from initbench.suite.document import Document
from initbench.suite.load import describe_datasets, suite_of
from initbench.suite.plan import plan
from initbench.suite.tuning import Searched, best_at_rates, own_choice, shared_choice
from suites import BASE

DIVERGED = Searched(math.inf, is_trained=False)
BEST = {"xavier": 0.1, "kaiming": 0.01, "lecun": 0.01}
TUNED = {
    "initializers": list(BEST),
    "recipe": {"lr": 1.0},
    "tune": {"recipe.lr": [0.01, 0.1, 1.0]},
    "seeds": 2,
}


def suite(**keys):
    return suite_of(Document("suite.yaml", "", copy.deepcopy(BASE | TUNED | keys)))


def found_by(planned, value):
    """What searches came to, by a function of a trial."""
    return {trial.id: value(trial) for trial in planned.trials if trial.phase == "search"}


def distance(trial):
    """How far a trial's rate is from its initializer's best, in decades."""
    return Searched(abs(math.log10(trial.recipe.lr / BEST[trial.initializer.name])))


def finals(planned):
    return {
        (trial.initializer.name, trial.seed, protocol): trial.recipe.lr
        for trial in planned.trials
        for protocol in trial.protocols
    }


def plans(asked, value=distance, only=()):
    described = describe_datasets(asked)
    first = plan(asked, only, descriptions=described)
    return first, plan(asked, only, descriptions=described, results=found_by(first, value))


def test_own_choice_is_the_best_and_of_equals_the_smaller():
    assert own_choice([Searched(0.3), Searched(0.1), Searched(0.2)]) == 1
    assert own_choice([DIVERGED, Searched(0.1), Searched(0.1)]) == 1
    assert own_choice([DIVERGED, DIVERGED]) == 0


def test_a_shared_rate_ranks_within_each_treatment_untrained_tied_and_diverged_below():
    # Ranks of the rates 1, 2, 3: of a (1, 2, 3), of b (2.5, 1, 2.5), of c (3, 2, 1): means 2.17, 1.67, 2.17.
    a = {1.0: Searched(0.1), 2.0: Searched(0.2), 3.0: DIVERGED}
    b = {1.0: Searched(0.90, is_trained=False), 2.0: Searched(0.5), 3.0: Searched(0.89, is_trained=False)}
    c = {1.0: DIVERGED, 2.0: Searched(0.89, is_trained=False), 3.0: Searched(0.3)}
    assert shared_choice([a, b, c]) == 2.0
    assert shared_choice([a, c, c]) == 3.0


def test_a_shared_rate_is_one_that_all_tried_and_of_equals_the_smallest():
    assert shared_choice([{1.0: Searched(0.5), 2.0: Searched(0.1)}, {1.0: Searched(0.5), 3.0: Searched(0.1)}]) == 1.0
    assert shared_choice([{1.0: Searched(0.5)}, {2.0: Searched(0.5)}]) is None
    assert shared_choice([{1.0: Searched(0.1), 2.0: Searched(0.2)}, {1.0: Searched(0.2), 2.0: Searched(0.1)}]) == 1.0
    assert shared_choice([]) is None


def test_of_tries_at_one_rate_the_best_counts():
    best = best_at_rates([0.1, 0.1, 1.0], [Searched(0.4), Searched(0.2), DIVERGED])
    assert best == {0.1: Searched(0.2), 1.0: DIVERGED}


def test_the_choices_are_those_of_the_null_worlds():
    """`tuned` writes the rule out once more, by which false verdicts are counted: mean ranks by SciPy, and argmin."""
    draw = random.Random(0)  # noqa: S311  # no secret is drawn
    for _ in range(300):
        treatments, tried = draw.randint(1, 4), [0.001, 0.01, 0.1, 1.0][: draw.randint(2, 4)]
        # Few values, so that there are ties; 0.9 is chance.
        values = [[draw.choice([0.1, 0.2, 0.3, 0.89, 0.9, math.inf]) for _ in tried] for _ in range(treatments)]
        trained = [[value < 0.85 for value in own] for own in values]
        found = [[Searched(*pair) for pair in zip(*both, strict=True)] for both in zip(values, trained, strict=True)]
        assert [own_choice(own) for own in found] == [tuned.own_choice(own) for own in values]
        shared = shared_choice([dict(zip(tried, own, strict=True)) for own in found])
        assert shared == tried[tuned.shared_choice(values, trained)]


def test_before_the_searches_only_the_rate_as_written_is_known():
    first, _ = plans(suite())
    assert {trial.protocols for trial in first.trials if trial.phase == "final"} == {("recipe",)}
    assert first.awaited == 3 * 2 * 2


def test_final_trials_stand_at_their_own_rate_the_shared_one_and_the_one_as_written():
    _, planned = plans(suite())
    assert planned.awaited == 0
    for (name, _, protocol), rate in finals(planned).items():
        assert rate == {"own": BEST[name], "shared": 0.01, "recipe": 1.0}[protocol]
    # Where two agree it is one trial, under both.
    kaiming = [trial for trial in planned.trials if trial.initializer.name == "kaiming" and trial.phase == "final"]
    assert sorted((trial.protocols, trial.seed) for trial in kaiming) == [
        (("recipe",), 0),
        (("recipe",), 1),
        (("shared", "own"), 0),
        (("shared", "own"), 1),
    ]


def test_each_seed_chooses_by_its_own_search():
    def by_seed(trial):
        return Searched(abs(trial.recipe.lr - (0.01, 1.0)[trial.seed]))

    _, planned = plans(suite(), by_seed)
    chosen = finals(planned)
    assert {chosen[name, 0, "own"] for name in BEST} == {0.01}
    assert {chosen[name, 1, "own"] for name in BEST} == {1.0}


def test_a_search_that_is_done_once_is_that_of_the_first_seed_and_chooses_for_all():
    asked = suite(tune=TUNED["tune"] | {"search": "once"}, seeds=[3, 4])
    first, planned = plans(asked)
    assert {trial.seed for trial in first.trials if trial.phase == "search"} == {3}
    chosen = finals(planned)
    assert {seed for _, seed, _ in chosen} == {3, 4}
    assert all(chosen[name, seed, "own"] == BEST[name] for name in BEST for seed in (3, 4))


def test_what_a_failed_search_leaves_open_is_awaited_for_its_cell_and_what_its_workload_shares():
    asked = suite()
    described = describe_datasets(asked)
    first = plan(asked, descriptions=described)
    found = found_by(first, distance)
    failed = next(t for t in first.trials if t.phase == "search" and t.initializer.name == "xavier" and t.seed == 1)
    del found[failed.id]
    planned = plan(asked, descriptions=described, results=found)
    assert planned.awaited == 1 + 3  # xavier's own choice at seed 1, and the rate that all three share there
    assert ("xavier", 1, "own") not in finals(planned)
    assert ("kaiming", 1, "own") in finals(planned)


def test_a_selection_waits_for_the_searches_of_those_that_it_shares_a_rate_with():
    asked = suite(seeds=1)
    described = describe_datasets(asked)
    first = plan(asked, ["initializer=kaiming"], descriptions=described)
    assert {trial.initializer.name for trial in first.trials} == {"kaiming"}
    found = found_by(first, distance)
    second = plan(asked, ["initializer=kaiming"], descriptions=described, results=found)
    assert second.awaited == 1
    assert set(finals(second)) == {("kaiming", 0, "recipe"), ("kaiming", 0, "own")}


def test_protocols_can_be_left_out():
    _, planned = plans(suite(tune=TUNED["tune"] | {"protocols": ["own"]}))
    assert {trial.protocols for trial in planned.trials if trial.phase == "final"} == {("own",)}
