"""The record of a trial: one schema, made of the types that write it.

A record may have been cut off, edited by hand or written by another program. It is checked once, so that its readers
can rely on the types: a number is a number, and a label has its parts. The parts stay plain data as in the file, so
that keys of a later version survive. Only types are checked here; the plan decides which combinations of values are
valid.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isfinite
from typing import Annotated, Any, Literal, NotRequired, Self, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    Json,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
    with_config,
)
from pydantic.dataclasses import dataclass
from pydantic_core import core_schema, from_json, to_json
from typing_extensions import TypedDict  # pydantic takes no other below Python 3.12

from initbench.arguments import explain, show
from initbench.errors import LedgerError
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.suite.spec import SCHEMA, TUNING_LABELS, ComponentSpec, DatasetSpec, TrialSpec, digest
from initbench.training.recipe import RECIPE_VERSION, Recipe
from initbench.visible_text import visible

Status = Literal["finished", "diverged", "failed"]
# The keys of a spec that its identity leaves out.
_LABELS = ("suite", "set_by_rules", "scheme_named_by", *TUNING_LABELS)
_LARGEST = 2**63 - 1
_MOST_STEPS = 2**53
_MOST_NESTED = 40
_REASON = "_reason"
_FILE = "file"
_FORMAT = re.compile(r"[^{}]{0,20}\{:[^{}]{0,20}\}[^{}]{0,20}")
_RECIPE_DEFAULTS = Recipe().model_dump(mode="json")
_COMPONENTS = ("architecture", "initializer", "dataset")
# The escapes of `json.dumps` for halves of characters and for control characters without a short form.
_MAY_BE_INVISIBLE = re.compile(r"\\u(?:00[0189]|d[89a-f])")


# Unknown keys may be from a later version. A model only checks the data, and the data itself is kept.
_STORED = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class StoredModel(BaseModel):
    model_config = _STORED


_Model = TypeVar("_Model", bound=BaseModel)


def _stored_as(kind: Any) -> GetPydanticSchema:
    """Return the type that a part of a record has in its file, for an annotation; in memory it is plain data."""
    wrapped = core_schema.with_info_wrap_validator_function
    return GetPydanticSchema(lambda _, handler: wrapped(_checked, handler.generate_schema(kind)))


def _checked(value: Any, check: Callable[[Any], Any], info: ValidationInfo) -> Any:
    if info.context is _FILE:  # this process checks its own records when it makes them
        check(value)
    return value


# --- the specification: the types of a suite, with the fields that every reader relies on


class StoredComponent(ComponentSpec):
    model_config = _STORED

    arguments: dict[str, Any]


class _StoredDataset(DatasetSpec):
    model_config = _STORED

    arguments: dict[str, Any]
    task: str
    inputs: Inputs
    outputs: int


# The fields of a recipe without its rules about combinations.
_READ_OF_RECIPES = {"epochs", "batch_size", "optimizer", "lr"}
_RECIPE: dict[str, Any] = {
    name: (Annotated[(field.annotation, *field.metadata, None)], ... if name in _READ_OF_RECIPES else field.default)
    for name, field in Recipe.model_fields.items()
}
_StoredRecipe = create_model("_StoredRecipe", __base__=StoredModel, **_RECIPE)


class _StoredSpec(TrialSpec):
    model_config = _STORED

    architecture: StoredComponent
    scheme: str
    initializer: StoredComponent
    dataset: _StoredDataset
    recipe: Annotated[Any, GetPydanticSchema(lambda _, handler: handler.generate_schema(_StoredRecipe))]
    probes: tuple[StoredComponent, ...]
    phase: Literal["search", "final"]
    set_by_rules: tuple[str, ...]
    scheme_named_by: Annotated[tuple[Literal["suite", "initializer"], ...], Field(min_length=1)]
    tuned: tuple[Annotated[str, Field(pattern=r"^(recipe|initializer)\.")], ...] = ()


# In JSON a tuple is a list.
_SpecAsJson = Annotated[Json[_StoredSpec], BeforeValidator(to_json)]


# --- numbers


class _Numbers(StoredModel, extra="allow"):
    """Numbers by name; a non-finite number is null, with its text under ``<name>_reason``."""

    __pydantic_extra__: dict[str, float | str | None]

    @model_validator(mode="after")
    def _texts_are_reasons(self) -> Self:
        for name, value in (self.__pydantic_extra__ or {}).items():
            if isinstance(value, str) and not name.endswith(_REASON):
                raise ValueError(f"{name} must be a number, got {show(value)}")
        return self


class HistoryEntry(_Numbers):
    step: Annotated[float, Field(ge=0, le=_MOST_STEPS)]
    epoch: Annotated[float, Field(ge=0, le=_MOST_STEPS)]


class _Timing(_Numbers):
    @model_validator(mode="after")
    def _all_are_known(self) -> Self:
        for name, value in (self.__pydantic_extra__ or {}).items():
            if value is None:
                raise ValueError(f"{name} is required")
        return self


_Nothing = Annotated[dict[str, Any], Field(max_length=0)]
# A metric without its scale would be shown as another number. A new field of `Metric` needs its default here.
_StoredMetric = with_config(_STORED)(TypedDict("_StoredMetric", get_type_hints(Metric)))  # type: ignore[operator]


class _Task(StoredModel):
    name: str
    primary: str
    metrics: dict[str, Annotated[dict[str, Any], _stored_as(_StoredMetric)]]
    signatures: dict[str, str] = {}

    @model_validator(mode="after")
    def _values_can_be_shown(self) -> Self:
        for name, metric in self.metrics.items():
            text = metric["show"]
            try:
                # A large width in a format would take as much memory.
                is_format = _FORMAT.fullmatch(text) and not re.search(r"\d{3}", text)
                readable = is_format and bool(text.format(1.0))
            except (ValueError, TypeError, LookupError, AttributeError):
                readable = False
            if not readable:
                raise ValueError(f"metrics.{name}.show is not a format of a number, got {show(text)}")
        return self


# --- measurements, as `initbench.probes.measurement` stores them


class _Conditions(StoredModel):
    saturated: bool | None = None


class _Measured(StoredModel):
    name: str
    unit: str = ""
    log: bool = False
    conditions: _Conditions = _Conditions()


class _Scalar(_Measured):
    kind: Literal["scalar"]
    value: float | None


class _Curve(_Measured):
    kind: Literal["curve"]
    x: list[float | None]
    y: list[float | None]
    over: str

    @model_validator(mode="after")
    def _an_x_for_each_y(self) -> Self:
        if len(self.x) != len(self.y):
            raise ValueError("x and y must be lists of the same length")
        return self


class _PerLayer(_Measured):
    kind: Literal["per_layer"]
    values: dict[str, float | None]


StoredMeasurement = Annotated[_Scalar | _Curve | _PerLayer, Field(discriminator="kind")]


# --- what an initializer did, as `InitializationRecord` stores it


@with_config(_STORED)
class _TunerStep(TypedDict):
    step: NotRequired[float]


@with_config(_STORED)
class _Event(TypedDict):
    event: str
    factor: NotRequired[float | None]


class StoredInitialization(StoredModel):
    history: list[_TunerStep] = []
    tensors: dict[str, list[_Event]] = {}
    cost: dict[str, float] = {}

    @model_validator(mode="after")
    def _scaled_by_a_factor(self) -> Self:
        for name, events in self.tensors.items():
            if any(event["event"] == "scaled" and "factor" not in event for event in events):
                raise ValueError(f"tensors.{name} was scaled without a factor")
        return self


class _Environment(StoredModel):
    device: str | None = None
    processor: str | None = None
    host: str | None = None


class _Error(StoredModel):
    type: str
    message: str
    traceback: str


@dataclass(frozen=True, config=ConfigDict(extra="allow"))
class TrialRecord:
    """The result of one trial.

    Errors and accuracies are fractions, durations seconds. A non-finite number is None, with ``<key>_reason`` beside
    it.

    Attributes:
        id: the trial's identity, `TrialSpec.id`.
        spec: the `TrialSpec` as plain data, with its labels.
        identity: the part of it that was hashed, `TrialSpec.identity`.
        task: the task's ``name``, the ``primary`` metric, ``metrics``: name → `Metric` as plain data, with the chance
            level, and for metrics that have one ``signatures``: name → how it was computed, such as sacrebleu's.
            Empty if the trial failed before the task was known.
        status: ``diverged`` (a non-finite loss) is a result; ``failed`` (an exception or a lost worker) is tried again.
        metrics: final numbers by name.
        history: one entry per epoch, and per ``history_every`` steps.
        initialization: the initializer's actions (`InitializationRecord.to_json`).
        probes: for each measurement its ``name``, with arguments that differ from the defaults, its ``kind``, the
            values (see `initbench.probes.measurement`), and its ``conditions``.
        environment: versions, processor, device. Not bitwise reproducible.
        timing: seconds by stage and of each probe (``<name>_probe_seconds``), and ``ended_at`` in seconds since the
            epoch; a trial that continued from a checkpoint has the seconds of all attempts, without lost work, and
            ``resumed_at_step``. Not bitwise reproducible.
        error: for a failed trial: ``{type, message, traceback}``.
        schema: the format's version.
    """

    id: str
    spec: Annotated[dict[str, Any], _stored_as(_SpecAsJson)]
    status: Status
    identity: dict[str, Any] = Field(default_factory=dict)
    task: Annotated[dict[str, Any], _stored_as(_Task | _Nothing)] = Field(default_factory=dict)
    metrics: Annotated[dict[str, Any], _stored_as(_Numbers)] = Field(default_factory=dict)
    history: Annotated[list[dict[str, Any]], _stored_as(list[HistoryEntry])] = Field(default_factory=list)
    initialization: Annotated[dict[str, Any], _stored_as(StoredInitialization)] = Field(default_factory=dict)
    probes: Annotated[list[dict[str, Any]], _stored_as(list[StoredMeasurement])] = Field(default_factory=list)
    environment: Annotated[dict[str, Any], _stored_as(_Environment)] = Field(default_factory=dict)
    timing: Annotated[dict[str, Any], _stored_as(_Timing)] = Field(default_factory=dict)
    error: Annotated[dict[str, Any] | None, _stored_as(_Error | None)] = None
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data, without a copy."""
        return dict(vars(self))

    def numbers(self) -> dict[str, Any]:
        """Return the bitwise reproducible part: all but environment and timing."""
        return {name: value for name, value in vars(self).items() if name not in {"environment", "timing"}}

    def labelled_as(self, spec: TrialSpec) -> Self:
        """Return the record with the labels of a spec of the same trial; its results stay."""
        plain = spec.model_dump(mode="json")
        labelled = self.spec | {label: plain[label] for label in _LABELS if label in plain}
        return self.changed(spec={key: value for key, value in labelled.items() if key in plain or key not in _LABELS})

    def without_labels_of_tuning(self) -> Self:
        """Return the record without tuning labels, for a trial that its suite no longer searches or chooses."""
        return self.changed(spec={key: value for key, value in self.spec.items() if key not in TUNING_LABELS})

    def changed(self, **changes: Any) -> Self:
        """Return the record with other values; `dataclasses.replace` would lose the keys of a later version."""
        return type(self)(**(vars(self) | changes))


