"""The row of padding, which embeddings have, is no fault."""

from __future__ import annotations

import torch
from torch import nn

import initbench


class Words(nn.Module):
    """An embedding of fewer tokens than features, so that a row of zeros lowers its rank."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 64, padding_idx=0)
        self.layer = nn.Linear(64, 64)
        self.head = nn.Linear(64, 40)

    def forward(self, tokens):
        return self.head(self.layer(self.embed(tokens)))


def ranks(model):
    """The findings of low rank."""
    return [f for f in initbench.audit(model, torch.zeros(1, 6, dtype=torch.int64)).findings if f.kind == "low_rank"]


def test_it_lowers_no_rank():
    torch.manual_seed(0)
    assert ranks(Words()) == []


def test_a_second_fault_is_found_beside_it():
    torch.manual_seed(0)
    model = Words()
    with torch.no_grad():
        model.embed.weight[5] = model.embed.weight[3] + model.embed.weight[4]
    [finding] = ranks(model)
    assert "rank 38 of" in finding.reason
