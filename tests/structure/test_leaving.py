"""A model is left as it was, and runs once."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from initbench import InitializationError, find_structure
from initbench.initializers.initialize import initialize
from initbench.models.state import preserved


class Careless(nn.Module):
    """Changes whatever a forward pass can change."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("count", torch.zeros(()))
        self.features, self.cache, self.last, self.plain = [], {}, None, torch.zeros(2)
        self.fail = False

    def forward(self, x):
        x.mul_(2)
        self.count += 1
        self.plain[0] = 5
        self.train()
        x = self.dropout(self.norm(self.linear(x)))
        self.linear.weight.data.clamp_(max=0.1)
        self.linear.bias.add_(1)
        self.features.append(x)
        self.cache["last"] = self.last = x
        self.register_buffer("new", x)
        random.random()  # noqa: S311
        np.random.rand()  # noqa: NPY002
        if self.fail:
            raise RuntimeError("as asked")
        return x


def state(model, x):
    tensors = {name: tensor.clone() for name, tensor in [*model.state_dict().items(), ("x", x), ("plain", model.plain)]}
    modes = [module.training for module in model.modules()]
    hooks = [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in model.modules()]
    kept = (list(model.features), dict(model.cache), model.last, sorted(vars(model)))
    identities = [id(parameter) for parameter in model.parameters()]
    return tensors, (modes, hooks, kept, identities, torch.get_rng_state().tolist(), random.getstate())


@pytest.mark.parametrize("fail", [False, True])
def test_a_model_is_left_as_it_was(fail):
    model, x = Careless(), torch.randn(3, 4)
    model.norm.eval()
    model.linear.weight.grad = torch.ones(4, 4)
    model.fail = fail
    numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002
    tensors, others = state(model, x)
    if fail:
        with pytest.raises(InitializationError, match="as asked"):
            find_structure(model, x)
    else:
        assert find_structure(model, x).heads == ("linear",)
    after, others_after = state(model, x)
    assert others == others_after
    assert tensors.keys() == after.keys()
    assert all(torch.equal(tensors[name], after[name]) for name in tensors)
    assert torch.equal(model.linear.weight.grad, torch.ones(4, 4))
    assert np.random.get_state()[1].tolist() == numpy_state  # noqa: NPY002


def test_a_model_runs_once():
    model, calls = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []
    model.register_forward_hook(lambda *_: calls.append(1))
    find_structure(model, torch.zeros(1, 4))
    assert len(calls) == 1


def test_what_is_found_is_the_same_each_time():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    assert find_structure(model, torch.zeros(1, 4)) == find_structure(model, torch.zeros(1, 4))


class Merging(nn.Linear):
    """A linear layer with a low-rank part that is merged into the weight in eval mode, as loralib's."""

    def __init__(self, size):
        super().__init__(size, size)
        self.down, self.up = (nn.Parameter(torch.randn(shape)) for shape in ((2, size), (size, 2)))
        self.merged = False

    def train(self, mode=True):
        super().train(mode)
        if mode == self.merged:
            self.weight.data += (-1 if mode else 1) * self.up @ self.down
            self.merged = not mode
        return self

    def forward(self, x):
        return super().forward(x) if self.merged else super().forward(x) + x @ self.down.T @ self.up.T


@pytest.mark.parametrize("mode", [True, False])
def test_what_a_layer_merges_in_eval_mode_is_taken_apart_again(mode):
    torch.manual_seed(0)
    model, x = nn.Sequential(Merging(4), nn.ReLU(), Merging(4)).double().train(mode), torch.randn(3, 4).double()
    weights, outputs = [layer.weight.detach().clone() for layer in (model[0], model[2])], model(x)
    find_structure(model, x)
    with preserved(model):
        model.eval()(x)
    assert [layer.merged for layer in (model[0], model[2])] == [not mode] * 2
    assert all(map(torch.equal, (model[0].weight, model[2].weight), weights))
    assert torch.equal(model(x), outputs)


@pytest.mark.parametrize("name", ["kaiming", "lsuv"])
def test_a_frozen_weight_that_is_merged_in_eval_mode_is_no_change(name):
    torch.manual_seed(0)
    model = nn.Sequential(Merging(6), nn.ReLU(), nn.Linear(6, 6))
    model[0].weight.requires_grad_(False)
    before = model[0].weight.detach().clone()
    initialize(model, name, input_shape=(16, 6), num_classes=6, **({"data": "random"} if name == "lsuv" else {}))
    find_structure(model, torch.zeros(1, 6))
    assert torch.equal(model[0].weight, before)
    assert not model[0].merged
