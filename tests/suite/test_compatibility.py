"""Pairs that cannot run are known before anything runs, with the reason."""

import pytest
import torch
from cases import LeastSquares
from torch import nn

import initbench
from initbench.errors import ArgumentError, SuiteError
from initbench.inputs import Inputs
from suites import planned, the_trial


def only_reason(**keys):
    result = planned(**keys)
    assert result.trials == ()
    [pair] = result.incompatible
    return pair.reason


def register_initializer(name, **traits):
    @initbench.register_initializer(name, **traits)
    def factory():
        return lambda model, context: None


def register_architecture(name, build, **traits):
    @initbench.register_architecture(name, **traits)
    def factory(size: int = 1, *, inputs=Inputs((1, 8, 8)), outputs=10, scheme="standard"):
        return build(size, inputs, outputs, scheme)


class Model(nn.Module):
    """A model of one given function."""

    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_an_architecture_lacks_the_scheme_that_an_initializer_needs():
    register_initializer("needs_fixup", scheme="fixup")
    reason = only_reason(architectures=["mlp"], initializers=["needs_fixup"])
    assert reason == "mlp: fixup: no residual branches are found in Sequential"


def test_a_scheme_that_an_initializer_needs_and_nothing_registers():
    register_initializer("needs_more", scheme="fixupp")
    reason = only_reason(initializers=["needs_more"])
    assert reason.startswith("mlp has no scheme fixupp, nor is one registered (there are standard, ")


def test_a_suite_asks_for_a_scheme_that_the_architecture_lacks():
    assert (
        only_reason(architectures=[{"name": "mlp", "scheme": "skipinit"}])
        == "mlp: skipinit: no residual branches are found in Sequential"
    )


def test_a_suite_asks_for_another_scheme_than_the_initializer_needs():
    register_initializer("needs_fixup", scheme="fixup")
    register_architecture("two", lambda *_: Model(lambda x: x.flatten(1)[:, :10]), schemes=("standard", "fixup"))
    reason = only_reason(architectures=[{"name": "two", "scheme": "standard"}], initializers=["needs_fixup"])
    assert reason == "needs_fixup needs scheme fixup, the suite says standard"


def test_the_scheme_is_selected_where_the_suite_does_not_say():
    register_initializer("needs_fixup", scheme="fixup")
    built = []
    register_architecture(
        "two",
        lambda size, inputs, outputs, scheme: built.append(scheme) or Model(lambda x: x.flatten(1)[:, :outputs]),
        schemes=("standard", "fixup"),
    )
    tuner = {"name": "metainit", "base": ["needs_fixup", "xavier"]}
    result = planned(architectures=["two"], initializers=["needs_fixup", "xavier", tuner])
    assert [t.scheme for t in result.trials] == ["fixup", "standard", "fixup", "standard"]
    # Each is built once, and the standard one once more on the meta device, where its parameters are counted.
    assert sorted(built) == ["fixup", "standard", "standard"]
    crossed = planned(architectures=[{"name": "two", "scheme": ["standard", "fixup"]}])
    assert [t.scheme for t in crossed.trials] == ["standard", "fixup"]
    assert len({t.id for t in crossed.trials}) == 2


def test_an_architecture_that_refuses_the_shape_is_one_pair_of_a_crossing():
    register_architecture("deep", lambda *_: nn.Sequential(*[nn.MaxPool2d(2)] * 4, nn.Flatten(), nn.Linear(1, 10)))
    dataset = {"name": "digits", "image_size": [8, 16]}
    result = planned(architectures=["deep"], dataset=dataset, seeds=3)
    assert [t.dataset.arguments["image_size"] for t in result.trials] == [16, 16, 16]
    [pair] = result.incompatible
    assert pair.spec.dataset.arguments["image_size"] == 8
    assert pair.reason.startswith("deep refuses inputs of 1×8×8: ")
    assert "\n" not in pair.reason


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.flatten(1)[:, :7], "odd must give outputs of (2, 10) for two samples, gives (2, 7)"),
        (lambda x: [x], "odd must give outputs of (2, 10) for two samples, gives list"),
        (lambda x: x["image"], "odd refuses inputs of 1×8×8: "),
        (lambda x: 1 // 0, "odd refuses inputs of 1×8×8: integer division or modulo by zero"),
    ],
)
def test_outputs_that_are_no_logits(function, reason):
    register_architecture("odd", lambda *_: Model(function))
    assert only_reason(architectures=["odd"]).startswith(reason)


