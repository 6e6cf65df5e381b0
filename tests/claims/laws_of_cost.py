"""What the papers say of the time that their methods take, in seconds of the processor on one thread."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import torch
from law import Finding, held_or_not, judged, law
from measured_nets import chain, conv_net, gradient, random_batch, slope
from torch import nn
from torch.nn.functional import cross_entropy

from initbench import create_model, gradient_quotient, initialize

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds(*works: Callable[[], object], repeats: int = 5) -> list[list[float]]:
    """Return the times of the processor that each piece of work takes, in turns, after one of each to warm up.

    Unlike the time that passes it does not grow with what else the machine does.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times: list[list[float]] = [[] for _ in works]
    for repeat in range(repeats + 1):
        for work, found in zip(works, times, strict=True):
            started = time.process_time()
            work()
            if repeat:
                found.append(time.process_time() - started)
    torch.set_num_threads(threads)
    return times


@law("metainit-gq-cost-same-order-as-gradient", evidence="at initialization", by_command=True)
def quotient_costs_as_the_gradient() -> Finding:
    """Without normalization, on random images of 32×32; the slope is over both batch sizes of all four networks."""
    nets = {
        "MLP": lambda: nn.Sequential(nn.Flatten(), *chain([3 * 32 * 32, 256, 256, 10], bias=True)),
        "VGG-11": lambda: create_model("vgg", depth=11, norm="none", conv_bias=True),
        "WRN-16-1": lambda: conv_net("wrn", 16, side=32, channels=3),
        "DenseNet-40": lambda: create_model("densenet", depth=40, norm="none", conv_bias=True),
    }
    ratios, sizes = {}, []
    values: dict[str, list] = {"seconds_of_quotient": [], "seconds_of_gradient": []}
    for name, build in nets.items():
        model = build()
        initialize(model, "kaiming")
        for samples in (16, 128):
            batch = random_batch((samples, 3, 32, 32), 0)

            def quotient(model: nn.Module = model, batch: tuple = batch) -> None:
                with torch.no_grad():
                    gradient_quotient(model, *batch)

            whole, part = seconds(quotient, lambda model=model, batch=batch: gradient(model, batch))
            values["seconds_of_quotient"].append(whole)
            values["seconds_of_gradient"].append(part)
            ratios[f"{name} at batch {samples}"] = statistics.median(whole) / statistics.median(part)
            sizes.append(sum(p.numel() for p in model.parameters()))
    falls = slope(torch.tensor(sizes).log(), torch.tensor(list(ratios.values())).log())
    measured = "quotient over gradient: " + ", ".join(f"{value:.1f} ({name})" for name, value in ratios.items())
    measured += f"; log-log slope against parameter count {falls:+.2f}"
    held = max(ratios.values()) < 5 and abs(falls) <= 0.1
    not_held = max(ratios.values()) > 10 or falls > 0.25
    values = {"network": list(ratios), "parameters": sizes} | values
    return Finding(judged(held=held, not_held=not_held), measured, len(ratios), "networks and batch sizes", values)


def training_step(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], None]:
    """Return what takes one step of SGD on a batch, at a rate at which nothing overflows."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()

    return step


@law("metainit-resnet50-costs-one-percent", evidence="at initialization", by_command=True)
def metainit_costs_one_percent() -> Finding:
    """From the times of one tuning step and one training step at batch 128; random images cost what others do."""
    model, trained = (conv_net("wrn", 16, side=32, channels=3) for _ in range(2))
    for net in (model, trained):
        initialize(net, "kaiming")
    options = {"base": None, "input_shape": (32, 3, 32, 32), "num_classes": 10}
    tuning, training = seconds(
        lambda: initialize(model, "metainit", steps=3, **options),
        training_step(trained, random_batch((128, 3, 32, 32), 0)),
    )
    steps = statistics.median(tuning) / 3 / statistics.median(training)
    share = 500 * steps / (200 * 391)
    measured = f"500 steps take {share:.2%} of 200 epochs of 391 batches ({steps:.2f} training steps each)"
    values = {"seconds_of_3_tuning_steps": tuning, "seconds_of_a_training_step": training}
    return Finding(judged(held=share <= 0.02, not_held=share > 0.05), measured, 5, "timings", values)


@law("gradinit-a2-imagenet-under-half-an-epoch", evidence="identity", by_command=True)
def gradinit_costs_half_an_epoch() -> Finding:
    """The claim counts iterations: 2000 of 128 images, or of 192 with the half-batch that descending the loss reads.

    The seconds, which decide nothing, are those of one iteration, of two half-batches of 64, and of one training step
    at batch 128.
    """
    nets = [create_model("resnet", depth=20, norm="none") for _ in range(2)]
    for net in nets:
        initialize(net, "kaiming")
    batches = [random_batch((64, 3, 32, 32), seed) for seed in range(9)]
    tuning, training = seconds(
        lambda: initialize(nets[0], "gradinit", base=None, iterations=3, batches=batches),
        training_step(nets[1], random_batch((128, 3, 32, 32), 0)),
    )
    epochs = [2000 * read / 1_281_167 for read in (128, 192)]
    steps = statistics.median(tuning) / 3 / statistics.median(training)
    measured = f"{epochs[0]:.2f} of an epoch in samples, {epochs[1]:.2f} with the third half-batch of an iteration"
    note = (
        "The third half-batch is read where the loss is descended; the paper counts 128 samples an iteration. In "
        f"seconds it is {epochs[0] * steps:.2f} of an epoch ({steps:.2f} training steps an iteration), which decides "
        "nothing."
    )
    values = {
        "images_of_an_iteration": [128, 192],
        "epochs": epochs,
        "seconds_of_3_iterations": tuning,
        "seconds_of_a_training_step": training,
    }
    return Finding(
        held_or_not(max(epochs) < 0.5), measured, 2, "ways to count an iteration's images", values, note=note
    )
