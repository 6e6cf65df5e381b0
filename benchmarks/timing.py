"""What the benchmarks share: paired timing, rows of a table, the machine, and the command line of a benchmark."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from statistics import median


@dataclass(frozen=True)
class Row:
    """One figure of a benchmark, measured one or more times.

    Attributes:
        case: what was measured.
        values: one for each repetition: for a ratio, that of one pair.
        unit: ``×`` for a ratio, else ``s``, ``MB`` or none.
        bound: what the median must not exceed; None where none is promised.
        seconds: median of the seconds of initbench, None where the figure is no ratio of durations.
        reference_seconds: the same of the reference.
    """

    case: str
    values: tuple[float, ...]
    unit: str = "×"
    bound: float | None = None
    seconds: float | None = None
    reference_seconds: float | None = None

    @property
    def within(self) -> bool:
        """Whether the median is within the bound; a value that is not a number is not."""
        return self.bound is None or median(self.values) <= self.bound

    @classmethod
    def of_pairs(cls, case: str, pairs: Sequence[tuple[float, float]], bound: float | None, *, per: int = 1) -> Row:
        """Return the row of paired durations.

        Args:
            case: what was measured.
            pairs: seconds of initbench and of the reference.
            bound: of the median ratio.
            per: how many units of work (steps, trials) one duration covers; the row shows the seconds of one.
        """
        return cls(
            case,
            tuple(ours / reference for ours, reference in pairs),
            bound=bound,
            seconds=median(ours for ours, _ in pairs) / per,
            reference_seconds=median(reference for _, reference in pairs) / per,
        )


@dataclass(frozen=True)
class Result:
    """What one run of a benchmark gave.

    Attributes:
        rows: its figures.
        machine: processor, cores, threads and versions, in one line.
    """

    rows: tuple[Row, ...]
    machine: str

    @property
    def within(self) -> bool:
        """Whether every figure is within its bound."""
        return all(row.within for row in self.rows)

    def to_json(self) -> str:
        """Return the result as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Return the result from its line."""
        data = json.loads(text)
        rows = (Row(**(row | {"values": tuple(row["values"])})) for row in data["rows"])
        return cls(tuple(rows), data["machine"])

    def to_markdown(self) -> str:
        """Return the result as a table with the machine below it."""
        lines = [
            "| case | initbench | reference | median | min | max | runs | bound | within |",
            "|---|--:|--:|--:|--:|--:|--:|--:|---|",
        ]
        for row in self.rows:
            cells = [row.case, _seconds(row.seconds), _seconds(row.reference_seconds)]
            cells += [_figure(value, row.unit) for value in (median(row.values), min(row.values), max(row.values))]
            cells += [str(len(row.values)), "" if row.bound is None else f"≤ {row.bound:g} {row.unit}".rstrip()]
            cells += ["" if row.bound is None else "yes" if row.within else "**no**"]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join([*lines, "", self.machine])


def paired(
    ours: Callable[[], object], reference: Callable[[], object], pairs: int, *, warm_up: int = 1
) -> list[tuple[float, float]]:
    """Time two functions in turn, A, B, A, B, ..., and return the seconds of each pair.

    What slows the machine for a while slows both halves of a pair, so the median of the pairs' ratios holds still where
    the ratio of two medians does not.

    Args:
        ours: what initbench does.
        reference: the same work by other means.
        pairs: how many are timed.
        warm_up: how many go before them, untimed.
    """
    times = [(seconds(ours), seconds(reference)) for _ in range(warm_up + pairs)]
    return times[warm_up:]


def seconds(function: Callable[[], object]) -> float:
    """Return how long a call takes on the host and the GPU, in seconds, with no garbage of earlier calls to collect."""
    gc.collect()
    _wait_for_gpu()
    start = time.perf_counter()
    function()
    _wait_for_gpu()
    return time.perf_counter() - start


def machine(threads: int) -> str:
    """Return processor, cores, threads, versions and date, in one line.

    Args:
        threads: CPU threads of each side of a comparison.
    """
    from initbench.execution.environment import environment

    here = environment("cpu")
    versions = ", ".join(f"{name} {here[name]}" for name in ("initbench", "python", "torch"))
    cores = f"{os.cpu_count()} cores, {threads} thread{'s' * (threads > 1)}"
    return f"{here['processor']}; {cores}; {versions}; {datetime.now(UTC).date().isoformat()}"


def main(measure: Callable[[int, bool], Sequence[Row]], description: str | None, *, runs: int, threads: int) -> None:
    """Run a benchmark from the command line and print its table; exit with 1 where a bound is missed.

    Args:
        measure: from the number of repetitions, and whether sizes are tiny, to the rows.
        description: the benchmark's docstring.
        runs: repetitions by default.
        threads: CPU threads of each side, whatever OMP_NUM_THREADS says.
    """
    import torch

    from initbench.execution.process_state import keep_freed_memory

    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=runs, help=f"repetitions, by default {runs}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether it works; no figure, no bound")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error(f"--runs must be at least 1, got {options.runs}")
    torch.set_num_threads(threads)
    keep_freed_memory()  # as a process that runs trials does; for both sides
    rows = measure(1 if options.quick else options.runs, options.quick)
    if options.quick:
        rows = [replace(row, bound=None) for row in rows]
    result = Result(tuple(rows), machine(threads))
    print(result.to_json() if options.json else result.to_markdown())
    sys.exit(0 if result.within else 1)


def _wait_for_gpu() -> None:
    torch = sys.modules.get("torch")  # a benchmark of the command line needs none
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _seconds(value: float | None) -> str:
    return "" if value is None else _figure(value, "s")


def _figure(value: float, unit: str) -> str:
    if unit == "s" and abs(value) < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3f} {unit}" if unit == "×" else f"{value:.3g} {unit}".rstrip()
