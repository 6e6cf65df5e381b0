"""What is wrong with the tensors of a model, each with its reason and a line of Python that shows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from initbench.inspection.role_laws import Exceptional, family_of, is_significant, pattern_of
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
    """Something wrong with the values of tensors.

    Attributes:
        kind: one of `KINDS`.
        tensors: the names of the tensors.
        layer: the layer of the first.
        reason: what is wrong, with numbers, and what it does to training.
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
    """Return the findings, the most serious first; tensors with one fault in common are one finding.

    Args:
        summaries: of all tensors.
        exceptional: tensors that stand out among their siblings.
        structure: the model's, if it could run.
    """
    found = list(_of_single_tensors(summaries))
    found += _zero_weights(summaries, structure)
    found += _copies(summaries)
    explained = {name for finding in found for name in finding.tensors}
    found += [
        _out_of_line(one)
        for one in exceptional
        if one.sample.role.name not in explained and is_significant(one, len(summaries))
    ]
    return sorted(_joined(found), key=lambda finding: KINDS.index(finding.kind))


def _joined(found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield findings with those of one kind and name pattern joined under the first one's reason."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in found:
        groups.setdefault((finding.kind, pattern_of(finding.tensors[0])), []).append(finding)
    for several in groups.values():
        names = tuple(dict.fromkeys(name for finding in several for name in finding.tensors))
        first = several[0]
        yield Finding(first.kind, names, first.layer, first.reason, first.line)


def _finding(kind: str, summary: TensorSummary, reason: str, expression: str) -> Finding:
    name = summary.role.name
    return Finding(kind, (name,), summary.role.layer, reason, f'model.get_parameter("{name}").{expression}')


Rule = Callable[[TensorSummary, Mapping[str, TensorSummary]], Finding | None]


def _of_single_tensors(summaries: Mapping[str, TensorSummary]) -> Iterator[Finding]:
    """Yield the first finding of each tensor; the dtype is apart from the others."""
    for summary in summaries.values():
        for rule in (_not_finite, _constant, _repeated_rows, _low_rank, _outliers, _off_centre, _scale):
            finding = rule(summary, summaries)
            if finding is not None:
                yield finding
                break
        narrow = _dtype(summary)
        if narrow is not None:
            yield narrow


def _not_finite(summary: TensorSummary, _: Mapping[str, TensorSummary]) -> Finding | None:
    if not summary.not_finite:
        return None
    reason = f"{summary.not_finite} of {summary.entries} entries are NaN or infinite"
    return _finding("not_finite", summary, reason, "isfinite().all()")


def _maps_signals(summary: TensorSummary) -> bool:
    return summary.role.is_weight or summary.role.role == "embedding"


def _constant(summary: TensorSummary, _: Mapping[str, TensorSummary]) -> Finding | None:
    value = summary.constant
    role = summary.role
    if not value or not _maps_signals(summary) or role.role == "depthwise convolution" or min(role.shape) < 2:
        return None
    reason = f"all {summary.entries} entries are {value:.4g}: its outputs are equal and get equal gradients"
    return _finding("constant_weights", summary, reason, "unique()")


def _repeated_rows(summary: TensorSummary, summaries: Mapping[str, TensorSummary]) -> Finding | None:
    role = summary.role
    if not _maps_signals(summary) or family_of(summary) != "random" or math.prod(role.shape[1:]) < 4:
        return None
    rows = role.shape[1] * role.blocks if role.transposed else role.shape[0]
    expression = "flatten(1).unique(dim=0).shape"
    if summary.equal_rows:
        reason = f"{summary.equal_rows} of {rows} rows equal another row: such units start as one"
        return _finding("repeated_rows", summary, reason, expression)
    if summary.zero_rows > _padding_rows(summary):
        reason = f"{summary.zero_rows} of {rows} rows are zero: such units give no signal"
        return _finding("repeated_rows", summary, reason, expression)
    mirrored = [one for one in summaries.values() if one.negated_rows and one.role.is_weight]
    if summary.negated_rows and len(mirrored) < 2:  # a mirrored initialization, such as looks-linear, mirrors several
        reason = f"{summary.negated_rows} of {rows} rows are another row times -1"
        return _finding("repeated_rows", summary, reason, expression)
    return None


def _padding_rows(summary: TensorSummary) -> int:
    """Return how many rows of zeros are no fault: embeddings have some for padding."""
    return 2 if summary.role.role == "embedding" else 0


def _low_rank(summary: TensorSummary, _: Mapping[str, TensorSummary]) -> Finding | None:
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

    Args:
        summary: of the tensor.
    """
    if not summary.outliers:
        return False
    low, high = summary.quantiles[0], summary.quantiles[-1]
    rare = summary.outliers <= max(3, summary.entries / 2**21)
    extremes = {abs(value) for value in (low, high) if abs(value) > 8 * summary.bulk_std}
    return rare and extremes == {_CLAMPED}


def _outliers(summary: TensorSummary, _: Mapping[str, TensorSummary]) -> Finding | None:
    if not summary.outliers or not _maps_signals(summary) or is_clamped(summary):
        return None
    largest = max(abs(summary.quantiles[0]), abs(summary.quantiles[-1]))
    reason = (
        f"{summary.outliers} of {summary.entries} entries are outliers, up to {largest:.3g}, "
        f"{largest / summary.bulk_std:.0f} standard deviations of the others"
    )
    return _finding("outliers", summary, reason, "abs().flatten().topk(9)")


def _off_centre(summary: TensorSummary, _: Mapping[str, TensorSummary]) -> Finding | None:
    if not summary.std or not summary.role.is_weight or family_of(summary) != "random":
        return None
    ratio = abs(summary.mean) / summary.std
    if ratio < _LARGEST_MEAN or ratio * math.sqrt(summary.entries) < 6:
        return None
    reason = f"the mean is {summary.mean:.3g} at a standard deviation of {summary.std:.3g}: outputs share a direction"
    return _finding("off_centre", summary, reason, "mean()")


def _scale(summary: TensorSummary, _: Mapping[str, TensorSummary]) -> Finding | None:
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
        reason = f"every entry of this {summary.dtype} tensor is a {summary.rounded_to}: it was rounded once"
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
    groups: dict[tuple[float, ...], list[TensorSummary]] = {}
    for summary in summaries.values():
        few = summary.first
        drawn = _maps_signals(summary) or "bias" in summary.role.role or summary.role.role == "positions"
        # Fewer different numbers are no draw: an identity, a filter of averages.
        if not drawn or len(set(few)) < 12 or summary.not_finite or family_of(summary).startswith(("identity", "sig")):
            continue
        scale = max(few, key=abs)
        groups.setdefault(tuple(round(value / scale, 2) for value in few), []).append(summary)
    by_pattern: dict[tuple[str, ...], list[list[TensorSummary]]] = {}
    for group in groups.values():
        if len(group) > 1:
            by_pattern.setdefault(tuple(sorted({one.role.layer for one in group})), []).append(group)
    for together in by_pattern.values():
        first, second = together[0][0], together[0][1]
        equal = first.digest == second.digest
        same = "hold the same numbers" if equal else "come from the same random numbers"
        names = tuple(one.role.name for group in together for one in group)
        reason = f"{first.role.name} and {second.role.name} {same}, and are not tied: they start alike, then diverge"
        parts = [f'model.get_parameter("{one.role.name}").flatten()[:9]' for one in (first, second)]
        yield Finding("copied_tensor", names, first.role.layer, reason, ", ".join(parts))


def _out_of_line(exceptional: Exceptional) -> Finding:
    summary = exceptional.sample.summary
    if exceptional.law is not None and exceptional.expected_std:
        ratio = summary.bulk_std / exceptional.expected_std
        reason = (
            f"σ is {summary.bulk_std:.3g}, {ratio:.3g} times that of its {exceptional.siblings} siblings, "
            f"which are {exceptional.family}"
        )
        if abs(math.log(ratio)) < 0.1:
            reason = (
                f"its shape or mean is not that of its {exceptional.siblings} siblings, which are {exceptional.law}"
            )
    else:
        kind = family_of(summary)
        what = f"random, σ {summary.std:.3g}" if kind == "random" else kind
        reason = f"it is {what}; its {exceptional.siblings} siblings are {exceptional.family}"
    return _finding("out_of_line", summary, reason, "std()")
