"""What every architecture gives: reproducible construction, the meta device, second derivatives."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError, InitbenchError, UnknownNameError

SMALL = [
    ("wrn", {"depth": 10, "width": 1, "norm": "none", "activation": "beta_swish"}),
    ("wrn", {"depth": 10, "width": 1, "norm": "batch", "activation": "swish"}),
    ("wrn", {"depth": 10, "width": 1, "norm": "group", "activation": "swish"}),
    ("plain", {"depth": 10, "width": 1, "norm": "none", "activation": "tanh"}),
    ("plain", {"depth": 10, "width": 1, "norm": "batch", "activation": "beta_swish"}),
    ("mlp", {"depth": 3, "width": 8, "norm": "batch", "activation": "tanh"}),
    ("mlp", {"depth": 3, "width": 32, "norm": "group", "activation": "tanh"}),
]


@pytest.mark.parametrize(("name", "arguments"), SMALL)
def test_one_seed_gives_one_model_whatever_the_global_state(name, arguments):
    states = []
    for global_seed, seed in ((1, 0), (2, 0), (1, 1)):
        torch.manual_seed(global_seed)
        before = torch.get_rng_state()
        states.append(create_model(name, seed=seed, **arguments).state_dict())
        assert torch.equal(torch.get_rng_state(), before)
    first, again, other = states
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["classifier.weight"], other["classifier.weight"])


@pytest.mark.parametrize(("name", "arguments"), [*SMALL, ("timm/resnet18", {})])
def test_meta_models_have_the_shapes_of_real_ones(name, arguments):
    with torch.device("meta"):
        meta = create_model(name, **arguments)
    shapes = {n: t.shape for n, t in create_model(name, **arguments).state_dict().items()}
    assert {n: t.shape for n, t in meta.state_dict().items()} == shapes
    assert meta(torch.zeros(2, 3, 32, 32, device="meta")).shape == (2, 10)


@pytest.mark.parametrize(("name", "arguments"), SMALL)
def test_second_derivatives_are_those_of_finite_differences(name, arguments):
    model = create_model(name, input_shape=(1, 8, 8), num_classes=3, **arguments).double()
    random = torch.Generator().manual_seed(0)
    x = torch.randn(8, 1, 8, 8, dtype=torch.float64, generator=random)
    y = torch.randint(3, (8,), generator=random)
    parameters = list(model.parameters())
    direction = [torch.randn(p.shape, dtype=torch.float64, generator=random) for p in parameters]

    def gradient(create_graph=False):
        return torch.autograd.grad(functional.cross_entropy(model(x), y), parameters, create_graph=create_graph)

    product = torch.autograd.grad(gradient(create_graph=True), parameters, direction)
    sides = []
    for sign in (1, -1):
        for p, d in zip(parameters, direction, strict=True):
            p.data.add_(d, alpha=sign * 1e-6)
        sides.append(gradient())
        for p, d in zip(parameters, direction, strict=True):
            p.data.sub_(d, alpha=sign * 1e-6)
    scale = max(h.abs().max() for h in product)
    for plus, minus, exact in zip(*sides, product, strict=True):
        # Central differences of step 1e-6 in float64: truncation and rounding are near 1e-8 of the largest entry.
        torch.testing.assert_close((plus - minus) / 2e-6, exact, rtol=0, atol=1e-6 * scale.item())


def test_an_unknown_scheme_says_which_there_are():
    with pytest.raises(InitbenchError, match=r"^scheme: unknown scheme 'fixupp' \(did you mean 'fixup'"):
        create_model("plain", scheme="fixupp", depth=10)


def test_unknown_names_and_arguments_give_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'plain'"):
        create_model("plane")
    for arguments in ({"dept": 10}, {"activation": "gelu"}):
        with pytest.raises(ArgumentError) as refusal:
            create_model("wrn", **arguments)
        assert [refusal.value.argument] == list(arguments)
