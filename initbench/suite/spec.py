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
    """

    model_config = _FROZEN

    name: str
    arguments: dict[str, Any] = {}
    version: int = 1
    source: str | None = None


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
        scheme_named_by: ``suite``, ``initializer``, or both where two entries come to this trial; a label.
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
    scheme_named_by: tuple[Literal["suite", "initializer"], ...] = ("suite",)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What is hashed: everything in a suite that changes the numbers, and nothing else."""
        return self.model_dump(mode="json", exclude={"suite", "set_by_rules", "scheme_named_by"})

    @cached_property
    def id(self) -> str:
        """The SHA-256 of the canonical spec: everything in a suite that changes the numbers, and nothing else."""
        return _digest(self.identity)

    @cached_property
    def cell(self) -> str:
        """The SHA-256 of the spec without its seed and probes: the unit that is compared."""
        return cell_id(self.identity)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, and so with an identity of its own (pydantic would copy the cached one)."""
        copied = super().model_copy(update=update, deep=deep)
        for cached in ("identity", "id", "cell"):
            copied.__dict__.pop(cached, None)
        return copied


def cell_id(identity: Mapping[str, Any]) -> str:
    """Return the `TrialSpec.cell` of an identity: its hash without the seed and the probes."""
    return _digest({k: v for k, v in identity.items() if k not in {"seed", "probes"}})


def _digest(canonical: dict[str, Any]) -> str:
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
