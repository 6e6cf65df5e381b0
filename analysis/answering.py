"""What the scripts of this folder share: their options, what they print and draw, and one line for bad input."""

from __future__ import annotations

import argparse
import os
import re
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from initbench.errors import InitbenchError
from initbench.reporting import layers, read_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence
    from initbench.reporting.tables import Table

ENDINGS = (".svg", ".pdf", ".png")


def parser(question: str, *, each: str = "") -> argparse.ArgumentParser:
    """Return a parser of the options that all scripts have.

    Args:
        question: what the script answers.
        each: what there is a figure of each, such as ``workload``; empty where there is one figure.
    """
    options = argparse.ArgumentParser(description=question)
    folder = "a suite's folder, such as runs/fashion-depth; several are put together"
    options.add_argument("folders", type=Path, nargs="+", metavar="DIR", help=folder)
    file = "draw to this file: .svg and .pdf for a paper, .png with 300 dots per inch"
    if each:
        file += f"; where several {each.replace('y', 'ie')}s are drawn, each has a file: figure-plain-28.pdf"
        chosen = f"one {each} alone, by the name that the report gives it; default: all"
        options.add_argument(f"--{each}", default="", metavar="NAME", help=chosen)
    options.add_argument("--out", type=Path, metavar="FILE", help=file)
    for side, inches in (("width", 5.0), ("height", 3.2)):
        options.add_argument(f"--{side}", type=float, default=inches, help=f"in inches; default: {inches}")
    return options


def results_of(arguments: argparse.Namespace) -> Results:
    """Return the results of the folders; a record that cannot be read is named on stderr.

    Raises:
        InitbenchError: a folder has no trial records; or the file to draw to is none that can be drawn.
    """
    if arguments.out is not None and arguments.out.suffix.lower() not in ENDINGS:
        raise InitbenchError(f"{arguments.out}: --out takes a file that ends in {', '.join(ENDINGS)}")
    results = read_results(arguments.folders)
    for line in results.source.skipped:
        print(f"passed over: {line}", file=sys.stderr)
    return results


def draw(arguments: argparse.Namespace, figures: Sequence[Figure], otherwise: str) -> None:
    """Write the figures where a file is asked for: one to it, several to files beside it, named by what they are of.

    Args:
        arguments: of the command line.
        figures: each of another subject, where there are several.
        otherwise: why there is none, where there is none.

    Raises:
        InitbenchError: there is none; or a file cannot be written.
    """
    if arguments.out is None:
        return
    if not figures:
        raise InitbenchError(f"there is nothing to draw: {otherwise}")
    files = [arguments.out] if len(figures) == 1 else list(_files(arguments.out, [one.subject for one in figures]))
    for figure, file in zip(figures, files, strict=True):
        print(figure.save(file, width=arguments.width, height=arguments.height), file=sys.stderr)


def measurement(results: Results, name: str) -> str:
    """Return the whole name of a measurement, with the arguments that its probe has in the suite.

    Args:
        results: as from `results_of`.
        name: without arguments, such as ``gradient_deviation.per_layer``, or whole. It is returned as it is where
            nothing has it, or several have that differ in their arguments.
    """
    columns = [column.removeprefix("probe.") for column in results.trials if column.startswith("probe.")]
    known = dict.fromkeys([*results.profiles["probe"], *columns])
    alike = [own for own in known if re.sub(r"\[.*\]", "", own) == name]
    return name if name in known or len(alike) != 1 else alike[0]


def draw_layers(arguments: argparse.Namespace, results: Results, probe: str) -> None:
    """Draw a measurement by layer, or along a curve, for every workload that is asked for; print its levels.

    Args:
        arguments: of the command line.
        results: as from `results_of`.
        probe: the measurement, such as ``gradient_norm.per_layer``; empty for the first that the suite has.

    Raises:
        InitbenchError: there is no such measurement; or a file cannot be written.
    """
    found = layers(results, probe=probe, workload=arguments.workload)
    if found is None:
        raise InitbenchError(f"{arguments.workload or arguments.folders[0]}: nothing was measured by layer")
    if not probe:
        first = str(found.facts.profiles["probe"].iloc[0])
        found = layers(results, probe=first, workload=arguments.workload) or found
    draw(arguments, found.figures, " ".join(found.remarks))
    say(found.sentences, *found.main_tables)


def _files(out: Path, subjects: Iterable[str]) -> Iterator[Path]:
    taken: set[str] = set()
    for subject in subjects:
        stem = "-".join([out.stem, re.sub(r"[^\w.=-]+", "-", subject).strip("-")])
        name = next(n for i in count(1) if (n := stem if i == 1 else f"{stem}-{i}").casefold() not in taken)
        taken.add(name.casefold())
        yield out.with_name(f"{name}{out.suffix}")


def say(sentences: Iterable[Sentence], *tables: Table) -> None:
    """Print sentences, each once, and tables as aligned text."""
    for line in dict.fromkeys(f"{one.subject}: {one}" if one.subject else str(one) for one in sentences):
        print(line)
    for table in tables:
        print(f"\n{table.title}\n" + "\n".join(_lines(table)))


def _lines(table: Table) -> Iterator[str]:
    cells = table.cells
    kept = [k for k in range(len(table.columns)) if any(row[k].strip("–") for row in cells)]  # a column of none is none
    heads = [table.columns[k].heading.split("\n") for k in kept]
    tall = max(map(len, heads), default=0)
    padded = ([""] * (tall - len(head)) + head for head in heads)  # the last lines stand beside one another
    rows = [*map(list, zip(*padded, strict=True)), *([row[k] for k in kept] for row in cells)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        aligned = (
            text.ljust(width) if table.columns[k].is_text else text.rjust(width)
            for k, text, width in zip(kept, row, widths, strict=True)
        )
        yield "  ".join(aligned).rstrip()


def answer(main: Callable[[], None]) -> None:
    """Run a script; a request that cannot be met is one line on stderr and exit code 2."""
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough; Python's own last flush must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except InitbenchError as error:
        print(f"{Path(sys.argv[0]).name}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
