"""What a cell may try: the points of a `tune:` block, and what is refused."""

from __future__ import annotations

import math

import pytest

from initbench.errors import SuiteError
from initbench.randomness import derive_seed
from suites import planned

RATES = {"recipe.lr": {"log": [0.001, 1.0]}, "tries": 4}


def searches(plan, initializer=None, seed=0):
    """The search trials of one seed, in the order in which they run."""
    return [
        trial
        for trial in plan.trials
        if trial.phase == "search" and trial.seed == seed and initializer in {None, trial.initializer.name}
    ]


def rates(plan, initializer=None, seed=0):
    return [trial.recipe.lr for trial in searches(plan, initializer, seed)]


def test_a_log_grid_has_equal_ratios_and_a_linear_one_equal_steps():
    assert rates(planned(tune=RATES)) == [0.001, 0.01, 0.1, 1.0]
    linear = planned(tune={"recipe.momentum": {"linear": [0.0, 0.9]}, "tries": 4})
    assert [trial.recipe.momentum for trial in searches(linear)] == [0.0, 0.3, 0.6, 0.9]


def test_multiples_go_out_from_the_rate_as_written_rules_included():
    rules = [{"when": {"initializer": "xavier"}, "recipe": {"lr": 0.003}}]
    plan = planned(
        initializers=["xavier", "kaiming"],
        recipe={"lr": 0.1},
        rules=rules,
        tune={"recipe.lr": {"times": [0.1, 10]}, "tries": 3},
    )
    assert rates(plan, "xavier") == [0.0003, 0.003, 0.03]
    assert rates(plan, "kaiming") == [0.01, 0.1, 1.0]


def test_what_is_tried_at_the_rate_as_written_differs_from_the_final_trial_in_phase_and_probes_alone():
    plan = planned(recipe={"lr": 0.1}, tune=RATES, probes=["gradient_norm"])
    final = next(trial for trial in plan.trials if trial.phase == "final")
    search = next(trial for trial in searches(plan) if trial.recipe.lr == 0.1)
    assert search.model_copy(update={"phase": "final", "probes": final.probes}).id == final.id
    untuned = planned(recipe={"lr": 0.1}, probes=["gradient_norm"])
    assert [trial.id for trial in untuned.trials] == [final.id]


def test_a_search_has_random_streams_of_its_own():
    search, final = planned(tune=RATES).trials[0], planned().trials[0]
    assert (final.stream_seed, search.stream_seed) == (0, derive_seed(0, "search"))


def test_whole_numbers_stay_whole():
    plan = planned(
        initializers=[{"name": "metainit", "steps": 10}],
        tune={"initializer.steps": {"log": [1, 100]}, "tries": 3},
    )
    assert [trial.initializer.arguments["steps"] for trial in searches(plan)] == [1, 10, 100]


def test_random_points_are_the_same_for_all_cells_of_a_seed_and_others_for_the_next():
    tune = {
        "recipe.lr": {"log": [0.001, 1.0]},
        "initializer.steps": {"linear": [1, 9]},
        "tries": 5,
        "points": "random",
    }
    plan = planned(initializers=["xavier", {"name": "metainit", "steps": 2}], tune=tune, seeds=2)
    first = rates(plan, "xavier")
    assert first == sorted(first)
    assert len(set(first)) == 5
    assert all(0.001 <= rate <= 1 for rate in first)
    assert rates(plan, "metainit") == first
    assert set(rates(plan, "xavier", seed=1)).isdisjoint(first)


def test_random_rates_are_uniform_in_their_logarithm():
    # 1,000 draws: the mean of a uniform variable has standard error 1 / √12,000; four of them.
    plan = planned(tune={"recipe.lr": {"log": [0.001, 1.0]}, "tries": 1000, "points": "random"})
    logarithms = [math.log10(rate) / 3 + 1 for rate in rates(plan)]
    assert sum(logarithms) / 1000 == pytest.approx(0.5, abs=4 / math.sqrt(12_000))


def test_a_grid_crosses_lists_and_gives_every_cell_as_many_tries():
    tune = {"initializer.steps": [1, 2], "recipe.lr": {"log": [0.01, 1.0]}, "tries": 6}
    plan = planned(initializers=["xavier", {"name": "metainit"}], tune=tune)
    tuned = [(trial.recipe.lr, trial.initializer.arguments["steps"]) for trial in searches(plan, "metainit")]
    assert tuned == [(0.01, 1), (0.01, 2), (0.1, 1), (0.1, 2), (1.0, 1), (1.0, 2)]
    assert rates(plan, "xavier") == [0.01, 0.02512, 0.0631, 0.1585, 0.3981, 1.0]


