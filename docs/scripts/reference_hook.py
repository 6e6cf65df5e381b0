"""What mkdocs runs on each page: the questions of reports, in the reference, come from the list in the code."""

from __future__ import annotations

from typing import Any

from initbench.reporting import every_question

MARK = "<!-- every question -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's Markdown with a block for each question in place of the mark."""
    functions = [getattr(every_question, name) for name in every_question.__all__]
    return markdown.replace(MARK, "\n\n".join(f"::: {one.__module__}.{one.__name__}" for one in functions))
