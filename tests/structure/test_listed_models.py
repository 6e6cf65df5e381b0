"""The structures of models of timm, torchvision and transformers against lists written by hand."""

from __future__ import annotations

import listed_convolutional
import listed_language
import listed_transformers
import pytest
import torch
from listing import LISTED

from initbench import find_structure

LISTS = (listed_convolutional, listed_transformers, listed_language)
"""Imported, they have entered their models."""
GROUPED = ("hf/mixtral", "hf/gpt_oss")
"""Their experts are grouped products of matrices, which PyTorch 2.14's meta device has not in single precision."""


def test_how_many_models_are_listed():
    libraries = [name.rpartition("/")[0] for name in LISTED]
    assert len(libraries) >= 25
    assert set(libraries) == {"", "torchvision", "hf"}


@pytest.mark.parametrize("name", LISTED)
def test_the_structure_is_the_list(name):
    """All of it, nothing unknown but for what is said to be, and found in one forward pass."""
    expected, build, inputs = LISTED[name]
    calls = []
    with torch.device("cpu" if name in GROUPED else "meta"):  # no numbers are needed
        model = build()
        model.register_forward_pre_hook(lambda *_: calls.append(name))
        found = find_structure(model, inputs())
    assert [layer.name for layer in found.layers] == expected.order
    assert [(b.block, b.inner, b.ends, b.gates, b.shortcut) for b in found.branches] == expected.branches
    assert found.heads == expected.heads
    assert list(found.attention) == expected.attention
    assert found.unknown.keys() == expected.unknown.keys()
    assert all(words in found.unknown[what] for what, words in expected.unknown.items())
    assert len(calls) == 1


@pytest.mark.parametrize(("name", "passes"), [("resnet18", 1), ("levit_128s", 2)])
def test_without_inputs_it_takes_two_passes_at_most(name, passes):
    """An image of 32 pixels is tried first, which a network for 224 refuses."""
    expected, build, _ = LISTED[name]
    calls = []
    with torch.device("meta"):
        model = build()
    model.register_forward_pre_hook(lambda *_: calls.append(name))
    found = find_structure(model)
    assert [layer.name for layer in found.layers] == expected.order
    assert len(calls) == passes
