"""The report's tables and charts as Markdown, for documentation and pull requests."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import escape

from initbench.reporting.charts import styles
from initbench.reporting.formatting import FILTERS
from initbench.reporting.parts import MARKER, file_names, legend_key, outcome_text

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "<!-- Made by initbench report: what stands below is written anew, what stands above is kept. -->"
# An image does not follow the page's colours; this grey can be read on white and on dark ground.
_GREY = "#7d8590"


def render_markdown(contents: Mapping[str, Any], images: str) -> tuple[str, dict[str, str]]:
    """Return the report's tables as Markdown, and its charts as SVG by file name.

    Args:
        contents: as from `contents.contents`.
        images: the charts' folder as the Markdown names it.
    """
    drawn = [workload for workload in contents["workloads"] if workload["chart"]]
    stems = file_names([workload["name"] for workload in drawn], taken=["legend"])
    files_of = {name: f"{stem}.svg" for name, stem in stems.items()}
    charts = {
        files_of[workload["name"]]: workload["chart"]
        .drawing.replace("currentColor", _GREY)
        .replace("<svg ", f"<svg {MARKER} ", 1)
        for workload in drawn
    }
    if charts:
        charts["legend.svg"] = _legend(contents["colours"])
    # Autoescape would turn < and & of labels into entities in a text that is no HTML.
    environment = Environment(autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    environment.filters |= FILTERS | {"file_name": files_of.__getitem__, "cell": _cell, "outcome_text": outcome_text}
    template = files("initbench.reporting").joinpath("templates/report.md").read_text(encoding="utf-8")
    return environment.from_string(template).render(contents, images=images), charts


def _cell(text: str) -> str:
    """Return text that a cell of a Markdown table shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>|])", r"\\\1", text)


def _legend(colours: Mapping[str, str]) -> str:
    """Return the treatments' colours as one SVG, a line for each."""
    height = 20 * len(colours)
    lines = [
        legend_key(*style, 8, 20 * i + 10)
        + f'<text x="20" y="{20 * i + 14}" font-family="sans-serif" font-size="12" fill="{_GREY}">{escape(name)}</text>'
        for i, (name, style) in enumerate(styles(colours).items())
    ]
    width = 30 + 8 * max(map(len, colours))
    size = f'width="{width}" height="{height}"'
    return f'<svg {MARKER} xmlns="http://www.w3.org/2000/svg" {size}>{"".join(lines)}</svg>\n'
