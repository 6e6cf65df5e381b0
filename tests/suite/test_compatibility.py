"""Pairs that cannot run are known before anything runs, with the reason."""

import pytest
import torch
from torch import nn

import initbench
from initbench.errors import SuiteError
from suites import planned


def only_reason(**keys):
    result = planned(**keys)
    assert result.trials == ()
    [pair] = result.incompatible
    return pair.reason


def register_initializer(name, **traits):
    @initbench.register_initializer(name, **traits)
    def factory():
        return lambda model, context: None  # noqa: ARG005


def register_architecture(name, build, **traits):
    @initbench.register_architecture(name, **traits)
    def factory(size: int = 1, *, input_shape=(1, 8, 8), num_classes=10, scheme="standard"):
        return build(size, input_shape, num_classes, scheme)


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
    assert reason == "mlp has no scheme fixup (it has standard)"


def test_a_suite_asks_for_a_scheme_that_the_architecture_lacks():
    assert (
        only_reason(architectures=[{"name": "mlp", "scheme": "skipinit"}])
        == "mlp has no scheme skipinit (it has standard)"
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
        lambda size, shape, classes, scheme: built.append(scheme) or Model(lambda x: x.flatten(1)[:, :classes]),  # noqa: ARG005
        schemes=("standard", "fixup"),
    )
    tuner = {"name": "metainit", "base": ["needs_fixup", "xavier"]}
    result = planned(architectures=["two"], initializers=["needs_fixup", "xavier", tuner])
    assert [t.scheme for t in result.trials] == ["fixup", "standard", "fixup", "standard"]
    assert sorted(built) == ["fixup", "standard"]  # each is built once
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
        (lambda x: 1 // 0, "odd refuses inputs of 1×8×8: integer division or modulo by zero"),  # noqa: ARG005
    ],
)
def test_outputs_that_are_no_logits(function, reason):
    register_architecture("odd", lambda *_: Model(function))
    assert only_reason(architectures=["odd"]).startswith(reason)


def test_what_cannot_be_tried_without_numbers_is_tried_with_them():
    """On the meta device `.item()` fails for every model; the planner must not take that for a refusal."""
    register_architecture("counts", lambda *_: Model(lambda x: x.flatten(1)[:, :10] if x.sum().item() == 0 else None))
    assert len(planned(architectures=["counts"]).trials) == 1


def test_an_argument_of_the_suite_that_is_refused_is_an_error():
    def build(size, *_):
        raise ValueError(f"size must be 2, got {size}")

    register_architecture("picky", build)
    with pytest.raises(SuiteError, match=r"^suite\.yaml: architectures\[0\]\.size: must be 2, got 3$"):
        planned(architectures=[{"name": "picky", "size": 3}])
    # Nobody gave a size here: it is the pair that does not fit.
    reason = only_reason(architectures=["picky"])
    assert reason == "picky cannot be built for inputs of 1×8×8: size must be 2, got 1"


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
    assert pair.reason == "activation_checkpointing needs a model with blocks, mlp has none"


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
    assert [pair.reason for pair in result.incompatible] == [reason]
    assert only_reason(architectures=[{"name": "wrn", "depth": 10, "width": 1}], initializers=["fixup"]) == reason
    with pytest.raises(SuiteError, match="depth: must be 6n"):
        planned(architectures=[{"name": "wrn", "depth": 11}], initializers=["fixup"])
