"""TrialSpec: one trial, with every default resolved, and its identity."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from initbench.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class ComponentSpec(BaseModel):
    """An initializer, architecture, dataset or probe with all its arguments.

    Attributes:
        name: the registered name.
        arguments: every argument, defaults included.
        version: the component's version.
        source: for a plug-in, the SHA-256 of its source.
        base: for a tuner, the distribution that it starts from; None takes the model as it was built.
        batch_size: for a tuner, samples per batch.
    """

    model_config = _FROZEN

    name: str
    arguments: dict[str, Any] = {}
    version: int = 1
    source: str | None = None
    base: ComponentSpec | None = None
    batch_size: int | None = None


class TrialSpec(BaseModel):
    """Architecture × scheme × initializer × dataset × recipe × probes × seed: the unit that runs.

    Attributes:
        suite: the suite's name; a label, not part of the identity.
        architecture: what is trained.
        scheme: the scheme that it is built with.
        initializer: what sets its parameters.
        dataset: what it is trained on.
        recipe: how it is trained.
        probes: what is measured before training.
        seed: which replicate.
        phase: ``search`` trials choose a learning rate and never open the test split.
        set_by_rules: the keys that the suite's rules set (``recipe.clip_norm``); a label, not part of the identity:
            cells are paired without them.
    """

    model_config = _FROZEN

    suite: str
    architecture: ComponentSpec
    scheme: str = "standard"
    initializer: ComponentSpec
    dataset: ComponentSpec
    recipe: Recipe
    probes: tuple[ComponentSpec, ...]
    seed: int
    phase: Literal["search", "final"] = "final"
    set_by_rules: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        """The SHA-256 of the canonical spec: everything in a suite that changes the numbers, and nothing else."""
        return _digest(self.model_dump(mode="json", exclude={"suite", "set_by_rules"}))

    @cached_property
    def cell(self) -> str:
        """The SHA-256 of the spec without its seed and probes: the unit that is compared."""
        return cell_id(self.model_dump(mode="json"))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, and so with an identity of its own (pydantic would copy the cached one)."""
        copied = super().model_copy(update=update, deep=deep)
        for cached in ("id", "cell"):
            copied.__dict__.pop(cached, None)
        return copied


def cell_id(spec: Mapping[str, Any]) -> str:
    """Return the `TrialSpec.cell` of a spec as plain data."""
    return _digest({k: v for k, v in spec.items() if k not in {"suite", "set_by_rules", "seed", "probes"}})


def _digest(canonical: dict[str, Any]) -> str:
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
