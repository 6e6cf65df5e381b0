"""Performance profiles as SVG: one step line per treatment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from initbench.reporting.charts import MARKS, drawn, stroke_dash

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd


def profile_panel(profiles: pd.DataFrame, title: str, colours: Mapping[str, str]) -> str:
    """Return performance profiles as SVG.

    Args:
        profiles: as from `statistics.profiles.performance_profiles`.
        title: of the horizontal axis, which is logarithmic.
        colours: of all treatments, as from `charts.colours`.
    """
    # The lines go on to the right of the last step: there they stand at the share that is ever reached.
    end = max(float(profiles.index.max()) * 1.15, 1.5)
    marks = [
        {
            "tau": tau,
            "share": 100 * share,
            "treatment": name,
            "rises": rises,
            "words": f"{name}: within a factor of {tau:.3g} of the best on {100 * share:.0f} % of the workloads",
        }
        for name, profile in profiles.items()
        for tau, share, rises in [
            *zip(profile.index, profile, profile.diff() != 0, strict=True),
            (end, profile.iloc[-1], False),
        ]
    ]
    paint = alt.Scale(domain=list(colours), range=list(colours.values()))
    base = alt.Chart(alt.NamedData(MARKS)).encode(
        x=alt.X(
            "tau:Q",
            title=title,
            scale=alt.Scale(type="log", domain=[1, end], nice=False, padding=6),
            axis=alt.Axis(tickCount=5, format="~g"),
        ),
        y=alt.Y("share:Q", title="share of the workloads (%)", scale=alt.Scale(domain=[0, 100], padding=4)),
    )
    lines = base.mark_line(interpolate="step-after", strokeWidth=2, aria=False).encode(
        stroke=alt.Stroke("treatment:N", scale=paint, legend=None), **stroke_dash(colours)
    )
    points = (
        base.transform_filter("datum.rises")
        .mark_point(filled=True, size=24, opacity=1)
        .encode(fill=alt.Fill("treatment:N", scale=paint, legend=None), description="words:N")
    )
    return drawn(alt.layer(lines, points), marks)
