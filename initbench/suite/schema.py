"""The schema of a suite file: which keys there are, of which types, with which defaults."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any, Literal, Self

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
from initbench.claims.claim import Claim, Published, key_as_written, keys_at
from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.suite.document import Document
from initbench.suite.tuning import Tune

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
_MOST_SEEDS = 10_000
_MINUTES = 10.0
DEFAULT_PROBES = ("gradient_quotient", "gradient_norm")
_ONE_OR_SEVERAL = {"dataset", "compare"}


def _name_alone(value: Any) -> Any:
    """Read ``kaiming`` as ``{name: kaiming}``."""
    if not isinstance(value, str | dict | Entry):
        raise ValueError(f"must be a name or a mapping {{name: ...}}, got {show(value)}")  # pydantic's protocol
    return {"name": value} if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    """Read one value as a list of it."""
    return value if isinstance(value, list) else [value]


def _factors(value: Any) -> Any:
    """Read one factor as a list of it."""
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
    """A component by name; its other keys are arguments, checked against the component itself."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    name: Annotated[str, Field(min_length=1)]


NamedEntry = Annotated[Entry, BeforeValidator(_name_alone)]


class Rule(BaseModel):
    """What the suite sets for the pairs that match."""

    model_config = _STRICT

    when: Annotated[dict[str, Any], Field(min_length=1)]
    recipe: dict[str, Any] = {}
    initializer: dict[str, Any] = {}

    @model_validator(mode="after")
    def _sets_something(self) -> Self:
        if not self.recipe and not self.initializer:
            raise ValueError("sets nothing; give it recipe: {...} or initializer: {...}")
        return self


class Resources(BaseModel):
    """What each trial takes.

    Attributes:
        cpus: CPU cores; no fewer than ``recipe.threads`` are taken.
        gpus: the fraction of a GPU, 0 for none: a trial uses one.
        shared_networks_gb: disk that initialized networks may take which several trials start from; 0 to share none.
        minutes: most wall time of one attempt; a trial that takes longer has failed. None for any.
        memory_gb: most memory in gigabytes (10⁹ bytes, that of a GPU not counted), as `minutes`.
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
    """When trials under way are kept on disk, and where. It changes no number and is no part of a trial's id.

    Attributes:
        every_epochs: epochs between two checkpoints of a trial.
        every_minutes: minutes between them, in the place of `every_epochs`; where neither is given 10.
        folder: in it a folder of the suite's name has them; None for ``checkpoints`` beside the ledger. Nodes of a
            cluster have to reach it at the same path.
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
        """Seconds between two checkpoints; None where epochs are counted."""
        if self.every_epochs is not None:
            return None
        return 60 * (_MINUTES if self.every_minutes is None else self.every_minutes)


class SuiteFile(BaseModel):
    """A suite file as written; `Suite` is what it means.

    Attributes:
        name: of the suite and of its folder below ``runs``.
        description: the question that it answers.
        dataset: what is trained on, one or several.
        architectures: what is trained.
        initializers: what sets the parameters.
        compare: the factors whose values are compared, see `initbench.comparing.treatments`; all else is the workload.
        recipe: fields of `Recipe`, and ``use``, see `initbench.suite.load`; a list is crossed.
        tune: what every cell finds on the validation split; None where nothing is tuned.
        rules: what depends on the pair; a later rule wins.
        exclude: pairs that do not run.
        probes: what is measured before training.
        seeds: a number of replicates, or their seeds.
        resources: what each trial takes.
        checkpoints: when trials under way are kept, and where; null for never.
        keep_checkpoints: ``last`` keeps the network as it is after the last step; ``none`` removes the checkpoints of a
            trial that has come to a result.
        published: numbers of a paper that stand beside the suite's; None for none.
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
                raise ValueError(f"the claim {name} stands twice")
        return value

    @field_validator("name")
    @classmethod
    def _a_folder_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
            raise ValueError(
                "must begin with a letter or digit and have letters, digits, '-', '_' and '.' alone "
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
                raise ValueError(f"the seed {seed} stands twice")
        return value


def validate(document: Document) -> SuiteFile:
    """Check a document against the schema."""
    try:
        return SuiteFile(**document.data)
    except ValidationError as error:
        # A misspelled key is often the reason why another one is missing, so it is told first.
        errors = sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
        key: Key = _as_written(document, errors[0]["loc"])
        raise document.error(key, explain(errors[0], _valid_keys(key))) from None


def entry_key(document: Document, section: str, index: int) -> Key:
    """Return where an entry of a section stands, which may be the section itself: ``dataset: digits``."""
    return (section, index) if isinstance(document.data.get(section), list) else (section,)


def _as_written(document: Document, key: Key) -> Key:
    """Return a key without what validation has put into it: the index of `_listed`, and the kind of a criterion."""
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
    return list(owner.model_fields) if owner else keys_at(key)
