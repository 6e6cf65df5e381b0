"""The models of the page on models that others wrote: small ones, of few blocks and channels.

They are built by timm, torchvision and transformers themselves, so that any version of initbench can be tried on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import initbench
from initbench.inputs import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES, VOCABULARY, CONTEXT, SAMPLES = 10, 32, 16, 4
STANDARD = "standard"
# The schemes whose parts our own networks have in the place of a normalization.
_WITHOUT_NORM = {"fixup", "skipinit", "weight_norm"}


@dataclass(frozen=True)
class Model:
    """A model of the page.

    Attributes:
        make: builds it.
        size: side of the square images that it gets; None for tokens.
        own: builds it under a scheme, where it is one of our own networks.
    """

    make: Callable[[], nn.Module]
    size: int | None
    own: Callable[[str], nn.Module] | None = None

    @property
    def outputs(self) -> int:
        """How many outputs it has."""
        return VOCABULARY if self.size is None else CLASSES

    @property
    def task(self) -> str:
        """What it learns."""
        return "language_modelling" if self.size is None else "classification"

    def built(self) -> nn.Module:
        """Return the model in training mode; what its library draws has a fixed seed."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.make().train()

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return random inputs and targets."""
        if self.size is None:
            text = torch.randint(VOCABULARY, (SAMPLES, CONTEXT + 1), generator=generator)
            return text[:, :-1], text[:, 1:]
        images = torch.randn(SAMPLES, 3, self.size, self.size, generator=generator)
        return images, torch.randint(CLASSES, (SAMPLES,), generator=generator)


def _timm(name: str, size: int = 32, **options: Any) -> Model:
    def make() -> nn.Module:
        import timm

        model: nn.Module = timm.create_model(name, num_classes=CLASSES, **options)
        return model

    return Model(make, size)


def _torchvision(name: str, size: int = 32, **options: Any) -> Model:
    def make() -> nn.Module:
        from torchvision.models import get_model

        model: nn.Module = get_model(name, weights=None, num_classes=CLASSES, **options)
        return model

    return Model(make, size)


def _class(path: str, *arguments: Any, size: int = 32, **options: Any) -> Model:
    """Return a model of a class, where the library's function for it would not let it shrink."""

    def make() -> nn.Module:
        model: nn.Module = _found(path)(*map(_resolved, arguments), num_classes=CLASSES, **_resolved(options))
        return model

    return Model(make, size)


def _resolved(value: Any) -> Any:
    """Return a value in which what stands as ``@module.name`` is the object of that name."""
    if isinstance(value, str) and value.startswith("@"):
        return _found(value[1:])
    if isinstance(value, dict):
        return {name: _resolved(part) for name, part in value.items()}
    return [_resolved(part) for part in value] if isinstance(value, list) else value


def _found(path: str) -> Any:
    from importlib import import_module

    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _hf(kind: str, *, image: bool = False, **options: Any) -> Model:
    def make() -> nn.Module:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageClassification

        if image:
            configuration = AutoConfig.for_model(kind, num_labels=CLASSES, **options)
            found: nn.Module = AutoModelForImageClassification.from_config(configuration)
            return found
        no_token = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
        configuration = AutoConfig.for_model(kind, vocab_size=VOCABULARY, use_cache=False, **no_token, **options)
        return AutoModelForCausalLM.from_config(configuration)  # type: ignore[no-any-return]

    return Model(make, 32 if image else None)


def _own(name: str, without_norm: dict[str, Any] | None = None, *, text: bool = False, **options: Any) -> Model:
    """Return one of our own networks, which under most schemes have no normalization."""
    inputs = Inputs((CONTEXT,), VOCABULARY) if text else Inputs((3, 32, 32))

    def under(scheme: str) -> nn.Module:
        further = without_norm or {} if scheme in _WITHOUT_NORM else {}
        if scheme == "fixup" and text:
            further = {**further, "tied": False}  # rule 1 of Fixup sets the head to 0
        outputs = VOCABULARY if text else CLASSES
        return initbench.create_model(name, inputs=inputs, num_classes=outputs, scheme=scheme, **options | further)

    return Model(partial(under, STANDARD), None if text else 32, under)


