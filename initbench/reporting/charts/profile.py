"""Performance profiles: one step line per treatment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.reporting.charts.legend import entries_of
from initbench.reporting.charts.panel import Axis, Specification, panel, raw, said, where
from initbench.reporting.charts.style import LINE, styles

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

_SIZE = 34


def profile_panel(profiles: pd.DataFrame, title: str, colours: Mapping[str, str]) -> Specification:
    """Return performance profiles.

    Args:
        profiles: as from `statistics.profiles.performance_profiles`.
        title: of the horizontal axis, which is logarithmic.
        colours: of all treatments, as from `style.colours`.
    """
    # The lines go on to the right of the last step: there they stand at the share that is ever reached.
    end = max(float(profiles.index.max()) * 1.15, 1.5)
    style = styles(colours)
    marks: list[dict[str, Any]] = []
    for label, profile in profiles.items():
        name = str(label)
        look = {"colour": style[name].colour, "dash": list(style[name].dash), "shape": style[name].shape, "line": name}
        for tau, share, rises in zip(profile.index, profile, profile.diff() != 0, strict=True):
            words = f"{name}: within a factor of {tau:.3g} of the best on {100 * share:.0f} % of the workloads"
            marks.append({"tau": float(tau), "share": 100 * float(share), **look} | ({"words": words} if rises else {}))
        marks.append({"tau": end, "share": 100 * float(profile.iloc[-1]), **look})
    x = Axis(title, (1, end), log=True, padding=6).channel("tau")
    x["axis"] = {"tickCount": 5, "format": "~g"}
    y = Axis("share of the workloads (%)", (0, 100), padding=4).channel("share")
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": LINE, "aria": False},
            "encoding": {
                "x": x,
                "y": y,
                "detail": {"field": "line", "type": "nominal"},
                "stroke": raw("colour"),
                "strokeDash": raw("dash"),
            },
        },
        {
            "transform": where("words"),
            "mark": {"type": "point", "filled": True, "size": _SIZE, "opacity": 1},
            "encoding": {"x": x, "y": y, "fill": raw("colour"), "shape": raw("shape"), "description": said()},
        },
    ]
    return panel(layers, marks, entries_of(colours, set(map(str, profiles.columns))))
