"""What a suite sets for some of its trials (`rules`) and leaves out (`exclude`), and what the command line changes."""

import copy

import pytest

from initbench.errors import SuiteError
from initbench.suite.document import Document
from initbench.suite.load import suite_of
from suites import BASE, ids, plan_of, planned, the_trial

TWO = {
    "architectures": ["plain", {"name": "mlp", "depth": [2, 3]}],
    "initializers": ["xavier", {"name": "metainit", "steps": [1, 2]}],
}


NETS = [("plain", 28), ("mlp", 2), ("mlp", 3)]


def written(value):
    """A test's name says a set in one order: the workers of pytest-xdist must agree on it."""
    return str(sorted(value, key=str)) if isinstance(value, set) else str(value)


def pairs_of(result):
    return {
        (
            t.architecture.name,
            t.architecture.arguments["depth"],
            t.initializer.name,
            t.initializer.arguments.get("steps"),
        )
        for t in result.trials
    }


# --- rules


def test_a_later_rule_wins_and_the_rest_of_an_earlier_one_stays():
    rules = [
        {"when": {"architecture": "mlp"}, "recipe": {"lr": 0.5, "clip_norm": 1}},
        {"when": {"depth": 3}, "recipe": {"lr": 0.25}},
    ]
    result = planned(**TWO, rules=rules)
    both = ("recipe.clip_norm", "recipe.lr")
    assert {
        (t.architecture.name, t.architecture.arguments["depth"], t.recipe.lr, t.recipe.clip_norm, t.set_by_rules)
        for t in result.trials
    } == {("plain", 28, 0.1, None, ()), ("mlp", 2, 0.5, 1.0, both), ("mlp", 3, 0.25, 1.0, both)}


def test_a_rule_matches_defaults_too():
    rules = [{"when": {"norm": "batch"}, "recipe": {"lr": 0.5}}, {"when": {"dropout": 0}, "recipe": {"epochs": 3}}]
    result = planned(**TWO, rules=rules)
    assert {(t.architecture.name, t.recipe.lr, t.recipe.epochs) for t in result.trials} == {
        ("plain", 0.5, 3),  # its norm is batch unless said
        ("mlp", 0.1, 3),
    }


@pytest.mark.parametrize(
    ("when", "pairs"),
    [
        ({"initializer": "xavier"}, {("plain", 28), ("mlp", 2), ("mlp", 3)}),
        ({"initializer": "xavier", "depth": [2, 28]}, {("plain", 28), ("mlp", 2)}),
        ({"initializer": "xavier", "architecture.depth": 2}, {("mlp", 2)}),
        ({"initializer": "xavier", "initializer.gain": 1}, {("plain", 28), ("mlp", 2), ("mlp", 3)}),
        ({"initializer": "xavier", "scheme": "standard", "dataset": "digits", "depth": 3}, {("mlp", 3)}),
        ({"initializer": "xavier", "dataset.train_size": None, "depth": 3}, {("mlp", 3)}),
        ({"initializer": "xavier", "recipe.optimizer": "sgd", "architecture": "plain"}, {("plain", 28)}),
    ],
    ids=written,
)
def test_what_a_condition_can_name(when, pairs):
    result = planned(**TWO, rules=[{"when": when, "recipe": {"lr": 0.5}}])
    changed = [t for t in result.trials if t.recipe.lr == 0.5]
    assert {(t.architecture.name, t.architecture.arguments["depth"]) for t in changed} == pairs
    assert {t.initializer.name for t in changed} == {"xavier"}


def test_a_tuner_is_matched_by_base_and_batch_size():
    initializers = [{"name": "metainit", "base": ["xavier", None], "batch_size": [8, 16]}]
    rules = [
        {"when": {"initializer.base": "xavier"}, "recipe": {"lr": 0.5}},
        {"when": {"initializer.base": None}, "recipe": {"lr": 0.25}},
        {"when": {"initializer.batch_size": 8}, "recipe": {"epochs": 3}},
    ]
    result = planned(initializers=initializers, rules=rules)
    arguments = [(t.initializer.arguments, t.recipe) for t in result.trials]
    got = {(a["base"] and a["base"]["name"], a["batch_size"]): recipe for a, recipe in arguments}
    assert {key: (recipe.lr, recipe.epochs) for key, recipe in got.items()} == {
        ("xavier", 8): (0.5, 3),
        ("xavier", 16): (0.5, 10),
        (None, 8): (0.25, 3),
        (None, 16): (0.25, 10),
    }