_RECORD = TypeAdapter(TrialRecord)
_NAMES = [field.name for field in fields(TrialRecord)]


def record_of(text: str) -> TrialRecord:
    """Return the record in JSON text, after checking that it is complete and unchanged.

    Raises a LedgerError if it was written in another format, a ValueError of one line if it is not a record or was
    edited, and a RecursionError if it is nested too deeply to be read.
    """
    data = _plain_data(text)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema is None:
        raise ValueError("it has no schema")
    if schema != SCHEMA:
        raise LedgerError(f"a record has schema {show(schema)}; this version of initbench reads schema {SCHEMA}")
    if missing := next((name for name in _NAMES if name not in data), None):
        raise ValueError(f"{missing} is required")
    for key in data:  # as an attribute it would hide an attribute of the record
        if key not in _NAMES and (key.startswith("__") or hasattr(TrialRecord, key)):
            raise ValueError(f"{show(key)} is not a key of a record")
    check_nesting(data)
    try:
        record = _RECORD.validate_python(data, context=_FILE)
    except ValidationError as error:
        raise ValueError(_problem(error, data)) from None
    _check_outcome(record)
    _check_identity(data)
    if "\\u" in text:  # this version escapes control characters in the records that it writes
        texts = {key: value for key, value in data.items() if key not in {"spec", "identity"}}
        return record.changed(**with_visible_text(texts))
    return record


