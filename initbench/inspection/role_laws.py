"""The laws of a role: which tensors are constant, orthogonal or random, and which stand out among their siblings."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.stats import norm

from initbench.inspection.laws import (
    FALSE_ALARMS,
    NamedLaw,
    Sample,
    bin_excesses,
    fitting_laws,
    mean_p,
    scale_deviations,
    shape_p,
)
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
        description: the simplest law, or what is known without one.
        law: the simplest law of independent entries; None for others.
        mean: smallest and largest mean.
        std: smallest and largest standard deviation.
        untouched: how many of them only PyTorch's own `reset_parameters` has drawn; None if this was not watched.
    """

    role: str
    tensors: tuple[str, ...]
    laws: tuple[str, ...]
    description: str
    law: NamedLaw | None
    mean: tuple[float, float]
    std: tuple[float, float]
    untouched: int | None = None

    def __str__(self) -> str:
        return f"{self.role} ({len(self.tensors)}): {self.description}"

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "role": self.role,
            "tensors": list(self.tensors),
            "laws": list(self.laws),
            "description": self.description,
            "mean": list(self.mean),
            "std": list(self.std),
            "untouched": self.untouched,
        }


@dataclass(frozen=True)
class Exceptional:
    """A tensor that stands out among its siblings.

    Attributes:
        sample: the tensor.
        siblings: how many tensors share the law that it lacks.
        family: that law in words.
        law: that law; None if it is not one of independent entries.
    """

    sample: Sample
    siblings: int
    family: str
    law: NamedLaw | None = None

    @property
    def expected_std(self) -> float | None:
        """The standard deviation under that law."""
        variance = None if self.law is None else self.law.variance(self.sample)
        return None if variance is None else math.sqrt(variance)


@dataclass
class _Laws:
    rows: list[RoleLaw] = field(default_factory=list)
    exceptions: list[Exceptional] = field(default_factory=list)


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


def role_laws(role: str, samples: Sequence[Sample]) -> tuple[list[RoleLaw], list[Exceptional]]:
    """Return the laws of a role's tensors, and the tensors that stand out.

    Args:
        role: see `TensorRole`.
        samples: its tensors, in the order in which they run.
    """
    laws = _Laws()
    samples = [sample for sample in samples if sample.summary.quantiles]  # without entries, or finite ones, no law
    random: list[Sample] = []
    others: dict[str, list[Sample]] = {}
    for sample in samples:
        family = family_of(sample.summary)
        (random if family == "random" else others.setdefault(family, [])).append(sample)
    for family, members in others.items():
        laws.rows.append(_row(role, members, (family,), family))
    if random:
        _add_random(laws, role, random)
    laws.exceptions += _of_another_family(samples)
    return laws.rows, laws.exceptions


def _row(
    role: str, samples: Sequence[Sample], laws: tuple[str, ...], description: str, law: NamedLaw | None = None
) -> RoleLaw:
    means = [sample.summary.mean for sample in samples]
    stds = [sample.summary.std for sample in samples]
    names = tuple(sample.role.name for sample in samples)
    return RoleLaw(role, names, laws, description, law, (min(means), max(means)), (min(stds), max(stds)))


def _add_random(laws: _Laws, role: str, samples: list[Sample]) -> None:
    fitting = fitting_laws(samples)
    if fitting:
        texts = tuple(law.text for law in fitting)
        laws.rows.append(_row(role, samples, texts, texts[0], fitting[0]))
        return
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(pattern_of(sample.role.name), []).append(sample)
    if len(groups) > 1:
        for members in groups.values():
            _add_random(laws, role, members)
        _merge(laws, role, samples)
        return
    chosen = _law_of_most(samples)
    if chosen is None:
        laws.rows.append(_row(role, samples, (), _without_law(samples)))
        return
    fitting, inside, outside = chosen
    texts = tuple(law.text for law in fitting)
    laws.rows.append(_row(role, inside, texts, texts[0], fitting[0]))
    for sample in outside:
        laws.exceptions.append(Exceptional(sample, len(inside), texts[0], fitting[0]))
        alone = fitting_laws([sample])
        texts_alone = tuple(law.text for law in alone)
        description = texts_alone[0] if alone else _without_law([sample])
        laws.rows.append(_row(role, [sample], texts_alone, description, alone[0] if alone else None))


def _merge(laws: _Laws, role: str, samples: Sequence[Sample]) -> None:
    """Join rows of one role with the same simplest law."""
    merged: dict[str, list[RoleLaw]] = {}
    for row in laws.rows:
        merged.setdefault(row.description if row.role == role and row.laws else str(id(row)), []).append(row)
    by_name = {sample.role.name: sample for sample in samples}
    rows = []
    for several in merged.values():
        if len(several) == 1:
            rows += several
            continue
        members = [by_name[name] for row in several for name in row.tensors]
        common = tuple(text for text in several[0].laws if all(text in row.laws for row in several))
        rows.append(_row(role, members, common, several[0].description, several[0].law))
    laws.rows = rows


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


def _scale_candidates(samples: Sequence[Sample]) -> list[dict[str, float]]:
    """Return how far each tensor is from the median law: with a constant deviation, by its fans, and by its shape."""
    found = []
    for unit in ("1", "fan_in", "fan_out"):
        ratios = {}
        for sample in samples:
            scale = 1.0 if unit == "1" else float(getattr(sample, unit) or 1)
            ratios[sample.role.name] = math.log(sample.variance * scale)
        median = sorted(ratios.values())[len(ratios) // 2]
        found.append({name: abs(ratio - median) for name, ratio in ratios.items()})
    kurtosis = {sample.role.name: sample.summary.excess_kurtosis or 0.0 for sample in samples}
    median = sorted(kurtosis.values())[len(kurtosis) // 2]
    found.append({name: abs(value - median) for name, value in kurtosis.items()})
    found.append({sample.role.name: abs(sample.summary.mean / sample.summary.std) for sample in samples})
    return found


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
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(pattern_of(sample.role.name), []).append(sample)
    found = []
    for members in groups.values():
        families: dict[str, list[Sample]] = {}
        for sample in members:
            family = family_of(sample.summary)
            is_isometry = family.startswith(("identity", "signed", "delta", "orthogonal"))
            families.setdefault("orthogonal" if is_isometry else family, []).append(sample)
        usual = max(families, key=lambda family: len(families[family]))
        others = [sample for family, few in families.items() if family != usual for sample in few]
        if len(families[usual]) >= _FEWEST_SIBLINGS and len(others) <= _MOST_LEFT_OUT * len(members):
            found += [Exceptional(sample, len(families[usual]), usual) for sample in others]
    return found


def is_significant(exceptional: Exceptional, tensors: int) -> bool:
    """Return whether a tensor is out of line beyond chance, and by enough to matter.

    Args:
        exceptional: the tensor.
        tensors: how many tensors were compared (Bonferroni).
    """
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
