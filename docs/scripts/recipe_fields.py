"""Write the table of the recipe's fields on the page of suite files.

python docs/scripts/recipe_fields.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

from initbench.arguments import show
from initbench.cli.card import parse
from initbench.training.recipe import Recipe

PAGE = Path(__file__).parents[1] / "suite_files.md"
MARK = "<!-- made by docs/scripts/recipe_fields.py -->\n"


def table() -> str:
    """Return a row for each field: its default, and its description from the docstring."""
    docstring = (inspect.getdoc(Recipe) or "").replace("\nAttributes:", "\nArgs:").replace("``", "`")
    described = parse(docstring).arguments
    rows = [
        f"| `{name}` | `{show(field.get_default(call_default_factory=True))}` | {described[name]} |\n"
        for name, field in Recipe.model_fields.items()
    ]
    return "".join(["\n| field | default | meaning |\n|---|---|---|\n", *rows])


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(MARK)] + MARK + table(), encoding="utf-8")
