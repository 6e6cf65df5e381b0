"""The laws of a role: which tensors are constant, orthogonal or random, and which stand out among their siblings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.stats import norm

from initbench.inspection.fitted_laws import (
    FALSE_ALARMS,
    NamedLaw,
    Sample,
    bin_excesses,
    fitting_laws,
    mean_p,
    scale_deviations,
    shape_p,
)
from initbench.inspection.grouping import grouped
from initbench.inspection.shapes import SHAPES
from initbench.inspection.tensors import TensorSummary

_LEAST_DEVIATION = 0.2  # of a standard deviation from its siblings' law; less does not matter to training
_LEAST_EXCESS = 0.01  # of the 0.05 that each of 20 bins holds; a normal law instead of a uniform one has 0.04
_MOST_LEFT_OUT = 0.25  # of the siblings
_FEWEST_SIBLINGS = 3
_ORTHOGONAL = {"bfloat16": 0.1, "float16": 0.02}  # relative spread of singular values; 1e-3 for others


@dataclass(frozen=True)
class RoleLaw:
    """Tensors of one role that share a law.

    Attributes:
        role: see `TensorRole`.
        tensors: their names, in the order in which they run.
        laws: all laws that fit, as text, the simplest first; empty if none does.
        description: the simplest law, otherwise shape and deviation.
        mean: smallest and largest mean.
        std: smallest and largest standard deviation.
        untouched: how many of them only PyTorch's own `reset_parameters` has drawn; None if this was not watched.
    """

    role: str
    tensors: tuple[str, ...]
    laws: tuple[str, ...]
    description: str
    mean: tuple[float, float]
    std: tuple[float, float]
    untouched: int | None = None

    def __str__(self) -> str:
        return f"{self.role} ({len(self.tensors)}): {self.description}"

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON."""
        names = ("role", "tensors", "laws", "description", "mean", "std", "untouched")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Exceptional:
    """A tensor that stands out among its siblings.

    Attributes:
        sample: the tensor.
        siblings: how many tensors share the law that it lacks.
        family: that law in words.
        law: that law; None if entries under it are not independent.
    """

    sample: Sample
    siblings: int
    family: str
    law: NamedLaw | None = None

    @property
    def expected_std(self) -> float | None:
        """The standard deviation under that law; None without one."""
        variance = None if self.law is None else self.law.variance(self.sample)
        return None if variance is None else math.sqrt(variance)


def pattern_of(name: str) -> str:
    """Return a tensor's name with ``#`` for each number: siblings over depth share it."""
    return re.sub(r"\d+", "#", name)


def family_of(summary: TensorSummary) -> str:
    """Return what kind of law a tensor has: ``constant c``, ``identity``, ``delta-orthogonal``, ... or ``random``."""
    if summary.constant is not None:
        return "zeros" if summary.constant == 0 else "ones" if summary.constant == 1 else f"{summary.constant:.6g}"
    singular = summary.singular_values
    if singular is None or singular.shape[1] < 2:
        return "random"
    largest = float(singular.max())
    positive = singular > 1e-6 * largest  # a kernel with one tap that has more outputs than inputs has others
    if largest - float(singular[positive].min()) > _ORTHOGONAL.get(summary.dtype, 1e-3) * largest:
        return "random"
    gain = f"{largest:.3g}"
    shape = summary.role.shape
    channels = min(shape[0], shape[1])
    if summary.role.blocks == 1 and summary.zeros == summary.entries - channels:
        return "identity" if gain == "1" and summary.quantiles[0] == 0 else f"signed permutation × {gain}"
    if len(shape) > 2 and summary.zeros >= summary.entries - shape[0] * shape[1] > 0:
        return f"delta-orthogonal, gain {gain}"
    if not bool(positive.all()):
        return "random"
    return f"orthogonal, gain {gain}"


def family_in_words(summary: TensorSummary) -> str:
    """Return the family, and the deviation of random entries."""
    family = family_of(summary)
    return f"random, σ {summary.std:.3g}" if family == "random" else family


def role_laws(role: str, samples: Sequence[Sample]) -> tuple[list[RoleLaw], list[Exceptional]]:
    """Return the laws of a role's tensors, which are in the order in which they run, and the tensors that stand out."""
    samples = [sample for sample in samples if sample.summary.quantiles]  # without entries, or finite ones, no law
    families = grouped(samples, lambda sample: family_of(sample.summary))
    random = families.pop("random", [])
    rows = [_row(role, members, family) for family, members in families.items()]
    random_rows, exceptions = _random(role, random) if random else ([], [])
    return rows + random_rows, exceptions + _of_another_family(samples)


def _row(role: str, samples: Sequence[Sample], fitting: Sequence[NamedLaw] | str) -> RoleLaw:
    """Return a row; a text is the law of tensors that are not random."""
    texts = (fitting,) if isinstance(fitting, str) else tuple(law.text for law in fitting)
    description = texts[0] if texts else _without_law(samples)
    means = [sample.summary.mean for sample in samples]
    stds = [sample.summary.std for sample in samples]
    names = tuple(sample.role.name for sample in samples)
    return RoleLaw(role, names, texts, description, (min(means), max(means)), (min(stds), max(stds)))


