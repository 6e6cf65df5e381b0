"""Signals over depth, against closed forms."""

import copy
import math
from itertools import pairwise

import pytest
import torch
from planted_networks import IMAGES, TOKENS, VECTORS, Recurrent, Residual, Text, planted
from torch import nn

from initbench import create_model
from initbench.inputs import END, PAD, Inputs
from initbench.inspection.batch import Objective, Pairs, draw_pairs, infer_inputs, objective_of
from initbench.inspection.propagation import correlations, propagate
from initbench.models.batches import zero_inputs
from initbench.structure.find import find_structure


def signals(model, inputs, *, outputs=None, seed=0, samples=8):
    objective = objective_of(model, inputs, outputs, None)
    pairs = draw_pairs(inputs, seed, samples=samples, objective=objective)
    return propagate(model, pairs, objective, find_structure(model, zero_inputs(inputs, model)), seed=seed)


def rotations(depth, gain, width=32):
    """Linear layers whose weights are `gain` times orthogonal matrices: they scale every vector by exactly `gain`."""
    torch.manual_seed(0)
    layers = [nn.Linear(width, width, bias=False) for _ in range(depth)]
    for layer in layers:
        nn.init.orthogonal_(layer.weight, gain)
    return nn.Sequential(*layers)


@pytest.mark.parametrize("gain", [0.5, 1.0, 1.5])
def test_a_chain_of_rotations_scales_the_signal_and_the_gradient_by_the_gain_of_each_layer(gain):
    layers = signals(rotations(12, gain), Inputs((32,))).layers
    # Products of float32 numbers: relative errors of about 1e-7 a layer.
    for index, layer in enumerate(layers):
        assert layer.output == pytest.approx(layers[0].output * gain**index, rel=1e-5)
        assert layer.gradient == pytest.approx(layers[-1].gradient * gain ** (len(layers) - 1 - index), rel=1e-5)
        assert layer.correlation == pytest.approx(layers[0].correlation, abs=1e-5)


def test_an_overflow_of_squares_is_no_overflow_of_the_signal():
    layers = signals(rotations(30, 10.0), Inputs((32,))).layers
    assert layers[-1].output == pytest.approx(layers[0].output * 1e29, rel=1e-4)


def relu_map(cosine):
    """The cosine behind a ReLU layer of infinite width (Cho & Saul, Kernel Methods for Deep Learning, 2009, eq. 6)."""
    return (math.sqrt(1 - cosine**2) + (math.pi - math.acos(cosine)) * cosine) / math.pi


def test_relu_layers_map_correlations_as_the_arc_cosine_kernel_and_keep_the_signal_by_kaiming():
    torch.manual_seed(0)
    width, depth = 1024, 10
    layers = [nn.Linear(width, width, bias=False) for _ in range(depth)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight)
    found = signals(nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())]), Inputs((width,))).layers
    for before, after in pairwise(found):
        # The mean of 8 pairs at width 1,024 deviates by about 1/√(8·1024) = 0.011.
        assert after.correlation == pytest.approx(relu_map(before.correlation), abs=0.03)
        assert after.near == pytest.approx(relu_map(before.near), abs=0.03)
        assert after.output == pytest.approx(before.output, rel=0.1)
    assert found[0].near == pytest.approx(0.9, abs=0.03)
    assert found[0].correlation < 0.1
    assert found[-1].correlation > 0.8


def test_correlations_are_cosines_of_neighbours_and_of_different_samples():
    first = torch.eye(3)
    near = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    assert correlations(torch.cat([first, near]) * 1e30, 3) == (0.0, pytest.approx(math.sqrt(0.5)))
    assert correlations(torch.zeros(6, 3), 3) == correlations(torch.ones(5, 3), 3) == (None, None)


@pytest.mark.parametrize("name", ["plain, BatchNorm, deep", "post-norm", "GRU, N(0, 0.02²), two heads"])
def test_the_model_is_bitwise_as_it_was(name):
    model, inputs, _ = planted(name)
    model.train()
    frozen = next(model.parameters()).requires_grad_(requires_grad=False)
    kept = next(iter(list(model.parameters())[1:]))
    kept.grad = torch.ones_like(kept)
    before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    random = torch.get_rng_state()
    signals(model, inputs)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert modes == [module.training for module in model.modules()]
    assert torch.equal(torch.get_rng_state(), random)
    assert not frozen.requires_grad
    assert torch.equal(kept.grad, torch.ones_like(kept))
    assert all(parameter.grad is None for parameter in model.parameters() if parameter is not kept)


def test_dropout_is_off_and_batch_norm_uses_the_batch():
    model = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 64, bias=False))
    nn.init.orthogonal_(model[3].weight)
    model[1].running_mean.fill_(100.0)
    found = signals(model, Inputs((8,)))
    # Behind batch statistics each unit has a mean square of 1, up to BatchNorm's ε; rotation keeps it.
    assert found.layers[-1].output == pytest.approx(1.0, rel=1e-3)


def test_relus_count_units_that_are_zero_for_the_whole_batch():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    with torch.no_grad():
        model[0].bias[:4] = -100.0
        model[0].bias[4:] = 100.0
        model[2].bias.fill_(-1e6)
    assert signals(model, Inputs((8,))).dead == (0.25, 1.0)


def test_every_layer_of_a_stacked_gru_has_a_signal_and_a_gradient():
    found = {layer.name: layer for layer in signals(Recurrent(0.0), TOKENS).layers}
    states = [found[f"gru.weight_hh_l{index}"] for index in range(4)]
    assert all(layer.output and layer.update and layer.correlation is not None for layer in states)
    assert all(found[f"gru.weight_ih_l{index}"].update for index in range(4))


