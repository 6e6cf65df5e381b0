"""Run the benchmarks, each in a process of its own, and print their tables; `--write` puts them into the docs.

Run it on an otherwise idle machine. The exit code is 1 where a bound is missed or a benchmark gives no result.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import timing

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "benchmarks.md"
BENCHMARKS = (
    "training_step",
    "gradient_quotient",
    "micro_batches",
    "metainit_step",
    "gradinit_iteration",
    "gpt_step",
    "transformer",
    "lsuv_package",
    "image_loading",
    "deep_network",
    "sweep_overhead",
    "command_line",
    "report_size",
    "soak",
)


def run(name: str, *options: str) -> timing.Result:
    """Run one benchmark and return its result.

    Raises:
        RuntimeError: it did not come to one.
    """
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--json", *options]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not process.stdout:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}")
    return timing.Result.from_json(process.stdout)


def with_table(page: str, name: str, table: str) -> str:
    """Return a page with a table between the benchmark's two markers, in place of what stood there.

    Raises:
        ValueError: the page lacks a marker.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page lacks {begin} ... {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"by default all: {', '.join(BENCHMARKS)}")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {PAGE.parent.name}/{PAGE.name}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether they work; no figure, no bound")
    options = parser.parse_args()
    unknown = set(options.names).difference(BENCHMARKS)
    if unknown:
        parser.error(f"NAME must be of {', '.join(BENCHMARKS)}, got {', '.join(sorted(unknown))}")
    if options.write and options.quick:
        parser.error("--write is for real figures, --quick gives none")
    within = True
    for name in options.names or BENCHMARKS:
        try:
            result = run(name, *["--quick"] * options.quick)
        except RuntimeError as error:  # it has said why; the others may run
            print(f"{error}\n", file=sys.stderr, flush=True)
            within = False
            continue
        within &= result.within
        print(f"{name}\n\n{result.to_markdown()}\n", flush=True)
        if options.write:
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(with_table(page, name, result.to_markdown()), encoding="utf-8")
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
