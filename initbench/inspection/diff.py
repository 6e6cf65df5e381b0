"""`diff`: do the tensors of two models have the same laws?

Location, scale, shape and singular values are measured at each seed, and seeds are the replicates of Student's t. Its
variance is the variance between seeds, or the variance that independent entries have if this is larger. The second
keeps few seeds from agreeing by luck. The first is right if entries depend on each other, as in orthogonal matrices or
behind a tuner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from initbench.arguments import check_positive
from initbench.errors import ArgumentError
from initbench.inspection.fingerprint import Fingerprint, TensorFingerprint, fingerprint, read_fingerprint
from initbench.inspection.grouping import grouped
from initbench.inspection.law_in_words import is_orthogonal, law_in_words
from initbench.inspection.matching import layout, match
from initbench.inspection.source import Build
from initbench.inspection.tensors import QUANTILES

KINDS = ("missing_tensor", "shape", "location", "scale", "distribution", "dependence", "constant", "tied")
"""The kinds of differences."""
_FEWEST = 20  # entries for a test of the shape of a law
_POWER = 0.95
_SMALL_FACTOR = 1.1


@dataclass(frozen=True)
class TensorDifference:
    """A pair of matched tensors.

    Attributes:
        a: the name in A.
        b: the name in B.
        role: the role in A.
        kinds: the kinds in which they differ; empty if no difference was seen.
        law_a: the law in A, in words.
        law_b: the law in B.
        pattern_a: the same with ``fan_in`` for its size, so that the tensors of a role can have the same one.
        pattern_b: likewise.
        details: kind → how much they differ, in words; ``constant`` is in the laws.
        factor: the standard deviation in B divided by that in A; None if one is 0.
        visible_factor: the smallest factor between the standard deviations that would have been seen with probability
            0.95; None if no test could see one, as for constants.
    """

    a: str
    b: str
    role: str
    kinds: tuple[str, ...]
    law_a: str
    law_b: str
    pattern_a: str
    pattern_b: str
    details: dict[str, str] = field(default_factory=dict)
    factor: float | None = None
    visible_factor: float | None = None


@dataclass(frozen=True)
class Difference:
    """The difference between two models in law; ``print`` shows what differs.

    Attributes:
        a: the name of A.
        b: the name of B.
        tensors: the matched pairs.
        unmatched_a: tensors of A that B lacks.
        unmatched_b: tensors of B that A lacks.
        false_alarms: the largest probability that any of the tests sees a difference between equal laws.
        tests: the number of tests.
        notes: versions that differ, and why tensors might be matched wrongly.
    """

    a: str
    b: str
    tensors: tuple[TensorDifference, ...]
    unmatched_a: tuple[str, ...]
    unmatched_b: tuple[str, ...]
    false_alarms: float
    tests: int
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether no difference was seen."""
        return not self.kinds

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of differences that were seen."""
        missing = {"missing_tensor"} if self.unmatched_a or self.unmatched_b else set()
        return frozenset(missing.union(*(tensor.kinds for tensor in self.tensors)))

    def to_json(self) -> dict[str, Any]:
        """Return all fields."""
        return {"same": self.same, "kinds": sorted(self.kinds)} | asdict(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


Side = Fingerprint | Build | Path


def diff(a: Side, b: Side, *, seeds: int = 5, false_alarms: float = 0.05) -> Difference:
    """Compare the laws of two models, tensor by tensor.

    Tensors are matched by name, the others by role, shape and order. Between equal laws, the probability of seeing any
    difference is at most `false_alarms` over all tensors and tests (Holm, A simple sequentially rejective multiple test
    procedure, 1979). Constants and fixed values are compared exactly, that is to six digits.

    Args:
        a: a fingerprint or the path of its file (``.json``), a function that builds a model (see `fingerprint`), a
            model source or its name (see `model_source`).
        b: likewise.
        seeds: the number of models built of each, unless it is a fingerprint.
        false_alarms: see above.

    Raises:
        InitbenchError: a model cannot be built, or a file cannot be read.
    """
    check_positive(false_alarms=false_alarms)
    if false_alarms >= 1:
        raise ArgumentError(f"must be below 1, got {false_alarms}", "false_alarms")
    first, second = (_fingerprint(side, seeds) for side in (a, b))
    pairs, left_a, left_b = match(first.tensors, second.tensors)
    compared = [_compare(one, other) for one, other in pairs]
    p_values = [test.p for tests in compared for test in tests if test.p is not None]
    limit = _holm(p_values, false_alarms)
    law = student(first.seeds + second.seeds - 2)
    critical = float(law.ppf(1 - false_alarms / max(len(p_values), 1) / 2) + law.ppf(_POWER))
    return Difference(
        first.name,
        second.name,
        tuple(_difference(*pair, tests, limit, critical) for pair, tests in zip(pairs, compared, strict=True)),
        tuple(tensor.name for tensor in left_a),
        tuple(tensor.name for tensor in left_b),
        false_alarms,
        len(p_values),
        tuple(_notes(first, second, by_name=not left_a and not left_b and all(x.name == y.name for x, y in pairs))),
    )


def _fingerprint(side: Side, seeds: int) -> Fingerprint:
    if isinstance(side, Path) or (isinstance(side, str) and Path(side).suffix == ".json"):
        return read_fingerprint(side)
    if isinstance(side, Fingerprint):
        return side
    return fingerprint(side, seeds=seeds)


def _notes(a: Fingerprint, b: Fingerprint, *, by_name: bool) -> Iterator[str]:
    for package in sorted(a.versions.keys() & b.versions.keys()):
        if a.versions[package] != b.versions[package]:
            yield f"{package} {a.versions[package]} against {b.versions[package]}"
    for side in () if by_name else (a, b):
        if side.note:
            yield f"{side.name}: {side.note}"


def _holm(p_values: list[float], level: float) -> float:
    """Return the largest p-value that is rejected, -1 if none is."""
    limit = -1.0
    for rank, p in enumerate(sorted(p_values)):
        if p * (len(p_values) - rank) > level:
            break
        limit = p
    return limit


@dataclass(frozen=True)
class _Test:
    """A test of one kind; `p` is None if it is exact, and it then reports a difference."""

    kind: str
    p: float | None
    error: float = 0.0


def _compare(a: TensorFingerprint, b: TensorFingerprint) -> list[_Test]:
    """Return the tests of a pair."""
    tests = [_Test("tied", None)] if len(a.tied) != len(b.tied) else []
    if layout(a) != layout(b):
        return [_Test("shape", None), *tests]
    if a.fixed and b.fixed:
        return tests + _exact(a, b)
    if a.fixed or b.fixed:
        return [_Test("constant", None), *tests]
    return tests + list(_random(a, b))


def _exact(a: TensorFingerprint, b: TensorFingerprint) -> list[_Test]:
    if a.constant is not None or b.constant is not None:
        same = None not in {a.constant, b.constant} and _close(a.mean, b.mean, 0.0)
        return [] if same else [_Test("constant", None)]
    scale = max(a.std, b.std)
    differs = {
        "location": not _close(a.mean, b.mean, scale),
        "scale": not _close(a.std, b.std, 0.0),
        "distribution": any(not _close(x, y, 100.0) for x, y in zip(a.quantiles, b.quantiles, strict=False)),
        "dependence": any(not _close(x, y, 100.0) for x, y in zip(a.fourth_moments, b.fourth_moments, strict=False)),
    }
    return [_Test(kind, None) for kind, differ in differs.items() if differ]


def _close(x: float, y: float, scale: float) -> bool:
    return math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-6 * scale)


def _random(a: TensorFingerprint, b: TensorFingerprint) -> Iterator[_Test]:
    entries = a.entries
    yield _student("location", a.means, b.means, max(a.std, b.std) / math.sqrt(entries), 1e-4 * max(a.std, b.std))
    if entries < 2:
        return
    kurtoses = [*a.kurtoses, *b.kurtoses]
    kurtosis = sum(kurtoses) / max(len(kurtoses), 1)
    error = math.sqrt((max(kurtosis, 0) + 2) / (4 * entries))
    yield _student("scale", *_log_deviations(a, b), error, 1e-4)
    if entries >= _FEWEST and a.kurtoses and b.kurtoses:
        # 24/n for a normal law, with a factor that is about right for a uniform one, 1.3/n, and for two values, 0.
        error = math.sqrt(24 * (1 + min(kurtosis, 0) / 2) ** 3 / entries)
        yield _student("distribution", a.kurtoses, b.kurtoses, error, 1e-3)
        yield _quantiles(a, b)
    if a.fourth_moments and b.fourth_moments:
        yield _student("dependence", a.fourth_moments, b.fourth_moments, 0.0, 1e-3)
        yield _student("dependence", a.largest, b.largest, 0.0, 1e-3)
        yield _student("dependence", a.smallest, b.smallest, 0.0, 1e-2)


def _log_deviations(a: TensorFingerprint, b: TensorFingerprint) -> tuple[list[float], list[float]]:
    """Return, per seed, the log of the root mean square deviation from the mean of both laws.

    That mean is 0 unless it is clearly not: an orthogonal matrix has the same root mean square at every seed, but its
    deviation from any other value varies.
    """
    means = [*a.means, *b.means]
    centre = sum(means) / len(means)
    if abs(centre) < 5 * max(a.std, b.std) / math.sqrt(a.entries * len(means)):
        centre = 0.0
    first, second = (
        [math.log(max(math.hypot(std, mean - centre), 1e-300)) for mean, std in zip(side.means, side.stds, strict=True)]
        for side in (a, b)
    )
    return first, second


def _student(kind: str, a: Iterable[float], b: Iterable[float], independent_error: float, tolerance: float) -> _Test:
    """Compare the averages of one statistic.

    Args:
        kind: of the test.
        a: the statistic, per seed of A.
        b: per seed of B.
        independent_error: the standard error of one seed's statistic if its entries are independent; 0 if unknown.
        tolerance: differences below it are rounding.
    """
    x, y = np.array(list(a)), np.array(list(b))
    seeds = len(x), len(y)
    error = _error(seeds, (x.var(ddof=1), y.var(ddof=1)), np.array(independent_error**2))
    difference = np.array(abs(x.mean() - y.mean()))
    return _Test(kind, float(_p(difference, error, sum(seeds) - 2, tolerance)), float(error))


def _quantiles(a: TensorFingerprint, b: TensorFingerprint) -> _Test:
    """Compare the standardized quantiles by the largest of 19 differences in standard errors, with Bonferroni."""
    levels, inner = np.array(QUANTILES), slice(1, -1)
    x, y = np.array(a.quantiles), np.array(b.quantiles)
    middle = (x + y) / 2
    slope = (middle[2:] - middle[:-2]) / (levels[2:] - levels[:-2])  # 1/density
    independent = levels[inner] * (1 - levels[inner]) * slope**2 / a.entries
    seeds = len(a.means), len(b.means)
    variances = np.array(a.quantile_stds)[inner] ** 2, np.array(b.quantile_stds)[inner] ** 2
    p = _p(np.abs(x - y)[inner], _error(seeds, variances, independent), sum(seeds) - 2, 1e-3)
    return _Test("distribution", min(1.0, float(p.min()) * len(p)))


Array = NDArray[np.float64]


def _error(seeds: tuple[int, int], variances: tuple[Array, Array], independent: Array) -> Array:
    """Return the standard error of a difference of averages over seeds.

    The pooled variance between seeds alone gives a valid t test. The variance of independent entries replaces it if it
    is larger, unless seeds agree so well that entries cannot be independent.

    Args:
        seeds: the number of seeds of A and of B.
        variances: of a statistic between the seeds of A and of B.
        independent: its variance if entries are independent.
    """
    between = sum((n - 1) * variance for n, variance in zip(seeds, variances, strict=True)) / (sum(seeds) - 2)
    variance = np.where(between < 0.01 * independent, between, np.maximum(between, independent))
    return np.sqrt(variance * (1 / seeds[0] + 1 / seeds[1]))


def _p(difference: Array, error: Array, df: int, tolerance: float) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * student.sf(difference / error, df)
    return np.where(difference <= tolerance, 1.0, np.nan_to_num(p))


def _difference(
    a: TensorFingerprint, b: TensorFingerprint, tests: list[_Test], limit: float, critical: float
) -> TensorDifference:
    kinds = tuple(kind for kind in KINDS if any(t.kind == kind and (t.p is None or t.p <= limit) for t in tests))
    scale = next((test.error for test in tests if test.kind == "scale" and test.p is not None), None)
    return TensorDifference(
        a.name,
        b.name,
        a.role,
        kinds,
        law_in_words(a),
        law_in_words(b),
        law_in_words(a, sizes=False),
        law_in_words(b, sizes=False),
        {kind: _detail(kind, a, b) for kind in kinds if kind != "constant"},
        b.std / a.std if a.std and b.std else None,
        None if scale is None else math.exp(min(critical * scale, 700.0)),
    )


def _detail(kind: str, a: TensorFingerprint, b: TensorFingerprint) -> str:
    if kind == "shape":
        return f"shape {a.shape} against {b.shape}"
    if kind == "location":
        return f"mean {a.mean:.3g} against {b.mean:.3g}"
    if kind == "scale":
        return f"std × {b.std / a.std:.3g}" if a.std else f"std {a.std:.3g} against {b.std:.3g}"
    if kind == "distribution":
        return f"excess kurtosis {_average(a.kurtoses):.2g} against {_average(b.kurtoses):.2g}"
    if kind == "tied":
        return " against ".join(f"tied to {', '.join(side.tied)}" if side.tied else "not tied" for side in (a, b))
    if is_orthogonal(a) or is_orthogonal(b):
        return " against ".join("orthogonal" if is_orthogonal(side) else "not orthogonal" for side in (a, b))
    moments = f"{_average(a.fourth_moments):.3g} against {_average(b.fourth_moments):.3g}"
    return f"fourth moment of the singular values {moments}"


def _average(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)


def _lines(difference: Difference) -> Iterator[str]:
    a, b = difference.a, difference.b
    rate = f"{difference.tests} tests, false alarms at most {100 * difference.false_alarms:g} % over all"
    if difference.same:
        yield f"{a} and {b}: no difference in law in {len(difference.tensors)} tensors ({rate})"
    else:
        yield f"{a} against {b} ({rate})"
    for has, lacks, names in ((a, b, difference.unmatched_a), (b, a, difference.unmatched_b)):
        if names:
            yield f"{_few(names)}: in {has}, missing in {lacks}"
    for group in _groups(tensor for tensor in difference.tensors if tensor.kinds):
        yield _line(group)
    equal = [
        tensor for tensor in difference.tensors if not tensor.kinds and (tensor.visible_factor or 0) > _SMALL_FACTOR
    ]
    for role, tensors in grouped(equal, lambda tensor: tensor.role).items():
        smallest = _range([tensor.visible_factor for tensor in tensors])
        yield f"{role}, {_count(len(tensors))}: too small to detect a change of the std by a factor below {smallest}"
    yield from difference.notes


_MOST_LINES = 2  # of tensors with one role and the same kinds of differences; more become one line


def _groups(tensors: Iterable[TensorDifference]) -> Iterator[list[TensorDifference]]:
    """Yield the tensors of one line: of a role with the same laws, or of a role with more than two laws."""
    for alike in grouped(tensors, lambda tensor: (tensor.kinds, tensor.role)).values():
        by_law = grouped(alike, lambda tensor: (tensor.pattern_a, tensor.pattern_b))
        yield from by_law.values() if len(by_law) <= _MOST_LINES else [[one for few in by_law.values() for one in few]]


def _line(group: list[TensorDifference]) -> str:
    first = group[0]
    pairs = [{(one.law_a, one.law_b) for one in group}, {(one.pattern_a, one.pattern_b) for one in group}]
    law_a, law_b = next((laws.pop() for laws in pairs if len(laws) == 1), (first.law_a, first.law_b))
    example = f" in {first.a}, others alike" if len(pairs[1]) > 1 else ""
    said = (f"{law_a} against {law_b}" if law_a != law_b else law_a) + example
    details = dict(first.details)
    if "scale" in details and any(one.factor is not None for one in group):
        details["scale"] = f"std × {_range([one.factor for one in group])}"
    what = first.a if len(group) == 1 else first.role
    names = f" ({_count(len(group))}: {_few(tuple(one.a for one in group))})" if len(group) > 1 else ""
    how_much = f": {', '.join(details.values())}" if details else ""
    return f"{what}: {said}{how_much}{names}"


def _count(number: int) -> str:
    return f"{number} tensor{'s' if number > 1 else ''}"


def _range(factors: Sequence[float | None]) -> str:
    known = [factor for factor in factors if factor is not None]
    low, high = f"{min(known):.3g}", f"{max(known):.3g}"
    return low if low == high else f"{low} to {high}"


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]}, ..., {names[-1]}"
