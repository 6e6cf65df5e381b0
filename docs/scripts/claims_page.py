"""Write docs/claims.md: the record of claims as a page, made from docs/claims.json (see claims_record.py).

    python docs/scripts/claims_page.py --write

The template claims_page.md.j2 writes Markdown with HTML that mkdocs and GitHub both show. On the site
docs/stylesheets/claims.css lays the rows out and docs/javascripts/claims.js adds the filter.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

DOCS = Path(__file__).parents[1]
PAGE, RECORD = DOCS / "claims.md", DOCS / "claims.json"
VERDICTS = {
    "held": "✓",
    "did not hold": "✗",
    "undecided": "?",
    "indication": "~",
    "not run": "○",
    "cannot be tested here": "–",
}
JUDGED = ("held", "did not hold", "undecided")
EVIDENCE = ("identity", "at initialization", "trained twin", "trained at the paper's size")
CONDITIONS = {
    "as listed": "as listed",
    "replaced": "of the criterion that replaced the list's",
    "harder": "harder than the list's",
    "easier": "easier than the list's",
    "short": "that fall short of the list's",
}
NOT_MARKUP = str.maketrans({sign: f"&#{ord(sign)};" for sign in "\\*_[]{}~$|`#"})


def page(record: dict[str, Any]) -> str:
    """Return the page.

    Args:
        record: the content of docs/claims.json.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"text": text, "sentence": sentence, "plural": plural}
    counts = record["counts"]
    by_evidence = {kind: Counter(counts["by_evidence"].get(kind, {})) for kind in EVIDENCE}
    by_evidence["no result"] = Counter(counts["verdicts"]) - sum(by_evidence.values(), Counter())
    implies: dict[str, list[str]] = {}
    for claim in record["claims"]:
        if claim["implied_by"]:
            implies.setdefault(claim["implied_by"], []).append(claim["id"])
    return environment.get_template("claims_page.md.j2").render(
        record,
        marks=VERDICTS,
        judged=sum(counts["verdicts"].get(verdict, 0) for verdict in JUDGED),
        by_evidence=by_evidence,
        conditions=CONDITIONS,
        sentences={claim["id"]: claim["claim"] for claim in record["claims"]},
        documents={document["id"]: document["title"] for paper in record["papers"] for document in paper["documents"]},
        implies=implies,
        retired={change["claim"] for change in record["log"] if change.get("retired")},
    )


def text(words: str) -> Markup:
    """Return plain text with `code` spans as HTML on one line, in which Markdown finds no markup."""
    parts = re.split(r"`([^`]+)`", " ".join(words.split()))
    escaped = [html.escape(part, quote=False).translate(NOT_MARKUP) for part in parts]
    return Markup("".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(escaped)))  # noqa: S704


def sentence(words: str) -> Markup:
    """Return `text` with a full stop, if it does not end a sentence already."""
    escaped = text(words)
    return escaped if escaped.endswith((".", "?", "!")) else escaped + "."


def plural(number: int, word: str) -> str:
    """Return "1 claim", "2 claims"."""
    return f"{number} {word}{'s' * (number != 1)}"


def main() -> None:
    """Write the page, or say whether it is as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", type=Path, default=RECORD, help="default: docs/claims.json")
    parser.add_argument("--page", type=Path, default=PAGE, help="default: docs/claims.md")
    options = parser.parse_args()
    made = page(json.loads(options.json.read_text(encoding="utf-8")))
    if options.write:
        options.page.write_text(made, encoding="utf-8")
    elif made != options.page.read_text(encoding="utf-8"):
        sys.exit(f"{options.page} is not as {options.json} is: run this with --write")


if __name__ == "__main__":
    main()
