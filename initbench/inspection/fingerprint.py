"""Fingerprints: the law of every tensor of a model, as readable JSON that holds no values of the tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

import initbench
from initbench.arguments import check_counts, show
from initbench.errors import ArgumentError, InitbenchError, InitializationError
from initbench.files import read_text, write_text
from initbench.inputs import Inputs
from initbench.inspection.roles import TensorRole, roles_of
from initbench.inspection.source import Build, as_source
from initbench.inspection.tensors import TensorSummary, singular_values, summarize
from initbench.models.batches import zero_inputs
from initbench.models.state import check_storage
from initbench.structure.find import find_structure

FORMAT = "initbench fingerprint 1"
"""The value of ``format`` in a fingerprint's file."""
_MOST_BYTES = 2**25  # a model of 40,000 tensors
_MOST_ROWS = 256  # whose singular values take milliseconds; those of a large matrix take seconds


@dataclass(frozen=True)
class TensorFingerprint:
    """The law of one tensor. Queries, keys and values that are stored in one tensor have a fingerprint each.

    Attributes:
        name: the parameter's name, with ``[query]``, ``[key]`` or ``[value]`` for a third of a fused one.
        shape: its sizes as they are stored.
        role: see `TensorRole`.
        part: ``query``, ``key`` or ``value`` of a fused tensor; empty for a whole one.
        tied: its other names.
        fan_in: of the weight, or of the weight beside a bias; None if unknown.
        fan_out: likewise.
        transposed: whether a weight is stored as (inputs, outputs).
        constant: the value of all entries at all seeds; None if they differ. The fields below are then empty.
        fixed: whether the tensor is the same at every seed.
        means: the mean of the entries, per seed.
        stds: their standard deviation, with divisor n, per seed.
        kurtoses: their excess kurtosis, per seed; empty if the entries are equal at some seed.
        quantiles: the quantiles at 0, 0.05, ..., 1, in standard deviations from the mean, averaged over seeds; empty
            like `kurtoses`.
        quantile_stds: the standard deviations of these quantiles over seeds, with divisor seeds - 1.
        fourth_moments: mean(σ⁴)/mean(σ²)² of the singular values σ of a weight's rows or columns, whichever are fewer,
            the first 256 of them, averaged over its blocks, per seed: 1 for an orthogonal matrix, 1 + rows/columns for
            independent entries; empty for tensors that are no weights.
        largest: the largest σ divided by √mean(σ²), per seed.
        smallest: the square root of the smallest σ divided by √mean(σ²), per seed.
    """

    name: str
    shape: tuple[int, ...]
    role: str
    part: str = ""
    tied: tuple[str, ...] = ()
    fan_in: int | None = None
    fan_out: int | None = None
    transposed: bool = False
    constant: float | None = None
    fixed: bool = False
    means: tuple[float, ...] = ()
    stds: tuple[float, ...] = ()
    kurtoses: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    quantile_stds: tuple[float, ...] = ()
    fourth_moments: tuple[float, ...] = ()
    largest: tuple[float, ...] = ()
    smallest: tuple[float, ...] = ()

    @property
    def entries(self) -> int:
        """The number of entries."""
        return int(torch.Size(self.shape).numel())

    @property
    def mean(self) -> float:
        """The mean over entries and seeds."""
        return sum(self.means) / len(self.means) if self.constant is None else self.constant

    @property
    def std(self) -> float:
        """The root mean square, over seeds, of the standard deviations."""
        return 0.0 if self.constant is not None else (sum(std**2 for std in self.stds) / len(self.stds)) ** 0.5

    def to_json(self) -> dict[str, Any]:
        """Return the fields, without those at their default."""
        defaults = TensorFingerprint("", (), "")
        required = ("name", "shape", "role")
        return {
            name: value for name, value in asdict(self).items() if name in required or value != getattr(defaults, name)
        }


@dataclass(frozen=True)
class Fingerprint:
    """The laws of a model's tensors.

    Attributes:
        name: the model's name.
        seeds: the number of models that were built, each with random numbers of its own.
        tensors: the parameters in the order in which they run, each tied one once.
        versions: of initbench, torch, and the libraries that the modules are from.
        note: why roles are known from module types alone; empty if they are known from a run of the model.
    """

    name: str
    seeds: int
    tensors: tuple[TensorFingerprint, ...]
    versions: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the contents of the fingerprint's file."""
        tensors = [tensor.to_json() for tensor in self.tensors]
        return {"format": FORMAT} | asdict(replace(self, tensors=())) | {"tensors": tensors}


