"""The schema of a suite file: its keys, their types and defaults."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from initbench.arguments import Key, explain, show
from initbench.claims.claim import Claim, Published, key_as_written, keys_beside
from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.suite.document import Document
from initbench.suite.tuning import Tune

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
_MOST_SEEDS = 10_000
_MINUTES = 10.0
DEFAULT_PROBES = ("gradient_quotient", "gradient_norm")
_ONE_OR_SEVERAL = {"dataset", "compare"}


def _name_alone(value: Any) -> Any:
    if not isinstance(value, str | dict | Entry):
        raise ValueError(f"must be a name or a mapping {{name: ...}}, got {show(value)}")  # pydantic's protocol
    return {"name": value} if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _factors(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise ValueError(f"must be a factor or a list of factors, got {show(value)}")  # pydantic's protocol
    return _listed(value)


def _folder_alone(value: Any) -> Any:
    """Read ``checkpoints: /scratch/me`` as the folder."""
    if not (value is None or isinstance(value, str | dict | Checkpoints)):
        raise ValueError(  # pydantic's protocol
            f"must be a folder or a mapping {{every_minutes: ...}}, or null for none, got {show(value)}"
        )
    return {"folder": value} if isinstance(value, str) else value


def _counted(value: Any) -> Any:
    """Read ``seeds: 5`` as the seeds 0 to 4."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= _MOST_SEEDS:
            raise ValueError(f"must be at least 1 and at most {_MOST_SEEDS}, got {value}")
        return list(range(value))
    if not isinstance(value, list):
        raise ValueError(f"must be a number of seeds or a list of integers, got {show(value)}")  # pydantic's protocol
    return value


