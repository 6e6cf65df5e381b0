"""Ledgers of tasks whose outcomes are no errors: R², of which more is better, and bits per byte."""

from __future__ import annotations

import numpy as np
from ledgers import DELTA_1, DELTA_2, KAIMING, LANGUAGE, METAINIT, PLAIN, REGRESSION, make_scored, make_spec

DEPTHS = (10, 16, 22, 28, 34)
FIVE = (KAIMING, DELTA_1, DELTA_2, METAINIT, {"name": "xavier"})
NAMES = ["kaiming", "delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]", "metainit(delta_orthogonal)", "xavier"]
DATASETS = {"regression": "sines", "language_modelling": "python_library", "classification": "digits"}


def noise(*key):
    return 0.001 * float(np.random.default_rng(key).standard_normal())


def world(task, value, depths=DEPTHS):
    """Return records whose i-th initializer is the i-th best; `value` takes the place and the depth's index."""
    return [
        make_scored(
            make_spec(
                own,
                PLAIN | {"depth": depth},
                seed,
                dataset={"name": DATASETS[task["name"]], "train_size": None, "image_size": None},
                task=task["name"],
            ),
            task,
            value(i, a) + noise(i, a, seed),
            quotient=1 + i + 0.01 * a,
        )
        for a, depth in enumerate(depths)
        for i, own in enumerate(FIVE)
        for seed in range(3)
    ]


def r_squared(i, a):
    return 0.9 - 0.05 * i - 0.01 * a


def bits(i, a):
    return 1.5 + 0.1 * i + 0.02 * a


def mixed():
    """Kaiming is the best on three workloads of regression and three of bits per byte, the others in order."""
    return [*world(REGRESSION, r_squared, DEPTHS[:3]), *world(LANGUAGE, bits, DEPTHS[:3])]
