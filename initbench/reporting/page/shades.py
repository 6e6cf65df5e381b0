"""The heat map's colours: two ramps of one hue, with readable text on each step (WCAG AA, 4.5 to 1)."""

from __future__ import annotations

from initbench.reporting.charts.style import between, ink_on

STEPS = 21
"""Number of colours in a ramp."""

# From the worst value to the best, which is the darkest on white and the lightest on dark ground.
_LIGHT = ("#dcebef", "#b3d5de", "#7db9c8", "#2b7c94", "#06566d")
_DARK = ("#26313a", "#1f5a70", "#0f7f9d")


def step(level: float) -> int:
    """Return the step of a level from 0 (the worst) to 1; levels outside are clipped."""
    return round(min(max(level, 0.0), 1.0) * (STEPS - 1))


def ramp(*, dark: bool = False) -> list[tuple[str, str]]:
    """Return the colours of ground and text of each step, as ``#rrggbb``."""
    grounds = [between(_DARK if dark else _LIGHT, i / (STEPS - 1)) for i in range(STEPS)]
    return [(ground, ink_on(ground)) for ground in grounds]


def rules(*, dark: bool = False) -> str:
    """Return the ramp as CSS: a class for each step, ``l0`` to ``l20``."""
    return "".join(f".l{i}{{background:{ground};color:{ink}}}" for i, (ground, ink) in enumerate(ramp(dark=dark)))
