"""Faults of a model's tensors, each with its reason and a line of Python that shows it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from initbench.inspection.grouping import grouped
from initbench.inspection.role_laws import Exceptional, family_in_words, family_of, is_significant, pattern_of
from initbench.inspection.tensors import TensorSummary
from initbench.structure.find import Structure

KINDS = (
    "not_finite",
    "zero_weights",
    "constant_weights",
    "copied_tensor",
    "repeated_rows",
    "low_rank",
    "out_of_line",
    "outliers",
    "off_centre",
    "scale",
    "dtype",
    "unexpected_law",
)
"""The kinds of findings, the most serious first."""
_LARGEST_GAIN = 10.0  # √(mean square of outputs / mean square of inputs); the laws in use are below 4
_LARGEST_MEAN = 0.3  # of a standard deviation
_LARGEST_NORM = 2.0  # of the norm that independent entries have
_MOST_SUBNORMAL = 0.01  # of the entries
_CLAMPED = 2.0  # where `torch.nn.init.trunc_normal_` cuts by default


@dataclass(frozen=True)
class Finding:
    """A fault in the values of tensors.

    Attributes:
        kind: see `KINDS`.
        tensors: the names of the tensors.
        layer: the layer of the first.
        reason: the fault, with numbers, and its consequence for training.
        line: a Python expression that shows it, of ``model``.
    """

    kind: str
    tensors: tuple[str, ...]
    layer: str
    reason: str
    line: str

    def __str__(self) -> str:
        more = f" and {len(self.tensors) - 1} more" if len(self.tensors) > 1 else ""
        return f"{self.kind}: {self.tensors[0]}{more}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return asdict(self) | {"tensors": list(self.tensors)}


def findings_of(
    summaries: Mapping[str, TensorSummary], exceptional: Sequence[Exceptional], structure: Structure | None
) -> list[Finding]:
    """Return the findings on all tensors, the most serious first; tensors with one fault in common are one finding."""
    findings = [*_of_single_tensors(summaries), *_zero_weights(summaries, structure), *_copies(summaries)]
    explained = {name for finding in findings for name in finding.tensors}
    findings += [
        _out_of_line(one)
        for one in exceptional
        if one.sample.role.name not in explained and is_significant(one, len(summaries))
    ]
    alike = grouped(findings, lambda finding: (finding.kind, pattern_of(finding.tensors[0])))
    joined = [
        replace(several[0], tensors=tuple(dict.fromkeys(name for finding in several for name in finding.tensors)))
        for several in alike.values()
    ]
    return sorted(joined, key=lambda finding: KINDS.index(finding.kind))


def _finding(kind: str, summary: TensorSummary, reason: str, expression: str) -> Finding:
    name = summary.role.name
    return Finding(kind, (name,), summary.role.layer, reason, f'model.get_parameter("{name}").{expression}')


def _of_single_tensors(summaries: Mapping[str, TensorSummary]) -> Iterator[Finding]:
    """Yield the first finding of each tensor; the dtype is apart from the others."""
    # A mirrored initialization, such as looks-linear, mirrors several weights; a single one is a fault.
    mirrored = sum(bool(one.negated_rows) and one.role.is_weight for one in summaries.values()) > 1
    rows = partial(_repeated_rows, mirrored=mirrored)
    rules = (_not_finite, _constant, rows, _low_rank, _outliers, _off_centre, _scale)
    for summary in summaries.values():
        first = next(filter(None, (rule(summary) for rule in rules)), None)
        yield from filter(None, (first, _dtype(summary)))


def _not_finite(summary: TensorSummary) -> Finding | None:
    if not summary.not_finite:
        return None
    reason = f"{summary.not_finite} of {summary.entries} entries are NaN or infinite"
    return _finding("not_finite", summary, reason, "isfinite().all()")


def _maps_signals(summary: TensorSummary) -> bool:
    return summary.role.is_weight or summary.role.role == "embedding"


def _is_drawn(summary: TensorSummary) -> bool:
    return _maps_signals(summary) or "bias" in summary.role.role or summary.role.role == "positions"


def _constant(summary: TensorSummary) -> Finding | None:
    value = summary.constant
    role = summary.role
    if not value or not _maps_signals(summary) or role.role == "depthwise convolution" or min(role.shape) < 2:
        return None
    reason = f"all {summary.entries} entries are {value:.4g}: its outputs are equal and get equal gradients"
    return _finding("constant_weights", summary, reason, "unique()")


def _repeated_rows(summary: TensorSummary, *, mirrored: bool) -> Finding | None:
    role = summary.role
    if not _maps_signals(summary) or family_of(summary) != "random" or math.prod(role.shape[1:]) < 4:
        return None
    if summary.equal_rows:
        fault = f"{summary.equal_rows} of {role.rows} rows equal another row: such units start as one"
    elif summary.zero_rows > _padding_rows(summary):
        fault = f"{summary.zero_rows} of {role.rows} rows are zero: such units give no signal"
    elif summary.negated_rows and not mirrored:
        fault = f"{summary.negated_rows} of {role.rows} rows are another row times -1"
    else:
        return None
    return _finding("repeated_rows", summary, fault, "flatten(1).unique(dim=0).shape")


def _padding_rows(summary: TensorSummary) -> int:
    """Return how many rows of zeros are no fault: embeddings have some for padding."""
    return 2 if summary.role.role == "embedding" else 0


def _low_rank(summary: TensorSummary) -> Finding | None:
    singular = summary.singular_values
    if singular is None or family_of(summary) != "random" or 2 * summary.zeros > summary.entries:
        return None
    full = singular.shape[1]
    expression = "flatten(1).svd().S" if len(summary.role.shape) > 2 else "svd().S"
    padding = min(summary.zero_rows, _padding_rows(summary))
    attainable = min(full, summary.role.shape[0] - padding) if padding else full
    if summary.rank is not None and summary.rank < attainable and not summary.negated_rows:
        return _finding("low_rank", summary, f"rank {summary.rank} of {full}", expression)
    rows = math.prod(summary.role.shape) // summary.role.blocks // full
    edge = summary.bulk_std * (math.sqrt(rows) + math.sqrt(full))
    ratio = float(singular[:, 0].max()) / edge
    if ratio < _LARGEST_NORM or abs(summary.mean) > _LARGEST_MEAN * summary.std or summary.outliers:
        return None
    reason = f"its norm is {ratio:.2g} times that of independent entries: few directions hold most of it"
    return _finding("low_rank", summary, reason, expression)


def is_clamped(summary: TensorSummary) -> bool:
    """Return whether all outliers are the ±2 of `torch.nn.init.trunc_normal_`.

    In float32 it draws about one entry in 2²³ at the cut itself, however far out that is.
    """
    if not summary.outliers:
        return False
    low, high = summary.quantiles[0], summary.quantiles[-1]
    rare = summary.outliers <= max(3, summary.entries / 2**21)
    extremes = {abs(value) for value in (low, high) if abs(value) > 8 * summary.bulk_std}
    return rare and extremes == {_CLAMPED}


def _outliers(summary: TensorSummary) -> Finding | None:
    if not summary.outliers or not _maps_signals(summary) or is_clamped(summary):
        return None
    largest = max(abs(summary.quantiles[0]), abs(summary.quantiles[-1]))
    reason = (
        f"{summary.outliers} of {summary.entries} entries are outliers, up to {largest:.3g}, "
        f"{largest / summary.bulk_std:.0f} standard deviations of the others"
    )
    return _finding("outliers", summary, reason, "abs().flatten().topk(9)")


def _off_centre(summary: TensorSummary) -> Finding | None:
    if not summary.std or not summary.role.is_weight or family_of(summary) != "random":
        return None
    ratio = abs(summary.mean) / summary.std
    if ratio < _LARGEST_MEAN or ratio * math.sqrt(summary.entries) < 6:
        return None
    reason = f"the mean is {summary.mean:.3g} at a standard deviation of {summary.std:.3g}: outputs share a direction"
    return _finding("off_centre", summary, reason, "mean()")


# An N(0, 1) embedding that is tied to the head is no finding: T5 has one and divides the head's inputs by √width, so
# the values alone do not show whether logits are large. `check` sees it in the loss.
def _scale(summary: TensorSummary) -> Finding | None:
    fan_in = summary.role.fan_in
    if fan_in is None or summary.constant is not None:
        return None
    gain = summary.bulk_std * math.sqrt(fan_in)
    if gain <= _LARGEST_GAIN:
        return None
    reason = f"σ √fan_in = {gain:.3g}: it multiplies the size of a signal by that"
    return _finding("scale", summary, reason, "std()")


def _dtype(summary: TensorSummary) -> Finding | None:
    if summary.subnormal > _MOST_SUBNORMAL * summary.entries:
        part = summary.subnormal / summary.entries
        reason = (
            f"{part:.0%} of the entries are below the smallest normal {summary.dtype}: they have few digits or none"
        )
        return _finding("dtype", summary, reason, "abs().min()")
    drawn = _maps_signals(summary) or summary.role.role == "positions"
    distinct = len(set(summary.first)) > 8 and summary.entries >= 64
    if summary.rounded_to and drawn and distinct and family_of(summary) == "random":
        reason = (
            f"every entry of this {summary.dtype} tensor is exactly a {summary.rounded_to} number: it was once rounded "
            "to that type"
        )
        return _finding("dtype", summary, reason, "flatten()[:9].tolist()")
    return None


def _zero_weights(summaries: Mapping[str, TensorSummary], structure: Structure | None) -> Iterator[Finding]:
    """Yield weights of zeros that keep others from learning; those at branch ends and in heads do not."""
    zero = {name for name, summary in summaries.items() if summary.constant == 0}
    for name in zero:
        if summaries[name].role.role == "embedding" and min(summaries[name].role.shape) > 1:
            reason = "all entries are zero: all tokens are equal"
            yield _finding("zero_weights", summaries[name], reason, "abs().max()")
    if structure is None:
        return
    weights = {layer.name: layer.weight for layer in structure.layers}
    for factors in _products(structure, weights):
        yield from _locked(summaries, zero, factors)
    norms = [name for name, summary in summaries.items() if summary.role.role == "norm weight"]
    few_norms = 4 * len(zero.intersection(norms)) <= len(norms)
    inside = {weights[name] for branch in structure.branches for name in branch.inner}
    for name in zero:
        role = summaries[name].role
        if role.role == "norm weight" and few_norms:
            yield _finding("zero_weights", summaries[name], "a norm weight of zeros passes no signal on", "abs().max()")
        elif role.is_weight and not role.is_branch_end and role.role != "head":
            siblings = [other for other in summaries if pattern_of(other) == pattern_of(name)]
            by_design = structure.branches and zero.issuperset(siblings) and (len(siblings) > 1 or name in inside)
            if not by_design:
                reason = "all entries are zero: it passes no signal on, and no gradient to the layers before it"
                yield _finding("zero_weights", summaries[name], reason, "abs().max()")


def _products(structure: Structure, weights: Mapping[str, str]) -> Iterator[list[Sequence[str]]]:
    """Yield the weights whose product a branch or the scores of an attention are: lists of parallel ones."""
    for branch in structure.branches:
        ends = [weights[name] for name in branch.ends]
        yield [*([weights[name]] for name in branch.inner), ends, branch.gates]
    for attention in structure.attention:
        if not attention.fused:
            yield [[weights[name] for name in getattr(attention, part)] for part in ("query", "key")]


def _locked(
    summaries: Mapping[str, TensorSummary], zero: set[str], factors: Sequence[Sequence[str]]
) -> Iterator[Finding]:
    """Yield a finding if two factors of one product are zero, so that neither gets a gradient."""
    gone = [few for few in factors if few and all(name in zero for name in few)]
    if len(gone) > 1:
        first, second = gone[-2][-1], gone[-1][-1]
        reason = f"zero, as is {second}: the gradient of each is a multiple of the other, so both stay zero"
        yield Finding(
            "zero_weights",
            (first, second),
            summaries[first].role.layer,
            reason,
            f'model.get_parameter("{first}").abs().max(), model.get_parameter("{second}").abs().max()',
        )


def _copies(summaries: Mapping[str, TensorSummary]) -> Iterator[Finding]:
    """Yield tensors that start with the same random numbers, at any scale."""
    # Fewer different numbers are no draw: an identity, a filter of averages.
    drawn = [
        one
        for one in summaries.values()
        if _is_drawn(one)
        and len(set(one.first)) >= 12
        and not one.not_finite
        and not family_of(one).startswith(("identity", "sig"))
    ]
    groups = [group for group in grouped(drawn, _scaled_start).values() if len(group) > 1]
    for together in grouped(groups, lambda group: tuple(sorted({one.role.layer for one in group}))).values():
        first, second = together[0][0], together[0][1]
        same = "hold the same numbers" if first.digest == second.digest else "come from the same random numbers"
        names = tuple(one.role.name for group in together for one in group)
        reason = f"{first.role.name} and {second.role.name} {same}, and are not tied: they start alike, then diverge"
        parts = [f'model.get_parameter("{one.role.name}").flatten()[:9]' for one in (first, second)]
        yield Finding("copied_tensor", names, first.role.layer, reason, ", ".join(parts))


def _scaled_start(summary: TensorSummary) -> tuple[float, ...]:
    scale = max(summary.first, key=abs)
    return tuple(round(value / scale, 2) for value in summary.first)


def _out_of_line(exceptional: Exceptional) -> Finding:
    summary, siblings = exceptional.sample.summary, f"its {exceptional.siblings} siblings"
    if exceptional.law is None or not exceptional.expected_std:
        return _finding(
            "out_of_line", summary, f"it is {family_in_words(summary)}; {siblings} are {exceptional.family}", "std()"
        )
    ratio = summary.bulk_std / exceptional.expected_std
    if abs(math.log(ratio)) < 0.1:
        reason = f"its shape or mean is not that of {siblings}, which are {exceptional.family}"
    else:
        reason = f"σ is {summary.bulk_std:.3g}, {ratio:.3g} times that of {siblings}, which are {exceptional.family}"
    return _finding("out_of_line", summary, reason, "std()")
