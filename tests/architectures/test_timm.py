"""Models of timm, by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError, UnknownNameError
from initbench.registry import ARCHITECTURES

TORCH_SAYS = "num_channels (16) must be divisible by num_groups (32)"  # of nn.GroupNorm

EDGE = "timm/vit_tiny_patch16_224 would drop the pixels at the edge; give a multiple, or another patch_size"


def parameter_count(model):
    return sum(p.numel() for p in model.parameters())


def test_resnet18_has_the_published_number_of_parameters():
    # He et al., 2016, as torchvision publishes it: 11,689,512 with 1,000 classes of 512 features and a bias each.
    with torch.device("meta"):
        assert parameter_count(create_model("timm/resnet18", num_classes=1000)) == 11_689_512
        assert parameter_count(create_model("timm/resnet18", num_classes=10)) == 11_689_512 - 990 * 513


def test_a_model_on_the_meta_device_has_the_shapes_of_a_real_one():
    with torch.device("meta"):
        meta = create_model("timm/resnet18", input_shape=(1, 28, 28), num_classes=7)
    real = create_model("timm/resnet18", input_shape=(1, 28, 28), num_classes=7)
    assert {n: p.shape for n, p in meta.named_parameters()} == {n: p.shape for n, p in real.named_parameters()}
    assert all(p.is_meta for p in meta.parameters())
    assert real.conv1.weight.shape == (64, 1, 7, 7)
    assert real(torch.zeros(2, 1, 28, 28)).shape == (2, 7)


def test_vision_transformers_are_built_for_the_size_of_the_images():
    model = create_model("timm/vit_tiny_patch16_224", input_shape=(3, 32, 48))
    assert model.pos_embed.shape == (1, 1 + 2 * 3, 192)  # one class token and 2×3 patches of 16 pixels
    assert model(torch.zeros(2, 3, 32, 48)).shape == (2, 10)
    assert create_model("timm/vit_tiny_patch16_224", img_size=64).pos_embed.shape == (1, 1 + 4 * 4, 192)


def test_patches_have_the_size_that_is_given():
    """Whatever patches cover, the last pixel changes the output; without `patch_size` 28 pixels are refused."""
    with pytest.raises(ArgumentError, match=r"^img_size 28×28 is not covered by patches of 16×16"):
        create_model("timm/vit_tiny_patch16_224", input_shape=(1, 28, 28))
    model = create_model("timm/vit_tiny_patch16_224", input_shape=(1, 28, 28), patch_size=7).eval()
    assert model.pos_embed.shape == (1, 1 + 4 * 4, 192)
    images = torch.zeros(2, 1, 28, 28)
    images[1, 0, -1, -1] = 1.0
    with torch.no_grad():
        first, second = model.forward_features(images)
    assert not torch.equal(first, second)


def test_dropout_rates_are_the_ones_given_and_not_the_models_own():
    # Swin's own default is a stochastic depth of 0.1.
    assert swin_drop_paths() == {0.0}
    assert max(swin_drop_paths(drop_path_rate=0.3)) == pytest.approx(0.3)
    assert create_model("timm/resnet18", drop_rate=0.4).drop_rate == 0.4


def swin_drop_paths(**arguments):
    with torch.device("meta"):
        model = create_model("timm/swin_tiny_patch4_window7_224", **arguments)
    return {getattr(block.drop_path1, "drop_prob", 0.0) for stage in model.layers for block in stage.blocks}


@pytest.mark.parametrize(
    ("name", "norm_layer", "layer", "count"),
    [
        ("resnet18", None, nn.BatchNorm2d, 20),
        ("resnet18", "groupnorm", nn.GroupNorm, 20),
        ("vgg11", "groupnorm", nn.GroupNorm, 8),  # takes a class alone
        ("vit_tiny_patch16_224", "layernorm", nn.LayerNorm, 25),
        ("convnext_nano", "batchnorm2d", nn.BatchNorm2d, 19),  # 14 blocks, 3 downsamplings, stem and head
        ("convnext_tiny", "layernorm", nn.LayerNorm, 23),  # takes a name alone; 18 blocks
    ],
)
def test_the_norm_layer_takes_the_place_of_the_models_own(name, norm_layer, layer, count):
    with torch.device("meta"):
        model = create_model(f"timm/{name}", norm_layer=norm_layer)
        assert model.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm)]
    assert [isinstance(m, layer) for m in norms] == [True] * count
    # timm's own number of groups, not this library's 16 channels per group.
    assert {m.num_groups for m in norms if layer is nn.GroupNorm} <= {32}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("resnet18", {"img_size": 32}, "img_size is not an option of timm/resnet18"),
        ("vgg11", {"drop_path_rate": 0.1}, "drop_path_rate is not an option of timm/vgg11"),
        ("hrnet_w18", {"drop_path_rate": 0.1}, "drop_path_rate is not an option of timm/hrnet_w18"),
        ("resnet18", {"drop_rate": 1.0}, "drop_rate must be at least 0 and less than 1, got 1.0"),
        ("resnet18", {"img_size": 0}, "img_size must be at least 1, got 0"),
        ("hrnet_w18", {"norm_layer": "groupnorm"}, "norm_layer is not an option of timm/hrnet_w18"),
        ("vgg11_bn", {"norm_layer": "groupnorm"}, "norm_layer is not an option of timm/vgg11_bn"),
        (
            "resnet18",
            {"norm_layer": "gruop"},
            "norm_layer must be a normalization of timm (batchnorm2d, groupnorm, layernorm2d, none, ...), got 'gruop'",
        ),
        ("resnet18", {"patch_size": 8}, "patch_size is not an option of timm/resnet18"),
        ("vit_tiny_patch16_224", {"patch_size": 0}, "patch_size must be at least 1, got 0"),
        (
            "vit_tiny_patch16_224",
            {"img_size": 30},
            f"img_size 30×30 is not covered by patches of 16×16: {EDGE}",
        ),
        (
            "test_resnet",
            {"norm_layer": "groupnorm"},
            f"norm_layer groupnorm with img_size (32, 32) does not fit timm/test_resnet: {TORCH_SAYS}",
        ),
    ],
)
def test_options_that_a_model_refuses_are_named(name, arguments, message):
    with torch.device("meta"), pytest.raises(ArgumentError) as refusal:
        create_model(f"timm/{name}", **arguments)
    assert str(refusal.value) == message
    assert refusal.value.argument == next(iter(arguments))


@pytest.mark.parametrize("name", ["resnet18", "hrnet_w18", "caformer_s18", "vgg11"])
def test_models_without_an_option_are_built_where_it_is_not_given(name):
    with torch.device("meta"):
        assert create_model(f"timm/{name}").eval()(torch.zeros(2, 3, 32, 32, device="meta")).shape == (2, 10)


def test_an_image_size_that_does_not_fit_is_named():
    with (
        torch.device("meta"),
        pytest.raises(ArgumentError, match=r"^img_size \(8, 8\) does not fit timm/botnet26t_256: "),
    ):
        create_model("timm/botnet26t_256", input_shape=(3, 8, 8))


def test_unknown_models_give_the_nearest_name():
    with pytest.raises(
        UnknownNameError, match=r"unknown architecture 'timm/resnet81' \(did you mean 'timm/resnet18'\?\)"
    ):
        create_model("timm/resnet81")


def test_the_model_is_bound_and_its_options_are_the_arguments():
    assert [a.name for a in ARCHITECTURES.get("timm/resnet18").arguments] == [
        "img_size",
        "drop_rate",
        "drop_path_rate",
        "norm_layer",
        "patch_size",
    ]