def test_what_cannot_be_tried_without_numbers_is_tried_with_them():
    """On the meta device `.item()` fails for every model; the planner must not take that for a refusal."""
    register_architecture("counts", lambda *_: Model(lambda x: x.flatten(1)[:, :10] if x.sum().item() == 0 else None))
    assert len(planned(architectures=["counts"]).trials) == 1


@pytest.mark.parametrize(
    ("error", "key", "problem"),
    [
        (ArgumentError("must be 2", "size"), "architectures[0].size", "must be 2"),
        (ValueError("size must be 2"), "architectures[0]", "size must be 2"),
    ],
    ids=["of an argument", "of a plug-in"],
)
def test_an_argument_of_the_suite_that_is_refused_is_an_error(error, key, problem):
    def build(*_):
        raise error

    register_architecture("picky", build)
    with pytest.raises(SuiteError) as refused:
        planned(architectures=[{"name": "picky", "size": 3}])
    assert (refused.value.where, refused.value.key, refused.value.problem) == ("suite.yaml", key, problem)
    # Nobody gave a size here: it is the pair that does not fit.
    assert only_reason(architectures=["picky"]) == "picky cannot be built for inputs of 1×8×8: size must be 2"


def test_a_timm_model_that_is_made_for_larger_images():
    result = planned(architectures=["timm/crossvit_9_240", "mlp"])
    assert [t.architecture.name for t in result.trials] == ["mlp"]
    assert "inputs of 1×8×8: " in result.incompatible[0].reason


def test_incompatible_pairs_are_told_once_and_not_when_unselected():
    result = planned(architectures=[{"name": "mlp", "scheme": "fixup"}, "mlp"], seeds=3)
    assert (len(result.trials), len(result.incompatible)) == (3, 1)
    assert (
        planned(architectures=[{"name": "mlp", "scheme": "fixup"}, "mlp"], only=["scheme=standard"]).incompatible == ()
    )


def test_activation_checkpointing_needs_blocks():
    result = planned(
        architectures=["mlp", {"name": "plain", "depth": 10, "width": 1}],
        recipe={"activation_checkpointing": [False, True]},
    )
    assert [(t.architecture.name, t.recipe.activation_checkpointing) for t in result.trials] == [
        ("mlp", False),
        ("plain", False),
        ("plain", True),
    ]
    [pair] = result.incompatible
    assert pair.reason.startswith("activation_checkpointing needs blocks")
    assert pair.blames is None


def test_a_norm_that_does_not_go_with_a_scheme_is_no_mistake():
    """Whether the suite names the norm or not; what no scheme takes is one."""
    network = {"name": "wrn", "depth": 10, "width": 1, "norm": ["none", "batch"]}
    result = planned(architectures=[network], initializers=["kaiming", "fixup"])
    assert [(t.initializer.name, t.scheme, t.architecture.arguments["norm"]) for t in result.trials] == [
        ("kaiming", "standard", "none"),
        ("fixup", "fixup", "none"),
        ("kaiming", "standard", "batch"),
    ]
    reason = "wrn: norm must be none for scheme fixup, got batch"
    assert [(pair.reason, pair.blames) for pair in result.incompatible] == [(reason, "initializer")]
    asked = planned(architectures=[network | {"scheme": "fixup"}], initializers=["kaiming", "fixup"])
    assert [(pair.reason, pair.blames) for pair in asked.incompatible] == [(reason, None)]
    assert only_reason(architectures=[{"name": "wrn", "depth": 10, "width": 1}], initializers=["fixup"]) == reason
    with pytest.raises(SuiteError) as refused:
        planned(architectures=[{"name": "wrn", "depth": 11}], initializers=["fixup"])
    assert refused.value.key == "architectures[0].depth"


# --- tasks


class Mean(LeastSquares):
    """A number for each sample."""


class Next(Mean):
    """A distribution over the next token, at each position."""

    def output_shape(self, inputs, outputs):
        return (*inputs.shape, outputs)


@pytest.fixture
def tasks(scratch_registry):  # it must be forgotten
    initbench.register_task("numbers")(Mean)
    initbench.register_task("tokens")(Next)
    initbench.register_dataset("rows", task="numbers", inputs=Inputs((8,)), outputs=1)(lambda: None)
    initbench.register_dataset("words", task="tokens", inputs=Inputs((16,), vocabulary=50), outputs=50)(lambda: None)
    register_architecture("line", lambda s, i, outputs, _: nn.Linear(i.shape[0], outputs), tasks=("numbers",))
    register_architecture(
        "reader",
        lambda _, inputs, outputs, __: nn.Embedding(inputs.vocabulary, outputs),
        tasks=("tokens", "numbers"),
    )


