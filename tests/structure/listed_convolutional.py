"""Lists of convolutional networks."""

from __future__ import annotations

from listing import blocks, listed


def resnet(found, depths, convolutions, first_projection):
    """He et al., 2016: the first block of a stage has a projection, but for basic blocks of the first stage."""
    found.layers("conv1")
    *inner, end = convolutions.split()
    for stage, depth in enumerate(depths, start=1):
        for index in range(depth):
            block = f"layer{stage}.{index}"
            shortcut = "downsample.0" if index == 0 and stage >= first_projection else ""
            found.layers(f"{convolutions} {shortcut}", block)
            found.branch(block, " ".join(inner), end, shortcut=shortcut)
    found.head("fc")


@listed("resnet18")
def resnet18(found):
    resnet(found, (2, 2, 2, 2), "conv1 conv2", 2)


@listed("resnet50")
def resnet50(found):
    resnet(found, (3, 4, 6, 3), "conv1 conv2 conv3", 1)


@listed("seresnet50")
def seresnet50(found):
    """Squeeze and excitation stands behind the third convolution, before the addition, and is none of the branch."""
    found.layers("conv1")
    for stage, depth in enumerate((3, 4, 6, 3), start=1):
        for index in range(depth):
            block, shortcut = f"layer{stage}.{index}", "" if index else "downsample.0"
            found.layers(f"conv1 conv2 conv3 se.fc1 se.fc2 {shortcut}", block)
            found.branch(block, "conv1 conv2", "conv3", shortcut=shortcut)
    found.head("fc")


@listed("nf_resnet26")
def nf_resnet26(found):
    """Brock et al., 2021: the shortcut is taken behind the activation, where it has a layer, and runs first."""
    found.layers("stem.conv")
    for block, _, index in blocks("stages.{s}.{i}", (2, 2, 2, 2)):
        shortcut = "" if index else "downsample.conv"
        found.layers(f"{shortcut} conv1 conv2 conv3", block)
        found.branch(block, "conv1 conv2", "conv3", shortcut=shortcut)
    found.head("head.fc")


@listed("dm_nfnet_f0")
def dm_nfnet_f0(found):
    found.layers("stem.conv1 stem.conv2 stem.conv3 stem.conv4")
    for block, _, index in blocks("stages.{s}.{i}", (1, 2, 6, 3)):
        shortcut = "" if index else "downsample.conv"
        found.layers(f"{shortcut} conv1 conv2 conv2b conv3 attn_last.fc1 attn_last.fc2", block)
        found.branch(block, "conv1 conv2 conv2b", "conv3", "skipinit_gain", shortcut)
    found.layers("final_conv")
    found.head("head.fc")


@listed("convnext_atto")
def convnext_atto(found):
    found.layers("stem.0")
    for block, stage, index in blocks("stages.{s}.blocks.{i}", (2, 2, 6, 2)):
        if stage and not index:
            found.layers(f"stages.{stage}.downsample.1")
        found.layers("conv_dw mlp.fc1 mlp.fc2", block)
        found.branch(block, "conv_dw mlp.fc1", "mlp.fc2", "gamma")
    found.head("head.fc")


@listed("regnety_002")
def regnety_002(found):
    """Radosavovic et al., 2020: stages of 1, 1, 4 and 7 blocks, each of which begins with a projection."""
    found.layers("stem.conv")
    for stage, depth in enumerate((1, 1, 4, 7), start=1):
        for index in range(1, depth + 1):
            block, shortcut = f"s{stage}.b{index}", "downsample.conv" if index == 1 else ""
            found.layers(f"conv1.conv conv2.conv se.fc1 se.fc2 conv3.conv {shortcut}", block)
            found.branch(block, "conv1.conv conv2.conv", "conv3.conv", shortcut=shortcut)
    found.head("head.fc")


def inverted(found, block, gated, added):
    """Sandler et al., 2018, with squeeze and excitation before the last convolution."""
    found.layers(f"conv_pw conv_dw {'se.conv_reduce se.conv_expand' if gated else ''} conv_pwl", block)
    if added:
        found.branch(block, "conv_pw conv_dw", "conv_pwl")


@listed("efficientnet_b0")
def efficientnet_b0(found):
    """Tan & Le, 2019, table 1: the first block of a stage changes the shape, and so has no branch."""
    found.layers("conv_stem blocks.0.0.conv_dw blocks.0.0.se.conv_reduce blocks.0.0.se.conv_expand blocks.0.0.conv_pw")
    for block, stage, index in blocks("blocks.{s}.{i}", (1, 2, 2, 3, 3, 4, 1)):
        if stage:
            inverted(found, block, gated=True, added=index > 0)
    found.layers("conv_head")
    found.head("classifier")


@listed("mobilenetv3_small_100")
def mobilenetv3_small_100(found):
    """Howard et al., 2019, table 2."""
    found.layers("conv_stem blocks.0.0.conv_dw blocks.0.0.se.conv_reduce blocks.0.0.se.conv_expand blocks.0.0.conv_pw")
    for block, stage, index in blocks("blocks.{s}.{i}", (1, 2, 3, 2, 3)):
        if stage:
            inverted(found, block, gated=stage > 1, added=index > 0)
    found.layers("blocks.5.0.conv conv_head")
    found.head("classifier")


@listed("ghostnet_100")
def ghostnet_100(found):
    """Han et al., 2020, table 1: a ghost's two convolutions, in a row, are stacked."""
    halved, gated = {"1.0", "3.0", "5.0", "7.0"}, {"3.0", "4.0", "6.3", "6.4", "7.0", "8.1", "8.3"}
    found.layers("conv_stem")
    for block, stage, index in blocks("blocks.{s}.{i}", (1, 1, 1, 1, 1, 1, 5, 1, 4)):
        place = f"{stage}.{index}"
        inner = "ghost1.primary_conv.0 ghost1.cheap_operation.0" + " conv_dw" * (place in halved)
        ends = "ghost2.primary_conv.0 ghost2.cheap_operation.0"
        # Blocks 6.3 has more channels than what it is given.
        shortcut = "shortcut.0 shortcut.2" if place in halved | {"6.3"} else ""
        gate = "se.conv_reduce se.conv_expand" if place in gated else ""
        found.layers(f"{inner} {gate} {ends} {shortcut}", block)
        found.branch(block, inner, ends, shortcut=shortcut)
    found.layers("blocks.9.0.conv conv_head")
    found.head("classifier")


@listed("torchvision/densenet121")
def densenet121(found):
    """Huang et al., 2017: what comes before is stacked, and nothing is added."""
    found.layers("conv0", "features")
    for block, depth in enumerate((6, 12, 24, 16), start=1):
        for layer in range(1, depth + 1):
            found.layers("conv1 conv2", f"features.denseblock{block}.denselayer{layer}")
        found.layers("conv" if block < 4 else "", f"features.transition{block}")
    found.head("classifier")


@listed("torchvision/vgg11")
def vgg11(found):
    found.layers("0 3 6 8 11 13 16 18", "features")
    found.layers("0 3", "classifier")
    found.head("classifier.6")


@listed("torchvision/squeezenet1_1")
def squeezenet1_1(found):
    """Iandola et al., 2016: two convolutions of each fire module are stacked; the last one is the classifier."""
    found.layers("features.0")
    for index in (3, 4, 6, 7, 9, 10, 11, 12):
        found.layers("squeeze expand1x1 expand3x3", f"features.{index}")
    found.head("classifier.1")
