"""The pages of the documentation as things that can be run.

A page is read from top to bottom. A code block with a title is a file of that name; ``sh`` blocks are run in one
shell, each where the last one left it; a ``text`` block is what the ``sh`` block before it prints, "..." standing for
anything.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import initbench

ROOT = Path(initbench.__file__).parents[1]
DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    title: str | None
    text: str


def blocks(page):
    """Return the fenced blocks of a page that have no options but a title, in order."""
    found = re.findall(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [Block(language, title or None, text) for language, title, text in found]


def commands(page):
    """Return the lines of a page's ``sh`` blocks, continuation lines joined."""
    text = "".join(block.text for block in blocks(page) if block.language == "sh").replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


PAGES = sorted(DOCS.rglob("*.md"))
