"""Parts of transformers in other shapes than those of libraries, which several test files share."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Stream(nn.ModuleDict):
    """Adds what each of its parts gives to the stream, in the order in which they are given."""

    def __init__(self, **parts):
        super().__init__(parts)

    def forward(self, x):
        for part in self.values():
            x = x + part(x)
        return x


class Attention(nn.Module):
    """An attention of one head by three layers and one."""

    def __init__(self, width=16):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.back = nn.Linear(width, width)

    def forward(self, x):
        mixed = functional.scaled_dot_product_attention(self.to_q(x), self.to_k(x), self.to_v(x))
        return self.back(mixed)


class GroupedQueries(Attention):
    """An attention of several heads whose queries share keys and values."""

    def __init__(self, width=16):
        super().__init__(width)
        self.to_k, self.to_v = nn.Linear(width, 4), nn.Linear(width, 4)

    def forward(self, x):
        q = self.to_q(x).unflatten(-1, (-1, 4)).transpose(1, 2)
        k, v = (layer(x).unsqueeze(1) for layer in (self.to_k, self.to_v))
        weights = torch.softmax(q @ k.transpose(2, 3) / 2, -1)
        return self.back((weights @ v).transpose(1, 2).flatten(2))


class GlobalQueries(nn.Module):
    """An attention to queries that are a parameter: no layer gives them."""

    def __init__(self, width=16):
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(5, width))
        self.to_kv, self.back = nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x):
        k, v = self.to_kv(x).chunk(2, -1)
        return self.back(functional.scaled_dot_product_attention(self.queries.expand(len(x), -1, -1), k, v))


class FeedForward(nn.Module):
    """A feed-forward part with a gate."""

    def __init__(self, width=16):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, 40), nn.Linear(width, 40), nn.Linear(40, width)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Mixer(nn.Conv1d):
    """A convolution over positions."""

    def __init__(self, width=16):
        super().__init__(width, width, 3, padding=1)

    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class Spread(nn.Module):
    """A block whose attention and feed-forward part are spread over modules, as BERT's are."""

    def __init__(self, width=16):
        super().__init__()
        heads = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"heads": heads, "output": nn.ModuleDict({"dense": nn.Linear(width, width)})})
        self.intermediate = nn.Sequential(nn.Linear(width, 64), nn.GELU())
        self.output = nn.Sequential(nn.Linear(64, width), nn.LayerNorm(width))

    def forward(self, x):
        heads = self.attention["heads"]
        mixed = functional.scaled_dot_product_attention(*(heads[name](x) for name in ("query", "key", "value")))
        x = x + self.attention["output"]["dense"](mixed)
        return self.output[1](x + self.output[0](self.intermediate(x)))


class Crossing(nn.Module):
    """A decoder that attends to what it decodes."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, x):
        return self.decoder(x, x)