_VIT: dict[str, Any] = {"embed_dim": 32, "depth": 2, "num_heads": 2}
_LLAMA: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_STAGES: dict[str, Any] = {"depths": (1, 1, 2, 1), "dims": (16, 32, 48, 64)}
_RESNET: dict[str, Any] = {"layers": (1, 1, 1, 1), "channels": (16, 32, 48, 64)}
_NF: dict[str, Any] = {"depths": (1, 2, 1, 1), "channels": (32, 64, 96, 96), "group_size": 8}
_SWIN: dict[str, Any] = {"window_size": 2, "embed_dim": 16, "depths": (2, 1, 1), "num_heads": (1, 2, 4)}
_MIXER: dict[str, Any] = {"img_size": 32, "patch_size": 8, "num_blocks": 2, "embed_dim": 32}
_PLAIN: dict[str, Any] = {"norm": "none"}


@cache
def models() -> dict[str, Model]:
    """Return the models by the name of what they are small ones of."""
    return {
        "resnet": _own("resnet", _PLAIN, depth=8),
        "wrn": _own("wrn", _PLAIN, depth=10, width=1),
        "plain": _own("plain", _PLAIN, depth=10, width=1),
        "mlp": _own("mlp", width=32),
        "gpt": _own("gpt", _PLAIN, text=True, depth=2, width=32, heads=2),
        # convolutions
        "timm/resnet18": _timm("resnet18", channels=(8, 16, 24, 32)),
        "timm/resnet50": _timm("resnet50", **_RESNET),
        "timm/resnetv2_50": _timm("resnetv2_50", layers=(1, 1, 1, 1), channels=(32, 64, 96, 128)),
        "timm/seresnet18": _timm("seresnet18", **_RESNET),
        "timm/skresnet18": _timm("skresnet18", **_RESNET),
        "timm/res2net50_26w_4s": _timm("res2net50_26w_4s", **_RESNET),
        "timm/resnest14d": _timm("resnest14d", channels=(16, 32, 48, 64)),
        "timm/densenet121": _timm("densenet121", block_config=(2, 2, 2, 2), growth_rate=8),
        "timm/vgg11_bn": _class(
            "timm.models.vgg.VGG",
            [8, "M", 16, "M", 16, 16, "M", 32, "M"],
            mlp_ratio=0.01,
            norm_layer="@torch.nn.BatchNorm2d",
        ),
        "timm/vgg11": _class("timm.models.vgg.VGG", [8, "M", 16, "M", 16, 16, "M", 32, "M"], mlp_ratio=0.01),
        "timm/efficientnet": _timm("test_efficientnet"),
        "timm/mobilenetv2_035": _timm("mobilenetv2_035"),
        "timm/mobilenetv3_small_050": _timm("mobilenetv3_small_050"),
        "timm/mobilenetv4_conv_small_050": _timm("mobilenetv4_conv_small_050"),
        "timm/ghostnet_050": _class(
            "timm.models.ghostnet.GhostNet",
            [[[3, 16, 16, 0, 1]], [[3, 24, 24, 0, 2]], [[5, 40, 32, 0.25, 2], [3, 60, 32, 0, 1]]],
        ),
        "timm/regnety_002": _timm("regnety_002", depth=6, w0=16, wa=16.0, wm=2.0, group_size=8),
        "timm/repvgg": _timm("test_byobnet"),
        "timm/convmixer": _class("timm.models.convmixer.ConvMixer", dim=32, depth=2, kernel_size=5, patch_size=4),
        "timm/starnet_s050": _timm("starnet_s050", size=64, base_dim=8, depths=(1, 1, 2, 1)),
        "timm/fasternet_t0": _timm("fasternet_t0", 64, embed_dim=16, depths=(1, 1, 1, 1)),
        # networks without normalization
        "timm/nf_resnet26": _timm("nf_resnet26", channels=(32, 64, 64, 64)),
        "timm/dm_nfnet_f0": _timm("dm_nfnet_f0", **_NF),
        "timm/nf_regnet_b0": _timm("nf_regnet_b0", depths=(1, 2, 1, 1), channels=(16, 32, 48, 64)),
        "timm/eca_nfnet_l0": _timm("eca_nfnet_l0", **_NF),
        # the ConvNeXts and their kind
        "timm/convnext_atto": _timm("convnext_atto", **_STAGES),
        "timm/convnextv2_atto": _timm("convnextv2_atto", **_STAGES),
        "timm/inception_next_atto": _timm("inception_next_atto", 64, **_STAGES),
        "timm/edgenext_xx_small": _timm("edgenext_xx_small", 64, **_STAGES),
        "timm/mambaout": _timm("test_mambaout"),
        "timm/poolformer_s12": _class(
            "timm.models.metaformer.MetaFormer",
            size=64,
            depths=(1, 1, 1, 1),
            dims=(16, 32, 48, 64),
            downsample_norm=None,
            mlp_act="@torch.nn.GELU",
            mlp_bias=True,
            norm_layers="@timm.layers.GroupNorm1",
            layer_scale_init_values=1e-5,
            res_scale_init_values=None,
            use_mlp_head=False,
        ),
        "timm/focalnet": _class("timm.models.focalnet.FocalNet", size=64, embed_dim=16, depths=(1, 1, 1, 1)),
        # Transformers
        "timm/vit_tiny_patch16_224": _timm("vit_tiny_patch16_224", img_size=32, **_VIT),
        "timm/vit_relpos": _timm("test_vit_relpos", img_size=32),
        "timm/deit_tiny_distilled": _timm("deit_tiny_distilled_patch16_224", img_size=32, **_VIT),
        "timm/deit3_small": _timm("deit3_small_patch16_224", img_size=32, **_VIT),
        "timm/cait_xxs24": _timm("cait_xxs24_224", img_size=32, **_VIT),
        "timm/beit_base": _timm("beit_base_patch16_224", img_size=32, **_VIT),
        "timm/eva02_tiny": _timm("eva02_tiny_patch14_224", 28, img_size=28, **_VIT),
        "timm/xcit_nano": _timm("xcit_nano_12_p16_224", **_VIT),
        "timm/convit_tiny": _timm("convit_tiny", img_size=32, embed_dim=32, depth=3, num_heads=2, local_up_to_layer=2),
        "timm/swin_tiny": _timm("swin_tiny_patch4_window7_224", img_size=32, **_SWIN),
        "timm/swinv2_tiny": _timm("swinv2_tiny_window8_256", img_size=32, **_SWIN),
        "timm/davit_tiny": _timm(
            "davit_tiny", 64, depths=(1, 1, 1, 1), embed_dims=(16, 32, 48, 64), num_heads=(1, 2, 3, 4)
        ),
        "timm/pvt_v2_b0": _timm(
            "pvt_v2_b0", 64, depths=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), num_heads=(1, 2, 2, 2)
        ),
        "timm/hiera_tiny": _timm("hiera_tiny_224", 64, img_size=64, embed_dim=16, stages=(1, 1, 1, 1)),
        # convolutions and attention
        "timm/levit": _class(
            "timm.models.levit.Levit",
            size=64,
            img_size=64,
            embed_dim=(32, 48),
            key_dim=8,
            depth=(1, 1),
            num_heads=(2, 3),
        ),
        "timm/levit_distilled": _class(
            "timm.models.levit.LevitDistilled",
            size=64,
            img_size=64,
            embed_dim=(32, 48),
            key_dim=8,
            depth=(1, 1),
            num_heads=(2, 3),
        ),
        "timm/coatnet": _timm("test_coatnet", 64, img_size=64),
        "timm/caformer_s18": _class(
            "timm.models.metaformer.MetaFormer",
            size=64,
            depths=(1, 1, 1, 1),
            dims=(16, 32, 64, 64),
            token_mixers=[f"@timm.models.metaformer.{name}" for name in ("SepConv",) * 2 + ("Attention",) * 2],
            norm_layers=[
                f"@timm.models.metaformer.{name}" for name in ("LayerNorm2dNoBias",) * 2 + ("LayerNormNoBias",) * 2
            ],
        ),
        "timm/vit_tiny_r_s16": _timm("vit_tiny_r_s16_p8_224", 64, img_size=64, **_VIT),
        "timm/visformer_tiny": _timm(
            "visformer_tiny", 64, img_size=64, depth=(1, 1, 1), embed_dim=32, init_channels=8, num_heads=2
        ),
        "timm/swiftformer_xs": _timm("swiftformer_xs", 64, layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32)),
        # multilayer perceptrons, and recurrent layers
        "timm/mixer": _class("timm.models.mlp_mixer.MlpMixer", **_MIXER),
        "timm/resmlp_12": _class(
            "timm.models.mlp_mixer.MlpMixer",
            **_MIXER,
            mlp_ratio=4,
            block_layer="@timm.models.mlp_mixer.ResBlock",
            norm_layer="@timm.models.mlp_mixer.Affine",
        ),
        "timm/gmlp_ti16": _class(
            "timm.models.mlp_mixer.MlpMixer",
            **_MIXER,
            mlp_ratio=6,
            block_layer="@timm.models.mlp_mixer.SpatialGatingBlock",
            mlp_layer="@timm.layers.GatedMlp",
        ),
        "timm/sequencer2d_s": _timm("sequencer2d_s", embed_dims=(16, 32, 32, 32), layers=(1, 1, 1, 1)),
        # torchvision
        "torchvision/densenet121": _class("torchvision.models.DenseNet", 8, (2, 2, 2, 2), 16),
        "torchvision/squeezenet1_1": _torchvision("squeezenet1_1"),
        "torchvision/googlenet": _torchvision("googlenet", aux_logits=False, init_weights=False),
        "torchvision/shufflenet_v2": _class("torchvision.models.ShuffleNetV2", [2, 2, 2], [16, 32, 48, 64, 64]),
        "torchvision/mobilenet_v3_small": _torchvision("mobilenet_v3_small", width_mult=0.25),
        "torchvision/swin_t": _class("torchvision.models.SwinTransformer", [4, 4], 16, [2, 2], [2, 2], [4, 4]),
        "torchvision/swin_v2_t": _class(
            "torchvision.models.SwinTransformer",
            [4, 4],
            16,
            [2, 2],
            [2, 2],
            [4, 4],
            block="@torchvision.models.swin_transformer.SwinTransformerBlockV2",
            downsample_layer="@torchvision.models.swin_transformer.PatchMergingV2",
        ),
        "torchvision/vit_b_16": _class("torchvision.models.VisionTransformer", 32, 8, 2, 2, 32, 64),
        "torchvision/maxvit_t": _class(
            "torchvision.models.MaxVit", (64, 64), 16, 4, [16, 32], [1, 1], 16, 0.0, size=64
        ),
        # transformers
        "hf/gpt2": _hf("gpt2", n_embd=32, n_layer=2, n_head=2, n_positions=CONTEXT),
        "hf/llama": _hf("llama", **_LLAMA),
        "hf/mixtral": _hf("mixtral", num_key_value_heads=1, num_local_experts=2, **_LLAMA),
        "hf/gemma": _hf("gemma", head_dim=16, num_key_value_heads=1, **_LLAMA),
        "hf/bert": _hf("bert", is_decoder=True, **_LLAMA),
        "hf/opt": _hf(
            "opt",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            ffn_dim=64,
            word_embed_proj_dim=32,
            max_position_embeddings=CONTEXT,
        ),
        "hf/gpt_neox": _hf("gpt_neox", **_LLAMA),
        "hf/bloom": _hf("bloom", hidden_size=32, n_layer=2, n_head=2),
        "hf/falcon": _hf("falcon", hidden_size=32, num_hidden_layers=2, num_attention_heads=2),
        "hf/mamba": _hf("mamba", hidden_size=32, num_hidden_layers=2, state_size=4),
        "hf/vit": _hf("vit", image=True, image_size=32, patch_size=8, **_LLAMA),
        "hf/beit": _hf("beit", image=True, image_size=32, patch_size=8, **_LLAMA),
        "hf/dinov2": _hf(
            "dinov2", image=True, image_size=32, patch_size=8, **{k: v for k, v in _LLAMA.items() if "inter" not in k}
        ),
        "hf/swin": _hf(
            "swin",
            image=True,
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[2, 2],
            num_heads=[2, 2],
            window_size=4,
        ),
        "hf/convnext": _hf("convnext", image=True, hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
        "hf/resnet": _hf("resnet", image=True, embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
    }
