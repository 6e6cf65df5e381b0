"""The law that the tensors of one role share: its shape, and a formula of its standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from scipy.stats import chi2

from initbench.inspection.roles import TensorRole
from initbench.inspection.shapes import (
    NORMAL,
    SHAPES,
    UNIFORM,
    Shape,
    digits,
    round_to_error,
    with_number,
    with_variance,
)
from initbench.inspection.tensors import QUANTILES, TensorSummary, quantile_step

FALSE_ALARMS = 0.01
"""The probability of refusing the true law of a role."""
_ROUND_ENOUGH = 0.01  # relative standard error; above it, the first digit alone fits too often
_FEWEST_SHAPED = 200  # entries; of fewer, 20 bins say nothing about the shape
# Rounding moves the entries of a narrow type between bins; more entries than these would show it.
_RESOLVED = {"bfloat16": 2**12}


@dataclass(frozen=True)
class Sample:
    """A tensor of independent entries, and the sizes on which its law may depend.

    Attributes:
        summary: the tensor's values.
        fan_in: of the tensor, or of its layer's weight; None if unknown.
        fan_out: likewise.
        stored_fans: fan-in and fan-out as `torch.nn.init` computes them from the stored sizes.
        block: the number of its residual block, from 1; None outside of branch ends.
        branches: the number of weights at branch ends in the model; None outside of branch ends.
    """

    summary: TensorSummary
    fan_in: int | None = None
    fan_out: int | None = None
    stored_fans: tuple[int, int] | None = None
    block: int | None = None
    branches: int | None = None

    @property
    def role(self) -> TensorRole:
        """The tensor's role."""
        return self.summary.role

    @property
    def variance(self) -> float:
        """The variance around 0 without outliers."""
        return self.summary.bulk_std**2

    def degrees(self, shape: Shape) -> float:
        """Return the degrees of freedom ν of a χ² law with the relative spread of the variance, √(2/ν)."""
        return 2 * self.summary.entries / (shape.excess_kurtosis + 2)


def samples_of(summaries: Sequence[TensorSummary]) -> dict[str, Sample]:
    """Return the samples by name of all tensors of a model, which are in the order in which they run."""
    weights = {summary.role.layer: summary.role for summary in summaries if summary.role.is_weight}
    branches = sum(role.is_branch_end for role in weights.values()) or None
    blocks: dict[str, int] = {}
    samples = {}
    for summary in summaries:
        role = summary.role
        weight = role if role.is_weight else weights.get(role.layer) if "bias" in role.role else None
        block = None
        if role.is_branch_end and role.is_weight:
            block = blocks.setdefault(role.block, len(blocks) + 1)
        if weight is None:
            samples[role.name] = Sample(summary)
            continue
        taps = math.prod(weight.shape[2:])
        stored = (weight.shape[1] * taps, weight.shape[0] * taps) if len(weight.shape) > 1 else None
        samples[role.name] = Sample(summary, weight.fan_in, weight.fan_out, stored, block, block and branches)
    return samples


@dataclass(frozen=True)
class Formula:
    """A variance for every tensor: a number divided by a size of the tensor.

    Attributes:
        top: the number; None if it is estimated.
        bottom: the size: ``fan_in``, ``fan_out``, ``(fan_in + fan_out)``, ``branches`` or ``block``; empty for 1.
        normal: the familiar name of a normal law with this variance; empty if there is none.
        uniform: the familiar name of a uniform law.
        only: the roles in which the name is familiar; all if empty.
        stored: whether fans are counted as `torch.nn.init` counts them.
    """

    top: float | None
    bottom: str = ""
    normal: str = ""
    uniform: str = ""
    only: tuple[str, ...] = ()
    stored: bool = False

    @property
    def is_square(self) -> bool:
        """Whether the law is written with a deviation or bound, not with the variance."""
        return self.bottom in {"", "block", "branches"}

    def size(self, sample: Sample) -> float | None:
        """Return the size of a tensor; None if it has none."""
        if self.is_square:
            return {"": 1, "block": sample.block, "branches": sample.branches}[self.bottom]
        fan_in, fan_out = (sample.stored_fans or (None, None)) if self.stored else (sample.fan_in, sample.fan_out)
        if fan_in is None or fan_out is None:
            return None
        return {"fan_in": fan_in, "fan_out": fan_out}.get(self.bottom, fan_in + fan_out)

    def name(self, shape: Shape, role: str) -> str:
        """Return the familiar name of a law of tensors of a role; empty if there is none."""
        familiar = not self.only or role in self.only
        return (self.uniform if shape is UNIFORM else self.normal) if familiar else ""


