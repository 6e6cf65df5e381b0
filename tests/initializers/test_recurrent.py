"""Recurrent layers, each of whose gates the orthogonal law draws."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench.initializers.initialize import initialize

# Layers with 5 hidden units, and the number of their gates.
LAYERS = {
    "rnn": (lambda: nn.RNN(7, 5), 1),
    "gru": (lambda: nn.GRU(7, 5, 2, bidirectional=True), 3),
    "lstm": (lambda: nn.LSTM(7, 5), 4),
    "projected lstm": (lambda: nn.LSTM(7, 5, proj_size=3), 4),
    "gru cell": (lambda: nn.GRUCell(7, 5), 3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_each_gate_has_an_orthogonal_matrix_of_its_own_and_biases_are_0(name):
    make, gates = LAYERS[name]
    layer = make().double()
    record = initialize(layer, "orthogonal", gain=2.0)
    parameters = dict(layer.named_parameters())
    weights = {name: p for name, p in parameters.items() if name.startswith("weight")}
    for weight in weights.values():
        for gate in weight.detach().split(5) if weight.shape[0] == 5 * gates else [weight.detach()]:
            gram = gate @ gate.T if gate.shape[0] <= gate.shape[1] else gate.T @ gate
            torch.testing.assert_close(gram, 4 * torch.eye(len(gram), dtype=torch.float64), rtol=0, atol=1e-12)
    assert not any(p.any() for name, p in parameters.items() if name.startswith("bias"))
    assert (record.coverage.set, record.coverage.weights) == (len(weights), len(weights))
    if gates > 1:
        first, second = weights[min(weights)].detach().split(5)[:2]
        assert not torch.equal(first, second)
