"""Lists of vision transformers, of mixers, and of networks that have convolutions and attention."""

from __future__ import annotations

from listing import blocks, listed

from initbench import Attention


def transformer_block(found, block, gates=("", ""), attention="attn", mlp="fc1 fc2", layers="qkv proj"):
    """Add the branches of an attention and of an MLP, each with a gate's name."""
    inner = " ".join(f"{attention}.{name}" for name in layers.split())
    found.layers(inner, block)
    found.layers(" ".join(f"mlp.{name}" for name in mlp.split()), block)
    *before, end = inner.split()
    first, last = mlp.split()
    found.branch(block, " ".join(before), end, gates[0])
    found.branch(block, f"mlp.{first}", f"mlp.{last}", gates[1])


def vision_transformer(found, heads, gates=("", "")):
    found.layers("patch_embed.proj")
    for block in ("blocks.0", "blocks.1"):
        transformer_block(found, block, gates)
        found.attend(f"{block}.attn")
    found.head(*heads)


@listed("vit_tiny_patch16_224", 32, img_size=32, depth=2)
def vit_tiny(found):
    vision_transformer(found, ["head"])


@listed("deit_tiny_distilled_patch16_224", 32, img_size=32, depth=2)
def deit_tiny_distilled(found):
    """Touvron et al., 2021: one head for the class token, and one for that of distillation."""
    vision_transformer(found, ["head", "head_dist"])


@listed("deit3_small_patch16_224", 32, img_size=32, depth=2)
def deit3_small(found):
    vision_transformer(found, ["head"], ("ls1.gamma", "ls2.gamma"))


@listed("beit_base_patch16_224", 32, img_size=32, depth=2)
def beit_base(found):
    vision_transformer(found, ["head"], ("gamma_1", "gamma_2"))


@listed("eva02_tiny_patch14_224", 28, img_size=28, depth=2, num_classes=5)
def eva02_tiny(found):
    """Its MLP has one layer for both factors of a SwiGLU."""
    vision_transformer(found, ["head"])


@listed("cait_xxs24_224", 32, img_size=32, depth=2)
def cait(found):
    """Touvron et al., 2021: attention mixes its heads before and behind the softmax; two attend for the class."""
    found.layers("patch_embed.proj")
    gates = ("gamma_1", "gamma_2")
    for block in ("blocks.0", "blocks.1"):
        transformer_block(found, block, gates, layers="qkv proj_l proj_w proj")
        found.attend(f"{block}.attn")
    for block in ("blocks_token_only.0", "blocks_token_only.1"):
        transformer_block(found, block, gates, layers="q k v proj")
        found.attend(f"{block}.attn", "q k v")
    found.head("head")


@listed("xcit_nano_12_p16_224", 32, img_size=32, depth=2)
def xcit_nano(found):
    """Ali et al., 2021: attention over channels, a branch of two convolutions, an MLP; two blocks for the class."""
    found.layers("0.0 2.0 4.0 6.0", "patch_embed.proj")
    found.layers("pos_embed.token_projection")
    for block in ("blocks.0", "blocks.1"):
        found.layers("attn.qkv attn.proj local_mp.conv1 local_mp.conv2 mlp.fc1 mlp.fc2", block)
        found.branch(block, "attn.qkv", "attn.proj", "gamma1")
        found.branch(block, "local_mp.conv1", "local_mp.conv2", "gamma3")
        found.branch(block, "mlp.fc1", "mlp.fc2", "gamma2")
        found.attend(f"{block}.attn")
    for block in ("cls_attn_blocks.0", "cls_attn_blocks.1"):
        transformer_block(found, block, ("gamma1", "gamma2"), layers="q k v proj")
        found.attend(f"{block}.attn", "q k v")
    found.head("head")


@listed("levit_128s", 224)
def levit(found):
    """Graham et al., 2021: between stages an attention with fewer queries than keys, which nothing is added to."""
    found.layers("conv1.linear conv2.linear conv3.linear conv4.linear", "stem")
    for stage, depth in enumerate((2, 3, 4)):
        if stage:
            down = f"stages.{stage}.downsample"
            attention = f"{down}.attn_downsample"
            found.layers("kv.linear q.ln.linear proj.ln.linear", attention)
            found.attend(attention, "q.ln.linear kv.linear kv.linear", "proj.ln.linear")
            found.layers("mlp.ln1.linear mlp.ln2.linear", down)
            found.branch(down, "mlp.ln1.linear", "mlp.ln2.linear")
        for index in range(depth):
            block = f"stages.{stage}.blocks.{index}"
            transformer_block(found, block, mlp="ln1.linear ln2.linear", layers="qkv.linear proj.ln.linear")
            found.attend(f"{block}.attn", "qkv.linear", "proj.ln.linear")
    found.head("head.linear", "head_dist.linear")


