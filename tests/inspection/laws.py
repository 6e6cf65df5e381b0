"""Small models whose laws tests know, and change."""

import torch
from torch import nn


class Perceptron(nn.Sequential):
    """A linear layer, a norm and a head; `change` receives the new model."""

    def __init__(self, change=lambda model: None, names=("first", "norm", "act", "head")):
        super().__init__()
        for name, module in zip(
            names, (nn.Linear(32, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 48)), strict=True
        ):
            self.add_module(name, module)
        with torch.no_grad():
            change(self)


def after(start, build):
    """What builds models with the random numbers of other seeds, from `start` on."""

    def built(seed):
        torch.manual_seed(1000 + start + seed)
        return build()

    return built
