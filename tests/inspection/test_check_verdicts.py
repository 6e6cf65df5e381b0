"""One verdict for each of 20 networks with known faults; thresholds were chosen on half of them."""

import math
import re

import pytest
import torch
from planted_networks import CHOSEN_ON, JUDGED_ONCE, PLANTED, plain, planted, with_nan
from torch import nn

from initbench.inputs import Inputs
from initbench.inspection.check import check
from initbench.inspection.propagation import LayerSignal, Propagation
from initbench.inspection.source import model_source
from initbench.inspection.verdicts import KINDS, judge

MISSED = {"residual, BatchNorm": "loss_above_chance"}
"""Of the ten that were judged once: its stream grows, and its head has no norm before it."""


def verdict(name):
    model, inputs, right = planted(name)
    outputs = 10 if inputs.vocabulary is None else None
    return check(model, inputs=inputs, outputs=outputs, seeds=1, quotient=False).rows[0].verdict, right


@pytest.mark.parametrize("name", CHOSEN_ON)
def test_verdicts_are_right_where_thresholds_were_chosen(name):
    found, right = verdict(name)
    assert found.kind in right


@pytest.mark.parametrize("name", JUDGED_ONCE)
def test_verdicts_on_the_other_half_are_right_but_for_the_known_miss(name):
    found, right = verdict(name)
    assert found.kind == MISSED[name] if name in MISSED else found.kind in right


def test_both_halves_have_all_kinds():
    assert len(PLANTED) == 20
    for half in (CHOSEN_ON, JUDGED_ONCE):
        kinds = {kind for name in half for kind in PLANTED[name][2]}
        assert kinds >= {"vanishing", "exploding", "dead", "chaotic", "healthy"}


def test_a_weight_that_is_no_number_is_located():
    found = check(with_nan(), inputs=Inputs((64,)), seeds=1).rows[0].verdict
    assert (found.kind, found.sentence) == ("not_finite", "is not finite from layer 2 of 4 (0.2) on")


def test_where_a_signal_vanishes_is_the_first_layer_below_a_300th():
    torch.manual_seed(0)
    layers = [nn.Linear(32, 32, bias=False) for _ in range(12)]
    for layer in layers:
        nn.init.orthogonal_(layer.weight, 0.5)
    found = check(nn.Sequential(*layers), inputs=Inputs((32,)), seeds=1).rows[0].verdict
    # Layer n has 0.5^(n - 1) of the first one's signal: 1/256 at layer 9, 1/512 at layer 10. The last one is the head.
    assert (found.kind, found.sentence) == ("vanishing", "vanishes at layer 10 of 11 (9)")


def test_where_a_residual_stream_explodes_is_its_branch():
    found, _ = verdict("residual, no scale")
    assert re.fullmatch(r"explodes by 1e\d up to residual branch (39|40) of 40 \(branches\.\d+\.\d\)", found.sentence)


def test_the_worst_finding_is_the_verdict():
    assert KINDS[0] == "not_finite"
    assert KINDS[-1] == "healthy"
    layers = tuple(LayerSignal(str(n), 10.0**n, 1.0, 0.9999, 0.9999) for n in range(8))
    both = Propagation(0, layers, {}, (), 100.0, 1.0, 1.0)
    assert judge(both, 1.0).kind == "exploding"
    assert judge(Propagation(0, layers, {}, (0.2, 0.99), 100.0, 1.0, 1.0), 1.0).kind == "dead"
    assert judge(Propagation(0, layers, {}, (), math.inf, 1.0, 1.0), 1.0).kind == "not_finite"


def test_without_a_task_the_objective_is_no_loss():
    layers = tuple(LayerSignal(str(n), 1.0, 1.0, 0.5, 0.9) for n in range(3))
    signals = Propagation(0, layers, {}, (), 100.0, 1.0, 1.0)
    assert judge(signals, None).kind == "healthy"
    assert judge(signals, 2.0).kind == "loss_above_chance"


class SmallBranches(nn.Module):
    """Residual branches scaled by 1e-6, as in ConvNeXt, and embeddings that are the same for all inputs."""

    def __init__(self):
        super().__init__()
        self.tokens, self.segments = nn.Embedding(64, 32), nn.Embedding(2, 32)
        self.branches = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)) for _ in range(4))
        self.gates = nn.ParameterList(1e-6 * torch.ones(32) for _ in range(4))
        self.mix, self.head = nn.Linear(32, 32), nn.Linear(32, 5)

    def forward(self, tokens):
        x = self.mix(self.tokens(tokens) + self.segments(torch.zeros_like(tokens)))
        for branch, gate in zip(self.branches, self.gates, strict=True):
            x = x + gate * branch(x)
        return self.head(x)


def test_small_branches_and_constant_embeddings_are_no_fault():
    torch.manual_seed(0)
    assert check(SmallBranches(), seeds=1).rows[0].verdict.kind == "healthy"


@pytest.mark.parametrize("name", ["mobilenetv3_small_050", "convnext_atto", "regnetx_002", "nf_resnet26"])
def test_published_models_that_train_are_healthy(name):
    source = model_source(f"timm/{name}", inputs=Inputs((3, 64, 64)))
    assert str(check(source, seeds=1, quotient=False)) == "as built: healthy"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_of_other_types_are_judged(dtype):
    assert check(plain(4, math.sqrt(2)).to(dtype), inputs=Inputs((64,)), seeds=1).rows[0].verdict.kind == "healthy"


def test_an_explosion_says_by_how_much():
    torch.manual_seed(0)
    found = check(plain(21, 2 * math.sqrt(2)), inputs=Inputs((64,)), seeds=1).rows[0].verdict
    # 20 factors of 2: 1e6.02; width 64 lets the logarithm vary by about 0.3.
    assert found.kind == "exploding"
    assert found.sentence.startswith(("explodes by 1e6 up to layer", "explodes by 1e5", "explodes by 1e7"))
