"""What is found in a run is what was found by tracing, on the models that `test_residual` has."""

from __future__ import annotations

from dataclasses import astuple, fields

import pytest
import timm
import torch

from initbench import create_model, find_structure
from initbench.architectures import residual

SIZES = {
    "resnet18": 64,
    "resnet50": 64,
    "seresnet50": 64,
    "vit_tiny_patch16_224": 224,
    "convnext_atto": 64,
    "mobilenetv3_small_050": 64,
    "mixer_s32_224": 224,
    "beit_base_patch16_224": 224,
    "res2net50_26w_4s": 64,
}
SHARED = len(fields(residual.ResidualBranch))


def assert_the_same(model, inputs):
    found = [astuple(branch)[:SHARED] for branch in find_structure(model, inputs).branches]
    assert found == [astuple(branch) for branch in residual.residual_branches(model)]
    return found


@pytest.mark.parametrize("name", SIZES)
def test_models_of_timm(name):
    with torch.device("meta"):
        assert assert_the_same(timm.create_model(name), torch.zeros(1, 3, SIZES[name], SIZES[name]))


@pytest.mark.parametrize("scheme", ["standard", "fixup", "skipinit", "weight_norm"])
@pytest.mark.parametrize(("name", "depth"), [("wrn", 16), ("resnet", 14), ("plain", 16)])
def test_our_own_networks(name, depth, scheme):
    if name == "plain" and scheme in {"fixup", "skipinit"}:
        pytest.skip("plain has no branches, and none of these schemes")
    options = {"width": 1} if name != "resnet" else {}
    model = create_model(name, depth=depth, norm="none", scheme=scheme, **options)
    assert len(assert_the_same(model, torch.zeros(1, 3, 8, 8))) == (0 if name == "plain" else 6)


@pytest.mark.slow
def test_the_deepest_network_of_its_paper():
    with torch.device("meta"):
        assert len(assert_the_same(create_model("resnet", depth=1202), torch.zeros(1, 3, 8, 8))) == 600