@pytest.mark.usefixtures("tasks")
def test_a_dataset_and_an_architecture_of_different_tasks_are_an_incompatible_pair():
    result = planned(dataset=["digits", "rows"], architectures=["mlp", "line"], seeds=2)
    assert [(t.dataset.name, t.architecture.name) for t in result.trials] == [("digits", "mlp"), ("rows", "line")] * 2
    assert [(p.spec.dataset.name, p.spec.architecture.name, p.blames, p.reason) for p in result.incompatible] == [
        ("digits", "line", "dataset", "line serves numbers, the data are for classification"),
        ("rows", "mlp", "dataset", "mlp serves classification, the data are for numbers"),
    ]
    assert [(t.dataset.task, t.dataset.inputs, t.dataset.outputs) for t in result.trials[:2]] == [
        ("classification", Inputs((1, 8, 8)), 10),
        ("numbers", Inputs((8,)), 1),
    ]


@pytest.mark.usefixtures("tasks")
def test_an_architecture_that_serves_none_of_the_tasks_is_a_bad_suite():
    with pytest.raises(SuiteError) as refused:
        planned(dataset=["digits", "words"], architectures=["mlp", "line"])
    assert refused.value.key == "architectures[1]"
    assert refused.value.problem == "line serves numbers, the data of the suite are for classification and tokens"


@pytest.mark.usefixtures("tasks")
def test_tokens_are_tried_as_tokens_and_outputs_by_the_task():
    trial = the_trial(dataset="words", architectures=["reader"])
    assert trial.dataset.inputs == Inputs((16,), 50)
    # Numbers are no tokens, and the outputs of the linear network are no sequence.
    assert only_reason(dataset="rows", architectures=["reader"]).startswith("reader refuses inputs of 8: ")
    register_architecture("pooled", lambda *known: Model(lambda x: torch.zeros(len(x), known[2])), tasks=("tokens",))
    reason = only_reason(dataset="words", architectures=["pooled"])
    assert reason == "pooled must give outputs of (2, 16, 50) for two samples, gives (2, 50)"


@pytest.mark.usefixtures("tasks")
def test_what_a_task_cannot_honour_is_incompatible():
    result = planned(dataset=["digits", "rows"], architectures=["mlp", "line"], recipe={"mixup": 1.0})
    assert [t.dataset.name for t in result.trials] == ["digits"]
    assert ("mixup is not for task numbers", "dataset") in {(pair.reason, pair.blames) for pair in result.incompatible}


def test_a_task_that_nothing_registers():
    initbench.register_dataset("odd", task="regresion", inputs=Inputs((8,)), outputs=1)(lambda: None)
    with pytest.raises(SuiteError) as refused:
        planned(dataset="odd")
    assert refused.value.key == "dataset"


def test_logits_of_an_object():
    class Outputs:
        def __init__(self, x):
            self.logits = x

    register_architecture("wrapped", lambda *_: Model(lambda x: Outputs(x.flatten(1)[:, :10])))
    assert the_trial(architectures=["wrapped"]).architecture.name == "wrapped"


# --- initializers that refuse


def test_an_initializer_refuses_a_recipe():
    result = planned(initializers=["xavier", {"name": "gradinit", "eta": [None, 0.1]}], recipe={"lr": [0.0, 0.1]})
    ran = [(t.recipe.lr, t.initializer.name, t.initializer.arguments.get("eta")) for t in result.trials]
    assert ran == [
        (0.0, "xavier", None),
        (0.0, "gradinit", 0.1),
        (0.1, "xavier", None),
        (0.1, "gradinit", None),
        (0.1, "gradinit", 0.1),
    ]
    [pair] = result.incompatible
    assert "eta" in pair.reason
    assert (pair.spec.recipe.lr, pair.spec.initializer.arguments["eta"]) == (0.0, None)


def test_a_pair_is_told_once_for_all_recipes():
    result = planned(architectures=[{"name": "mlp", "scheme": "fixup"}], recipe={"lr": [0.1, 0.2, 0.3]}, seeds=2)
    assert (result.trials, len(result.incompatible)) == ((), 1)


# --- who names the scheme


def test_one_architecture_with_and_without_a_scheme():
    network = {"name": "wrn", "depth": 10, "width": 1, "norm": "none"}
    result = planned(architectures=[network, network | {"scheme": "fixup"}], initializers=["kaiming", "fixup"])
    assert [(t.scheme, t.initializer.name, t.scheme_named_by) for t in result.trials] == [
        ("standard", "kaiming", ("suite",)),
        ("fixup", "fixup", ("initializer", "suite")),  # both entries come to it; it runs once
        ("fixup", "kaiming", ("suite",)),
    ]
    alone = planned(architectures=[network], initializers=["kaiming", "fixup"])
    assert [t.scheme_named_by for t in alone.trials] == [("suite",), ("initializer",)]
    assert alone.trials[1].id == result.trials[1].id


