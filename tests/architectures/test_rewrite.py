"""Schemes put into models of timm and torchvision."""

from __future__ import annotations

import math
import re

import pytest
import timm
import torch
import torchvision
from branches import residual_branches
from cases import assert_same_state, batch, state
from timm.layers import ScaledStdConv2d
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.parametrize import is_parametrized

import initbench
from initbench.architectures.create import create_model
from initbench.architectures.scalars import ScalarBias, ScalarMultiplier
from initbench.errors import ArgumentError, InitbenchError
from initbench.schemes.channel_bias import ChannelBias

NORMS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
SHAPE = (3, 32, 32)
IMAGES = torch.zeros(2, *SHAPE)


def small(name, norm_layer=None):
    torch.manual_seed(0)
    if name == "densenet121":
        return torchvision.models.densenet121(num_classes=10)
    options = {"img_size": 32} if name.startswith("vit") else {}
    if norm_layer:
        options["norm_layer"] = norm_layer
    return timm.create_model(name, num_classes=10, **options)


def count(model, kind):
    return sum(isinstance(module, kind) for module in model.modules())


def gradients(model, inputs, targets):
    loss = cross_entropy(model(inputs), targets)
    loss.backward()
    return loss, {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050", "densenet121"])
def test_a_removed_batch_norm_is_one_whose_statistics_are_0_and_1(name):
    """In evaluation mode, with weight 1 and ε out of the way, BatchNorm adds its bias."""
    model = small(name).double().eval()
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 0.0
            nn.init.ones_(module.weight)
            nn.init.normal_(module.bias, 0.0, 0.1, generator=generator)
    removed = initbench.remove_normalization(model)
    assert count(removed, NORMS) == 0
    assert count(removed, ChannelBias) == count(model, nn.BatchNorm2d)
    x = batch((2, 3, 32, 32))[0]
    with torch.no_grad():
        torch.testing.assert_close(removed(x), model(x), rtol=1e-10, atol=0)
    assert not any(module.training for module in removed.modules())


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "convnext_atto"])
def test_a_removed_layer_norm_adds_a_bias_along_its_own_dimensions(name):
    """Channels are the last dimension of tokens, and the second one of timm's LayerNorm2d."""
    model = small(name)
    removed = initbench.remove_normalization(model)
    before = {n: m for n, m in model.named_modules() if isinstance(m, nn.LayerNorm)}
    assert len(before) > 5
    for path, norm in before.items():
        bias = removed.get_submodule(path)
        nn.init.normal_(bias.bias)
        shape = (
            (2, norm.normalized_shape[0], 3, 5) if type(norm).__name__ == "LayerNorm2d" else (2, 7, *norm.bias.shape)
        )
        added = bias(torch.zeros(shape))
        channels = added.permute(0, 2, 3, 1) if added.dim() == 4 else added
        assert torch.equal(channels, bias.bias.expand(channels.shape))
    assert removed(batch((2, 3, 32, 32), dtype=torch.float32)[0]).shape == (2, 10)


# Branches of each model, and layers but for the first that get a scalar bias.
RESIDUAL = {"resnet18": 8, "resnet50": 16, "vit_tiny_patch16_224": 24, "convnext_atto": 12, "mobilenetv3_small_050": 7}


@pytest.mark.parametrize("name", RESIDUAL)
def test_fixup(name):
    """Rule 3 of the paper, and what the initializer makes of it: ln C, and a gradient in the classifier alone."""
    model = small(name)
    rewritten = initbench.rewrite(model, "fixup", inputs=IMAGES)
    assert count(rewritten, NORMS) == 0
    branches = residual_branches(rewritten, SHAPE)
    assert count(rewritten, ScalarMultiplier) == len(branches) == RESIDUAL[name]
    assert all(any(gate.endswith("multiplier.scale") for gate in branch.gates) for branch in branches)
    layers = count(model, nn.Linear | nn.Conv2d)
    assert count(rewritten, ScalarBias) == layers - 1 + count(model, NORMS)
    initbench.initialize(rewritten, "fixup", inputs=IMAGES)
    inputs, targets = batch((4, 3, 32, 32), dtype=torch.float32)
    loss, live = gradients(rewritten, inputs, targets)
    assert loss.item() == pytest.approx(math.log(10), rel=1e-7)
    classifier = "classifier" if name.startswith("mobile") else model.pretrained_cfg["classifier"]
    assert live == {f"{classifier}.layer.weight", f"{classifier}.layer.bias"}


