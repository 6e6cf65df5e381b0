"""All that the comparison knows of a tree's interface and of its record: the one place to adapt after a redesign.

It runs on the reference and on the redesigned tree alike, whichever PYTHONPATH names. Where the two differ, both forms
are understood, and `normalized` gives the same names to the same numbers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

import initbench.execution.trial as trial_module
from initbench.errors import InitbenchError
from initbench.registry import register_probe
from initbench.suite.load import load_suite
from initbench.suite.plan import plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor, nn

if find_spec("initbench.probes.parameter_norm") is None:  # before 0.2 this probe was called weight_norm
    register_probe("parameter_norm")(import_module("initbench.probes.weight_norm").weight_norm)

Refusal = InitbenchError
"""What the library raises where it will not do what it is asked to."""
State = dict[str, dict[str, str]]


def trials_of(suite_text: str, phase: str = "final") -> tuple[dict[str, Any], dict[str, str]]:
    """Return the trials of a suite by key, and why those that cannot run are incompatible, by key as well.

    A key has what both trees call the same: architecture, depth, scheme, initializer and seed; trials that share these
    (variants of one initializer) are told apart by their place in the plan, which is the order of the suite file.

    Args:
        suite_text: the suite file.
        phase: ``search`` for trials that do not open the test split.

    Raises:
        Refusal: the suite cannot be planned.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "suite.yaml"
        path.write_text(suite_text, encoding="utf-8")
        planned = _plan(load_suite(path))
    numbered = _Numbered()
    trials = {numbered.key(spec): spec.model_copy(update={"phase": phase}) for spec in planned.trials}
    numbered = _Numbered()
    pairs: dict[str, str] = {}
    for item in planned.incompatible:
        key, network = numbered.key(item.spec), numbered.network(item.spec)
        # A network that cannot run at all is one pair; before 0.2 it was one for each initializer.
        pairs[key if any(numbered.network(spec) == network for spec in planned.trials) else network] = item.reason
    return trials, pairs


def _plan(suite: Any) -> Any:
    """Return the plan of a suite; since 0.2 its datasets are described before it."""
    old = find_spec("initbench.suite.datasets") is not None
    describing = import_module("initbench.suite.datasets" if old else "initbench.suite.load")
    if not hasattr(describing, "describe_datasets"):
        return plan(suite)
    return plan(suite, descriptions=describing.describe_datasets(suite))


class _Numbered:
    """Gives each trial of a plan a key of its own."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    @staticmethod
    def network(spec: Any) -> str:
        """Return the architecture with its depth, and the scheme."""
        depth = spec.architecture.arguments.get("depth")
        return spec.architecture.name + (f"-{depth}" if depth is not None else "") + f" {spec.scheme}"

    def key(self, spec: Any) -> str:
        """Return a trial's key; the second of the same description ends in #2."""
        key = f"{self.network(spec)} {spec.initializer.name} seed={spec.seed}"
        self.seen[key] += 1
        return key if self.seen[key] == 1 else f"{key} #{self.seen[key]}"


def run(spec: Any) -> tuple[Mapping[str, Any], dict[str, State]]:
    """Run a trial; return its record as plain data, and the model's state after initialization and after training.

    Args:
        spec: one trial of `trials_of`.

    Raises:
        Refusal: the trial cannot be run, such as an initializer that does not go with the model.
    """
    with _states_of_the_model() as states:
        record = trial_module.run_trial(spec)
    return record.to_json(), states


@contextmanager
def _states_of_the_model() -> Iterator[dict[str, State]]:
    """Take the model's state before and after training, for which `run_trial` calls what it knows as ``train``."""
    states: dict[str, State] = {}
    original = trial_module.train

    def train(model: nn.Module, *args: Any, **options: Any) -> Any:
        states["after initialization"] = _state(model)
        result = original(model, *args, **options)
        states["after training"] = _state(model)
        return result

    trial_module.train = train
    try:
        yield states
    finally:
        trial_module.train = original


def _state(model: nn.Module) -> State:
    return {
        "parameters": {name: _digest(tensor) for name, tensor in model.named_parameters(remove_duplicate=False)},
        "buffers": {name: _digest(tensor) for name, tensor in model.named_buffers(remove_duplicate=False)},
    }


def _digest(tensor: Tensor) -> str:
    """Return type, shape and the SHA-256 of the values, in the order of the indices whatever the memory format."""
    values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    shape = "×".join(map(str, tensor.shape))
    return f"{tensor.dtype} {shape} {hashlib.sha256(values.numpy().tobytes()).hexdigest()}"


def normalized(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a record under names that both trees have.

    Not compared: the spec (its form may change), the sentences of ``initialization.tensors``, ``initialization.base``,
    environment and timing.

    Args:
        record: a trial record as plain data, of either tree.
    """
    initialization = record["initialization"]
    return {
        "outcome": record["status"],
        "metrics": record["metrics"],
        "history": record["history"],
        "initialization": {name: initialization[name] for name in ("history", "conditions", "cost")},
        "probes": _probes(record["probes"]),
    }


def _probes(entries: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what was measured by a probe's name; norms per layer under ``<probe>.per_layer``, as the newer record has.

    Args:
        entries: ``{name, value, conditions}``, or the newer ``{name, kind, value | values | x and y, unit,
            conditions}``.
    """
    probes: dict[str, Any] = {}
    for entry in entries:
        found = {name: value for name, value in entry.items() if name not in {"name", "kind", "unit"}}
        if "kind" not in entry and "per_layer" in entry["conditions"]:
            conditions = dict(entry["conditions"])
            probes[f"{entry['name']}.per_layer"] = _layers(conditions.pop("per_layer"))
            found["conditions"] = conditions
        probes[entry["name"]] = found
    return probes


def _layers(norms: Mapping[str, Any]) -> dict[str, Any]:
    """Return norms per layer as the newer record has them: what is not finite is told beside them, not among them."""
    values = {name: norm for name, norm in norms.items() if not name.endswith("_reason")}
    reasons = [norms[f"{name}_reason"] for name, norm in values.items() if norm is None]
    return {"values": values} | ({"values_reason": ", ".join(dict.fromkeys(reasons))} if reasons else {})