def _from_json(data: Any, path: str | Path) -> Fingerprint:
    """Return the fingerprint of a file's contents; an error names the first key that is wrong."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        other = show(data.get("format")) if isinstance(data, Mapping) and "format" in data else "no format"
        raise InitbenchError(f"{path}: is no fingerprint: it has {other} instead of {FORMAT!r}")
    try:
        read = TypeAdapter(Fingerprint).validate_python({key: data[key] for key in data if key != "format"})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise InitbenchError(f"{path}: is a damaged fingerprint: {key}: {first['msg']}") from None
    for tensor in read.tensors:
        _check(tensor, read.seeds, path)
    return read


def _check(tensor: TensorFingerprint, seeds: int, path: str | Path) -> None:
    moments = () if tensor.constant is not None else (tensor.means, tensor.stds)
    lengths = [
        *(len(values) == seeds for values in moments),
        len(tensor.kurtoses) in {0, seeds},
        {len(tensor.quantiles), len(tensor.quantile_stds)} == ({21} if tensor.kurtoses else {0}),
        {len(tensor.fourth_moments), len(tensor.largest), len(tensor.smallest)} in ({0}, {seeds}),
    ]
    if not all(lengths):
        raise InitbenchError(f"{path}: is a damaged fingerprint: {tensor.name} has lists of wrong lengths")
    if seeds < 2 or min(tensor.shape, default=0) < 0 or (tensor.constant is not None and not tensor.fixed):
        raise InitbenchError(f"{path}: is a damaged fingerprint: {tensor.name} has impossible values")


def fingerprint(build: Build, *, seeds: int = 5, inputs: Inputs | Tensor | None = None, name: str = "") -> Fingerprint:
    """Build a model at several seeds and return the laws of its tensors.

    The numbers are rounded to seven digits. The models, and the caller's random state, are left as they are.

    Args:
        build: a function that returns a new model, a model source or its name. A function with a required argument, or
            one called ``seed``, gets the seed; torch's global generators, too, are seeded before each call.
        seeds: the number of models, at least 2.
        inputs: one sample or an example batch, on which the first model runs once to show the roles of its tensors. The
            default is the source's, or a shape that the first layer accepts; if that fails, module types decide.
        name: the model's name in reports; the default is the name of the source or function.

    Raises:
        InitbenchError: a model cannot be built, has no parameters or holds NaN, or parameters change with the seed.
        InitializationError: the model does not run on the given inputs.
    """
    check_counts(seeds=seeds)
    if seeds < 2:
        raise ArgumentError(f"must be at least 2, because a law shows only in several models, got {seeds}", "seeds")
    source = as_source(build)
    measured: list[list[_Measured]] = []
    for seed in range(seeds):
        model = source.build(seed)
        if not measured:
            roles, note = _roles(model, source.inputs if inputs is None else inputs, given=inputs is not None)
            versions = _versions(model)
        measured.append([_measure(*part) for part in _parts(model, roles)])
    tensors = tuple(_tensor_fingerprint(list(of_seeds), roles) for of_seeds in zip(*measured, strict=True))
    return Fingerprint(name or source.name, seeds, tensors, versions, note)


def _roles(model: nn.Module, inputs: Inputs | Tensor | None, *, given: bool) -> tuple[dict[str, TensorRole], str]:
    check_storage(model)
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point():
            raise InitbenchError(f"{name} is {parameter.dtype}; fingerprints are of real floating-point numbers")
    try:
        structure = find_structure(model, zero_inputs(inputs, model) if isinstance(inputs, Inputs) else inputs)
    except InitializationError as error:
        if given:
            raise
        return roles_of(model, None), f"roles are those of module types, because the model did not run: {error}"
    return roles_of(model, structure), ""


def _parts(model: nn.Module, roles: Mapping[str, TensorRole]) -> Iterator[tuple[TensorRole, str, Tensor]]:
    """Yield the tensors in the order in which they run; fused queries, keys and values apart, with the part's name."""
    parameters = dict(model.named_parameters())
    if {name: tuple(tensor.shape) for name, tensor in parameters.items()} != {n: r.shape for n, r in roles.items()}:
        raise InitbenchError("the models of two seeds have different parameters; a fingerprint is of one architecture")
    if not parameters:
        raise InitbenchError("the model has no parameters")
    fused = {role.layer for role in roles.values() if role.role == "attention"}
    for name, role in roles.items():
        tensor = parameters[name].detach()
        is_fused = role.role == "attention" or (role.role == "bias" and role.layer in fused)
        dimension = 1 if role.transposed else 0
        if not is_fused or tensor.shape[dimension] % 3:
            yield role, "", tensor
            continue
        for part, third in zip(("query", "key", "value"), tensor.chunk(3, dimension), strict=True):
            blocks, kind = (1, part) if role.role == "attention" else (role.blocks, role.role)
            yield replace(role, name=f"{name}[{part}]", shape=tuple(third.shape), role=kind, blocks=blocks), part, third


