"""Writes reports with the version of initbench that is first on the path; `compare_reports.py` starts it.

Standard input: ``{tree, jobs}``, a job ``{folder, output, reference, targets}``. With `reference` the treatments are
compared with that one in the place of the one that ranks best; with `targets` (workload → test error) nothing is
written but ``costs_to_target.csv``, what each cell costs to that target. The last two take version 0.1.
Standard output: for each job a line ``{output, error}``.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def main() -> None:
    """Do the jobs of standard input."""
    request = json.load(sys.stdin)
    import initbench

    found = Path(initbench.__file__).resolve().parents[1]
    if found != Path(request["tree"]).resolve():
        raise SystemExit(f"initbench was imported from {found}, not from {request['tree']}")
    for job in request["jobs"]:
        error = None
        try:
            with redirect_stdout(sys.stderr):
                _do(job)
        except Exception as raised:  # noqa: BLE001  # one report that cannot be made is a finding, the others are made
            error = f"{type(raised).__name__}: {raised}"
        print(json.dumps({"output": job["output"], "error": error}), flush=True)


def _do(job: Mapping[str, Any]) -> None:
    if job.get("targets") is not None:
        _costs(job["folder"], Path(job["output"]), job["targets"])
        return
    # Numbers are compared, not drawings, which take half of the time.
    drawing: Any = import_module("vl_convert")
    drawing.vegalite_to_svg = lambda *_, **__: '<svg width="10" height="10"></svg>'
    with _reference(job.get("reference")):
        import_module("initbench.reporting.report").write_report(job["folder"], job["output"])


@contextmanager
def _reference(name: str | None) -> Iterator[None]:
    """Let everything be compared with one initializer, whichever ranks best."""
    if name is None:
        yield
        return
    answers: Any = import_module("initbench.reporting.answers.initializers")
    own = answers.compare_ranks

    def compare_ranks(outcomes: Any) -> Any:
        found = own(outcomes)
        means = found.mean_ranks
        return found._replace(mean_ranks=means.reindex([name, *(other for other in means.index if other != name)]))

    answers.compare_ranks = compare_ranks
    try:
        yield
    finally:
        answers.compare_ranks = own


def _costs(folder: str, output: Path, targets: Mapping[str, float]) -> None:
    frame: Any = import_module("initbench.reporting.frame")
    trials_of: Any = import_module("initbench.reporting.comparison").comparable_trials
    cost: Any = import_module("initbench.reporting.statistics.cost").cost_to_target
    records = {record.id: record for record in frame.read_records(folder)}
    trials = trials_of(frame.results_frame(list(records.values())))
    results = trials[(trials["status"] != "failed") & trials["group"].isin(list(targets))]
    each = [cost(records[i], targets[group]) for i, group in zip(results["trial_id"], results["group"], strict=True)]
    by_cell = results.assign(steps_to_target=each).groupby(["group", "initializer"])["steps_to_target"]
    output.mkdir(parents=True, exist_ok=True)
    by_cell.apply(lambda seeds: float(import_module("numpy").median(seeds))).reset_index().to_csv(
        output / "costs_to_target.csv", index=False
    )


if __name__ == "__main__":
    main()
