"""Suites that the older version runs for the comparison of reports: small networks for seconds, every kind of question.

The folder that it leaves is then read by both versions, byte for byte the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

PLUGIN = '''\
"""Initializers whose trials do not finish."""

import initbench


@initbench.register_initializer("enormous")
def enormous():
    """Fill the weights with numbers whose products overflow."""
    law = {"law": "constant", "value": 1e30}
    return initbench.Distribution(lambda layer, generator: (layer.weight.new_full(layer.weight.shape, 1e30), law))


@initbench.register_initializer("broken")
def broken():
    """Fail on deep networks."""

    def apply(model, context):
        if sum(parameter.dim() > 1 for parameter in model.parameters()) > 3:
            raise RuntimeError("this network is too deep")
        context.apply(initbench.Initializer("kaiming"), model)

    return apply
'''

SUITES = {
    "several": """\
name: several
description: Does normalization change which initializer is best?
dataset: {name: digits, train_size: 96}
architectures:
  - {name: mlp, depth: [2, 4], width: 8, norm: [none, batch]}
  - {name: wrn, depth: 10, width: 1, norm: none}
compare: [initializer, architecture.norm]
initializers: [kaiming, {name: xavier, gain: [0.5, 1.25]}, enormous, broken, fixup]
recipe: {epochs: 2, batch_size: 32, lr: 0.1}
rules: [{when: {initializer: xavier, depth: 4}, recipe: {clip_norm: 1.0}}]
exclude: [{initializer: broken, norm: batch}, {initializer: [xavier, enormous], architecture: wrn}]
probes: [gradient_norm]
seeds: 3
""",
    "architectures": """\
name: architectures
dataset: {name: digits, train_size: [48, 96]}
architectures: [{name: mlp, depth: 2, width: [4, 8]}, {name: mlp, depth: 3, width: 8, activation: tanh}]
compare: [architecture, recipe.momentum]
initializers: [kaiming, orthogonal]
recipe: {epochs: 2, batch_size: 32, lr: 0.1, momentum: [0.0, 0.9]}
probes: [gradient_quotient]
seeds: 2
""",
    "own-rates": """\
name: own-rates
description: Which initializer is best at a rate of its own?
dataset: {name: digits, train_size: 96}
architectures: [{name: mlp, depth: 2, width: 8}]
initializers: [kaiming, {name: xavier, gain: 0.1}, {name: metainit, base: orthogonal, steps: 2, batch_size: 16}]
recipe: {epochs: 2, batch_size: [16, 32], lr: 0.1}
tune: {recipe.lr: [0.01, 0.1, 1.0]}
probes: [gradient_quotient]
seeds: 3
""",
    "drawn": """\
name: drawn
dataset: {name: digits, train_size: 96}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
compare: [initializer, recipe.warmup_epochs]
initializers: [{name: gaussian, std: 0.1}, kaiming]
recipe: {epochs: 2, batch_size: 32, lr: 0.1, warmup_epochs: [0.0, 1.0]}
tune: {recipe.lr: {log: [0.001, 1.0]}, initializer.std: {log: [0.01, 1.0]}, tries: 3, points: random, search: once}
probes: []
seeds: 2
""",
    "claimed": """\
name: claimed
description: Do small weights train?
dataset: {name: digits, train_size: 96}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
initializers: [kaiming, {name: gaussian, std: 1.0e-06}, {name: metainit, base: kaiming, steps: 2, batch_size: 16}]
recipe: {epochs: 3, batch_size: 16, lr: 0.1, momentum: 0.9}
probes: [gradient_quotient, parameter_norm]
seeds: 3
published:
  source: a paper
  differs: smaller networks and fewer samples.
  numbers:
    - {what: "Network, small weights", where: Table 1, value: 0.9, of: {initializer: gaussian, depth: 2}}
    - {what: "Network, Kaiming", where: Table 1, value: 0.1, of: {initializer: kaiming, depth: 2}}
    - what: Its quotient
      where: Figure 2
      value: 0.5
      measure: probe.gradient_quotient
      of: {initializer: kaiming, depth: 3}
claims:
  - id: small-weights-fail
    claim: A network whose weights are far too small does not train.
    source: a paper, section 1
    criteria:
      - {judge: at_chance, of: {initializer: gaussian}, each: [depth]}
      - {judge: ordering, lower: {initializer: kaiming, depth: 2}, higher: {initializer: gaussian, depth: 2}, by: 0.1}
  - id: tuning-helps
    claim: MetaInit is better than what it starts from.
    source: a paper, section 2
    criteria: [{judge: lead, lower: {initializer: metainit, depth: 3}, higher: {initializer: kaiming, depth: 3}}]
    refuted_by: [{judge: ordering, lower: {initializer: kaiming, depth: 3}, higher: {initializer: metainit, depth: 3}}]
  - id: norms-stay
    claim: MetaInit keeps most norms.
    source: a paper, section 3
    criteria:
      - judge: layers
        of: {initializer: metainit, depth: 3}
        against: {initializer: kaiming, depth: 3}
        measure: probe.parameter_norm
        layers: weight
        at_least: 0.5
        at_most: 2.0
""",
    "second": """\
name: second
dataset: {name: digits, train_size: 96}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
initializers: [kaiming, {name: xavier, gain: [0.5, 1.0]}]
recipe: {epochs: 3, batch_size: 16, lr: 0.1, momentum: 0.9}
rules: [{when: {initializer: xavier, depth: 3}, recipe: {clip_norm: 1.0}}]
probes: [gradient_quotient, parameter_norm]
seeds: 3
""",
}


def _half_searched(record: dict[str, Any]) -> bool:
    """Keep what a search that was stopped has: all of the first seed, some of the second."""
    spec = record["spec"]
    searched = spec["phase"] == "search" and (spec["seed"] == 0 or (spec["seed"] == 1 and spec["recipe"]["lr"] < 0.5))
    return searched or (spec["phase"] == "final" and spec["seed"] == 0)


class Ran(NamedTuple):
    """A set of trials.

    Attributes:
        suites: those of one report.
        keep: which records stay.
        mlflow: whether the report is read from MLflow.
    """

    suites: tuple[str, ...]
    keep: Callable[[dict[str, Any]], bool] = lambda _: True
    mlflow: bool = False


RAN = {
    "several factors": Ran(("several",)),
    "architectures compared": Ran(("architectures",)),
    "own searches": Ran(("own-rates",)),
    "half a search": Ran(("own-rates",), _half_searched),
    "random searches": Ran(("drawn",)),
    "claims and published numbers": Ran(("claimed",)),
    "two suites": Ran(("claimed", "second")),  # which have trials in common
    "from MLflow": Ran(("claimed",), mlflow=True),
}