class Entry(BaseModel):
    """A component by name; the other keys are arguments, checked against the component itself."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    name: Annotated[str, Field(min_length=1)]


NamedEntry = Annotated[Entry, BeforeValidator(_name_alone)]


class Rule(BaseModel):
    """Values that the suite sets for the trials that match."""

    model_config = _STRICT

    when: Annotated[dict[str, Any], Field(min_length=1)]
    recipe: dict[str, Any] = {}
    initializer: dict[str, Any] = {}

    @model_validator(mode="after")
    def _sets_something(self) -> Self:
        if not self.recipe and not self.initializer:
            raise ValueError("sets nothing; add recipe: {...} or initializer: {...}")
        return self


class Resources(BaseModel):
    """The resources of each trial.

    Attributes:
        cpus: CPU cores, at least ``recipe.threads``.
        gpus: the fraction of a GPU, 0 for none; a trial uses at most one.
        shared_networks_gb: disk space for initialized networks that several trials start from; 0 to share none.
        minutes: the longest wall time of one attempt; a longer trial fails. None for no limit.
        memory_gb: the most memory in gigabytes (10⁹ bytes, without GPU memory), as `minutes`.
    """

    model_config = _STRICT

    cpus: Annotated[float, Field(gt=0)] = 1.0
    gpus: Annotated[float, Field(ge=0)] = 0.0
    shared_networks_gb: Annotated[float, Field(ge=0)] = 4.0
    minutes: Annotated[float, Field(gt=0)] | None = None
    memory_gb: Annotated[float, Field(gt=0)] | None = None

    @field_validator("gpus")
    @classmethod
    def _one_at_most(cls, value: float) -> float:
        if value > 1:
            raise ValueError(f"must be at most 1, as a trial uses one GPU, got {value:g}")
        return value


class Checkpoints(BaseModel):
    """When and where running trials are saved. It changes no number and is not part of a trial's id.

    Attributes:
        every_epochs: epochs between two checkpoints of a trial.
        every_minutes: minutes between them, instead of `every_epochs`; 10 if neither is given.
        folder: contains a folder with the suite's name for them; None for ``checkpoints`` beside the ledger. Nodes of a
            cluster must reach it at the same path.
    """

    model_config = _STRICT

    every_epochs: Annotated[int, Field(ge=1)] | None = None
    every_minutes: Annotated[float, Field(gt=0)] | None = None
    folder: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_period(self) -> Self:
        if self.every_epochs is not None and self.every_minutes is not None:
            raise ValueError("has every_epochs and every_minutes; give one of them")
        return self

    @property
    def every_seconds(self) -> float | None:
        """Seconds between two checkpoints; None if epochs are counted."""
        if self.every_epochs is not None:
            return None
        return 60 * (_MINUTES if self.every_minutes is None else self.every_minutes)


class SuiteFile(BaseModel):
    """A suite file as written; `Suite` is its meaning.

    Attributes:
        name: of the suite and of its folder below ``runs``.
        description: the question that the suite answers.
        dataset: one dataset or several.
        architectures: the networks.
        initializers: the initializers.
        compare: the compared factors, see `initbench.comparing.treatments`; all other factors make the workload.
        recipe: fields of `Recipe`, and ``use``, see `initbench.suite.load`; a list is crossed.
        tune: what each cell tunes on the validation split; None if nothing is tuned.
        rules: settings that depend on the trial; a later rule wins.
        exclude: trials that do not run.
        probes: measurements before training.
        seeds: a number of replicates, or their seeds.
        resources: of each trial.
        checkpoints: when and where running trials are saved; null for never.
        keep_checkpoints: ``last`` keeps the network after the last step; ``none`` removes the checkpoints of a trial
            that has a result.
        published: numbers of a paper, shown beside the suite's; None for none.
        claims: of a paper, judged by the suite's trials.
    """

    model_config = _STRICT

    name: Annotated[str, Field(min_length=1, max_length=100)]
    description: str = ""
    dataset: Annotated[list[NamedEntry], Field(min_length=1), BeforeValidator(_listed)]
    architectures: Annotated[list[NamedEntry], Field(min_length=1)]
    initializers: Annotated[list[NamedEntry], Field(min_length=1)]
    compare: Annotated[list[str], Field(min_length=1), BeforeValidator(_factors)] = [*DEFAULT_COMPARE]
    recipe: dict[str, Any] = {}
    tune: Tune | None = None
    rules: list[Rule] = []
    exclude: list[Annotated[dict[str, Any], Field(min_length=1)]] = []
    probes: list[NamedEntry] = [Entry(name=name) for name in DEFAULT_PROBES]
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1), BeforeValidator(_counted)] = [0]
    resources: Resources = Resources()
    checkpoints: Annotated[Checkpoints | None, BeforeValidator(_folder_alone)] = Checkpoints()
    keep_checkpoints: Literal["none", "last"] = "none"
    published: Published | None = None
    claims: list[Claim] = []

    @field_validator("claims")
    @classmethod
    def _no_claim_twice(cls, value: list[Claim]) -> list[Claim]:
        for name, count in Counter(claim.id for claim in value).items():
            if count > 1:
                raise ValueError(f"the claim {name} is given twice")
        return value

    @field_validator("name")
    @classmethod
    def _a_folder_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
            raise ValueError(
                "must begin with a letter or digit and have only letters, digits, '-', '_' and '.' "
                f"(it names a folder), got {show(value)}"
            )
        return value

    @field_validator("keep_checkpoints")
    @classmethod
    def _keeps_what_there_is(cls, value: str, info: ValidationInfo) -> str:
        if value != "none" and info.data.get("checkpoints", 0) is None:
            raise ValueError(f"{value} needs checkpoints, and the suite says checkpoints: null")
        return value

    @field_validator("seeds")
    @classmethod
    def _no_seed_twice(cls, value: list[int]) -> list[int]:
        for seed, count in Counter(value).items():
            if count > 1:
                raise ValueError(f"the seed {seed} is given twice")
        return value


def validate(document: Document) -> SuiteFile:
    try:
        return SuiteFile(**document.data)
    except ValidationError as error:
        # A misspelled key is often the reason why another one is missing, so it is reported first.
        errors = sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
        key: Key = _as_written(document, errors[0]["loc"])
        raise document.error(key, explain(errors[0], _valid_keys(errors[0]["loc"])) + _as_entry(errors[0])) from None


def _as_entry(error: ErrorDetails) -> str:
    """Return how to write an entry such as ``metainit: {steps: 10}``, which has no name; empty for other errors."""
    if error["type"] == "missing" and error["loc"][-1] == "name" and len(error["input"]) == 1:
        [(name, arguments)] = error["input"].items()
        if len(error["loc"]) > 1 and isinstance(arguments, dict):
            return f"; write {show({'name': name} | arguments)}"
    return ""


def entry_key(document: Document, section: str, index: int) -> Key:
    """Return the key of an entry of a section, which may be the section itself: ``dataset: digits``."""
    return (section, index) if isinstance(document.data.get(section), list) else (section,)


def _as_written(document: Document, key: Key) -> Key:
    """Return a key without the parts that validation adds: the index of `_listed`, and the kind of a criterion."""
    section, *rest = key
    if section in _ONE_OR_SEVERAL and rest and isinstance(rest[0], int):
        return (*entry_key(document, str(section), rest[0]), *rest[1:])
    return key_as_written(key)


def _valid_keys(key: Key) -> list[str]:
    owners: dict[str | int, type[BaseModel]] = {
        "rules": Rule,
        "resources": Resources,
        "checkpoints": Checkpoints,
        "tune": Tune,
    }
    owner = SuiteFile if len(key) == 1 else owners.get(key[0])
    return list(owner.model_fields) if owner else keys_beside(key)