def test_true_is_not_one():
    result = planned(recipe={"flip": [True, False]}, rules=[{"when": {"recipe.flip": True}, "recipe": {"lr": 0.5}}])
    assert [(t.recipe.flip, t.recipe.lr) for t in result.trials] == [(True, 0.5), (False, 0.1)]
    with pytest.raises(SuiteError) as refused:
        planned(recipe={"flip": [True, False]}, rules=[{"when": {"recipe.flip": 1}, "recipe": {"lr": 0.5}}])
    assert refused.value.key == "rules[0].when.recipe.flip"


def test_a_condition_can_name_an_argument_of_a_base():
    initializers = [{"name": "metainit", "base": {"name": "delta_orthogonal", "gain": [1, 2]}}]
    rules = [{"when": {"initializer.base.gain": 2}, "recipe": {"lr": 0.5}}]
    trials = planned(initializers=initializers, rules=rules, only=["initializer.base=delta_orthogonal"]).trials
    assert [(t.initializer.arguments["base"]["arguments"]["gain"], t.recipe.lr) for t in trials] == [
        (1.0, 0.1),
        (2.0, 0.5),
    ]


def test_rules_and_exclude_reach_datasets():
    result = planned(
        dataset=["digits", {"name": "gaussian", "image_size": [8, 9]}],
        initializers=["xavier", "kaiming"],
        rules=[{"when": {"dataset": "gaussian"}, "recipe": {"lr": 0.5}}],
        exclude=[{"dataset": "digits", "initializer": "kaiming"}, {"dataset.image_size": 9, "initializer": "xavier"}],
    )
    got = [(t.dataset.name, t.dataset.arguments["image_size"], t.initializer.name, t.recipe.lr) for t in result.trials]
    assert got == [
        ("digits", None, "xavier", 0.1),
        ("gaussian", 8, "xavier", 0.5),
        ("gaussian", 8, "kaiming", 0.5),
        ("gaussian", 9, "kaiming", 0.5),
    ]


def test_a_rule_sets_arguments_base_and_batch_size_of_an_initializer():
    rules = [
        {"when": {"initializer": "metainit", "depth": 3}, "initializer": {"momentum": 0.5, "batch_size": 4}},
        {"when": {"initializer": "metainit", "depth": 3}, "initializer": {"base": {"name": "xavier", "gain": 2}}},
    ]
    result = planned(**TWO, rules=rules)
    changed = [t for t in result.trials if t.set_by_rules]
    assert {(t.architecture.name, t.architecture.arguments["depth"]) for t in changed} == {("mlp", 3)}
    for trial in changed:
        assert trial.initializer.arguments["momentum"] == 0.5
        assert trial.initializer.arguments["lr"] == 0.1
        assert trial.initializer.arguments["batch_size"] == 4
        base = trial.initializer.arguments["base"]
        assert (base["name"], base["arguments"]["gain"]) == ("xavier", 2.0)
        assert trial.set_by_rules == ("initializer.base", "initializer.batch_size", "initializer.momentum")
    assert [t.initializer.arguments["steps"] for t in changed] == [1, 2]


def test_what_a_rule_sets_is_as_if_the_suite_had_said_it():
    by_rule = the_trial(
        initializers=["metainit"],
        rules=[{"when": {"initializer": "metainit"}, "initializer": {"steps": 3}, "recipe": {"clip_norm": 1}}],
    )
    said = the_trial(initializers=[{"name": "metainit", "steps": 3}], recipe={"clip_norm": 1.0})
    assert by_rule.id == said.id
    assert (by_rule.set_by_rules, said.set_by_rules) == (("initializer.steps", "recipe.clip_norm"), ())


def test_rules_see_the_trial_as_the_suite_says_it():
    """A rule matches what the suite says, not what an earlier rule has made of it: their order decides values alone."""
    rules = [
        {"when": {"architecture": "mlp"}, "recipe": {"lr": 0.5}},
        {"when": {"recipe.lr": 0.1}, "recipe": {"epochs": 3}},
    ]
    assert the_trial(rules=rules).recipe.epochs == 3


# --- exclude


def test_exclude_leaves_out_what_meets_every_key():
    conditions = [{"architecture": "plain", "initializer": "metainit"}, {"depth": [2, 3], "initializer": "xavier"}]
    result = planned(**TWO, exclude=conditions)
    left = {("mlp", depth, "metainit", steps) for depth in (2, 3) for steps in (1, 2)}
    assert pairs_of(result) == left | {("plain", 28, "xavier", None)}
    assert result.excluded == 4


