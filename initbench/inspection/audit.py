"""The audit of a model: roles, laws and faults of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from initbench.errors import InitbenchError, InitializationError
from initbench.inputs import Inputs
from initbench.inspection.expectations import read_expectations, unexpected
from initbench.inspection.findings import KINDS, Finding, findings_of, is_clamped
from initbench.inspection.fitted_laws import samples_of
from initbench.inspection.grouping import grouped
from initbench.inspection.role_laws import RoleLaw, role_laws
from initbench.inspection.roles import TensorRole, roles_from_names, roles_of
from initbench.inspection.source import Build, ModelSource, as_source, opened_weights
from initbench.inspection.tensors import TensorSummary, summarize
from initbench.inspection.watching import InitializerCalls
from initbench.models.batches import zero_inputs
from initbench.structure.find import Structure, find_structure


@dataclass(frozen=True)
class Audit:
    """The contents of a model's tensors; ``print`` shows the findings and the laws.

    Attributes:
        findings: the faults, the most serious first.
        roles: the laws of each role.
        tensors: the values of each tensor, in the order in which the model runs.
        notes: tensors that were not examined, and facts that are known only in part.
    """

    findings: tuple[Finding, ...]
    roles: tuple[RoleLaw, ...]
    tensors: tuple[TensorSummary, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.head, *map(str, self.findings), *map(str, self.roles), *self.notes])

    @property
    def head(self) -> str:
        """The number of findings in words."""
        number = len(self.findings)
        return f"{number} finding{'s' if number > 1 else ''}" if number else "no findings"

    def to_json(self) -> dict[str, Any]:
        """Return the audit as JSON."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "roles": [role.to_json() for role in self.roles],
            "tensors": [tensor.to_json() for tensor in self.tensors],
            "notes": list(self.notes),
        }


Declared = str | Path | Sequence[Mapping[str, Any]]
"""Laws that are declared: a YAML file, or a list of its entries; see `initbench audit --help`."""


def audit(model: nn.Module | Build, inputs: Any = None, *, expect: Declared | None = None) -> Audit:
    """Return the roles, laws and faults of a model's tensors. Nothing is trained.

    Tensors are grouped by role (see `find_structure`), and a role's law is named if all its tensors have the shape,
    mean and standard deviations of that law: a true law is refused with a probability of 1 %. Siblings are tensors of
    one role whose names differ only in numbers.

    Args:
        model: any module, which is left unchanged; or a model's name, a class or function, or a source, which is built
            while torch's calls are watched, so that it is known which parameters no initializer set.
        inputs: one sample or an example batch, with which the model runs once; None for a size that it accepts. If it
            does not run, roles are derived from the module types, and a note says so.
        expect: declared laws.

    Raises:
        InitbenchError: a parameter is lazy or on the meta device, or the file of laws is refused.
    """
    if not isinstance(model, nn.Module):
        model = as_source(model, "model")
    with InitializerCalls() as calls:
        built = model.build() if isinstance(model, ModelSource) else model
    parameters = dict(built.named_parameters())
    for name, parameter in parameters.items():
        if is_lazy(parameter):
            raise InitializationError(f"{name} is lazy: run the model once before the audit")
        if parameter.is_meta:
            raise InitializationError(f"{name} is on the meta device and holds no values")
    untouched = None
    if isinstance(model, ModelSource):
        untouched = calls.untouched(built) if model.weights is None else None
        inputs = model.inputs if inputs is None else inputs
    structure, notes = None, []
    try:
        structure = find_structure(built, zero_inputs(inputs, built) if isinstance(inputs, Inputs) else inputs)
    except InitbenchError as error:
        notes.append(f"roles come from module types, because the model did not run: {error} (--input)")
    roles = roles_of(built, structure)
    tensors = ((parameters[name], role) for name, role in roles.items())
    return _audit(tensors, structure, notes, untouched, expect)


def audit_weights(path: str | Path, *, expect: Declared | None = None) -> Audit:
    """Return what the tensors of a weights file hold. They are read one by one; names and sizes give the roles.

    Args:
        path: a state dict, as ``.safetensors`` or saved by torch.
        expect: as in `audit`.

    Raises:
        InitbenchError: a file cannot be read.
    """
    notes = ["roles are guessed from names and sizes, because there is no model"]
    with opened_weights(Path(path)) as (shapes, read):
        tensors = ((read(name), role) for name, role in roles_from_names(shapes).items())
        return _audit(tensors, None, notes, None, expect)


def _audit(
    tensors: Iterable[tuple[Tensor, TensorRole]],
    structure: Structure | None,
    notes: list[str],
    untouched: frozenset[str] | None,
    expect: Declared | None,
) -> Audit:
    summaries, unread = [], []
    for tensor, role in tensors:
        if not tensor.is_floating_point():
            unread.append(role.name)
        else:
            summaries.append(summarize(tensor, role))
    if unread:
        notes.append(f"not examined, because they are not real floating-point tensors: {', '.join(unread)}")
    samples = samples_of(summaries)
    by_role = grouped(samples.values(), lambda sample: sample.role.role)
    judged = [role_laws(role, members) for role, members in by_role.items()]
    rows = [row for rows, _ in judged for row in rows]
    exceptional = [one for _, exceptions in judged for one in exceptions]
    if untouched is not None:
        rows = [replace(row, untouched=len(untouched.intersection(row.tensors))) for row in rows]
    by_name = {summary.role.name: summary for summary in summaries}
    findings = findings_of(by_name, exceptional, structure)
    if expect is not None:
        findings += unexpected(list(samples.values()), read_expectations(expect))
        findings.sort(key=lambda finding: KINDS.index(finding.kind))
    clamped = [summary for summary in summaries if is_clamped(summary)]
    if clamped:
        number = sum(summary.outliers for summary in clamped)
        notes.append(f"{number} entries of ±2 are the cuts of trunc_normal_, first in {clamped[0].role.name}")
    return Audit(tuple(findings), tuple(rows), tuple(summaries), tuple(notes))