_CONSTANT = Formula(None)
_EMBEDDING = Formula(1.0, "", "PyTorch's default of embeddings", only=("embedding",))
_OF_FANS = (
    Formula(1 / 3, "fan_in", uniform="PyTorch's default, kaiming_uniform_ with a=√5"),
    Formula(2, "fan_in", "kaiming_normal_, fan_in, relu", "kaiming_uniform_, fan_in, relu"),
    Formula(2, "fan_out", "kaiming_normal_, fan_out, relu", "kaiming_uniform_, fan_out, relu"),
    Formula(2, "(fan_in + fan_out)", "xavier_normal_", "xavier_uniform_"),
    Formula(1, "fan_in", "LeCun, kaiming_normal_ linear", "LeCun, kaiming_uniform_ linear"),
    Formula(1, "fan_out", "kaiming_normal_, fan_out, linear", "kaiming_uniform_, fan_out, linear"),
    Formula(1 / 3, "fan_out", uniform="PyTorch's default of recurrent layers", only=("recurrent", "recurrent bias")),
    Formula(0.4, "fan_in", "small init"),
)
FORMULAS = (
    _EMBEDDING,
    Formula(None, "branches"),
    *_OF_FANS,
    *(replace(formula, stored=True) for formula in _OF_FANS),
    _CONSTANT,
    *(Formula(None, bottom) for bottom in ("fan_in", "fan_out", "(fan_in + fan_out)", "block")),
)
# The laws of biases that occur: constants, and PyTorch's, by the fan-in of the weight beside them.
BIAS_FORMULAS = tuple(formula for formula in FORMULAS if formula in {_EMBEDDING, _CONSTANT} or formula.top == 1 / 3)


@dataclass(frozen=True)
class NamedLaw:
    """A law with numbers.

    Attributes:
        shape: of the entries.
        formula: of the variance.
        top: the formula's number, or the estimate of it.
        text: as researchers write it: ``N(0, 2/fan_in), kaiming_normal_, fan_in, relu``.
    """

    shape: Shape
    formula: Formula
    top: float
    text: str

    def variance(self, sample: Sample) -> float | None:
        """Return the variance of a tensor; None if the law does not apply to it."""
        size = self.formula.size(sample)
        return self.top / size if size else None


def shape_p(samples: Sequence[Sample], shape: Shape) -> float:
    """Return the p-value of χ² over 20 bins of each tensor, which all have probability 1/20 under the shape.

    The scale is each tensor's own: the bound of a uniform law, otherwise the deviation. That takes at most one degree
    of freedom (Chernoff and Lehmann, 1954); 19 of 19 are counted, so the test errs on the side of the law.
    """
    statistic, degrees = 0.0, 0
    for sample in samples:
        summary = sample.summary
        sorted_entries = summary.entries // quantile_step(summary.entries)
        number = min(sorted_entries, _RESOLVED.get(summary.dtype, sorted_entries))
        if number < _FEWEST_SHAPED:
            continue
        largest = max(-summary.quantiles[0], summary.quantiles[-1]) / summary.bulk_std
        if largest > shape.largest * (1 + 5 / math.sqrt(sample.degrees(shape))) and not summary.outliers:
            return 0.0
        bins = len(QUANTILES) - 1
        statistic += number * bins * sum(excess**2 for excess in bin_excesses(sample, shape))
        degrees += bins - 1
    return float(chi2.sf(statistic, degrees)) if degrees else 1.0


def bin_excesses(sample: Sample, shape: Shape) -> list[float]:
    """Return the probability, minus 1/20, that a shape of the tensor's scale gives to each of its 20 bins."""
    summary = sample.summary
    scale = summary.bulk_std
    if shape is UNIFORM and not summary.outliers:  # the bound is known better than the deviation
        scale = max(-summary.quantiles[0], summary.quantiles[-1]) / shape.largest
    levels = [0.0, *(shape.distribution(value / scale) for value in summary.quantiles[1:-1]), 1.0]
    return [upper - lower - 1 / (len(levels) - 1) for lower, upper in pairwise(levels)]


