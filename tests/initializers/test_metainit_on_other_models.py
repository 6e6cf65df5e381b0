"""MetaInit on what others build their models of: zeros, hard sigmoids, PyTorch's LayerNorm and weight normalization."""

from __future__ import annotations

import pytest
import timm
from cases import batch, randomize
from recorded import left
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from initbench.architectures.blocks import LayerNorm
from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.probes.gradient_quotient import gradient_quotient


def batches(shape=(6, 8), count=20):
    return [batch(shape, seed=index) for index in range(count)]


def perceptron(activation=None):
    layers = [nn.Linear(8, 6), activation or nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 10)]
    return randomize(nn.Sequential(*layers))


def test_zeros_are_kept_where_asked():
    model = perceptron()
    nn.init.zeros_(model[2].weight)
    options = {"base": None, "steps": 3, "batches": batches()}
    before = [model[index].weight.norm().item() for index in (0, 4)]
    with pytest.raises(
        InitializationError, match=r"^metainit: 2\.weight has norm 0, so .*; zeros: keep leaves it as it is$"
    ):
        initialize(model, "metainit", **options)
    record = initialize(model, "metainit", zeros="keep", **options)
    assert model[2].weight.eq(0).all()
    assert record.tensors["2.weight"] == [left("zero")]
    assert set(record.conditions["norms"]) == {"0.weight", "4.weight"}
    assert all(model[index].weight.norm().item() != norm for index, norm in zip((0, 4), before, strict=True))
    # GQ is over all parameters, the zeros among them.
    again = perceptron()
    nn.init.zeros_(again[2].weight)
    expected = gradient_quotient(again, *batches()[0]).item()
    assert record.history[0]["gradient_quotient"] == pytest.approx(expected, rel=1e-9)


def test_a_model_of_zeros_alone_is_refused():
    model = nn.Linear(8, 10).double()
    nn.init.zeros_(model.weight)
    with pytest.raises(InitializationError, match="every weight is zero"):
        initialize(model, "metainit", base=None, zeros="keep", batches=batches())


class ByReLU6(nn.Module):
    def forward(self, x):
        return nn.functional.relu6(x + 3) / 6


def test_the_hard_sigmoid_has_the_derivatives_of_its_straight_lines():
    norms = []
    for activation in (nn.Hardsigmoid(), ByReLU6()):
        record = initialize(perceptron(activation), "metainit", base=None, steps=10, batches=batches())
        norms.append([end for _, end in record.conditions["norms"].values()])
    assert norms[0] == pytest.approx(norms[1], rel=1e-10)


class Transformer(nn.Module):
    """What is wrong in PyTorch's third derivative of LayerNorm is that for its input."""

    def __init__(self, norm):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 6), norm(6), nn.Tanh(), nn.Linear(6, 6), norm(6), nn.Linear(6, 10))

    def forward(self, x):
        return self.layers(x)


def test_pytorchs_layer_norm_is_tuned_as_ours_is():
    """Ours is compared with an oracle in test_metainit_oracle_on_gpt; Adam takes the size of derivatives, too."""
    norms = []
    for norm in (nn.LayerNorm, LayerNorm):
        model = randomize(Transformer(norm))
        record = initialize(model, "metainit", base=None, steps=10, lr=0.01, optimizer="adam", batches=batches())
        norms.append([end for _, end in record.conditions["norms"].values()])
    assert norms[0] == pytest.approx(norms[1], rel=1e-10)


class Composed(nn.Module):
    """A linear layer whose weight is g·v/‖v‖."""

    def __init__(self, layer):
        super().__init__()
        weight = layer.parametrizations.weight
        self.g, self.v, self.bias = weight.original0, weight.original1, layer.bias

    def forward(self, x):
        return nn.functional.linear(x, self.v * (self.g / self.v.square().sum(1, keepdim=True).sqrt()), self.bias)


def test_the_gradient_quotient_of_weight_normalization():
    """PyTorch's second derivative for v takes ‖v‖ for a constant."""
    model = nn.Sequential(weight_norm(nn.Linear(8, 6)), nn.Tanh(), weight_norm(nn.Linear(6, 10)))
    randomize(model)
    composed = nn.Sequential(Composed(model[0]), nn.Tanh(), Composed(model[2]))
    expected = gradient_quotient(composed, *batch((6, 8)))
    assert gradient_quotient(model, *batch((6, 8))).item() == pytest.approx(expected.item(), rel=1e-9)
    step = gradient_quotient(model, *batch((6, 8)), method="finite_difference")
    assert step.item() == pytest.approx(
        gradient_quotient(composed, *batch((6, 8)), method="finite_difference").item(), rel=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "zeros"),
    [
        ("mobilenetv3_small_050", (2, 3, 32, 32), "refuse"),
        ("ghostnet_050", (2, 3, 32, 32), "refuse"),
        ("levit_128s", (1, 3, 224, 224), "keep"),
        ("beit_base_patch16_224", (1, 3, 32, 32), "keep"),
    ],
)
def test_models_of_timm(name, shape, zeros):
    options = {"img_size": 32, "depth": 2, "embed_dim": 24, "num_heads": 2} if name.startswith("beit") else {}
    model = timm.create_model(name, num_classes=10, **options)
    record = initialize(model, "metainit", base="kaiming", steps=2, zeros=zeros, input_shape=shape, num_classes=10)
    assert len(record.history) == 2
    assert record.conditions["stopped_at_step"] is None
