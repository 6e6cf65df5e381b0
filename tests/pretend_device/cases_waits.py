"""How often the host waits for the device: never in a training step, and elsewhere as often as this table says."""

from collections import Counter

import pytest
from components import DEFAULTS, GRADINIT, HESSIAN, METAINIT, MLP, NOISE, STEP
from pretend import waits
from trials import run, trials_of

from initbench.data import load

WAITS = Counter
MANY = NOISE | {"train_size": 64}
PLAIN = {"epochs": 1, "lr": 0.01, "batch_size": 4}
AUGMENTED = PLAIN | {"crop": 1, "flip": True, "cutout": 2, "mixup": 0.4, "clip_norm": 1.0, "accumulate": 2}
SIGNAL = {"name": "signal_by_depth", "batch_size": 4}
QUOTIENT = {"name": "gradient_quotient", "batch_size": 4}


def steps(n, **recipe):
    plain = {key: value for key, value in (PLAIN | recipe).items() if key != "epochs"}
    return {"dataset": MANY, "recipe": plain | {"steps": n}}


def tuned(initializer, name, n, **arguments):
    return {"initializers": initializer | {name: n} | arguments, "recipe": STEP | {"epochs": 0}}


def probed(probe):
    return {"probes": [probe], "recipe": STEP | {"epochs": 0}}


# A suite with n units, two counts of units, and the waits of each further unit.
UNITS = {
    "a training step": (steps, 3, 9, {}),
    "an augmented training step": (lambda n: steps(n, **AUGMENTED), 3, 9, {}),
    "a training step in bf16": (lambda n: steps(n, precision="bf16"), 3, 9, {}),
    "a training epoch": (lambda n: {"recipe": PLAIN | {"epochs": n}}, 1, 3, {"to_device": 1, "to_host": 2}),
    "an augmented training epoch": (lambda n: {"recipe": AUGMENTED | {"epochs": n}}, 1, 3,
        {"to_device": 5, "to_host": 2}),
    "a step of MetaInit": (lambda n: tuned(METAINIT, "steps", n), 2, 4, {}),
    "a step of MetaInit on real data": (lambda n: tuned(METAINIT, "steps", n, data="real"), 2, 4, {}),
    "a step of MetaInit in micro-batches": (lambda n: tuned(METAINIT, "steps", n, micro_batch_size=2), 2, 4,
        {"read": 2, "to_host": 1}),
    "an iteration of GradInit": (lambda n: tuned(GRADINIT, "iterations", n), 4, 6, {"read": 2}),
    "a batch that is evaluated": (lambda n: {"dataset": MANY | {"test_size": 4096 * n}, "recipe": PLAIN}, 1, 3, {}),
    "a batch of the signal by depth": (lambda n: probed(SIGNAL | {"batches": n}), 1, 3, {}),
    "a batch of the gradient quotient": (lambda n: probed(QUOTIENT | {"batches": n}), 2, 4, {}),
    "three products with the Hessian": (
        lambda n: probed(HESSIAN | {"lanczos_steps": 3, "lanczos_vectors": n, "batches": 1}), 1, 3,
        {"to_device": 2, "to_host": 5},
    ),
}  # fmt: skip


def waits_of(suite):
    [trial] = trials_of(**DEFAULTS | {"architectures": MLP} | suite)
    load._kept.cache_clear()  # every trial copies its data
    run(trial)
    return Counter(waits)


@pytest.mark.parametrize("unit", UNITS)
def test_waits_of(unit):
    suite, few, many, expected = UNITS[unit]
    more = waits_of(suite(many))
    more.subtract(waits_of(suite(few)))
    assert {kind: n / (many - few) for kind, n in more.items() if n} == expected
