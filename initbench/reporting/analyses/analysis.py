"""What answers one question: the same object for a notebook, a script of `analysis/` and a section of the page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.sentence import Sentence
    from initbench.reporting.tables import Table


class Analysis(ABC):
    """What answers one question.

    Attributes:
        name: a word that is its anchor in the page and its key in JSON, such as ``cost``.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def question(self) -> str:
        """As the page asks it."""

    @property
    @abstractmethod
    def sentences(self) -> Sequence[Sentence]:
        """The answer, the finding first; at least one."""

    @property
    def tables(self) -> Sequence[Table]:
        """The numbers behind the sentences, the most telling first."""
        return ()

    @property
    def shown_tables(self) -> Sequence[Table]:
        """The tables that a page shows; the others are only written beside it."""
        return [table for table in self.tables if table.is_shown]

    @property
    def main_tables(self) -> Sequence[Table]:
        """The tables that Markdown and LaTeX show: the most telling one."""
        return self.shown_tables[:1]

    @property
    def figures(self) -> Sequence[Figure]:
        """The drawings, the most telling first."""
        return ()

    @property
    def main_figures(self) -> Sequence[Figure]:
        """The figures that Markdown shows: the most telling one."""
        return self.figures[:1]

    @property
    def remarks(self) -> Sequence[str]:
        """What is left out, and why, in whole sentences."""
        return ()

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
        """Return the first figure, which a notebook shows, and write it where a path is given.

        Args:
            path: ends in ``.svg``, ``.pdf`` or ``.png``.
            width: in inches.
            height: in inches.

        Raises:
            InitbenchError: there is nothing to draw; or the file cannot be written.
        """
        if not self.figures:
            raise InitbenchError(f"{self.question} {self.sentences[0]} There is nothing to draw.")
        if path is not None:
            self.figures[0].save(path, width=width, height=height)
        return self.figures[0]
