"""The page: one offline HTML file without scripts, made from the template beside this module."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from initbench.reporting.charts import KINDS
from initbench.reporting.formatting import FILTERS

if TYPE_CHECKING:
    from collections.abc import Mapping


def render(contents: Mapping[str, Any], title: str, description: str) -> str:
    """Return the report as HTML; all text that comes from records is escaped.

    Args:
        contents: as from `contents.contents`.
        title: the page's heading.
        description: what the suite asks, may be empty.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= FILTERS
    # The drawing is ours and escapes its own text.
    environment.filters["drawn"] = Markup
    template = files("initbench.reporting").joinpath("template.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(contents, title=title, description=description, kinds=KINDS)