_Measured = tuple[TensorSummary, str, list[float]]  # with the part's name of a fused tensor, and with `_spectrum`


def _measure(role: TensorRole, part: str, tensor: Tensor) -> _Measured:
    summary = summarize(tensor, role, matrices=False)
    if summary.not_finite:
        raise InitbenchError(f"{role.name} holds NaN or infinite entries, which have no law")
    return summary, part, _spectrum(role.matrices(tensor)) if role.is_weight and summary.std > 0 else []


def _tensor_fingerprint(measured: list[_Measured], roles: Mapping[str, TensorRole]) -> TensorFingerprint:
    seeds = [summary for summary, _, _ in measured]
    first, part, _ = measured[0]
    role = first.role
    beside = next((other for other in roles.values() if other.layer == role.layer and other.is_weight), role)
    fans = role if role.is_weight or "bias" not in role.role or "norm" in role.role else beside
    fixed = all(one.digest == first.digest for one in seeds)
    result = TensorFingerprint(
        role.name, role.shape, role.role, part, role.tied, fans.fan_in, fans.fan_out, role.transposed, fixed=fixed
    )
    if fixed and first.constant is not None:
        return replace(result, constant=_rounded([first.constant])[0])
    result = replace(result, means=_rounded([one.mean for one in seeds]), stds=_rounded([one.std for one in seeds]))
    kurtoses = [one.excess_kurtosis for one in seeds if one.excess_kurtosis is not None]
    if len(kurtoses) == len(seeds):
        quantiles = torch.tensor([one.quantiles for one in seeds], dtype=torch.float64)
        moments = torch.tensor([[one.mean, one.std] for one in seeds], dtype=torch.float64)
        standardized = (quantiles - moments[:, :1]) / moments[:, 1:]
        result = replace(
            result,
            kurtoses=_rounded(kurtoses),
            quantiles=_rounded(standardized.mean(0).tolist(), 5),
            quantile_stds=_rounded(standardized.std(0).tolist(), 4),
        )
    spectra = [spectrum for _, _, spectrum in measured]
    if all(spectra):
        fourth, largest, smallest = (_rounded(list(values)) for values in zip(*spectra, strict=True))
        result = replace(result, fourth_moments=fourth, largest=largest, smallest=smallest)
    return result


def _spectrum(blocks: Tensor) -> list[float]:
    """Return mean(σ⁴)/mean(σ²)², the largest σ, and the root of the smallest, in units of √mean(σ²); each averaged.

    The smallest singular value of a square matrix is nearly exponential over seeds. Its root is nearly normal, which
    t tests need. The list is empty if there are fewer than two singular values, or a block is 0.
    """
    wide = blocks if blocks.shape[1] <= blocks.shape[2] else blocks.transpose(1, 2)
    singular = singular_values(wide[:, :_MOST_ROWS].to(device="cpu", dtype=torch.float64))
    if singular is None or singular.shape[1] < 2 or not bool(singular.any(1).all()):
        return []
    relative = singular / singular.square().mean(1, keepdim=True).sqrt()
    columns = (relative**4).mean(1), relative[:, 0], relative[:, -1].sqrt()
    return [float(column.mean()) for column in columns]


def _rounded(values: list[float], digits: int = 7) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values)


def _versions(model: nn.Module) -> dict[str, str]:
    packages = {type(module).__module__.partition(".")[0] for module in model.modules()} - {"initbench", "torch"}
    versions = {"initbench": initbench.__version__, "torch": str(torch.__version__)}
    for package in sorted(packages):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def write_fingerprint(path: str | Path, fingerprint: Fingerprint) -> None:
    """Write a fingerprint as JSON, a line for each tensor; the file is replaced whole or not at all."""
    data = fingerprint.to_json()
    head = json.dumps({key: data[key] for key in data if key != "tensors"}, indent=1, ensure_ascii=False)
    lines = ",\n".join(f"  {json.dumps(tensor, ensure_ascii=False)}" for tensor in data["tensors"])
    file = Path(path)
    body = head.removesuffix("\n}")
    write_text(file, f'{body},\n "tensors": [\n{lines}\n ]\n}}\n', file.parent)


def read_fingerprint(path: str | Path) -> Fingerprint:
    """Return the fingerprint in a file that `write_fingerprint` wrote.

    Raises:
        InitbenchError: the file cannot be read, or holds no fingerprint.
    """
    try:
        data = json.loads(read_text(path, _MOST_BYTES), parse_constant=_refuse)
    except OSError as error:
        raise InitbenchError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InitbenchError(f"{path}: is no fingerprint, because it is not JSON: {error}") from error
    return _from_json(data, path)


def _refuse(constant: str) -> float:
    raise ValueError(f"it holds {constant}")
