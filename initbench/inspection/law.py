"""The law of a tensor in words: ``N(0, 0.01²)``, ``U(±1/√fan_in)``, ``constant 0``."""

from __future__ import annotations

import math

from scipy.stats import norm

from initbench.inspection.fingerprint import TensorFingerprint
from initbench.inspection.tensors import QUANTILES

_INNER = QUANTILES[1:-1]
_CUT = 2.0  # the usual bounds of a truncated normal law, in its standard deviations before it is cut
_OUTSIDE = float(norm.cdf(-_CUT))
_CUT_STD = math.sqrt(1 - 2 * _CUT * float(norm.pdf(_CUT)) / (1 - 2 * _OUTSIDE))
_FAMILIES = {
    "normal": [float(norm.ppf(level)) for level in _INNER],
    "uniform": [math.sqrt(3) * (2 * level - 1) for level in _INNER],
    "cut": [float(norm.ppf(_OUTSIDE + level * (1 - 2 * _OUTSIDE))) / _CUT_STD for level in _INNER],
}
_FEWEST = 60  # entries, below which the families look alike


def law_in_words(tensor: TensorFingerprint, *, sizes: bool = True) -> str:
    """Return a tensor's law: its family and parameters if they are recognized, otherwise its moments.

    Args:
        tensor: its fingerprint.
        sizes: whether fans are written as numbers, ``1/√512``, or as ``1/√fan_in``.
    """
    if tensor.constant is not None:
        return f"constant {tensor.constant:.4g}"
    mean, std = tensor.mean, tensor.std
    drawn = tensor.entries * len(tensor.means)
    family = _family(tensor, drawn)
    if tensor.fixed or family is None:
        prefix = "fixed values, " if tensor.fixed else ""
        spread = f"{prefix}mean {mean:.3g}, std {std:.3g}"
        kurtosis = sum(tensor.kurtoses) / len(tensor.kurtoses) if drawn >= _FEWEST and tensor.kurtoses else None
        text = spread if kurtosis is None else f"{spread}, excess kurtosis {kurtosis:.2g}"
    else:
        centre = 0.0 if abs(mean) < 5 * std / math.sqrt(drawn) else mean
        kurtosis = sum(tensor.kurtoses) / len(tensor.kurtoses)
        error = math.sqrt(max(kurtosis + 2, 0.1) / (4 * drawn))
        text = _in_symbols(family, centre, std, error, _fans(tensor, sizes=sizes))
    return f"orthogonal, {text}" if is_orthogonal(tensor) else text


def is_orthogonal(tensor: TensorFingerprint) -> bool:
    """Whether all singular values are equal at every seed."""
    return bool(tensor.fourth_moments) and all(abs(moment - 1) < 1e-3 for moment in tensor.fourth_moments)


def _family(tensor: TensorFingerprint, drawn: int) -> str | None:
    if drawn < _FEWEST or not tensor.quantiles:
        return None
    inner = tensor.quantiles[1:-1]
    distances = {family: max(abs(x - y) for x, y in zip(inner, law, strict=True)) for family, law in _FAMILIES.items()}
    nearest = min(distances, key=lambda family: distances[family])
    return nearest if distances[nearest] < 0.02 + 6 / math.sqrt(drawn) else None


def _fans(tensor: TensorFingerprint, *, sizes: bool) -> dict[str, int]:
    """Return the fans by the text that stands for them."""
    fan_in, fan_out = tensor.fan_in, tensor.fan_out
    if fan_in is None or fan_out is None:
        return {}
    fans = {"fan_in": fan_in, "fan_out": fan_out, "(fan_in + fan_out)": fan_in + fan_out}
    return {str(size) if sizes else name: size for name, size in fans.items()}


def _in_symbols(family: str, mean: float, std: float, error: float, fans: dict[str, int]) -> str:
    if family == "uniform":
        bound = math.sqrt(3) * std
        text = _root(bound, error, fans, (1, 3, 6)) or _shortest(bound, error)
        return f"U(±{text})" if not mean else f"U({mean:.3g} ± {text})"
    short = _shortest(std, error)
    variance = None if len(short.strip("0.")) == 1 else _ratio(std**2, 2 * error, fans, (1, 2))
    if family == "normal":
        return f"N({mean:.3g}, {variance or short + '²'})"
    if variance is not None:
        return f"N cut at ±2σ, mean {mean:.3g}, variance {variance}"
    return f"N({mean:.3g}, {_shortest(std / _CUT_STD, error)}²) cut at ±2σ"


def _ratio(value: float, error: float, fans: dict[str, int], numerators: tuple[int, ...]) -> str | None:
    """Return ``2/fan`` if a value is one within four standard errors, relative to it, and these are small."""
    if error > 0.02:
        return None
    for text, fan in fans.items():
        for numerator in numerators:
            if abs(value * fan / numerator - 1) < 4 * error + 1e-6:
                return f"{numerator}/{text}"
    return None


def _root(value: float, error: float, fans: dict[str, int], numerators: tuple[int, ...]) -> str | None:
    ratio = _ratio(value**2, 2 * error, fans, numerators)
    if ratio is None:
        return None
    return f"1/√{ratio[2:]}" if ratio.startswith("1/") else f"√({ratio})"


def _shortest(value: float, error: float) -> str:
    """Return the number with the fewest digits within three standard errors."""
    for digits in range(1, 5):
        text = f"{value:.{digits}g}"
        if abs(float(text) / value - 1) < 3 * error + 1e-6:
            break
    return f"{float(text):g}"