def test_exclude_sees_what_rules_have_set():
    rules = [{"when": {"depth": 3}, "recipe": {"clip_norm": 1}}]
    result = planned(**TWO, rules=rules, exclude=[{"recipe.clip_norm": 1.0}])
    assert {t.architecture.arguments["depth"] for t in result.trials} == {28, 2}


# --- the command line


@pytest.mark.parametrize(
    ("only", "pairs"),
    [
        (["initializer=xavier", "depth=2,3"], {("mlp", 2, "xavier", None), ("mlp", 3, "xavier", None)}),
        (
            ["initializer=xavier, metainit", "depth=2", "initializer.lr=0.1"],
            {("mlp", 2, "metainit", s) for s in (1, 2)},
        ),
        (["initializer.steps=2", "architecture=mlp"], {("mlp", 2, "metainit", 2), ("mlp", 3, "metainit", 2)}),
        (["initializer.steps=1,2", "depth=3"], {("mlp", 3, "metainit", 1), ("mlp", 3, "metainit", 2)}),
    ],
    ids=written,
)
def test_only(only, pairs):
    result, whole = planned(**TWO, only=only), planned(**TWO)
    assert pairs_of(result) == pairs
    # The rest is kept aside, for the labels, and every id is what it is in the whole suite.
    assert sorted([*ids(result), *(t.id for t in result.unselected)]) == sorted(ids(whole))


def test_only_by_any_property():
    two = {"architectures": [{"name": "mlp", "width": [8, 9]}], "initializers": ["xavier", "metainit"]}
    result = planned(**two, only=["architecture.width=9", "initializer.base=delta_orthogonal"])
    assert [(t.architecture.arguments["width"], t.initializer.name) for t in result.trials] == [(9, "metainit")]


def test_only_by_seed():
    assert [t.seed for t in planned(seeds=3, only=["seed=0,2"]).trials] == [0, 2]


def test_set_changes_values_and_keeps_the_rest():
    recipe = the_trial(recipe={"epochs": 2, "lr": 0.2}, assignments=["recipe.epochs=5", "recipe.nesterov=true"]).recipe
    assert (recipe.epochs, recipe.lr, recipe.nesterov) == (5, 0.2, True)


def test_set_takes_lists_which_are_crossed():
    result = planned(assignments=["recipe.lr=[0.1, 0.2]", "seeds=[4, 5]"])
    assert [(t.seed, t.recipe.lr) for t in result.trials] == [(4, 0.1), (4, 0.2), (5, 0.1), (5, 0.2)]


def test_set_reaches_a_dataset_that_is_a_name_alone():
    trial = the_trial(assignments=["dataset.train_size=100"])
    assert (trial.dataset.name, trial.dataset.arguments["train_size"]) == ("digits", 100)
    assert the_trial(assignments=["dataset=gaussian"]).dataset.name == "gaussian"


def test_a_condition_on_what_set_has_changed_is_no_mistake():
    rules = [
        {"when": {"dataset": "digits"}, "recipe": {"lr": 0.5}},
        {"when": {"recipe.epochs": 2}, "recipe": {"lr": 0.5}},
    ]
    trial = the_trial(recipe={"epochs": 2}, rules=rules, assignments=["dataset=gaussian", "recipe.epochs=1"])
    assert (trial.recipe.lr, trial.set_by_rules) == (0.1, ())


# --- the plan itself


def test_planning_is_pure():
    data = copy.deepcopy(BASE | TWO)
    suite = suite_of(Document("suite.yaml", "", data))
    first, second = plan_of(suite), plan_of(suite)
    assert first == second
    assert ids(first) == ids(plan_of(suite_of(Document("suite.yaml", "", copy.deepcopy(BASE | TWO)))))
    assert data == BASE | TWO


def test_planning_leaves_the_random_state_alone():
    import torch

    state = torch.get_rng_state()
    planned(**TWO)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_is_missing():
    result = planned(seeds=5)
    statuses = dict(zip(ids(result), ["finished", "diverged", "failed"], strict=False)) | {"another": "finished"}
    assert [t.seed for t in result.missing(statuses)] == [2, 3, 4]
    assert [t.seed for t in result.missing({})] == [0, 1, 2, 3, 4]


def test_all_cells_come_before_the_second_seed():
    trials = planned(**TWO, seeds=2).trials
    assert [t.seed for t in trials] == [0] * 9 + [1] * 9
    assert [t.cell for t in trials[:9]] == [t.cell for t in trials[9:]]
