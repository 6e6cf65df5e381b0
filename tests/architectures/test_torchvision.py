"""Image classifiers of torchvision, by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchvision import models

from initbench.architectures.create import create_model
from initbench.architectures.scalars import ScalarMultiplier
from initbench.errors import ArgumentError, UnknownNameError
from initbench.registry import ARCHITECTURES
from initbench.schemes.channel_bias import ChannelBias

NAMES = models.list_models(module=models)
# RegNets that take long to be built with values; they are of the class of the smaller ones.
LARGE = {f"regnet_{size}gf" for size in ("x_8", "x_16", "x_32", "y_8", "y_16", "y_32", "y_128")}


def parameter_count(model):
    return sum(p.numel() for p in model.parameters())


def count(model, kind):
    return sum(isinstance(m, kind) for m in model.modules())


def test_published_numbers_of_parameters():
    # `num_params` of the weights that torchvision publishes, with 1,000 classes.
    with torch.device("meta"):
        assert parameter_count(create_model("torchvision/resnet18", num_classes=1000)) == 11_689_512
        assert parameter_count(create_model("torchvision/swin_t", num_classes=1000)) == 28_288_354
        vit = create_model("torchvision/vit_b_16", input_shape=(3, 224, 224), num_classes=1000)
        assert parameter_count(vit) == 86_567_656


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LARGE])
def test_every_model_has_the_parameters_of_torchvisions_own(name):
    auxiliary = {"aux_logits": False, "init_weights": True} if name in {"googlenet", "inception_v3"} else {}
    # RegNets compute their widths with tensors, and cannot be built where these have no values.
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        model = create_model(f"torchvision/{name}", input_shape=(3, 224, 224), num_classes=7)
        theirs = models.get_model(name, weights=None, num_classes=7, **auxiliary)
    assert {n: p.shape for n, p in model.named_parameters()} == {n: p.shape for n, p in theirs.named_parameters()}


def test_construction_draws_what_torchvision_draws():
    model = create_model("torchvision/shufflenet_v2_x0_5", seed=3)
    again = create_model("torchvision/shufflenet_v2_x0_5", seed=3)
    other = create_model("torchvision/shufflenet_v2_x0_5", seed=4)
    weights, same, different = (m.fc.weight for m in (model, again, other))
    assert torch.equal(weights, same)
    assert not torch.equal(weights, different)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert model.training


def test_vision_transformers_are_built_for_the_size_of_the_images():
    with torch.device("meta"):
        model = create_model("torchvision/vit_b_32", input_shape=(3, 64, 64))
    assert model.encoder.pos_embedding.shape == (1, 1 + 2 * 2, 768)


def test_arguments_are_passed_to_the_constructor():
    with torch.device("meta"):
        assert create_model("torchvision/resnet50", width_per_group=128).layer1[0].conv1.out_channels == 128
        assert create_model("torchvision/mobilenet_v2", width_mult=0.5).last_channel == 1280
        assert create_model("torchvision/alexnet", dropout=0.25).classifier[0].p == 0.25
        assert create_model("torchvision/efficientnet_b0", dropout=0.25).classifier[0].p == 0.25
        # The model's own where nothing is said: its function has another default than its class.
        rates = {m.p for m in create_model("torchvision/convnext_tiny").modules() if hasattr(m, "mode")}
    assert max(rates) == pytest.approx(0.1)


def test_auxiliary_classifiers_are_left_out():
    with torch.device("meta"):
        assert create_model("torchvision/inception_v3").AuxLogits is None
        assert create_model("torchvision/googlenet").aux1 is None


@pytest.mark.parametrize(
    ("norm_layer", "kind"), [("groupnorm", nn.GroupNorm), ("none", ChannelBias), (None, nn.BatchNorm2d)]
)
def test_the_norm_layer_takes_the_place_of_the_models_own(norm_layer, kind):
    assert count(create_model("torchvision/resnet18", norm_layer=norm_layer), kind) == 20


def test_schemes_are_put_in():
    assert count(create_model("torchvision/resnet18", scheme="fixup"), ScalarMultiplier) == 8


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("resnext50_32x4d", {"groups": 2}, "groups is not an option of torchvision/resnext50_32x4d"),
        ("densenet121", {"growth_rate": 2}, "growth_rate is not an option of torchvision/densenet121"),
        ("resnet18", {"dropuot": 0.1}, "dropuot is an unknown key (valid: groups, norm_layer, "),
        ("vgg11", {"dropuot": 0.1}, "dropuot is an unknown key (did you mean 'dropout'?)"),
        ("vgg11", {"dropout": "much"}, "dropout must be a number, got 'much'"),
        ("vgg11", {"dropout": 2.0}, "torchvision/vgg11 cannot be built with this dropout: dropout probability has to"),
        ("vgg11", {"norm_layer": "groupnorm"}, "norm_layer is not an option of torchvision/vgg11"),
        ("resnet18", {"norm_layer": "gruop"}, "norm_layer must be a normalization of timm ("),
        ("resnet18", {"input_shape": (1, 28, 28)}, "inputs must be images of 3 channels for torchvision/resnet18, got"),
        ("vit_b_16", {"input_shape": (3, 40, 40)}, "inputs of size 40 do not fit torchvision/vit_b_16: Input shape"),
        (
            "vit_b_16",
            {"input_shape": (3, 32, 64)},
            "inputs must be square images for torchvision/vit_b_16, got 3×32×64",
        ),
        ("maxvit_t", {"input_shape": (3, 32, 32)}, "inputs of size (32, 32) do not fit torchvision/maxvit_t: "),
    ],
)
def test_what_a_model_refuses_is_named_in_one_line(name, arguments, message):
    with torch.device("meta"), pytest.raises(ArgumentError) as refusal:
        create_model(f"torchvision/{name}", **arguments)
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


def test_unknown_models_give_the_nearest_name():
    with pytest.raises(UnknownNameError, match=r"\(did you mean 'torchvision/resnet18'\?\)$"):
        create_model("torchvision/resnet81")


def test_each_model_has_arguments_of_its_own():
    arguments = {a.name: a for a in ARCHITECTURES.get("torchvision/resnet18").arguments}
    assert [*arguments] == [
        "norm_layer",
        "zero_init_residual",
        "groups",
        "width_per_group",
        "replace_stride_with_dilation",
    ]
    assert arguments["groups"].type == "int | null"
    assert arguments["groups"].default is None
    assert [a.name for a in ARCHITECTURES.get("torchvision/vgg11").arguments] == ["norm_layer", "dropout"]