def _random(role: str, samples: list[Sample]) -> tuple[list[RoleLaw], list[Exceptional]]:
    """Return the laws of random tensors: of all, of those with one name pattern, or of most of them."""
    fitting = fitting_laws(samples)
    groups = grouped(samples, lambda sample: pattern_of(sample.role.name))
    if not fitting and len(groups) > 1:
        parts = [_random(role, members) for members in groups.values()]
        rows = [row for rows, _ in parts for row in rows]
        return _merged(rows, samples), [one for _, exceptions in parts for one in exceptions]
    chosen = None if fitting else _law_of_most(samples)
    if chosen is None:
        return [_row(role, samples, fitting)], []
    fitting, inside, outside = chosen
    alone = [_row(role, [sample], fitting_laws([sample])) for sample in outside]
    exceptions = [Exceptional(sample, len(inside), fitting[0].text, fitting[0]) for sample in outside]
    return [_row(role, inside, fitting), *alone], exceptions


def _merged(rows: Sequence[RoleLaw], samples: Sequence[Sample]) -> list[RoleLaw]:
    """Return the rows with those joined that have the same simplest law."""
    by_name = {sample.role.name: sample for sample in samples}
    merged = []
    for several in grouped(rows, lambda row: row.description if row.laws else row.tensors).values():
        first = several[0]
        if len(several) > 1:
            joined = _row(first.role, [by_name[name] for row in several for name in row.tensors], first.description)
            common = tuple(text for text in first.laws if all(text in row.laws for row in several))
            first = replace(joined, laws=common)
        merged.append(first)
    return merged


def _law_of_most(samples: list[Sample]) -> tuple[list[NamedLaw], list[Sample], list[Sample]] | None:
    """Return the laws of most siblings, these, and the others; None if there is none, or too few siblings.

    Tensors are left out one after another, the one furthest from the median of the scaled deviations first.
    """
    most = math.floor(_MOST_LEFT_OUT * len(samples))
    for candidate in _scale_candidates(samples):
        inside, outside = list(samples), []
        ordered = sorted(samples, key=lambda one: candidate[one.role.name], reverse=True)
        for sample in ordered[:most]:
            inside.remove(sample)
            outside.append(sample)
            if len(inside) < _FEWEST_SIBLINGS:
                break
            fitting = fitting_laws(inside)
            if fitting:
                return fitting, inside, outside
    return None


def _scale_candidates(samples: Sequence[Sample]) -> Iterator[dict[str, float]]:
    """Yield how far each tensor is from the median law: with a constant deviation, by its fans, shape and mean."""

    def from_median(measure: Callable[[Sample], float]) -> dict[str, float]:
        values = {sample.role.name: measure(sample) for sample in samples}
        median = sorted(values.values())[len(values) // 2]
        return {name: abs(value - median) for name, value in values.items()}

    yield from_median(lambda sample: math.log(sample.variance))
    yield from_median(lambda sample: math.log(sample.variance * (sample.fan_in or 1)))
    yield from_median(lambda sample: math.log(sample.variance * (sample.fan_out or 1)))
    yield from_median(lambda sample: sample.summary.excess_kurtosis or 0.0)
    yield {sample.role.name: abs(sample.summary.mean / sample.summary.std) for sample in samples}


def _without_law(samples: Sequence[Sample]) -> str:
    stds = sorted(sample.summary.bulk_std for sample in samples)
    spread = f"{stds[0]:.3g}" if len(samples) == 1 else f"from {stds[0]:.3g} to {stds[-1]:.3g}, no common formula"
    level = FALSE_ALARMS / 2
    if mean_p(samples) >= level:
        for shape in SHAPES:
            if shape_p(samples, shape) >= level:
                return f"{shape.name}, mean 0, σ {spread}"
    return f"no named law, σ {spread}"


def _of_another_family(samples: Sequence[Sample]) -> list[Exceptional]:
    """Return the few tensors that are constant where their siblings are random, or the other way round."""
    exceptions = []
    for members in grouped(samples, lambda sample: pattern_of(sample.role.name)).values():
        families = grouped(members, _isometry_or_family)
        usual = max(families, key=lambda family: len(families[family]))
        others = [sample for family, few in families.items() if family != usual for sample in few]
        if len(families[usual]) >= _FEWEST_SIBLINGS and len(others) <= _MOST_LEFT_OUT * len(members):
            exceptions += [Exceptional(sample, len(families[usual]), usual) for sample in others]
    return exceptions


def _isometry_or_family(sample: Sample) -> str:
    family = family_of(sample.summary)
    return "orthogonal" if family.startswith(("identity", "signed", "delta", "orthogonal")) else family


def is_significant(exceptional: Exceptional, tensors: int) -> bool:
    """Return whether a tensor, one of so many (Bonferroni), is out of line beyond chance and by enough to matter."""
    sample, law, std = exceptional.sample, exceptional.law, exceptional.expected_std
    if law is None or not std:
        return True
    level = FALSE_ALARMS / (3 * tensors)
    summary = sample.summary
    z = scale_deviations([sample], law.shape, [std**2])[0]
    off_scale = 2 * norm.sf(abs(z)) < level and abs(math.log(summary.bulk_std / std)) > math.log1p(_LEAST_DEVIATION)
    off_mean = mean_p([sample]) < level and abs(summary.mean) > _LEAST_DEVIATION * std
    excess = max(map(abs, bin_excesses(sample, law.shape)))
    off_shape = shape_p([sample], law.shape) < level and excess > _LEAST_EXCESS
    return bool(off_scale or off_mean or off_shape)