@listed("swin_tiny_patch4_window7_224", 56, img_size=56, depths=(1, 2), num_heads=(2, 4))
def swin_tiny(found):
    found.layers("patch_embed.proj")
    for block, stage, index in blocks("layers.{s}.blocks.{i}", (1, 2)):
        if stage and not index:
            found.layers("layers.1.downsample.reduction")
        transformer_block(found, block)
        found.attend(f"{block}.attn")
    found.head("head.fc")


@listed("torchvision/swin_t")
def swin_t(found):
    """Liu et al., 2021; a function is given the weights of its attention's layers, which are not called."""
    found.layers("features.0.0")
    for stage, depth in ((1, 2), (3, 2), (5, 6), (7, 2)):
        found.layers(f"features.{stage - 1}.reduction" if stage > 1 else "")
        for index in range(depth):
            block = f"features.{stage}.{index}"
            transformer_block(found, block, mlp="0 3")
            found.attend(f"{block}.attn")
    found.head("head")


@listed("torchvision/vit_b_16", 32, image_size=32)
def vit_b_16(found):
    """The projections to queries, keys and values are one parameter of the attention, which is a layer so."""
    found.layers("conv_proj")
    for block in (f"encoder.layers.encoder_layer_{index}" for index in range(12)):
        found.layers("self_attention self_attention.out_proj mlp.0 mlp.3", block)
        found.branch(block, "self_attention", "self_attention.out_proj")
        found.branch(block, "mlp.0", "mlp.3")
        attention = f"{block}.self_attention"
        found.attention.append(Attention(attention, *[(attention,)] * 3, (f"{attention}.out_proj",)))
    found.head("heads.head")


@listed("mixer_s32_224", img_size=64)
def mixer_s32(found):
    found.layers("stem.proj")
    for block in (f"blocks.{index}" for index in range(8)):
        for mlp in ("mlp_tokens", "mlp_channels"):
            found.layers(f"{mlp}.fc1 {mlp}.fc2", block)
            found.branch(block, f"{mlp}.fc1", f"{mlp}.fc2")
    found.head("head")


@listed("resmlp_12_224", img_size=64)
def resmlp_12(found):
    found.layers("stem.proj")
    for block in (f"blocks.{index}" for index in range(12)):
        found.layers("linear_tokens mlp_channels.fc1 mlp_channels.fc2", block)
        found.branch(block, "", "linear_tokens", "ls1")
        found.branch(block, "mlp_channels.fc1", "mlp_channels.fc2", "ls2")
    found.head("head")


@listed("poolformer_s12")
def poolformer_s12(found):
    """Yu et al., 2022: its pooling has no weight, and is no branch here."""
    found.layers("stem.conv")
    for block, stage, index in blocks("stages.{s}.blocks.{i}", (2, 2, 6, 2)):
        found.layers(f"stages.{stage}.downsample.conv" if stage and not index else "")
        found.layers("mlp.fc1 mlp.fc2", block)
        found.branch(block, "mlp.fc1", "mlp.fc2", "layer_scale2.scale")
    found.head("head.fc")


@listed("gmlp_s16_224", 32, img_size=32)
def gmlp_s16(found):
    """Liu et al., 2021: half of the channels is multiplied by what a layer over the tokens makes of the other half."""
    found.layers("stem.proj")
    for block in (f"blocks.{index}" for index in range(30)):
        layers = "mlp_channels.fc1 mlp_channels.gate.proj"
        found.layers(f"{layers} mlp_channels.fc2", block)
        found.branch(block, layers, "mlp_channels.fc2")
    found.head("head")


@listed("focalnet_tiny_srf")
def focalnet_tiny_srf(found):
    """Yang et al., 2022: the modulator is as much a signal as the queries that it is multiplied with."""
    found.layers("stem.proj")
    for block, stage, index in blocks("layers.{s}.blocks.{i}", (2, 2, 6, 2)):
        found.layers(f"layers.{stage}.downsample.proj" if stage and not index else "")
        modulation = " ".join(f"modulation.{layer}" for layer in ("f", "focal_layers.0.0", "focal_layers.1.0", "h"))
        found.layers(f"{modulation} modulation.proj mlp.fc1 mlp.fc2", block)
        found.branch(block, modulation, "modulation.proj")
        found.branch(block, "mlp.fc1", "mlp.fc2")
    found.head("head.fc")


