"""The models of the page on models that others wrote: small ones, of few blocks and channels."""

from __future__ import annotations

from functools import cache
from typing import Any

from small_model import CONTEXT, Model, hf_model, model_of_class, own_network, timm_model, torchvision_model

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
        "resnet": own_network("resnet", _PLAIN, depth=8),
        "wrn": own_network("wrn", _PLAIN, depth=10, width=1),
        "plain": own_network("plain", _PLAIN, depth=10, width=1),
        "mlp": own_network("mlp", width=32),
        "vgg": own_network("vgg", _PLAIN, depth=11, width=0.125),
        "densenet": own_network("densenet", _PLAIN, depth=10, growth=8),
        "imagenet_resnet": own_network("imagenet_resnet", _PLAIN, depth=18, width=8, stem="cifar"),
        "residual_mlp": own_network("residual_mlp", depth=3, width=32),
        "gpt": own_network("gpt", _PLAIN, text=True, depth=2, width=32, heads=2),
        # convolutions
        "timm/resnet18": timm_model("resnet18", channels=(8, 16, 24, 32)),
        "timm/resnet50": timm_model("resnet50", **_RESNET),
        "timm/resnetv2_50": timm_model("resnetv2_50", layers=(1, 1, 1, 1), channels=(32, 64, 96, 128)),
        "timm/seresnet18": timm_model("seresnet18", **_RESNET),
        "timm/skresnet18": timm_model("skresnet18", **_RESNET),
        "timm/res2net50_26w_4s": timm_model("res2net50_26w_4s", **_RESNET),
        "timm/resnest14d": timm_model("resnest14d", channels=(16, 32, 48, 64)),
        "timm/densenet121": timm_model("densenet121", block_config=(2, 2, 2, 2), growth_rate=8),
        "timm/vgg11_bn": model_of_class(
            "timm.models.vgg.VGG",
            [8, "M", 16, "M", 16, 16, "M", 32, "M"],
            mlp_ratio=0.01,
            norm_layer="@torch.nn.BatchNorm2d",
        ),
        "timm/vgg11": model_of_class("timm.models.vgg.VGG", [8, "M", 16, "M", 16, 16, "M", 32, "M"], mlp_ratio=0.01),
        "timm/efficientnet": timm_model("test_efficientnet"),
        "timm/mobilenetv2_035": timm_model("mobilenetv2_035"),
        "timm/mobilenetv3_small_050": timm_model("mobilenetv3_small_050"),
        "timm/mobilenetv4_conv_small_050": timm_model("mobilenetv4_conv_small_050"),
        "timm/ghostnet_050": model_of_class(
            "timm.models.ghostnet.GhostNet",
            [[[3, 16, 16, 0, 1]], [[3, 24, 24, 0, 2]], [[5, 40, 32, 0.25, 2], [3, 60, 32, 0, 1]]],
        ),
        "timm/regnety_002": timm_model("regnety_002", depth=6, w0=16, wa=16.0, wm=2.0, group_size=8),
        "timm/repvgg": timm_model("test_byobnet"),
        "timm/convmixer": model_of_class(
            "timm.models.convmixer.ConvMixer", dim=32, depth=2, kernel_size=5, patch_size=4
        ),
        "timm/starnet_s050": timm_model("starnet_s050", size=64, base_dim=8, depths=(1, 1, 2, 1)),
        "timm/fasternet_t0": timm_model("fasternet_t0", 64, embed_dim=16, depths=(1, 1, 1, 1)),
        # networks without normalization
        "timm/nf_resnet26": timm_model("nf_resnet26", channels=(32, 64, 64, 64)),
        "timm/dm_nfnet_f0": timm_model("dm_nfnet_f0", **_NF),
        "timm/nf_regnet_b0": timm_model("nf_regnet_b0", depths=(1, 2, 1, 1), channels=(16, 32, 48, 64)),
        "timm/eca_nfnet_l0": timm_model("eca_nfnet_l0", **_NF),
        # the ConvNeXts and their kind
        "timm/convnext_atto": timm_model("convnext_atto", **_STAGES),
        "timm/convnextv2_atto": timm_model("convnextv2_atto", **_STAGES),
        "timm/inception_next_atto": timm_model("inception_next_atto", 64, **_STAGES),
        "timm/edgenext_xx_small": timm_model("edgenext_xx_small", 64, **_STAGES),
        "timm/mambaout": timm_model("test_mambaout"),
        "timm/poolformer_s12": model_of_class(
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
        "timm/focalnet": model_of_class("timm.models.focalnet.FocalNet", size=64, embed_dim=16, depths=(1, 1, 1, 1)),
        # Transformers
        "timm/vit_tiny_patch16_224": timm_model("vit_tiny_patch16_224", img_size=32, **_VIT),
        "timm/vit_relpos": timm_model("test_vit_relpos", img_size=32),
        "timm/deit_tiny_distilled": timm_model("deit_tiny_distilled_patch16_224", img_size=32, **_VIT),
        "timm/deit3_small": timm_model("deit3_small_patch16_224", img_size=32, **_VIT),
        "timm/cait_xxs24": timm_model("cait_xxs24_224", img_size=32, **_VIT),
        "timm/beit_base": timm_model("beit_base_patch16_224", img_size=32, **_VIT),
        "timm/eva02_tiny": timm_model("eva02_tiny_patch14_224", 28, img_size=28, **_VIT),
        "timm/xcit_nano": timm_model("xcit_nano_12_p16_224", **_VIT),
        "timm/convit_tiny": timm_model(
            "convit_tiny", img_size=32, embed_dim=32, depth=3, num_heads=2, local_up_to_layer=2
        ),
        "timm/swin_tiny": timm_model("swin_tiny_patch4_window7_224", img_size=32, **_SWIN),
        "timm/swinv2_tiny": timm_model("swinv2_tiny_window8_256", img_size=32, **_SWIN),
        "timm/davit_tiny": timm_model(
            "davit_tiny", 64, depths=(1, 1, 1, 1), embed_dims=(16, 32, 48, 64), num_heads=(1, 2, 3, 4)
        ),
        "timm/pvt_v2_b0": timm_model(
            "pvt_v2_b0", 64, depths=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), num_heads=(1, 2, 2, 2)
        ),
        "timm/hiera_tiny": timm_model("hiera_tiny_224", 64, img_size=64, embed_dim=16, stages=(1, 1, 1, 1)),
        # convolutions and attention
        "timm/levit": model_of_class(
            "timm.models.levit.Levit",
            size=64,
            img_size=64,
            embed_dim=(32, 48),
            key_dim=8,
            depth=(1, 1),
            num_heads=(2, 3),
        ),
        "timm/levit_distilled": model_of_class(
            "timm.models.levit.LevitDistilled",
            size=64,
            img_size=64,
            embed_dim=(32, 48),
            key_dim=8,
            depth=(1, 1),
            num_heads=(2, 3),
        ),
        "timm/coatnet": timm_model("test_coatnet", 64, img_size=64),
        "timm/caformer_s18": model_of_class(
            "timm.models.metaformer.MetaFormer",
            size=64,
            depths=(1, 1, 1, 1),
            dims=(16, 32, 64, 64),
            token_mixers=[f"@timm.models.metaformer.{name}" for name in ("SepConv",) * 2 + ("Attention",) * 2],
            norm_layers=[
                f"@timm.models.metaformer.{name}" for name in ("LayerNorm2dNoBias",) * 2 + ("LayerNormNoBias",) * 2
            ],
        ),
        "timm/vit_tiny_r_s16": timm_model("vit_tiny_r_s16_p8_224", 64, img_size=64, **_VIT),
        "timm/visformer_tiny": timm_model(
            "visformer_tiny", 64, img_size=64, depth=(1, 1, 1), embed_dim=32, init_channels=8, num_heads=2
        ),
        "timm/swiftformer_xs": timm_model("swiftformer_xs", 64, layers=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32)),
        # multilayer perceptrons, and recurrent layers
        "timm/mixer": model_of_class("timm.models.mlp_mixer.MlpMixer", **_MIXER),
        "timm/resmlp_12": model_of_class(
            "timm.models.mlp_mixer.MlpMixer",
            **_MIXER,
            mlp_ratio=4,
            block_layer="@timm.models.mlp_mixer.ResBlock",
            norm_layer="@timm.models.mlp_mixer.Affine",
        ),
        "timm/gmlp_ti16": model_of_class(
            "timm.models.mlp_mixer.MlpMixer",
            **_MIXER,
            mlp_ratio=6,
            block_layer="@timm.models.mlp_mixer.SpatialGatingBlock",
            mlp_layer="@timm.layers.GatedMlp",
        ),
        "timm/sequencer2d_s": timm_model("sequencer2d_s", embed_dims=(16, 32, 32, 32), layers=(1, 1, 1, 1)),
        # torchvision
        "torchvision/densenet121": model_of_class("torchvision.models.DenseNet", 8, (2, 2, 2, 2), 16),
        "torchvision/squeezenet1_1": torchvision_model("squeezenet1_1"),
        "torchvision/googlenet": torchvision_model("googlenet", aux_logits=False, init_weights=False),
        "torchvision/shufflenet_v2": model_of_class("torchvision.models.ShuffleNetV2", [2, 2, 2], [16, 32, 48, 64, 64]),
        "torchvision/mobilenet_v3_small": torchvision_model("mobilenet_v3_small", width_mult=0.25),
        "torchvision/swin_t": model_of_class("torchvision.models.SwinTransformer", [4, 4], 16, [2, 2], [2, 2], [4, 4]),
        "torchvision/swin_v2_t": model_of_class(
            "torchvision.models.SwinTransformer",
            [4, 4],
            16,
            [2, 2],
            [2, 2],
            [4, 4],
            block="@torchvision.models.swin_transformer.SwinTransformerBlockV2",
            downsample_layer="@torchvision.models.swin_transformer.PatchMergingV2",
        ),
        "torchvision/vit_b_16": model_of_class("torchvision.models.VisionTransformer", 32, 8, 2, 2, 32, 64),
        "torchvision/maxvit_t": model_of_class(
            "torchvision.models.MaxVit", (64, 64), 16, 4, [16, 32], [1, 1], 16, 0.0, size=64
        ),
        # transformers
        "hf/gpt2": hf_model("gpt2", n_embd=32, n_layer=2, n_head=2, n_positions=CONTEXT),
        "hf/llama": hf_model("llama", **_LLAMA),
        "hf/mixtral": hf_model("mixtral", num_key_value_heads=1, num_local_experts=2, **_LLAMA),
        "hf/gemma": hf_model("gemma", head_dim=16, num_key_value_heads=1, **_LLAMA),
        "hf/bert": hf_model("bert", is_decoder=True, **_LLAMA),
        "hf/opt": hf_model(
            "opt",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            ffn_dim=64,
            word_embed_proj_dim=32,
            max_position_embeddings=CONTEXT,
        ),
        "hf/gpt_neox": hf_model("gpt_neox", **_LLAMA),
        "hf/bloom": hf_model("bloom", hidden_size=32, n_layer=2, n_head=2),
        "hf/falcon": hf_model("falcon", hidden_size=32, num_hidden_layers=2, num_attention_heads=2),
        "hf/mamba": hf_model("mamba", hidden_size=32, num_hidden_layers=2, state_size=4),
        "hf/vit": hf_model("vit", image=True, image_size=32, patch_size=8, **_LLAMA),
        "hf/beit": hf_model("beit", image=True, image_size=32, patch_size=8, **_LLAMA),
        "hf/dinov2": hf_model(
            "dinov2", image=True, image_size=32, patch_size=8, **{k: v for k, v in _LLAMA.items() if "inter" not in k}
        ),
        "hf/swin": hf_model(
            "swin",
            image=True,
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[2, 2],
            num_heads=[2, 2],
            window_size=4,
        ),
        "hf/convnext": hf_model("convnext", image=True, hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
        "hf/resnet": hf_model(
            "resnet", image=True, embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], num_stages=2
        ),
    }