def test_fixup_on_resnets_of_timm_has_the_papers_laws():
    """L^(-1/(2m-2)): 8^(-1/2) with two layers to a branch, 16^(-1/4) with three."""
    for name, factor in (("resnet18", 8**-0.5), ("resnet50", 16**-0.25)):
        model = initbench.rewrite(small(name), "fixup", inputs=IMAGES)
        initbench.initialize(model, "fixup", inputs=IMAGES)
        weight = model.get_submodule("layer3.1.conv1.layer").weight
        std = math.sqrt(2 / (weight.shape[0] * weight[0, 0].numel())) * factor
        assert weight.std().item() == pytest.approx(std, rel=0.02)  # 65,536 numbers or more: 5 deviations are 1.4 %
        # ... conv2 → multiplier → bias, which the activation after the addition follows, as in the authors' code.
        end = model.get_submodule("layer3.1.bn2" if name == "resnet18" else "layer3.1.bn3")
        assert [type(part) for part in end] == [ScalarMultiplier, ScalarBias]


@pytest.mark.slow
@pytest.mark.parametrize("name", RESIDUAL)
def test_skipinit(name):
    """At α = 0 the branches' own layers have no effect and no gradient, and the gates have one."""
    rewritten = initbench.rewrite(small(name), "skipinit", inputs=IMAGES)
    assert count(rewritten, NORMS) == count(rewritten, ScalarBias) == 0
    assert all(module.bias is not None for module in rewritten.modules() if isinstance(module, nn.Conv2d))
    initbench.initialize(rewritten, "skipinit", inputs=IMAGES)
    inputs, targets = batch((4, 3, 32, 32), dtype=torch.float32)
    _, live = gradients(rewritten, inputs, targets)
    branches = residual_branches(rewritten, SHAPE)
    assert len(branches) == RESIDUAL[name]
    for branch in branches:
        gate = branch.gates[0] if name != "convnext_atto" else next(g for g in branch.gates if "multiplier" in g)
        assert gate in live
        assert not live & {f"{layer}.weight" for layer in (*branch.inner, *branch.ends)}


def test_a_residual_block_of_timm_is_its_shortcut_bitwise():
    model = initbench.rewrite(small("resnet18"), "skipinit", inputs=IMAGES)
    initbench.initialize(model, "skipinit", inputs=IMAGES)
    x = batch((2, 64, 8, 8), dtype=torch.float32)[0]
    with torch.no_grad():
        assert torch.equal(model.layer1(x), x.relu())


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224", "densenet121"])
def test_weight_norm_keeps_every_weight_and_normalizes_all_but_the_classifier(name):
    model = small(name)
    rewritten = initbench.rewrite(model, "weight_norm", inputs=IMAGES)
    assert count(rewritten, NORMS) == 0
    before = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    normalized = [path for path in before if is_parametrized(rewritten.get_submodule(path), "weight")]
    assert set(before) - set(normalized) == {
        model.pretrained_cfg["classifier"] if name != "densenet121" else "classifier"
    }
    for path, layer in before.items():
        after = rewritten.get_submodule(path)
        assert after.bias is not None or isinstance(after, nn.Linear)
        torch.testing.assert_close(after.weight, layer.weight, rtol=1e-6, atol=0)


def test_our_own_resnet_comes_out_as_its_scheme():
    """The same function for the same weights, though the parts have other names."""
    built = create_model("resnet", depth=8, width=1, norm="none", scheme="skipinit", input_shape=(3, 8, 8))
    plain = create_model("resnet", depth=8, width=1, input_shape=(3, 8, 8))
    rewritten = initbench.rewrite(plain, "skipinit", inputs=torch.zeros(1, 3, 8, 8))
    parameters, others = list(built.parameters()), list(rewritten.parameters())
    assert sum(p.numel() for p in parameters) == sum(p.numel() for p in others)
    for model in (built, rewritten):
        initbench.initialize(model, "skipinit", alpha=0.3, input_shape=(1, 3, 8, 8))
    x = batch((2, 3, 8, 8), dtype=torch.float32)[0]
    with torch.no_grad():
        assert torch.equal(built(x), rewritten(x))


