"""Print how many seconds the quickstart may take here: 240, or on a slower processor 24 times a reference.

The reference is a training loop in plain PyTorch over a stack of 28 convolutions as wide as the quickstart's networks,
75 steps of 64 images of 8×8 in each of two processes of one thread. On an AMD EPYC with AVX2 alone it took 14.2 and
16.8 s where the quickstart took 264 and 293 s, 18.6 and 17.4 times as long; by itself it scatters from 12.5 to 16.8 s.
So trials that become slower by more than that are seen on a slow processor too.
"""

import itertools
import multiprocessing
import time

import torch
from torch import nn

PROMISED, RATIO, STEPS = 240, 24, 75


def seconds(_process: int) -> float:
    """Return how long the loop takes."""
    torch.set_num_threads(1)
    widths = [1] + [16] * 10 + [32] * 9 + [64] * 9
    layers = [nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(widths)]
    model = nn.Sequential(*[own for layer in layers for own in (layer, nn.SiLU())], nn.Flatten(), nn.Linear(4096, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs, targets = torch.randn(64, 1, 8, 8), torch.randint(10, (64,))
    begun = time.perf_counter()
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    return time.perf_counter() - begun


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        reference = max(pool.map(seconds, range(2)))
    print(f"{reference:.1f} {max(PROMISED, RATIO * reference):.0f}")
