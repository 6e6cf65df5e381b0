"""Runs the checks that only a GPU can answer, and writes one Markdown table that names the card.

Each part of `gpu_parts.py` runs in a process of its own, so that a crash, a broken CUDA context or a hang ends only
this part. The time of a call is limited, so the table is written after each part, and the same command again runs the
parts that the table lacks. The exit code is 1 if a line of the table is a failure.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch
from gpu_parts import PARTS, Line, Part, Setup, describe

from initbench.execution.executor import TRIAL_ENVIRONMENT
from initbench.files import write_text
from initbench.plugins import first_line

HEADER = ["| part | what | status | measured | reason |", "|---|---|---|---|---|"]


@dataclass
class Table:
    """The lines of the parts that have run on one card."""

    card: str
    parts: dict[str, list[Line]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Table:
        card, *rows = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line not in HEADER]
        table = cls(card)
        for row in rows:
            part, *cells = (cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1])
            table.parts.setdefault(part, []).append(Line(*cells))
        return table

    def write(self, path: Path) -> None:
        rows = [row(part, line) for part, lines in self.parts.items() for line in lines]
        write_text(path, "\n".join([self.card, "", *HEADER, *rows, ""]), path.parent)

    @property
    def failed(self) -> bool:
        return any(line.status == "fail" for lines in self.parts.values() for line in lines)


def row(part: str, line: Line) -> str:
    """Return a row of the table."""
    cells = (" ".join(cell.split()).replace("|", r"\|") for cell in (part, *line))
    return f"| {' | '.join(cells)} |"


def lines_of(part: Part, setup: Setup, deadline: float) -> list[Line]:
    """Run a part in a process of its own and return its lines; a failure to end becomes one."""
    if part.needs_cuda and not setup.on_gpu:
        return [Line(part.name, "skipped", reason="it needs a GPU")]
    context = multiprocessing.get_context("fork")  # everything is imported, and this process has no CUDA context
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_lines, args=(sender, part, setup))
    process.start()
    sender.close()
    lines: list[Line] = []
    try:
        while receiver.poll(max(0.0, deadline - time.monotonic())):
            lines.append(receiver.recv())
    except EOFError:
        process.join()
        if process.exitcode:
            reason = f"the part's process ended with exit code {process.exitcode}"
            lines.append(Line(part.name, "fail", reason=reason))
    else:
        process.kill()
        process.join()
        lines.append(Line(part.name, "fail", reason="it did not end before the call's limit of minutes"))
    receiver.close()
    return lines


def _send_lines(sender: Connection, part: Part, setup: Setup) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)  # as the trials have, and the benchmarks
    try:
        for line in part.run(setup):
            sender.send(line)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it is, it is this part's
        sender.send(Line(part.name, "fail", reason=f"{type(error).__name__}: {first_line(error)}"))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def main(parts: Sequence[Part], arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    begun = time.monotonic()
    names = [part.name for part in parts]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", metavar="NAME", choices=names, help=f"again: {', '.join(names)}")
    parser.add_argument("--out", type=Path, default=Path("gpu.md"), help="the table, by default gpu.md")
    parser.add_argument("--minutes", type=float, default=9.0, help="limit of this call, by default 9")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: whether it works; no figure")
    parser.add_argument("--device", default="cuda", help="by default cuda")
    options = parser.parse_args(arguments)
    os.environ |= TRIAL_ENVIRONMENT | os.environ
    setup, deadline = Setup(options.device, tiny=options.tiny), begun + 60 * options.minutes
    [card] = lines_of(Part("card", describe, 0), setup, deadline)
    if card.status == "fail":
        print(card.reason, file=sys.stderr)
        return 2
    table = Table.read(options.out) if options.out.exists() else Table(card.what)
    if table.card != card.what:
        print(f"{options.out} is of another card: {table.card}; this one is: {card.what}", file=sys.stderr)
        return 2
    print(table.card, flush=True)
    later = []
    for part in parts:
        if part.name not in (options.part or [name for name in names if name not in table.parts]):
            continue
        if deadline - time.monotonic() < (0 if setup.tiny else part.seconds):
            later.append(part.name)
            continue
        table.parts[part.name] = lines_of(part, setup, deadline)
        table.write(options.out)
        print(*(row(part.name, line) for line in table.parts[part.name]), sep="\n", flush=True)
    if later:
        print(f"No time is left for {', '.join(later)}: run the same command again.")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main(PARTS))