def mean_p(samples: Sequence[Sample]) -> float:
    """Return the p-value of mean 0 in all tensors."""
    terms = [sample.summary.mean**2 * sample.summary.entries / sample.summary.std**2 for sample in samples]
    return float(chi2.sf(sum(terms), len(terms)))


def scale_deviations(samples: Sequence[Sample], shape: Shape, variances: Sequence[float]) -> list[float]:
    """Return z of each tensor's variance, about N(0, 1) if the variances are right (Wilson and Hilferty, 1931)."""
    deviations = []
    for sample, variance in zip(samples, variances, strict=True):
        spread = 2 / (9 * sample.degrees(shape))
        deviations.append(((sample.variance / variance) ** (1 / 3) - 1 + spread) / math.sqrt(spread))
    return deviations


def fitting_laws(samples: Sequence[Sample]) -> list[NamedLaw]:
    """Return the laws that all tensors of a role may follow, the simplest first: no free number before one.

    Each law is tested for its shape, its mean of 0 and its variances; by Bonferroni over the three, a true law is
    refused with a probability of 1 %. The tensors are not constant.
    """
    level = FALSE_ALARMS / 3
    if mean_p(samples) < level:
        return []
    laws: list[NamedLaw] = []
    role = samples[0].role.role
    for shape in SHAPES:
        if shape_p(samples, shape) < level:
            continue
        for formula in BIAS_FORMULAS if "bias" in role else FORMULAS:
            law = _fitted(samples, shape, formula, laws)
            if law is None:
                continue
            variances = [law.variance(sample) or 0.0 for sample in samples]
            statistic = sum(z * z for z in scale_deviations(samples, shape, variances))
            freedom = len(samples) - (formula.top is None)
            if freedom == 0 or chi2.sf(statistic, freedom) >= level:
                laws.append(law)
    return sorted(laws, key=lambda law: _complexity(law, role))


def _complexity(law: NamedLaw, role: str) -> tuple[bool, bool, bool, bool]:
    free = law.formula.top is None and law.formula.bottom != "branches"
    name = law.formula.name(law.shape, role)
    return free, not free and not name, not name.startswith("PyTorch's default"), law.shape not in {NORMAL, UNIFORM}


def _fitted(samples: Sequence[Sample], shape: Shape, formula: Formula, before: Sequence[NamedLaw]) -> NamedLaw | None:
    """Return the law with its number; None if it does not apply, or is an earlier one under another name."""
    sizes = [size for size in map(formula.size, samples) if size]
    if len(sizes) < len(samples):
        return None
    top = formula.top
    if top is None:
        constant = max(sizes) < 1.05 * min(sizes)
        if (formula.bottom and formula.bottom != "branches" and constant) or any(
            other.shape is shape and other.formula.bottom == formula.bottom for other in before
        ):
            return None  # the same as a constant, or as a law with a known number
        degrees = [sample.degrees(shape) for sample in samples]
        total = sum(
            weight * sample.variance * size for weight, sample, size in zip(degrees, samples, sizes, strict=True)
        )
        error = math.sqrt(2 / sum(degrees))
        top = total / sum(degrees)
        if formula.is_square:
            number, plain = (
                round_to_error(math.sqrt(variance) * shape.unit, 1.25 * error) for variance in (top, top / sizes[0])
            )
            # Any deviation is some number over √branches: that is meant if only this number is round.
            if formula.bottom == "branches" and (error > _ROUND_ENOUGH or digits(number) > 1 or digits(plain) == 1):
                return None
            top = (number / shape.unit) ** 2
        else:
            top = round_to_error(top, 2.5 * error)
    law = NamedLaw(shape, formula, top, _text(shape, formula, top, samples[0].role.role))
    for other in before:
        pairs = [(law.variance(sample) or 0.0, other.variance(sample) or 0.0) for sample in samples]
        again = formula.top is None or formula.stored
        if again and other.shape is shape and all(math.isclose(*pair, rel_tol=1e-6) for pair in pairs):
            return None
    return law


def _text(shape: Shape, formula: Formula, top: float, role: str) -> str:
    if formula.is_square:
        text = with_number(shape, math.sqrt(top) * shape.unit, formula.bottom)
    else:
        text = with_variance(shape, top, formula.bottom)
    remark = "fans as torch.nn.init counts them" if formula.stored else ""
    return ", ".join(part for part in (text, formula.name(shape, role), remark) if part)
