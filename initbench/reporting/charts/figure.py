"""A drawing with its words: for a page, a notebook, a file of its own and a paper."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import escape

from initbench.comparing.formatting import without_superscripts
from initbench.errors import InitbenchError
from initbench.files import written_whole
from initbench.reporting.charts import rendering
from initbench.reporting.charts.legend import Entry, legend_layer, legend_of
from initbench.reporting.charts.style import PAGE_INK, PAPER_INK, PIXELS_PER_INCH, page_config, paper_config
from initbench.reporting.file_names import plain_name
from initbench.reporting.manifest import MARKER
from initbench.reporting.plain_data import KEPT
from initbench.visible_text import visible

_FORMS: dict[str, rendering.Form] = {".svg": "svg", ".pdf": "pdf", ".png": "png"}
_MARGIN, _LINE, _TITLE = 12, 18, 30  # of a file, in pixels
_PANEL = 420  # px: wider drawings are not shrunk to the width of a panel
_LEAST_INCHES, _MOST_INCHES = 1.0, 100.0
_LARGEST_LEGEND = 0.5  # of a figure's height


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes:
        name: unique in a report; `file_names.plain_name` makes its file from it, ``figures/<name>.svg``.
        title: the text above it.
        alt: the finding in whole sentences, for a reader who cannot see the drawing.
        specification: of Vega-Lite, as from `chart.chart`.
        note: the text below the title, may be empty.
        subject: the workload or family of networks that it is about, as sentences name it; empty if it is about all.
    """

    name: str
    title: str
    alt: str
    specification: Mapping[str, Any] = field(repr=False)
    note: str = ""
    subject: str = ""

    def __post_init__(self) -> None:
        self.rename(self.name)

    @cached_property
    def legend(self) -> list[Entry]:
        """The meaning of colours, shapes and kinds of lines; empty if it needs no legend."""
        return legend_of(self.specification)

    def rename(self, name: str) -> None:
        """Give it another name, because another figure of a report has the same."""
        object.__setattr__(self, "name", plain_name(name))

    @property
    def drawing(self) -> str:
        """The SVG of the drawing alone, in the page's colour; if it cannot be drawn, one that says so."""
        return self._drawn[0]

    @property
    def problem(self) -> str:
        """Why it cannot be drawn, in a few words; empty if it can."""
        return self._drawn[1]

    @cached_property
    def _drawn(self) -> tuple[str, str]:
        begun: Future[bytes] = self.__dict__.pop("_begun", None) or rendering.begin(self._on_page())
        try:
            return begun.result().decode(), ""
        except rendering.UndrawableError as error:
            return _in_words(f"This figure could not be drawn: {error}."), str(error)

    @property
    def svg(self) -> str:
        """The drawing as a page shows it, with its alternative text."""
        described = self.drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(self.alt)}" ', 1)
        return visible(described, KEPT)

    @property
    def is_wide(self) -> bool:
        """Whether it takes the room of two panels."""
        return _size(self.drawing)[0] > _PANEL

    def begin(self) -> None:
        """Begin to draw in another process, so that `svg` is ready sooner."""
        if "_drawn" not in self.__dict__ and "_begun" not in self.__dict__:
            self.__dict__["_begun"] = rendering.begin(self._on_page())

    def file(self) -> str:
        """Return the drawing as an SVG of its own: with title and legend, in fixed colours."""
        width, height = _size(self.drawing)
        legend = [] if self.problem else self.legend
        widest = max([width, *(30 + 7.2 * len(entry.label) for entry in legend), 7.6 * len(self.title)])
        outer_width = round(widest + 2 * _MARGIN)
        outer_height = round(_TITLE + height + _LINE * len(legend) + 2 * _MARGIN)
        position = f'x="{_MARGIN}" y="{_MARGIN + _TITLE}" '
        lines = [
            f'<path transform="translate({_MARGIN + 8},{y - 4:g}) scale(5)" d="{entry.path}" fill="{entry.colour}"/>'
            f'<text x="{_MARGIN + 20}" y="{y:g}" font-size="12">{escape(entry.label)}</text>'
            for i, entry in enumerate(legend)
            for y in [_MARGIN + _TITLE + height + _LINE * (i + 0.8)]
        ]
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {MARKER} role="img" width="{outer_width}" '
            f'height="{outer_height}" viewBox="0 0 {outer_width} {outer_height}" color="{PAPER_INK}" '
            f'fill="{PAPER_INK}" font-family="sans-serif">'
            f"<title>{escape(self.title)}</title><desc>{escape(self.alt)}</desc>"
            f'<rect width="100%" height="100%" fill="#fff"/>'
            f'<text x="{_MARGIN}" y="{_MARGIN + 14}" font-size="14">{escape(self.title)}</text>'
            + (_titled(self.drawing).replace("<svg ", f"<svg {position}", 1) + "".join(lines)).replace(
                PAGE_INK, PAPER_INK
            )
            + "</svg>\n"
        )
        return visible(text, KEPT)

    def save(self, path: str | Path, *, width: float = 5.0, height: float = 3.2, title: bool = True) -> Path:
        """Write the figure as a paper prints it: fixed colours on white, with its legend; return the file.

        A PDF holds its fonts, a PNG has 300 dots per inch.

        Args:
            path: ends in ``.svg``, ``.pdf`` or ``.png``.
            width: of the whole figure in inches.
            height: likewise; if its legend would take more than half of it, the figure is higher.
            title: whether its title is drawn above it.

        Raises:
            InitbenchError: the path ends in something else, a size is not from 1 to 100, or the figure cannot be drawn
                or written.
        """
        path = Path(path)
        if (form := _FORMS.get(path.suffix.lower())) is None:
            raise InitbenchError(f"{path}: a figure's file ends in .svg, .pdf or .png")
        for side, inches in (("width", width), ("height", height)):
            if not _LEAST_INCHES <= inches <= _MOST_INCHES:
                raise InitbenchError(f"{path}: {side} must be from 1 to 100 inches, got {inches:g}")
        try:
            content = rendering.draw(self.on_paper(width, height, title=title), form)
            with written_whole(path, path.parent) as file:
                file.buffer.write(self._described(content.decode()).encode() if form == "svg" else content)
        except rendering.UndrawableError as error:
            raise InitbenchError(f"{path}: could not be drawn: {error}") from error
        except OSError as error:
            raise InitbenchError(f"{path}: {error.strerror}") from error
        return path

    def on_paper(self, width: float, height: float, *, title: bool = True) -> dict[str, Any]:
        """Return the specification that `save` draws; its width and height are in inches."""
        across, down = width * PIXELS_PER_INCH, height * PIXELS_PER_INCH
        config = paper_config(across)
        layers = list(self.specification["layer"])
        if self.legend:
            layer, room = legend_layer(self.legend, across, config["legend"]["labelFontSize"])
            layers.append(layer)
            down = max(down, room / _LARGEST_LEGEND)
        paper = {
            **self.specification,
            "layer": layers,
            "width": across,
            "height": down,
            # Fitted again at its final size: a slanted name reaches farther over the edge of a narrower cell.
            "autosize": {"type": "fit", "contains": "padding", "resize": True},
            "padding": 6,
            "config": config,
        }
        if title:
            paper["title"] = {"text": self.title, "limit": across - 12}
        paper.pop("usermeta", None)
        # The font of papers lacks the superscript minus, and another font would replace the whole label.
        text = without_superscripts(json.dumps(paper, ensure_ascii=False))
        fixed: dict[str, Any] = json.loads(text.replace(f'"{PAGE_INK}"', f'"{PAPER_INK}"'))
        return fixed

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return what a notebook shows: it may be dark or light, so that the ground is the file's own."""
        return {"image/svg+xml": self.file(), "text/plain": f"{self.title}. {self.alt}"}

    def _on_page(self) -> dict[str, Any]:
        shown = {**self.specification, "config": page_config()}
        shown.pop("usermeta", None)
        return shown

    def _described(self, svg: str) -> str:
        words = f"<title>{escape(self.title)}</title><desc>{escape(self.alt)}</desc>"
        width, height = _size(svg)
        # A number without a unit would be in 96ths of an inch.
        inches = f'width="{width / PIXELS_PER_INCH:g}in" height="{height / PIXELS_PER_INCH:g}in"'
        svg = re.sub(r'\bwidth="[\d.]+" height="[\d.]+"', inches, svg, count=1)
        described = re.sub(r"^(<svg [^>]*)>", lambda head: f'{head[1]} {MARKER} role="img">{words}', svg, count=1)
        return visible(described, KEPT)


def _titled(drawing: str) -> str:
    """Return a drawing whose marks have their words as titles, which appear on hover."""
    return re.sub(r'(<path aria-label="([^"]*)"[^>]*)/>', r"\1><title>\2</title></path>", drawing)


def _in_words(sentence: str) -> str:
    """Return an SVG that is a line of text."""
    width, height = round(7.2 * len(sentence)) + 2 * _MARGIN, _LINE + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<text x="{_MARGIN}" y="{_MARGIN + 13}" font-size="12" fill="{PAGE_INK}">{escape(sentence)}</text></svg>'
    )


def _size(drawing: str) -> tuple[float, float]:
    """Return the width and height of an SVG."""
    head = drawing[: drawing.index(">")]
    width, height = (re.search(rf'\b{side}="([\d.]+)', head) for side in ("width", "height"))
    assert width, head
    assert height, head
    return float(width[1]), float(height[1])
