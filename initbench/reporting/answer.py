"""The answer to one question: the same object for a notebook, a script of `analysis/` and a section of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initbench.errors import InitbenchError

if TYPE_CHECKING:
    import pandas as pd

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.sentence import Sentence
    from initbench.reporting.tables import Table


@dataclass(frozen=True)
class Answer:
    """The answer to one question.

    Attributes:
        name: its anchor in the page and its key in JSON, such as ``cost``.
        question: as the page asks it.
        sentences: the finding first; at least one.
        tables: the numbers behind the sentences, the most telling first.
        figures: the most telling first.
        remarks: on omissions and their reasons, in whole sentences.
        facts: what the sentences, tables and figures are made from, usually one tidy frame.
        all_tables_are_main: whether Markdown and LaTeX show all of its tables, not the first alone.
    """

    name: str
    question: str
    sentences: Sequence[Sentence]
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    remarks: Sequence[str] = ()
    facts: Any = field(default=None, repr=False)
    all_tables_are_main: bool = False

    @property
    def shown_tables(self) -> Sequence[Table]:
        """The tables that a page shows; the others are only written beside it."""
        return [table for table in self.tables if table.is_shown]

    @property
    def main_tables(self) -> Sequence[Table]:
        """The tables that Markdown and LaTeX show."""
        return self.shown_tables if self.all_tables_are_main else self.shown_tables[:1]

    @property
    def main_figures(self) -> Sequence[Figure]:
        """The figures that Markdown shows: the most telling one."""
        return self.figures[:1]

    @property
    def frame(self) -> pd.DataFrame:
        """The first table's numbers.

        Raises:
            InitbenchError: it has no table.
        """
        if not self.tables:
            raise InitbenchError(f"{self.question} {self.sentences[0]} There is no table.")
        return self.tables[0].frame

    def draw(self, path: str | Path | None = None, *, width: float = 5.0, height: float = 3.2) -> Figure:
        """Return the first figure, which a notebook shows, and write it if a path is given.

        Args:
            path: ends in ``.svg``, ``.pdf`` or ``.png``.
            width: in inches.
            height: in inches.

        Raises:
            InitbenchError: there is nothing to draw, or the file cannot be written.
        """
        if not self.figures:
            raise InitbenchError(f"{self.question} {self.sentences[0]} There is nothing to draw.")
        if path is not None:
            self.figures[0].save(path, width=width, height=height)
        return self.figures[0]