def test_the_model_itself_stays_as_it_was():
    model = small("resnet18").double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for scheme in ("fixup", "skipinit", "weight_norm"):
        rewritten = initbench.rewrite(model, scheme, inputs=IMAGES.double())
        assert {p.dtype for p in rewritten.parameters()} == {torch.float64}
        assert not {id(p) for p in rewritten.parameters()} & {id(p) for p in model.parameters()}
    initbench.remove_normalization(model)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


class Shared(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.third(self.second(self.first(x)))


class Stacked(nn.Module):
    """A branch of two halves that are stacked."""

    def __init__(self):
        super().__init__()
        self.inner, self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        hidden = self.inner(x).relu()
        return x + torch.cat([self.left(hidden), self.right(hidden)], 1)


OTHER_NORM = "skipinit: blocks.0.norm1 is a SimpleNorm, which is none of the normalizations that can be taken out"


def zero_row():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    nn.init.zeros_(model[0].weight[1])
    return model


@pytest.mark.parametrize(
    ("make", "shape", "scheme", "message"),
    [
        (lambda: small("densenet121"), SHAPE, "fixup", "fixup: no residual branches are found in DenseNet"),
        (lambda: nn.Linear(3, 3), (3,), "skipinit", "skipinit: no residual branches are found in Linear"),
        (Stacked, (4,), "fixup", "fixup: a branch of Stacked ends in no module that a multiplier could follow"),
        (Shared, (4,), "weight_norm", "weight_norm: first.weight is shared with another module"),
        (zero_row, (3,), "weight_norm", "weight_norm: 0.weight has a row of zeros, which has no direction"),
        (lambda: small("vit_tiny_patch16_224", "simplenorm"), SHAPE, "skipinit", OTHER_NORM),
    ],
)
def test_what_it_refuses(make, shape, scheme, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        initbench.rewrite(make(), scheme, inputs=torch.zeros(2, *shape))


@pytest.mark.parametrize("scheme", ["standard", "fixupp"])
def test_schemes_that_it_does_not_know(scheme):
    with pytest.raises(ArgumentError) as refused:
        initbench.rewrite(Shared(), scheme, inputs=torch.zeros(1, 4))
    assert refused.value.argument == "scheme"


def test_a_layer_whose_weight_alone_is_used_has_no_bias_before_it():
    """BEiT's attention gives the weight of its first linear layer to a function: a bias there would do nothing."""
    model = timm.create_model(
        "beit_base_patch16_224", img_size=32, num_classes=10, depth=2, embed_dim=24, num_heads=2
    ).train()
    before = state(model)
    rewritten = initbench.rewrite(model, "fixup", inputs=IMAGES)
    assert_same_state(before, state(model))
    assert isinstance(rewritten.blocks[0].attn.qkv, nn.Linear)
    assert isinstance(rewritten.blocks[0].mlp.fc1.bias, ScalarBias)
    initbench.initialize(rewritten, "fixup", inputs=IMAGES)
    inputs, targets = batch((4, *SHAPE), dtype=torch.float32)
    assert gradients(rewritten, inputs, targets)[0].item() == pytest.approx(math.log(10), rel=1e-6)


class ReadsFromOutside(nn.Module):
    """Uses a layer of a part without calling the part."""

    def __init__(self, attribute):
        super().__init__()
        self.first, self.last, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.attribute = attribute

    def forward(self, x):
        width = getattr(self.last, self.attribute)
        if isinstance(self.last, nn.Sequential):
            linear = next(part for part in self.last.modules() if isinstance(part, nn.Linear))
            return self.head(x + linear(self.first(x).relu()))
        return self.head(x + self.last(self.first(x).relu()) * (width is not None))


FAILS = "does not run: the model fails on inputs of shape (2, 4) and type float32: AttributeError: 'Sequential' object"
IDLE = "does not use last.branch.bias.bias and 1 more: it runs the module there in a way of its own"


@pytest.mark.parametrize(
    ("attribute", "reason"), [("in_features", f"{FAILS} has no attribute 'in_features'"), ("__doc__", IDLE)]
)
def test_a_model_that_does_not_run_or_does_not_use_what_is_new_is_refused(attribute, reason):
    model = ReadsFromOutside(attribute)
    before = state(model)
    with pytest.raises(ValueError, match=re.escape(reason)):
        initbench.rewrite(model, "fixup", inputs=torch.zeros(2, 4))
    assert_same_state(before, state(model))


def test_the_rewritten_model_and_the_random_state_are_left_as_they_are():
    model = small("resnet18").train()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    rewritten = initbench.rewrite(model, "skipinit", inputs=IMAGES)
    assert torch.equal(torch.get_rng_state(), before)
    kept = model.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in rewritten.state_dict().items() if name in kept)
    assert all(module.training for module in rewritten.modules())


# Names in timm → whether branches have gates of their own: a scalar, one for each channel, or a gain of 0 in the last
# weight, which is none of the gates.
GATED = {"nf_resnet26": "gain", "nf_regnet_b0": "gain", "eca_nfnet_l0": "gain", "dm_nfnet_f0": "scalar"}
GATED |= {"convnext_atto": "channels", "poolformer_s12": "channels"}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["skipinit", "fixup"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "nfnet" in name else []) for name in GATED]
)
def test_gates_of_its_own_are_taken_over_or_set_to_1(name, scheme):
    """Two gates in a row that start near 0 would have no gradient: all of a branch would stand still."""
    torch.manual_seed(0)
    rewritten = initbench.rewrite(timm.create_model(name, num_classes=10).double(), scheme, inputs=IMAGES.double())
    initbench.initialize(rewritten, scheme, inputs=IMAGES)
    values = dict(rewritten.named_parameters())
    for branch in residual_branches(rewritten, SHAPE):
        [scalar] = [gate for gate in branch.gates if values[gate].numel() == 1]
        others = [gate for gate in branch.gates if gate != scalar]
        assert ("multiplier" in scalar) == (GATED[name] != "scalar")
        assert len(others) == (GATED[name] == "channels")
        assert values[scalar].item() == (1.0 if scheme == "fixup" else 0.0)
        assert all(values[gate].eq(1).all() for gate in others)
    # A step moves what stands at 0; then everything has a gradient.
    optimizer = torch.optim.SGD(rewritten.parameters(), lr=1e-4)
    inputs, targets = batch((2, 3, 64, 64))
    for _ in range(3):
        optimizer.zero_grad()
        cross_entropy(rewritten(inputs), targets).backward()
        optimizer.step()
    without_effect = biases_without_effect(rewritten)
    assert all(p.grad.abs().max() < 1e-15 for name, p in rewritten.named_parameters() if name in without_effect)
    unmoved = {name for name, p in rewritten.named_parameters() if not p.grad.any()}
    assert unmoved <= without_effect


