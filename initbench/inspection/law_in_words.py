"""The law of a tensor in words: ``N(0, 0.01²)``, ``U(±1/√fan_in)``, ``constant 0``."""

from __future__ import annotations

import math

from initbench.inspection.fingerprint import TensorFingerprint
from initbench.inspection.shapes import (
    NORMAL,
    TRUNCATED,
    UNIFORM,
    Shape,
    digits,
    round_to_error,
    with_number,
    with_variance,
)
from initbench.inspection.tensors import QUANTILES

_FEWEST = 60  # entries, below which the families look alike


def law_in_words(tensor: TensorFingerprint, *, sizes: bool = True) -> str:
    """Return a tensor's law: its shape and parameters if they are recognized, otherwise its moments.

    With `sizes` fans are numbers, ``1/√512``, otherwise names, ``1/√fan_in``.
    """
    if tensor.constant is not None:
        return f"constant {tensor.constant:.4g}"
    mean, std = tensor.mean, tensor.std
    drawn = tensor.entries * len(tensor.means)
    kurtosis = sum(tensor.kurtoses) / len(tensor.kurtoses) if drawn >= _FEWEST and tensor.kurtoses else None
    shape = None if kurtosis is None else _shape(tensor, drawn)
    if shape is None or kurtosis is None or tensor.fixed:
        text = f"{'fixed values, ' if tensor.fixed else ''}mean {mean:.3g}, std {std:.3g}"
        text += "" if kurtosis is None else f", excess kurtosis {kurtosis:.2g}"
    else:
        centre = 0.0 if abs(mean) < 5 * std / math.sqrt(drawn) else mean
        error = math.sqrt(max(kurtosis + 2, 0.1) / (4 * drawn))  # of the deviation, relative
        number = round_to_error(std * shape.unit, 3 * error)
        ratio = None if shape is not UNIFORM and digits(number) == 1 else _ratio(shape, std**2, 2 * error, tensor)
        if ratio is None:
            text = with_number(shape, number, mean=centre)
        else:
            top, fan, size = ratio
            text = with_variance(shape, top, str(size) if sizes else fan, centre)
    return f"orthogonal, {text}" if is_orthogonal(tensor) else text


def is_orthogonal(tensor: TensorFingerprint) -> bool:
    """Return whether all singular values are equal at every seed."""
    return bool(tensor.fourth_moments) and all(abs(moment - 1) < 1e-3 for moment in tensor.fourth_moments)


def _shape(tensor: TensorFingerprint, drawn: int) -> Shape | None:
    """Return the shape whose quantiles are the nearest, None if they differ by more than chance."""
    inner = list(zip(tensor.quantiles, QUANTILES, strict=True))[1:-1]
    distances = {
        shape: max(abs(x - shape.quantile(level)) for x, level in inner) for shape in (NORMAL, UNIFORM, TRUNCATED)
    }
    nearest = min(distances, key=lambda shape: distances[shape])
    return nearest if distances[nearest] < 0.02 + 6 / math.sqrt(drawn) else None


def _ratio(shape: Shape, variance: float, error: float, tensor: TensorFingerprint) -> tuple[float, str, int] | None:
    """Return top, the name and the size of the fan for variance = top / fan, within four relative standard errors."""
    fan_in, fan_out = tensor.fan_in, tensor.fan_out
    if error > 0.02 or fan_in is None or fan_out is None:
        return None
    for fan, size in (("fan_in", fan_in), ("fan_out", fan_out), ("(fan_in + fan_out)", fan_in + fan_out)):
        for top in (1 / 3, 1.0, 2.0) if shape is UNIFORM else (1.0, 2.0):
            if abs(variance * size / top - 1) < 4 * error + 1e-6:
                return top, fan, size
    return None
