"""Training WRN-16-4 with initbench against a plain PyTorch loop.

initbench trains by `train` with `channels_last: true`, in float32 and in bf16; the reference is a network and a loop
written here as one writes them, in NCHW and float32. Both train on the same random images in batches of 128, with SGD
and momentum, without augmentation. The hand-written network is checked to be the same function first. bf16 pays on a
processor with avx512_bf16 or AMX; on another its row has no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import timing
import torch
from torch import Tensor, nn
from torch.nn import functional

import initbench
from initbench.data.dataset import Dataset, Split, Splits
from initbench.inputs import Inputs
from initbench.training.loop import train
from initbench.training.precision import Precision, bf16_is_emulated
from initbench.training.recipe import Recipe

BATCH, LR, MOMENTUM = 128, 0.01, 0.9


class ReferenceBlock(nn.Module):
    """Pre-activation block of two 3×3 convolutions."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, outputs, H / stride, W / stride)."""
        out = functional.relu(self.bn1(x))
        if self.shortcut is not None:
            x = self.shortcut(out)
        out = self.conv2(functional.relu(self.bn2(self.conv1(out))))
        total: Tensor = x + out
        return total


class ReferenceNetwork(nn.Module):
    """WRN-depth-width as in Zagoruyko & Komodakis, 2016."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        channels = 16
        for outputs, first_stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
            for index in range((depth - 4) // 6):
                blocks.append(ReferenceBlock(channels, outputs, first_stride if index == 0 else 1))
                channels = outputs
        self.conv = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.blocks = nn.Sequential(*blocks)
        self.bn = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, 10)."""
        out = functional.relu(self.bn(self.blocks(self.conv(x))))
        out = functional.avg_pool2d(out, out.shape[-1]).flatten(1)
        logits: Tensor = self.fc(out)
        return logits


def reference_loop(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], float]:
    """Return a function that trains for one epoch and returns the mean loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    criterion = nn.CrossEntropyLoss()
    model.train()

    def epoch() -> float:
        total = 0.0
        for chosen in torch.split(torch.randperm(len(images)), BATCH):
            optimizer.zero_grad()
            loss = criterion(model(images[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen)
        return total / len(images)

    return epoch


def initbench_loop(model: nn.Module, images: Tensor, labels: Tensor, **recipe: Any) -> Callable[[], float]:
    """Return the same by initbench's `train`, which ends an epoch with an evaluation: here, of one image."""
    split = Split(images, labels)
    one, none = Split(images[:1], labels[:1]), Split(images[:0], labels[:0])
    dataset = Dataset("random", "classification", Inputs((3, 32, 32)), 10, Splits(split, none, one))
    plain = {"epochs": 1, "batch_size": BATCH, "lr": LR, "momentum": MOMENTUM, "schedule": "constant"}
    how = Recipe(**(plain | {"channels_last": True} | recipe))

    def epoch() -> float:
        result = train(model, dataset, how, seed=0)
        if result.diverged:
            raise ArithmeticError("the training diverged, so that fewer steps were timed")
        return float(result.metrics["train_loss"])

    return epoch


def same_network(model: nn.Module, reference: nn.Module) -> None:
    """Give the reference the model's weights and check that both compute the same."""
    values = model.state_dict().values()
    reference.load_state_dict(dict(zip(reference.state_dict(), values, strict=True)))
    inputs = torch.randn(8, 3, 32, 32)
    torch.testing.assert_close(model(inputs), reference(inputs), rtol=1e-4, atol=1e-4)


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return a row for float32 and one for bf16."""
    torch.manual_seed(0)
    depth, width, steps = (10, 1, 1) if quick else (16, 4, 50 if torch.get_default_device().type == "cuda" else 2)
    count = 8 if quick else steps * BATCH
    images, labels = torch.randn(count, 3, 32, 32), torch.randint(10, (count,))
    bounds: dict[Precision, float | None] = {"fp32": 1.0, "bf16": None if bf16_is_emulated() else 0.65}
    rows = []
    for precision, bound in bounds.items():
        model = initbench.create_model("wrn", depth=depth, width=width)
        initbench.initialize(model, "kaiming")
        reference = ReferenceNetwork(depth, width)
        same_network(model, reference)
        pairs = timing.paired(
            initbench_loop(model, images, labels, precision=precision), reference_loop(reference, images, labels), runs
        )
        case = f"step of WRN-{depth}-{width}, {precision} channels_last against fp32 NCHW"
        rows.append(timing.Row.of_pairs(case, pairs, bound, per=steps))
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=7, threads=2)
