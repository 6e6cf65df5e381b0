"""What initializers and `initialize` refuse: the error, and the argument that it is about; the model is as it was."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from cases import assert_same_state, small, state
from torch import nn

from initbench.architectures.rewrite import rewrite
from initbench.errors import ArgumentError, InitbenchError, InitializationError, UnknownNameError
from initbench.initializers.initialize import initialize
from initbench.registry import INITIALIZERS
from initbench.structure.layer import Layer

RANDOM = {"input_shape": (4, 3, 8, 8), "num_classes": 10, "data": "random"}
EMBEDDING_LAWS = sorted(
    name
    for name in INITIALIZERS.builtins
    if any(argument.name == "embedding_std" for argument in INITIALIZERS.get(name).arguments)
)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("kaiming", {"gain": 0.0}),
        ("xavier", {"gain": -1.0}),
        ("orthogonal", {"gain": -2}),
        ("delta_orthogonal", {"gain": 0}),
        ("gaussian", {"std": -0.1}),
        ("truncated_normal", {"bound": 1e-4}),
        ("metainit", {"steps": 0}),
        ("metainit", {"lr": 0.0}),
        ("metainit", {"momentum": 1.0}),
        ("metainit", {"momentum": -0.1}),
        ("metainit", {"eps": 0.0}),
    ],
)
def test_what_factories_refuse(name, arguments):
    with pytest.raises(ArgumentError) as caught:
        initialize(small("plain"), name, **arguments)
    assert caught.value.argument == next(iter(arguments))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["kaiming", "xavier", "orthogonal", "delta_orthogonal"])
def test_gains_are_finite(name, value):
    with pytest.raises(ArgumentError) as caught:
        INITIALIZERS.get(name).factory(gain=value)
    assert caught.value.argument == "gain"


@pytest.mark.parametrize("name", EMBEDDING_LAWS)
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_standard_deviations_of_embeddings(name, value):
    with pytest.raises(ArgumentError) as caught:
        INITIALIZERS.get(name).factory(embedding_std=value)
    assert caught.value.argument == "embedding_std"


@pytest.mark.parametrize(
    ("name", "options", "argument"),
    [
        ("kaiming", {"mode": "fan_on"}, "mode"),
        ("kaiming", {"gian": 1.0}, "gian"),
        ("kaiming", {"base": "xavier"}, "base"),
        ("metainit", {"base": "metainit"}, "base"),
        ("metainit", {"base": "nothing"}, "base"),
        ("metainit", {"base": {"gain": 1.0}}, "base"),
        ("metainit", {"base": {"name": "kaiming", "gain": -1.0}}, "base.gain"),
        ("metainit", {"base": {"name": "kaiming", "gian": 1.0}}, "base.gian"),
        ("metainit", {"batch_size": 0}, "batch_size"),
        ("kaiming", {"input_shape": (0, 3, 8, 8)}, "input_shape"),
        ("kaiming", {"inputs": torch.zeros(3)}, "inputs"),
        ("kaiming", {"inputs": torch.zeros(1, 3, 8, 8), "input_shape": (1, 3, 8, 8)}, "input_shape"),
        ("kaiming", {"num_classes": 0}, "num_classes"),
        ("gradinit", {**RANDOM, "training_optimizer": ("sgd", 0.0)}, "eta"),
    ],
)
def test_the_argument_that_initialize_refuses(name, options, argument):
    model = small("plain")
    before = state(model)
    with pytest.raises(ArgumentError) as caught:
        initialize(model, name, **options)
    assert caught.value.argument == argument
    assert_same_state(before, state(model))


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("kaimin", {}, UnknownNameError),
        ("kaiming", {"task": "classificatoin"}, UnknownNameError),
        ("metainit", {}, InitializationError),
    ],
)
def test_what_else_initialize_refuses(name, options, error):
    model = small("plain")
    before = state(model)
    with pytest.raises(error):
        initialize(model, name, **options)
    assert_same_state(before, state(model))


@pytest.mark.parametrize("eta", [None, 0.1])
def test_gradinit_before_a_training_that_does_not_move(eta):
    """Known before anything runs; a step of its own to look ahead to lets it run."""
    component = INITIALIZERS.get("gradinit")
    reason = component.traits.refuses(component.resolve({"eta": eta}), "sgd", 0.0)
    assert (reason is None) == (eta is not None)
    if eta is not None:
        initialize(small("plain"), "gradinit", eta=eta, iterations=1, training_optimizer=("sgd", 0.0), **RANDOM)


def test_models_without_values_are_refused():
    with pytest.raises(InitbenchError, match="weight has no storage yet"):
        initialize(nn.LazyLinear(3), "kaiming")
    with pytest.raises(InitbenchError, match="weight has no storage yet"):
        initialize(nn.Linear(3, 3, device="meta"), "kaiming")


class Experts(nn.Module):
    """A residual block with four experts, of which a batch uses one."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(8), nn.Linear(8, 4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(4))

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        h = self.norm(x)
        return x + self.experts[int(self.router(h).mean((0, 1)).argmax())](h)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mitchell", "small_init", "fixup", "zero"])
def test_experts_that_one_sample_does_not_use_have_unknown_roles(name):
    model = nn.Sequential(nn.Linear(8, 8), *(nn.Sequential(Experts()) for _ in range(2)), nn.Linear(8, 3))
    with pytest.raises(InitializationError, match=rf"^{name}: one sample does not use 1\.0\.experts\.\d\.0, "):
        initialize(model, name, inputs=torch.zeros(2, 5, 8))
    with pytest.raises(ArgumentError, match=r"^skipinit: one sample does not use 1\.0\.experts\.\d\.0, "):
        rewrite(model, "skipinit", inputs=torch.zeros(2, 5, 8))


def test_complex_weights_are_refused():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, dtype=torch.complex64))
    with pytest.raises(InitializationError, match=r"^kaiming: 1\.weight is complex, and its law is of real numbers$"):
        initialize(model, "kaiming")


def test_a_frozen_weight_has_no_multiplier():
    model = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3))
    model[4].weight.requires_grad_(False)
    with pytest.raises(InitializationError, match=r"^mup: 4\.weight is frozen, so that its multiplier cannot"):
        initialize(model, "mup", base_width=64, inputs=torch.zeros(2, 8))


def test_experts_that_a_model_states_are_initialized():
    class Stated(nn.Sequential):
        def initbench_structure(self, found):
            layers = {layer.name for layer in found.layers}
            unseen = [name for name, m in self.named_modules() if isinstance(m, nn.Linear) and name not in layers]
            return replace(found, layers=(*found.layers, *(Layer(n, "linear", f"{n}.weight", 1, 3) for n in unseen)))

    model = Stated(nn.Linear(8, 8), nn.Sequential(Experts()), nn.Linear(8, 3))
    assert "0 weights" not in str(initialize(model, "gpt2", inputs=torch.zeros(2, 5, 8)))
