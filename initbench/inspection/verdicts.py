"""One verdict on an untrained model, from its signals and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from initbench.inspection.propagation import LayerSignal, Propagation

KINDS = ("not_finite", "dead", "exploding", "vanishing", "collapsed", "chaotic", "loss_above_chance", "healthy")
"""From the worst to the best; of several, the first is the verdict."""

FACTOR = 300.0
"""Signals and gradients may change by at most this factor over depth."""
DEAD = 0.95
"""A ReLU with at least this fraction of zero units counts as dead."""
COLLAPSED = 0.998
"""From this correlation of different inputs on, the features are the same for all inputs."""
CHAOTIC = 0.3
"""Below this correlation of neighbours, whose inputs correlate by 0.9, similar inputs are unrelated."""
LOSS = 2.0
"""By this factor the loss may exceed that of a uniform prediction."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a model's signals.

    Attributes:
        kind: see `KINDS`.
        sentence: says where and by how much.
    """

    kind: str
    sentence: str


def judge(signals: Propagation, chance: float | None) -> Verdict:
    """Return the verdict on one pass, with the loss of a uniform prediction if it is known.

    The tests are made in the order of `KINDS`.
    """
    return next(_findings(signals, chance), Verdict("healthy", "healthy"))


def _findings(signals: Propagation, chance: float | None) -> Iterator[Verdict]:
    layers = [layer for layer in signals.trunk if not layer.aside]
    outputs = [(layer, layer.output) for layer in layers if layer.output is not None]
    gradients = [
        (layer, layer.gradient) for layer in layers if layer.gradient is not None and layer.kind != "embedding"
    ]
    # Of a layer within a fused recurrent module only the weight's gradient is known.
    updates = [(layer, layer.update) for layer in layers if layer.update is not None and layer.gradient is None]

    branches = max((layer.branch or 0 for layer in signals.layers), default=0)

    def position(layer: LayerSignal) -> str:
        if layer.branch is not None:
            return f"residual branch {layer.branch} of {branches} ({layer.name})"
        return f"layer {layers.index(layer) + 1} of {len(layers)} ({layer.name})"

    yield from _not_finite(signals, [*outputs, *gradients, *updates], position)
    yield from _dead(signals, outputs, position)
    yield from _changes([] if signals.normalized else outputs, gradients, updates, position)
    for layer in layers:
        if layer.kind != "embedding" and layer.correlation is not None and layer.correlation > COLLAPSED:
            yield Verdict("collapsed", f"gives the same features for all inputs from {position(layer)} on")
    for layer in layers:
        if not signals.normalized and layer.near is not None and layer.near < CHAOTIC:
            yield Verdict("chaotic", f"tears similar inputs apart from {position(layer)} on")
    if chance is not None and signals.loss is not None and signals.loss > LOSS * chance:
        yield Verdict("loss_above_chance", f"starts at a loss of {signals.loss:.3g}; guessing would give {chance:.3g}")


Values = Sequence[tuple[LayerSignal, float]]
Position = Callable[[LayerSignal], str]


def _not_finite(signals: Propagation, values: Values, position: Position) -> Iterator[Verdict]:
    for layer, value in values:
        if not math.isfinite(value):
            yield Verdict("not_finite", f"is not finite from {position(layer)} on")
    if not all(map(math.isfinite, (signals.loss or 0.0, signals.output, signals.gradient_norm))):
        yield Verdict("not_finite", "is finite in all layers, but not in the loss or its gradient")


def _dead(signals: Propagation, outputs: Values, position: Position) -> Iterator[Verdict]:
    for index, fraction in enumerate(signals.dead, start=1):
        if fraction >= DEAD:
            yield Verdict("dead", f"is dead: {fraction:.0%} of the units of ReLU {index} are 0 for every input")
    for layer, value in outputs:
        if not value:
            yield Verdict("dead", f"is dead: the outputs of {position(layer)} are 0")
    if not signals.gradient_norm:
        yield Verdict("dead", "is dead: the gradient is 0")


def _changes(outputs: Values, gradients: Values, updates: Values, position: Position) -> Iterator[Verdict]:
    if outputs:
        start = outputs[0][1]
        layer, largest = max(outputs, key=lambda pair: pair[1])
        if largest > FACTOR * start:
            yield Verdict("exploding", f"explodes by {_power(largest / start)} up to {position(layer)}")
    if len(gradients) > 1 and gradients[-1][1]:
        growth = gradients[0][1] / gradients[-1][1]
        if growth > FACTOR:
            yield Verdict("exploding", f"has gradients that explode by {_power(growth)} towards the input")
    for layer, value in outputs:
        if value * FACTOR < outputs[0][1]:
            yield Verdict("vanishing", f"vanishes at {position(layer)}")
    for pairs in (gradients, updates):
        for layer, value in reversed(pairs):
            if value * FACTOR < pairs[-1][1]:
                yield Verdict("vanishing", f"has gradients that vanish below {position(layer)}")


def _power(factor: float) -> str:
    return f"1e{round(math.log10(factor))}" if math.isfinite(factor) else "∞"
