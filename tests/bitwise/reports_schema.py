"""Trial records of schema 2 as schema 1 had them, so that version 0.1 can report on the trials of today.

Records are plain data here, as their files hold them. What moved is moved; what schema 1 had no place for is left out,
and only where it says nothing that a report of 0.1 would have had to say: else the trial is refused.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Record = dict[str, Any]

NEW_IN_RECIPE = {
    "steps": None,
    "accumulate": 1,
    "batch_norm": "whole_batch",
    "warmup_steps": 0,
    "random_resized_crop": None,
    "evaluate_every": None,
    "lr_multipliers": None,
    "weight_decays": None,
}
"""The fields of a recipe that schema 1 did not have, each with the value by which nothing differs from schema 1."""
_OF_DATASETS = ("task", "inputs", "outputs", "content", "reading")
_OF_MEASUREMENTS = ("kind", "unit", "log")
_ONLY_KNOWN: dict[str, Callable[[Any], bool]] = {
    "optimizer": {"sgd", "signsgd", "adam"}.__contains__,
    "schedule": {"cosine", "step", "constant"}.__contains__,
    "epochs": bool,
}


class NotInSchema1Error(Exception):
    """A trial that schema 1 could not have recorded."""


def schema_1(record: Mapping[str, Any]) -> Record:
    """Return a record of schema 2 as schema 1 had it.

    - Moved: a tuner's ``base`` and ``batch_size`` stand beside its arguments; the environment is as it is, for 0.1
      read flat entries too.
    - Left out: ``identity`` and ``task``; of the spec ``scheme_named_by``, of its dataset the task, the inputs, the
      outputs, the content and how it is read, of its recipe `NEW_IN_RECIPE`; measurements that are no scalar, and of
      the others kind and unit.

    Args:
        record: as in its file.

    Raises:
        NotInSchema1Error: it is of another task than classification, or its recipe does what 0.1 could not.
    """
    found: Record = copy.deepcopy(dict(record))
    found["schema"] = 1
    task = found.pop("task").get("name", "classification")
    del found["identity"]
    if task != "classification":
        raise NotInSchema1Error(f"{found['id'][:12]}: schema 1 had no task {task}")
    spec = found["spec"]
    del spec["scheme_named_by"]
    spec["initializer"] = _initializer(spec["initializer"])
    for name in _OF_DATASETS:
        spec["dataset"].pop(name, None)
    recipe = spec["recipe"]
    for name, value in NEW_IN_RECIPE.items():
        if recipe.pop(name, value) != value:
            raise NotInSchema1Error(f"{found['id'][:12]}: schema 1 had no recipe.{name}")
    for name, known in _ONLY_KNOWN.items():
        if not known(recipe[name]):
            raise NotInSchema1Error(f"{found['id'][:12]}: schema 1 had no recipe.{name} = {recipe[name]}")
    found["probes"] = [
        {key: value for key, value in probe.items() if key not in _OF_MEASUREMENTS}
        for probe in found["probes"]
        if probe["kind"] == "scalar"
    ]
    return found


def _initializer(component: Mapping[str, Any]) -> Record:
    """Return an initializer, or the base of one, with what stood beside the arguments of a tuner."""
    arguments = dict(component["arguments"])
    base, batch_size = arguments.pop("base", None), arguments.pop("batch_size", None)
    return {
        **component,
        "arguments": arguments,
        "base": None if base is None else _initializer(base),
        "batch_size": batch_size,
    }
