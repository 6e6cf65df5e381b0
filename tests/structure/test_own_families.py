"""What is found in the networks of the library's own families, against lists by hand."""

from __future__ import annotations

import pytest
import torch

from initbench import create_model, find_structure


def found_in(name, size=32, **arguments):
    with torch.device("meta"):  # no numbers are needed
        model = create_model(name, input_shape=(3, size, size), **arguments)
        return find_structure(model, torch.zeros(1, 3, size, size))


def layers(found):
    return [layer.name for layer in found.layers]


@pytest.mark.parametrize("arguments", [{}, {"norm": "none", "conv_bias": True}, {"norm": "group"}])
@pytest.mark.parametrize("depth", [11, 13, 16, 19])
def test_vgg(depth, arguments):
    found = found_in("vgg", depth=depth, width=0.25, **arguments)
    assert layers(found) == [*(f"features.convolution{i}" for i in range(1, depth - 2)), "classifier"]
    assert found.norms == tuple(f"features.norm{i}" for i in range(1, depth - 2) if arguments.get("norm") != "none")
    assert (found.heads, found.branches, found.unused, found.unknown) == (("classifier",), (), (), {})
    assert found.depth == depth - 2


@pytest.mark.parametrize(
    "arguments", [{}, {"norm": "none", "conv_bias": True}, {"norm": "none", "activation": "linear"}]
)
@pytest.mark.parametrize("bottleneck", [True, False])
def test_densenet(bottleneck, arguments):
    """What comes before is stacked, and nothing is added: there is no branch."""
    units = (0, 1) if bottleneck else (0,)
    found = found_in("densenet", size=8, depth=4 + 9 * len(units), growth=4, bottleneck=bottleneck, **arguments)
    order = ["stem"]
    for block in range(3):
        order += [f"blocks.{block}.{layer}.units.{unit}.convolution" for layer in range(3) for unit in units]
        order += [f"transitions.{block}.convolution"] * (block < 2)
    assert layers(found) == [*order, "classifier"]
    assert (found.heads, found.branches, found.unused, found.unknown) == (("classifier",), (), (), {})
    assert found.depth == 4 + 9 * len(units)
    assert len(found.norms) == (0 if arguments else len(found.layers) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
@pytest.mark.parametrize("scheme", ["standard", "fixup", "skipinit", "weight_norm"])
@pytest.mark.parametrize(
    ("depth", "blocks", "convolutions"),
    [(18, (2, 2, 2, 2), 2), (34, (3, 4, 6, 3), 2), (50, (3, 4, 6, 3), 3)],
)
def test_imagenet_resnet(depth, blocks, convolutions, scheme, stem):
    found = found_in("imagenet_resnet", depth=depth, width=8, norm="none", scheme=scheme, stem=stem)
    order, expected = ["stem"], []
    for stage, number in enumerate(blocks):
        for index in range(number):
            block = f"stages.{stage}.{index}"
            *inner, end = (f"{block}.layers.{i}.convolution" for i in range(convolutions))
            # A basic block of the first stage has the stem's channels.
            shortcut = [f"{block}.projection"] if index == 0 and (stage > 0 or convolutions == 3) else []
            order += [*inner, end, *shortcut]
            gates = (f"{block}.multiplier.scale",) if scheme in {"fixup", "skipinit"} else ()
            expected.append((block, tuple(inner), (end,), gates, tuple(shortcut)))
    assert layers(found) == [*order, "classifier"]
    assert [(b.block, b.inner, b.ends, b.gates, b.shortcut) for b in found.branches] == expected
    assert (found.heads, found.unused, found.unknown) == (("classifier",), (), {})
    assert found.depth == depth
    # Two biases for each convolution of a branch, and two outside.
    assert len(found.scalar_biases) == (2 * convolutions * sum(blocks) + 2 if scheme == "fixup" else 0)


@pytest.mark.parametrize("arguments", [{}, {"norm": "batch"}, {"scheme": "weight_norm"}, {"scheme": "skipinit"}])
def test_residual_mlp(arguments):
    found = found_in("residual_mlp", size=4, depth=3, width=16, **arguments)
    blocks = [f"blocks.{index}" for index in range(3)]
    assert layers(found) == ["stem", *(f"{b}.linear{i}" for b in blocks for i in (1, 2)), "classifier"]
    assert [(b.block, b.inner, b.ends, b.shortcut) for b in found.branches] == [
        (block, (f"{block}.linear1",), (f"{block}.linear2",), ()) for block in blocks
    ]
    gates = [(f"{block}.end.scale",) if "skipinit" in arguments.values() else () for block in blocks]
    assert [branch.gates for branch in found.branches] == gates
    assert (found.heads, found.unknown) == (("classifier",), {})


@pytest.mark.parametrize("scheme", ["standard", "weight_norm"])
def test_the_widths_of_a_perceptron(scheme):
    found = found_in("mlp", size=4, widths=[5, 3, 5, 3], bias=False, scheme=scheme)
    assert layers(found) == ["linear1", "linear2", "linear3", "linear4", "classifier"]
    assert (found.heads, found.branches) == (("classifier",), ())


def test_linear_networks_of_28_layers_plain_and_residual():
    """Dauphin & Schoenholz, 2019, figure 3: 25 convolutions and the classifier; residual ones have projections."""
    for name, branches in (("plain", 0), ("wrn", 12)):
        found = found_in(name, size=8, depth=28, width=1, norm="none", activation="linear")
        assert len([layer for layer in found.layers if "projection" not in layer.name]) == 26
        assert len(found.branches) == branches
        assert found.depth == 26
