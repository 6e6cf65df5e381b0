"""A console for tables, colours and a live display."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from initbench.visible_text import visible


class VisibleConsole(Console):
    """A console that escapes control characters in texts; only rich itself can move the cursor or set colours."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text, keep="\n"))
