"""The page: one offline HTML file, made from the templates beside this module; its style and script stand in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from initbench.reporting.charts import KINDS, styles
from initbench.reporting.formatting import FILTERS
from initbench.reporting.statistics.wording import NOT_ENOUGH
from initbench.reporting.trial_table import as_json

if TYPE_CHECKING:
    from collections.abc import Mapping


def render(contents: Mapping[str, Any], title: str, description: str) -> str:
    """Return the report as HTML; all text that comes from records is escaped.

    Args:
        contents: as from `contents.contents`.
        title: the page's heading.
        description: what the suite asks, may be empty.
    """
    environment = Environment(
        loader=PackageLoader("initbench.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The drawings are ours and escape their own text.
    environment.filters |= FILTERS | {"drawn": Markup, "as_json": as_json}
    page = environment.get_template("page.html")
    return page.render(
        contents,
        title=title,
        description=description,
        kinds=KINDS,
        styles=styles(contents["colours"]),
        not_enough=NOT_ENOUGH,
    )
