"""The shapes of the laws of independent entries, and how a law is written: ``N(0, 2/fan_in)``, ``U(±0.1)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import ndtr, ndtri

from initbench.initializers.truncated_normal import kept_deviation


@dataclass(frozen=True)
class Shape:
    """A distribution of mean 0 and standard deviation 1.

    Attributes:
        name: ``normal``, ``uniform`` or ``truncated normal``.
        excess_kurtosis: m₄/m₂² - 3.
        distribution: its distribution function.
        quantile: the inverse of it.
        largest: the largest entry.
        bound: the cut of a truncated normal law in deviations before it; infinite for others.
    """

    name: str
    excess_kurtosis: float
    distribution: Callable[[float], float]
    quantile: Callable[[float], float]
    largest: float = math.inf
    bound: float = math.inf

    @property
    def unit(self) -> float:
        """The number that a law of standard deviation 1 is written with: its bound, or its deviation before the cut."""
        if self is UNIFORM:
            return self.largest
        return self.largest / self.bound if math.isfinite(self.bound) else 1.0


def _truncated(bound: float) -> Shape:
    kept = kept_deviation(bound)
    inside = math.erf(bound / math.sqrt(2))
    below = float(ndtr(-bound))
    density = math.exp(-bound * bound / 2) / math.sqrt(2 * math.pi)
    fourth = 3 * kept**2 - 2 * bound**3 * density / inside  # E[z⁴] = 3 E[z²] - 2b³φ(b)/(2Φ(b) - 1)
    return Shape(
        f"truncated normal, cut at ±{bound:g}σ",
        fourth / kept**4 - 3,
        lambda value: float((ndtr(min(max(value * kept, -bound), bound)) - below) / inside),
        lambda level: float(ndtri(below + level * inside)) / kept,
        bound / kept,
        bound,
    )


NORMAL = Shape("normal", 0.0, lambda value: float(ndtr(value)), lambda level: float(ndtri(level)))
UNIFORM = Shape(
    "uniform",
    -1.2,
    lambda value: min(max((value / math.sqrt(3) + 1) / 2, 0.0), 1.0),
    lambda level: math.sqrt(3) * (2 * level - 1),
    math.sqrt(3),
)
TRUNCATED = _truncated(2)
SHAPES = (NORMAL, UNIFORM, TRUNCATED, _truncated(3))


def round_to_error(value: float, error: float) -> float:
    """Return a number with the fewest digits that change it by no more than a relative error."""
    for number in range(1, 6):
        rounded = float(f"{value:.{number}g}")
        if abs(rounded / value - 1) <= error:
            return rounded
    return value


def digits(value: float) -> int:
    """Return how many of a number's first four digits are needed to write it."""
    return len(f"{value:.4g}".replace(".", "").strip("0"))


def with_number(shape: Shape, number: float, below: str = "", mean: float = 0.0) -> str:
    """Return a law in symbols: ``N(0, 0.02²)``, ``U(±0.1)``, ``N(0, 0.02²/branches) cut at ±2σ``.

    Args:
        shape: of the entries.
        number: the bound of a uniform law, otherwise the deviation, before the cut if there is one.
        below: the size whose root divides the number; empty for 1.
        mean: of the entries.
    """
    text = f"{number:.4g}"
    if shape is UNIFORM:
        return _uniform(text + (f"/√{below}" if below else ""), mean)
    square = text if text == "1" else f"{text}²"
    return f"N({mean:.3g}, {square}{f'/{below}' if below else ''}){_cut(shape)}"


def with_variance(shape: Shape, top: float, bottom: str, mean: float = 0.0) -> str:
    """Return a law whose variance is a number divided by a size: ``N(0, 2/fan_in)``, ``U(±√(6/fan_in))``."""
    if shape is UNIFORM:
        return _uniform(f"1/√{bottom}" if math.isclose(3 * top, 1) else f"√({3 * top:.4g}/{bottom})", mean)
    variance = {1 / 3: f"1/(3 {bottom})", 0.4: f"2/(5 {bottom})"}.get(top, f"{top:.4g}/{bottom}")
    if shape is NORMAL:
        return f"N({mean:.3g}, {variance})"
    return f"N{_cut(shape)}, {f'mean {mean:.3g}, ' if mean else ''}variance {variance}"


def _uniform(bound: str, mean: float) -> str:
    return f"U({mean:.3g} ± {bound})" if mean else f"U(±{bound})"


def _cut(shape: Shape) -> str:
    return f" cut at ±{shape.bound:g}σ" if math.isfinite(shape.bound) else ""
