"""Conditions on trials: the ``when`` of a rule, an ``exclude``, and ``--only`` on the command line.

Bare keys are ``architecture``, ``initializer``, ``dataset`` (names), ``scheme``, ``seed`` and the architecture's
arguments; others are dotted: ``initializer.steps``, ``recipe.lr``, ``dataset.image_size``. A list matches any of
its values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.errors import SuiteError
from initbench.suite.document import parse_value
from initbench.suite.schema import SCHEMES
from initbench.validation import nearest, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from initbench.suite.load import Suite
    from initbench.suite.spec import ComponentSpec, TrialSpec

Condition = dict[str, Any]


def properties(spec: TrialSpec) -> dict[str, Any]:
    """Return what conditions on a trial can name, defaults included."""
    found: dict[str, Any] = {
        "architecture": spec.architecture.name,
        "initializer": spec.initializer.name,
        "dataset": spec.dataset.name,
        "scheme": spec.scheme,
        "seed": spec.seed,
        **spec.architecture.arguments,
    }
    for kind in ("architecture", "initializer", "dataset"):
        component: ComponentSpec = getattr(spec, kind)
        found |= {f"{kind}.{name}": value for name, value in component.arguments.items()}
    if spec.initializer.batch_size is not None:
        found["initializer.base"] = spec.initializer.base.name if spec.initializer.base else None
        found["initializer.batch_size"] = spec.initializer.batch_size
    return found | {f"recipe.{name}": value for name, value in spec.recipe.model_dump().items()}


def matches(condition: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Return whether a trial with these `properties` meets every key of a condition."""
    for key, wanted in condition.items():
        if key not in found:
            return False
        values = wanted if isinstance(wanted, list) else [wanted]
        if not any(_equal(value, found[key]) for value in values):
            return False
    return True


def problem(condition: Mapping[str, Any], suite: Suite, known: Iterable[str]) -> tuple[str, str] | None:
    """Return (key, message) for the first key of a condition that can never match, None where there is none.

    Args:
        condition: of a rule, an ``exclude`` or ``--only``.
        suite: whose names are valid.
        known: every key that `properties` gives for some trial of the suite.
    """
    keys = sorted(known)
    names: dict[str, Sequence[str]] = {
        "architecture": [c.spec.name for c in suite.architectures],
        "initializer": [c.spec.name for c in suite.initializers],
        "dataset": [c.spec.name for c in suite.datasets],
        "scheme": SCHEMES,
    }
    for key, wanted in condition.items():
        if key not in keys:
            return key, f"unknown key{nearest(str(key), keys)}"
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if key in names and value not in names[key]:
                hint = nearest(value, set(names[key])) if isinstance(value, str) else ""
                return key, f"no {key} {show(value)} in this suite{hint}"
    return None


def parse_only(option: str) -> Condition:
    """Return the condition of ``--only initializer=metainit,kaiming``.

    Raises:
        SuiteError: not of that form.
    """
    key, equals, values = option.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise SuiteError(f"--only {option}: write --only KEY=VALUE,VALUE such as --only initializer=metainit,kaiming")
    return {key.strip(): parse_value(f"[{values}]", f"--only {option}")}


def _equal(wanted: Any, found: Any) -> bool:
    return bool(isinstance(wanted, bool) == isinstance(found, bool) and wanted == found)
