"""The heat map's colours: two ramps of one hue, with readable text on each step (WCAG AA, 4.5 to 1)."""

from __future__ import annotations

STEPS = 21
"""Number of colours in a ramp."""

# From the worst value to the best, which is the darkest on white and the lightest on dark ground.
_LIGHT = ("#dcebef", "#b3d5de", "#7db9c8", "#2b7c94", "#06566d")
_DARK = ("#26313a", "#1f5a70", "#0f7f9d")
_INKS = ("#ffffff", "#000000")


def step(level: float) -> int:
    """Return the step of a level from 0 (the worst) to 1; levels outside are clipped."""
    return round(min(max(level, 0.0), 1.0) * (STEPS - 1))


def ramp(*, dark: bool = False) -> list[tuple[str, str]]:
    """Return the colours of ground and text of each step, as ``#rrggbb``."""
    grounds = [_between(_DARK if dark else _LIGHT, i / (STEPS - 1)) for i in range(STEPS)]
    return [(ground, max(_INKS, key=lambda ink: contrast(ground, ink))) for ground in grounds]


def rules(*, dark: bool = False) -> str:
    """Return the ramp as CSS: a class for each step, ``l0`` to ``l20``."""
    return "".join(f".l{i}{{background:{ground};color:{ink}}}" for i, (ground, ink) in enumerate(ramp(dark=dark)))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [value / 255 for value in _channels(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _between(stops: tuple[str, ...], position: float) -> str:
    index = min(int(position * (len(stops) - 1)), len(stops) - 2)
    share = position * (len(stops) - 1) - index
    pairs = zip(_channels(stops[index]), _channels(stops[index + 1]), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
