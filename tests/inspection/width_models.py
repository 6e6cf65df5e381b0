"""Models of any width, as a user's module has them."""

import torch
from torch import nn


def perceptron(width, zero_head=False):
    """32 → width → width → 10 without biases, in the standard parametrization: N(0, 2/fan_in)."""
    layers = [nn.Linear(32, width, bias=False), nn.Linear(width, width, bias=False), nn.Linear(width, 10, bias=False)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight)
    if zero_head:
        nn.init.zeros_(layers[2].weight)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])


def fixed_size(width):
    """Weights N(0, 0.02²) at every width, as in GPT-2 and ViT."""
    model = perceptron(width)
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0, 0.02)
    return model


class Scaled(nn.Module):
    """The perceptron with multipliers by which updates at one rate of Adam do not depend on the width.

    A weight N(0, σ²) times 1/width, where σ² is width times the standard one: muP in the form of Tensor Programs V,
    table 9, for Adam.
    """

    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(32, width, bias=False)
        self.second = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, 10, bias=False)
        self.width = width
        nn.init.normal_(self.second.weight, 0, (2 * width) ** 0.5)
        nn.init.zeros_(self.head.weight)
        nn.init.kaiming_normal_(self.first.weight)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.head(torch.relu(self.second(x / self.width)) / self.width)


def heads(width, num_heads, fail=False):
    """A width that needs another argument to go with it."""
    if width // num_heads != 16 or fail:
        raise ValueError(f"{width} features do not make {num_heads} heads of 16")
    return perceptron(width)