def biases_without_effect(model):
    """Return scalar biases before 1×1 convolutions whose weights are centred: what such a bias adds sums to zero."""
    return {
        f"{name}.bias.bias"
        for name, module in model.named_modules()
        if isinstance(module, nn.Sequential)
        and any(isinstance(own, ScaledStdConv2d) and own.kernel_size == (1, 1) for own in module.children())
        and f"{name}.bias.bias" in dict(model.named_parameters())
    }


def test_tokens():
    """Integers are what such a model takes."""

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.inner, self.norm = nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4)
            self.last, self.head = nn.Linear(4, 4), nn.Linear(4, 5)

        def forward(self, tokens):
            x = self.words(tokens)
            return self.head(x + self.last(self.inner(self.norm(x)).relu()))

    tokens = torch.tensor([[0, 4, 2]])
    model = initbench.rewrite(Words(), "fixup", inputs=tokens)
    assert model(tokens).shape == (1, 3, 5)
    with pytest.raises(ValueError, match="fixup: the model fails on inputs of shape"):
        initbench.rewrite(Words(), "fixup", inputs=torch.zeros(2, 3))


def test_removal_refuses_a_model_without_normalization():
    with pytest.raises(ValueError, match=r"^Shared has no BatchNorm, InstanceNorm, GroupNorm, LayerNorm or RMSNorm$"):
        initbench.remove_normalization(Shared())


def test_architectures_of_timm_have_the_schemes():
    assert count(create_model("timm/resnet18", scheme="fixup"), ScalarMultiplier) == 8
    assert count(create_model("timm/resnet18", norm_layer="none"), ChannelBias) == 20
    with pytest.raises(InitbenchError, match="no residual branches are found in DenseNet"):
        create_model("timm/densenet121", scheme="skipinit")
