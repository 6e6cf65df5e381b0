"""Initializers that set branches to 0 refuse models in which no training could open them."""

from __future__ import annotations

import pytest
import timm
import torch
from cases import assert_same_state, state

import initbench
from initbench.errors import InitializationError

IMAGES = torch.zeros(2, 3, 32, 32)


def of_timm(name):
    torch.manual_seed(0)
    return timm.create_model(name, num_classes=10)


def of_transformers(kind, **options):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    configuration = getattr(transformers, f"{kind}Config")(
        **sizes, image_size=32, patch_size=8, num_labels=10, **options
    )
    return getattr(transformers, f"{kind}ForImageClassification")(configuration)


# Each with the parameter that is named. In the first, as transformers builds it, the class token is 0, and with closed
# branches it is all that the classifier of zeros sees; in the others a ReLU follows the last layer of a branch.
LOCKED = {
    "deit": (lambda: of_transformers("DeiT"), "classifier"),
    "beit": (lambda: of_transformers("Beit", use_mean_pooling=False), "classifier"),
    "legacy_seresnet18": (lambda: of_timm("legacy_seresnet18"), "layer1.0.conv2"),
    "hgnetv2_b0": (lambda: of_timm("hgnetv2_b0"), "stages.2.blocks.1.aggregation.1.conv"),
}


@pytest.mark.parametrize("method", ["zero", "fixup"])
@pytest.mark.parametrize("name", [n if n == "deit" else pytest.param(n, marks=pytest.mark.slow) for n in LOCKED])
def test_a_locked_branch_is_refused_by_name(name, method):
    build, layer = LOCKED[name]
    model = build()
    if method == "fixup":
        model, layer = initbench.rewrite(model, method, inputs=IMAGES), f"{layer}.layer"
    before = state(model)
    with pytest.raises(InitializationError, match=f"^{method}: {layer}.weight .*would stay 0") as refused:
        initbench.initialize(model, method, inputs=IMAGES)
    assert "\n" not in str(refused.value)
    assert_same_state(before, state(model))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["zero", "fixup", "skipinit"])
@pytest.mark.parametrize("name", ["ghostnetv3_050", "fastvit_t8"])
def test_every_parameter_of_a_reparametrizable_model_gets_a_gradient(name, method):
    """Its parallel arms were counted as branches: Fixup's features grew to 15,000, and the loss was flat."""
    model, images = of_timm(name), torch.zeros(2, 3, 64, 64)
    if method != "zero":
        model = initbench.rewrite(model, method, inputs=images)
    initbench.initialize(model, method, inputs=images)
    model.train()
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 3, 64, 64, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    live = set()
    for _ in range(6):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), torch.arange(4)).backward()
        live |= {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
        optimizer.step()
    assert live == {name for name, _ in model.named_parameters()}