@listed("mambaout_femto")
def mambaout_femto(found):
    """Yu & Wang, 2025: some channels are convolved, and all multiplied by an activation of others."""
    found.layers("stem.conv1 stem.conv2")
    for block, stage, index in blocks("stages.{s}.blocks.{i}", (3, 3, 9, 3)):
        found.layers(f"stages.{stage}.downsample.conv" if stage and not index else "")
        found.layers("fc1 conv fc2", block)
        found.branch(block, "fc1 conv", "fc2")
    found.layers("head.pre_logits.fc")
    found.head("head.fc")


@listed("samvit_base_patch16_224", 64, img_size=64, depth=2, global_attn_indexes=(1,), window_size=2, num_classes=5)
def samvit(found):
    """Kirillov et al., 2023: queries times vectors of relative positions are added to the scores, as no layer's."""
    found.layers("patch_embed.proj")
    for block in ("blocks.0", "blocks.1"):
        transformer_block(found, block)
        found.attend(f"{block}.attn")
    found.head("head.fc")


@listed("edgenext_xx_small")
def edgenext_xx_small(found):
    """Maaz et al., 2022: the last block of stages 1 to 3 has 1, 2 and 3 convolutions of parts, and a branch within."""
    found.layers("stem.0")
    for block, stage, index in blocks("stages.{s}.blocks.{i}", (2, 2, 6, 2)):
        found.layers(f"stages.{stage}.downsample.1" if stage and not index else "")
        if stage and index == (2, 2, 6, 2)[stage] - 1:
            parts = " ".join(f"convs.{part}" for part in range(stage))
            positions = "pos_embd.token_projection" if stage == 1 else ""
            found.layers(f"{parts} {positions} xca.qkv xca.proj mlp.fc1 mlp.fc2", block)
            found.branch(block, "xca.qkv", "xca.proj", "gamma_xca")
            found.branch(block, f"{parts} mlp.fc1", "mlp.fc2", "gamma")
            found.attend(f"{block}.xca")
        else:
            found.layers("conv_dw mlp.fc1 mlp.fc2", block)
            found.branch(block, "conv_dw mlp.fc1", "mlp.fc2", "gamma")
    found.head("head.fc")


@listed("davit_tiny")
def davit_tiny(found):
    """Ding et al., 2022: attention over windows and over channels in turn, each with two residual convolutions."""
    found.layers("stem.conv")
    for block, stage, index in blocks("stages.{s}.blocks.{i}", (1, 1, 3, 1)):
        found.layers(f"stages.{stage}.downsample.conv" if stage and not index else "")
        for half in (f"{block}.0", f"{block}.1"):
            found.layers("cpe1.proj attn.qkv attn.proj cpe2.proj mlp.fc1 mlp.fc2", half)
            found.branch(f"{half}.cpe1", "", "proj")
            found.branch(half, "attn.qkv", "attn.proj")
            found.branch(f"{half}.cpe2", "", "proj")
            found.branch(half, "mlp.fc1", "mlp.fc2")
            found.attend(f"{half}.attn")
    found.head("head.fc")


def inverted_bottleneck(found, block, shortcut):
    """Add the convolutions of CoAtNet and MaxViT, whose shortcut runs first."""
    found.layers(f"{shortcut} conv1_1x1 conv2_kxk se.fc1 se.fc2 conv3_1x1", block)
    found.branch(block, "conv1_1x1 conv2_kxk", "conv3_1x1", shortcut=shortcut)


@listed("coatnet_nano_rw_224", 224)
def coatnet_nano(found):
    """Dai et al., 2021: two stages of convolutions, two of attention; the first stage has the stem's channels."""
    found.layers("stem.conv1 stem.conv2")
    for block, stage, index in blocks("stages.{s}.blocks.{i}", (3, 4, 6, 3)):
        shortcut = "shortcut.expand" if stage and not index else ""
        if stage < 2:
            inverted_bottleneck(found, block, shortcut)
        else:
            found.layers(f"{shortcut} attn.qkv attn.proj mlp.fc1 mlp.fc2", block)
            found.branch(block, "attn.qkv", "attn.proj", shortcut=shortcut)
            found.branch(block, "mlp.fc1", "mlp.fc2")
            found.attend(f"{block}.attn")
    found.head("head.fc")


@listed("maxvit_tiny_rw_224", 224, depths=(1, 2, 1, 1))
def maxvit_tiny(found):
    """Tu et al., 2022: convolutions, attention over windows and over a grid in each block."""
    found.layers("stem.conv1 stem.conv2")
    for block, stage, index in blocks("stages.{s}.blocks.{i}", (1, 2, 1, 1)):
        inverted_bottleneck(found, f"{block}.conv", "shortcut.expand" if stage and not index else "")
        for part in (f"{block}.attn_block", f"{block}.attn_grid"):
            transformer_block(found, part)
            found.attend(f"{part}.attn")
    found.head("head.fc")
