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
        ratio = _ratio(bound**2, 2 * error, fans, (1, 3, 6))
        if ratio is None:
            text, _ = _shortest(bound, error)
        else:
            text = f"1/√{ratio[1]}" if ratio[0] == 1 else f"√({ratio[0]}/{ratio[1]})"
        return f"U({mean:.3g} ± {text})" if mean else f"U(±{text})"
    short, digits = _shortest(std, error)
    ratio = None if digits == 1 else _ratio(std**2, 2 * error, fans, (1, 2))
    if family == "normal":
        return f"N({mean:.3g}, {short}²)" if ratio is None else f"N({mean:.3g}, {ratio[0]}/{ratio[1]})"
    if ratio is None:
        return f"N({mean:.3g}, {_shortest(std / _CUT_STD, error)[0]}²) cut at ±2σ"
    return f"N cut at ±2σ, mean {mean:.3g}, variance {ratio[0]}/{ratio[1]}"


def _ratio(value: float, error: float, fans: dict[str, int], numerators: tuple[int, ...]) -> tuple[int, str] | None:
    """Return the numerator and the fan whose ratio is within four relative standard errors, if these are small."""
    if error > 0.02:
        return None
    for text, fan in fans.items():
        for numerator in numerators:
            if abs(value * fan / numerator - 1) < 4 * error + 1e-6:
                return numerator, text
    return None


def _shortest(value: float, error: float) -> tuple[str, int]:
    """Return the number with the fewest digits within three relative standard errors, and how many these are."""
    for digits in range(1, 4):
        rounded = float(f"{value:.{digits}g}")
        if abs(rounded / value - 1) < 3 * error + 1e-6:
            return f"{rounded:g}", digits
    return f"{value:.4g}", 4