def _plain_data(text: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        json.loads(text, parse_constant=_refuse_constant)  # with more informative errors
        raise  # half a character, which no file can hold


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def checked(model: type[_Model], data: Any) -> _Model:
    """Return plain data as a model; a ValueError of one line says where the data have other types."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ValueError(_problem(error, data)) from None


def _problem(error: ValidationError, data: Any) -> str:
    """Return where plain data are wrong, and how; pydantic's names of union members are left out."""
    details = error.errors(include_url=False)[0]
    path: list[str] = []
    for part in details["loc"]:
        is_there = part in (data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ())
        if is_there:
            data = data[part]
            path.append(str(part))
            if path[:1] == ["probes"] and isinstance(part, int) and isinstance(data, dict) and "name" in data:
                path = [f"the probe {show(data['name'])}"]
    if details["type"] == "missing":
        path.append(str(details["loc"][-1]))
    return f"{'.'.join(path) or 'it'}{':' if details['type'] == 'value_error' else ''} {explain(details)}"


def check_nesting(data: Any) -> None:
    """Refuse nesting so deep that following it would crash Python, and numbers that no table can hold."""
    level: list[Any] = [data]
    for _ in range(_MOST_NESTED):
        below: list[Any] = []
        for value in level:
            for item in value.values() if isinstance(value, dict) else value:
                kind = type(item)
                if kind is dict or kind is list:
                    below.append(item)
                elif (kind is float and not isfinite(item)) or (kind is int and not -_LARGEST <= item <= _LARGEST):
                    raise ValueError(f"a number must be finite and an integer of at most 64 bits, got {show(item)}")
        if not below:
            return
        level = below
    raise ValueError(f"it is nested deeper than {_MOST_NESTED} levels")


def _check_outcome(record: TrialRecord) -> None:
    if (record.error is not None) != (record.status == "failed"):
        raise ValueError(f"status is {record.status}, and the error {'is not' if record.error else 'is'} null")
    if not record.task and record.status != "failed":
        raise ValueError("task must not be empty")
    primary = record.task.get("primary", "")
    # A recipe without a step gives only measurements, and needs no description of metrics.
    if record.task and primary not in record.task["metrics"] and record.metrics.get(primary) is not None:
        raise ValueError(f"task.primary, {show(primary)}, is not one of its metrics")
    recipe = record.spec["recipe"]
    if record.history and not recipe["epochs"] and recipe.get("steps") is None:
        raise ValueError("history.0 belongs to no step of the recipe, which does not train")


def _check_identity(data: Mapping[str, Any]) -> None:
    """Refuse an identity that does not match the id, and a spec of another trial."""
    identity, spec = data["identity"], data["spec"]
    if digest(identity) != data["id"]:
        raise ValueError("its id does not match its identity, so it was edited")
    if missing := next((name for name in (*_COMPONENTS, "recipe") if name not in identity), None):
        raise ValueError(f"its identity lacks {missing}")
    for kind in _COMPONENTS:
        if not _within(identity[kind], spec[kind]):
            raise ValueError(f"spec.{kind} does not match its identity, so it was edited")
    stated = identity["recipe"]
    recipe = dict(stated) if isinstance(stated, dict) else {"the recipe": stated}
    if recipe.pop("version", None) == RECIPE_VERSION:  # values that it leaves out are at their defaults
        recipe = {name: value for name, value in _RECIPE_DEFAULTS.items() if name in spec["recipe"]} | recipe
    if not _within(recipe, spec["recipe"]):
        raise ValueError("spec.recipe does not match its identity, so it was edited")
    for name in ("seed", "phase"):
        if identity.get(name) != spec[name]:
            raise ValueError(f"spec.{name} does not match its identity, so it was edited")


def _within(part: Any, whole: Any) -> bool:
    if part == whole:
        return True
    both = isinstance(part, dict) and isinstance(whole, dict)
    return both and all(name in whole and _within(value, whole[name]) for name, value in part.items())


def with_visible_text(data: dict[str, Any]) -> dict[str, Any]:
    """Return plain data with control characters (except newlines and tabs) in its texts escaped; mostly `data` itself.

    Raises a TypeError if something is not plain data, and a ValueError if a number is not finite.
    """
    return _visible(data) if _MAY_BE_INVISIBLE.search(json.dumps(data, allow_nan=False)) else data


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value, keep="\n\t")
    if isinstance(value, Mapping):
        return {_visible(key): _visible(item) for key, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list | tuple) else value