def test_all_cells_try_their_first_value_before_their_second_and_one_seed_goes_before_the_next():
    plan = planned(initializers=["xavier", "kaiming"], tune=RATES, seeds=2)
    order = [(trial.seed, trial.phase, trial.recipe.lr, trial.initializer.name) for trial in plan.trials]
    assert order[:3] == [(0, "search", 0.001, "xavier"), (0, "search", 0.001, "kaiming"), (0, "search", 0.01, "xavier")]
    assert order[8:10] == [(0, "final", 0.1, "xavier"), (0, "final", 0.1, "kaiming")]
    assert order[10][0] == 1


@pytest.mark.parametrize(
    ("tune", "recipe", "says"),
    [
        ({"tries": 7}, {}, "tune: tunes nothing"),
        ({"recipe.rate": [1, 2], "tries": 2}, {}, "tune.recipe.rate: is neither a field of the recipe"),
        ({"trys": 7, "recipe.lr": [1.0, 2.0]}, {}, "(did you mean 'tries'?)"),
        ({"initializer.tau": [1, 2]}, {}, "tune.initializer.tau: is neither"),
        ({"recipe.lr": {"log": [0.001, 1.0]}}, {}, "tune.tries: is required"),
        ({"recipe.lr": {"log": [0.0, 1.0]}, "tries": 3}, {}, "tune.recipe.lr.log: must be above 0"),
        ({"recipe.lr": {"log": [1.0, 0.1]}, "tries": 3}, {}, "must be two numbers, the smaller first"),
        ({"recipe.lr": {"cubic": [0.1, 1.0]}, "tries": 3}, {}, "must be {log: [a, b]}"),
        ({"recipe.lr": 0.1, "tries": 3}, {}, "must be {log: [a, b]}"),
        ({"recipe.lr": [0.1, 0.1]}, {}, "at least two values, each once"),
        ({"recipe.lr": [0.1, "big"]}, {}, "lr: must be a number"),
        ({"recipe.lr": [0.1, 0.2], "tries": 7}, {}, "gives xavier 2 combinations of the listed values"),
        ({"recipe.lr": {"log": [0.1, 1]}, "recipe.momentum": {"linear": [0, 1]}, "tries": 4}, {}, "cannot share 4"),
        ({"recipe.lr": {"log": [0.1, 1.0]}, "tries": 1}, {}, "tune.tries: must be at least 2"),
        ({"recipe.lr": [0.1, 0.2], "points": "sobol"}, {}, "tune.points: must be one of grid, random"),
        ({"recipe.lr": [0.1, 0.2]}, {"lr": [0.1, 0.2]}, "recipe.lr: is tuned; write a single value"),
        ({"recipe.lr": {"log": [0.1, 0.10001]}, "tries": 5}, {}, "has fewer than 5 different values"),
    ],
)
def test_what_cannot_be_tuned_is_one_line_at_its_place(tune, recipe, says):
    with pytest.raises(SuiteError) as wrong:
        planned(tune=tune, recipe=recipe)
    assert says in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_a_grid_that_gives_one_initializer_more_tries_than_another_is_refused():
    with pytest.raises(SuiteError, match=r"gives xavier one value, and every cell 2 tries|nothing to try"):
        planned(initializers=["xavier", "metainit"], tune={"initializer.steps": [1, 2]})


def test_a_hyperparameter_that_the_suite_crosses_cannot_be_tuned_too():
    crossed = [{"name": "metainit", "steps": [1, 2]}]
    with pytest.raises(SuiteError, match="is tuned, and the suite gives it several values too"):
        planned(initializers=crossed, tune={"initializer.steps": [1, 2]})


def test_an_initializer_that_is_an_argument_is_not_tuned_and_what_is_tuned_is_not_compared():
    with pytest.raises(SuiteError, match=r"tune.initializer.base: cannot be tuned: it is an initializer"):
        planned(initializers=["metainit"], tune={"initializer.base": ["kaiming", "orthogonal"]})
    with pytest.raises(SuiteError, match=r"compare: recipe.lr is tuned"):
        planned(tune={"recipe.lr": [0.1, 0.2]}, compare=["initializer", "recipe.lr"])


def test_a_shared_rate_alone_needs_one_that_all_try():
    rules = [{"when": {"initializer": "xavier"}, "recipe": {"lr": 0.07}}]
    tune = {"recipe.lr": {"times": [0.1, 10]}, "tries": 3, "protocols": ["shared"]}
    with pytest.raises(SuiteError, match=r"tune.protocols: shared needs a rate that all treatments"):
        planned(initializers=["xavier", "kaiming"], recipe={"lr": 0.1}, rules=rules, tune=tune)


def test_random_points_are_as_many_different_ones_as_tries():
    tune = {"recipe.lr": [0.1, 0.2], "initializer.steps": {"linear": [1, 40]}, "points": "random", "tries": 12}
    trials = planned(initializers=["metainit"], tune=tune, seeds=2).trials
    searches = [trial for trial in trials if trial.phase == "search"]
    assert len(searches) == len({trial.id for trial in searches}) == 2 * 12
