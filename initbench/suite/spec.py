"""TrialSpec: one trial, with every default resolved, and its identity; TrialDraft: one whose data are not known yet."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from initbench.inputs import Inputs
from initbench.randomness import derive_seed
from initbench.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SCHEMA = 2
"""The format of records and of what stands beside them."""
Protocol = Literal["recipe", "shared", "own"]
"""The values at which the trials of a tuned suite are compared: see `TrialDraft.protocols`."""
TUNING_LABELS = ("tuned", "protocols")
"""The labels that stand in plain data only where they are not empty."""
_FROZEN = ConfigDict(frozen=True, extra="forbid")
_REPLICATE = {"seed", "probes"}


class ComponentSpec(BaseModel):
    """An initializer, architecture, dataset or probe with all its arguments.

    Attributes:
        name: the registered name.
        arguments: every argument, defaults included, as plain data; one that is an initializer itself as its
            ``name``, ``arguments``, ``version`` and ``source``.
        version: the component's version.
        source: for a plug-in, the SHA-256 of its source.
    """

    model_config = _FROZEN

    name: str
    arguments: dict[str, Any] = {}
    version: int = 1
    source: str | None = None


class DatasetSpec(ComponentSpec):
    """A dataset, and what it asks of a model.

    Attributes:
        task: what is learned from it.
        inputs: one sample.
        outputs: how many outputs a model must have.
        content: the hash of the source's bytes, its identity in the place of any path; None where name, version and
            arguments are all of it.
        reading: the arguments that say how its files are read, of those that have any: they change no number.
    """

    task: str = "classification"
    inputs: Inputs
    outputs: int
    content: str | None = None
    reading: dict[str, Any] = {}

    @property
    def all_arguments(self) -> dict[str, Any]:
        """All that the dataset is called with."""
        return self.arguments | self.reading

    @model_serializer(mode="wrap")
    def _without_nothing(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = serialize(self)
        return plain if plain.get("reading") else {name: value for name, value in plain.items() if name != "reading"}


class TrialDraft(BaseModel):
    """A trial of which it is not known what its data are: the files may be absent. It has no identity.

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
        set_by_rules: the keys that the suite's rules set (``recipe.clip_norm``); a label: cells are paired without
            them.
        scheme_named_by: who asks for the scheme: the ``suite``, the ``initializer``, or both, where two entries of the
            suite come to one trial; a label.
        tuned: the keys that the suite's `tune` searches, of search trials and final ones; a label: cells are paired
            without them.
        protocols: under which protocols a final trial of a tuned suite stands: at the ``recipe``'s values as written,
            at the ``shared`` ones of its workload, at its cell's ``own`` best; empty for search trials and elsewhere;
            a label.
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
    tuned: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = ()

    @model_serializer(mode="wrap")
    def _without_labels_of_tuning(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A trial of a suite that tunes nothing is recorded as it was before there was tuning.
        plain: dict[str, Any] = serialize(self)
        return {name: value for name, value in plain.items() if value or name not in TUNING_LABELS}

    def on(self, dataset: DatasetSpec) -> TrialSpec:
        """Return the trial, with what its data are."""
        return TrialSpec.model_construct(**{**dict(self), "dataset": dataset})


class TrialSpec(TrialDraft):
    """Architecture × scheme × initializer × dataset × recipe × probes × seed: the unit that runs.

    Attributes:
        dataset: what it is trained on, and what that asks of a model.
    """

    dataset: DatasetSpec

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What is hashed: everything that changes the numbers, and nothing else; see `initbench.suite.identity`."""
        from initbench.suite.identity import identity

        return identity(self)

    @property
    def stream_seed(self) -> int:
        """The seed of all random streams of the trial: a search has others than the final trial of its seed."""
        return self.seed if self.phase == "final" else derive_seed(self.seed, "search")

    @cached_property
    def id(self) -> str:
        """The SHA-256 of the identity."""
        return digest(self.identity)

    @cached_property
    def cell(self) -> str:
        """The hash of the identity without seed and probes: trials of one cell are replicates."""
        return cell_id(self.identity)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, and so with an identity of its own (pydantic would copy the cached one)."""
        copied = super().model_copy(update=update, deep=deep)
        for cached in ("id", "identity", "cell"):
            copied.__dict__.pop(cached, None)
        return copied


def cell_id(identity: Mapping[str, Any], tuned: Collection[str] = ()) -> str:
    """Return the hash of an identity without its seed and probes: trials of one cell are replicates.

    Args:
        identity: of a trial.
        tuned: the keys that a search chooses for each seed (``recipe.lr``), by which cells are not told apart.
    """
    kept = {key: value for key, value in identity.items() if key not in _REPLICATE}
    for key in tuned:
        kind, _, name = key.partition(".")
        inside = "recipe" if kind == "recipe" else "arguments"
        part = kept[kind] if kind == inside else kept[kind][inside]
        without = {own: value for own, value in part.items() if own != name}
        kept[kind] = without if kind == inside else kept[kind] | {inside: without}
    return digest(kept)


def digest(canonical: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain data, whatever the order of its keys."""
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