def test_branches_that_end_in_zeros_are_left_out_and_have_the_ratio_0():
    found = signals(Residual(3, 0.0), IMAGES, outputs=10)
    assert set(found.branches.values()) == {0.0}
    assert [layer.name for layer in found.layers if not layer.aside] == ["stem", "head"]


def test_the_ratio_of_branch_and_skip():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.inner, self.end = rotations(3, 1.0)

        def forward(self, x):
            x = self.stem(x)
            return x + 0.25 * self.end(torch.nn.functional.hardtanh(self.inner(x), -100, 100))

    # Rotations keep root mean squares; deviations differ by the means of 512 entries.
    assert list(signals(Block(), Inputs((32,))).branches.values()) == [pytest.approx(0.25, rel=0.05)]


def test_behind_a_zero_head_gradients_are_those_of_its_inputs():
    model = rotations(4, 1.0)
    nn.init.zeros_(model[3].weight)
    found = signals(model, Inputs((32,)), outputs=32)
    assert found.zero_head
    assert found.layers[0].gradient == pytest.approx(found.layers[2].gradient, rel=1e-5)


def test_inputs_are_inferred():
    assert infer_inputs(Text(1, norm_first=True)) == Inputs((8,), vocabulary=64)  # it has 16 positions
    assert infer_inputs(Recurrent(0.0)) == Inputs((32,), vocabulary=64)
    assert infer_inputs(rotations(2, 1.0)) == Inputs((32,))


class TwoOutputs(nn.Module):
    """A number for each position, and logits of tokens."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(64, 64), nn.Linear(64, 1)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x), 3 * x


def test_the_loss_of_one_of_several_outputs_is_known_if_it_has_the_size_of_the_vocabulary():
    found = signals(TwoOutputs(), TOKENS)
    # Logits N(0, 9) against random tokens: the mean of log Σ exp over 64 of them, about ln 64 + 9/2, less finite size.
    assert 6 < found.loss < math.log(64) + 4.5


def test_the_objective_is_the_task_that_outputs_show():
    text = Text(1, norm_first=True)
    assert objective_of(text, TOKENS, None, None) == Objective("language_modelling", 64)
    assert objective_of(rotations(1, 1.0), Inputs((32,)), 32, None) == Objective("classification", 32)
    assert objective_of(rotations(1, 1.0), Inputs((32,)), None, None) == Objective("projection")
    assert objective_of(Recurrent(0.0), TOKENS, 12, None) == Objective("projection")
    assert objective_of(TwoOutputs(), TOKENS, None, None) == Objective("projection", 64, 1)


@pytest.mark.parametrize("outputs", [12, 24, 40])
def test_a_model_of_two_sentences_is_judged_by_its_translation(outputs):
    inputs = Inputs((2, 9), vocabulary=24)
    model = create_model("transformer", inputs=inputs, num_classes=outputs, depth=1, width=16, hidden=16, heads=2)
    objective = objective_of(model, inputs, outputs, None)
    assert objective == Objective("translation", outputs)
    pairs = draw_pairs(inputs, 0, samples=50, objective=objective)
    assert pairs.inputs[:, 0].max() == 23
    assert pairs.targets.max() == pairs.inputs[:, 1].max() == outputs - 1
    # The decoder reads END and then the target tokens; a neighbour has the targets of its sample.
    first, near = pairs.inputs[:50], pairs.inputs[50:]
    assert (first[:, 1, 0] == END).all()
    ends = (pairs.targets[:50] == END).nonzero()[:, 1]
    for sample, target, end in zip(first, pairs.targets, ends, strict=False):
        assert torch.equal(sample[1, 1 : end + 1], target[:end])
        assert (target[end + 1 :] == PAD).all()
    assert torch.equal(pairs.targets[:50], pairs.targets[50:])
    assert float((first == near).float().mean()) > 0.8  # one of 18 tokens, and one in ten
    assert (first != near).flatten(1).any(1).float().mean() > 0.8  # the new token may be the same, as padding often is
    nn.init.zeros_(model.decoder.output_projection.weight)
    assert signals(model, inputs).loss == pytest.approx(math.log(outputs))


class TwoSentences(nn.Module):
    """A classifier of pairs of sentences."""

    def __init__(self):
        super().__init__()
        self.words, self.classes = nn.Embedding(24, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.classes(self.words(x).mean((1, 2)))


def test_a_model_of_two_sentences_need_not_translate():
    inputs = Inputs((2, 9), vocabulary=24)
    assert objective_of(TwoSentences(), inputs, 3, None) == Objective("classification", 3)
    assert 0.5 < signals(TwoSentences(), inputs, outputs=3).loss < 2
    assert objective_of(nn.Embedding(24, 2), Inputs((2, 9), 2), None, None) == Objective("projection")


@pytest.mark.parametrize("inputs", [VECTORS, TOKENS])
def test_neighbours_are_alike_and_pairs_the_same_at_every_call(inputs):
    pairs: Pairs = draw_pairs(inputs, 3, samples=200)
    assert torch.equal(pairs.inputs, draw_pairs(inputs, 3, samples=200).inputs)
    first, near = pairs.inputs[:200], pairs.inputs[200:]
    if inputs.vocabulary is None:
        assert float((first * near).mean()) == pytest.approx(0.9, abs=0.03)
    else:
        assert (first != near).any(1).float().mean() > 0.95  # a new token may be the old one
        assert float((first == near).float().mean()) == pytest.approx(0.85, abs=0.04)