def test_a_timm_model_with_and_without_a_scheme():
    result = planned(
        dataset={"name": "digits", "image_size": 32},
        architectures=["timm/resnet18", {"name": "timm/resnet18", "scheme": "fixup"}],
        initializers=["kaiming", "fixup"],
    )
    assert [(t.scheme, t.initializer.name) for t in result.trials] == [
        ("standard", "kaiming"),
        ("fixup", "fixup"),
        ("fixup", "kaiming"),
    ]


def test_a_scheme_that_an_initializer_of_a_tuner_needs_is_brought_by_it():
    network = {"name": "wrn", "depth": 10, "width": 1, "norm": "none"}
    tuner = {"name": "metainit", "base": ["fixup", "kaiming"]}
    result = planned(architectures=[network], initializers=[tuner])
    assert [(t.scheme, t.scheme_named_by) for t in result.trials] == [
        ("fixup", ("initializer",)),
        ("standard", ("suite",)),
    ]
    # A rule that takes it away takes the scheme away.
    rules = [{"when": {"initializer.base": "fixup"}, "initializer": {"base": "orthogonal"}}]
    changed = planned(architectures=[network], initializers=[tuner], rules=rules)
    assert [t.scheme for t in changed.trials] == ["standard", "standard"]


def test_a_scheme_of_a_plug_in():
    register_architecture("own", lambda *_: Model(lambda x: x.flatten(1)[:, :10]), schemes=("standard", "rezero"))
    assert the_trial(architectures=[{"name": "own", "scheme": "rezero"}]).scheme == "rezero"
    with pytest.raises(SuiteError) as refused:
        planned(architectures=[{"name": "own", "scheme": "rezro"}])
    assert refused.value.key == "architectures[0].scheme"
    assert "'rezero'" in refused.value.problem


def test_a_scheme_that_includes_the_needed_one_will_do():
    """BatchNorm beside weight normalization, with its initializer and another."""
    network = {"name": "wrn", "depth": 10, "width": 1}
    architectures = [
        network | {"norm": ["batch", "group"], "scheme": "weight_norm_beside_norm"},
        network | {"norm": "none"},
    ]
    result = planned(architectures=architectures, initializers=["weight_norm", "kaiming"])
    assert not result.incompatible
    found = [(t.architecture.arguments["norm"], t.scheme, t.initializer.name) for t in result.trials]
    beside = "weight_norm_beside_norm"
    assert found == [
        *((norm, beside, name) for norm in ("batch", "group") for name in ("weight_norm", "kaiming")),
        ("none", "weight_norm", "weight_norm"),
        ("none", "standard", "kaiming"),
    ]


def test_widths_and_biases_of_a_perceptron_are_crossed_list_by_list():
    mlp = {"name": "mlp", "widths": [[8, 4], [4, 8, 4]], "bias": [True, False]}
    result = planned(architectures=[mlp])
    found = [(t.architecture.arguments["widths"], t.architecture.arguments["bias"]) for t in result.trials]
    assert found == [([8, 4], True), ([8, 4], False), ([4, 8, 4], True), ([4, 8, 4], False)]


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        (
            {"lr_multipliers": {"bias": 0.1}},
            "mup: lr_multipliers would replace multipliers that are part of the method",
        ),
        ({"weight_decays": {"norm": 0.5}}, "mup: weight_decays would replace multipliers that are part of the method"),
        ({"clip_norm": 1.0}, "mup: clip_norm compares gradients of all parameters, which the method scales"),
        ({"optimizer": "adam", "weight_decay": 0.1}, "mup: weight_decay of adam is scaled with the gradient"),
    ],
)
def test_recipes_that_would_change_multipliers_of_a_method(recipe, reason):
    assert only_reason(initializers=["mup"], recipe=recipe).startswith(reason)
    assert planned(initializers=["kaiming"], recipe=recipe).incompatible == ()


def test_recipes_that_keep_multipliers_of_a_method():
    for recipe in ({"weight_decay": 0.1}, {"optimizer": "adamw", "weight_decay": 0.1}, {"epochs": 0, "clip_norm": 1.0}):
        assert planned(initializers=["mup"], recipe=recipe).incompatible == ()
    assert only_reason(initializers=["completep"]).startswith("completep is for adam and adamw")
