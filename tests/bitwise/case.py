"""What the cases are made of: the smallest datasets, models, recipes, initializers and probes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

Data = dict[str, Any]
SCHEMES = ["standard", "fixup", "skipinit", "weight_norm"]
NOISE: Data = {"name": "gaussian", "train_size": 8, "image_size": 8, "validation_size": 4, "test_size": 4}
PICTURES: Data = NOISE | {"image_size": 32}
DIGITS: Data = {"name": "digits", "train_size": 24}
TWO_STEPS: Data = {"epochs": 1, "batch_size": 4, "lr": 0.1}
FOUR_STEPS: Data = {"epochs": 2, "batch_size": 12, "lr": 0.1}
SMALL: Data = {"depth": 10, "width": 1, "norm": "none"}
PLAIN, WRN = {"name": "plain", **SMALL}, {"name": "wrn", **SMALL}
RESNET: Data = {"name": "resnet", "depth": 8, "norm": "none"}
MLP: Data = {"name": "mlp", "width": 8}
RESNET18: Data = {"name": "timm/resnet18"}
FASHION_MNIST = [
    Path("/usr/share/datasets/fashion-mnist"),
    Path(os.environ.get("INITBENCH_DATA", "data"), "FashionMNIST"),
]

DISTRIBUTIONS = [
    "delta_orthogonal", "fixup", "gaussian", "gpt2", "kaiming", "layer_scale", "lecun", "looks_linear", "orthogonal",
    "pytorch_default", "skipinit", "truncated_normal", "weight_norm", "xavier", "zero",
]  # fmt: skip
METAINIT: Data = {"name": "metainit", "steps": 2, "batch_size": 4}
GRADINIT: Data = {"name": "gradinit", "iterations": 3, "batch_size": 4}
LSUV: Data = {"name": "lsuv", "batch_size": 8}
DATA_DEPENDENT: Data = {"name": "data_dependent_weight_norm", "batch_size": 8}
INITIALIZERS: list[Data] = [*({"name": name} for name in DISTRIBUTIONS), METAINIT, GRADINIT, LSUV, DATA_DEPENDENT]
PROBES: list[Data] = [
    *({"name": name, "batch_size": 2, "batches": 2} for name in ("gradient_quotient", "gradient_norm", "initial_loss")),
    {"name": "parameter_norm"},
]


class Case(NamedTuple):
    """One suite.

    Attributes:
        name: by which `--only` finds it.
        suite: the suite file's content.
        slow: whether `--fast` leaves it out.
        phase: ``search`` for trials that do not open the test split.
        since: the first commit that has the components; None for those of version 0.1.
    """

    name: str
    suite: Data
    slow: bool = False
    phase: str = "final"
    since: str | None = None

    @property
    def absent(self) -> str | None:
        """What the case needs and this machine does not have."""
        needs = self.suite["dataset"]["name"] == "fashion_mnist"
        return "fashion_mnist is not here" if needs and not any(map(Path.is_dir, FASHION_MNIST)) else None

    def request(self) -> Data:
        """What the worker is told; JSON is YAML."""
        return {"name": self.name, "suite": json.dumps({"name": "bitwise", **self.suite}), "phase": self.phase}


def case(
    name: str,
    architectures: Data | list[Data],
    initializers: Data | list[Data] | str = "kaiming",
    *,
    dataset: Data = NOISE,
    recipe: Data = TWO_STEPS,
    slow: bool = False,
    phase: str = "final",
    since: str | None = None,
    **others: Any,
) -> Case:
    """Return a case; what it does not say is as small as can be.

    Args:
        name: of the case.
        architectures: one or several.
        initializers: one or several.
        dataset: what is trained on.
        recipe: how.
        slow: whether `--fast` leaves it out.
        phase: of its trials.
        since: the first commit that has its components.
        others: other keys of the suite file.
    """
    suite: Data = {
        "dataset": dataset,
        "architectures": architectures if isinstance(architectures, list) else [architectures],
        "initializers": initializers if isinstance(initializers, list) else [initializers],
        "recipe": recipe,
        "probes": [],
    }
    return Case(name, suite | others, slow, phase, since)
