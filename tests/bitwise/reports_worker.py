"""Runs suites and writes reports with the version on the path; `compare_reports.py` asks.

A job is ``{name, run: [arguments of initbench run]}``, or ``{name, folders, output, strict, mlflow}``: the report of
folders, or that of an MLflow experiment that such a run wrote into the only folder. A strict one comes with all that
else is said of the trials: the report as text, the frames for notebooks, and the runs that ``sync`` writes to MLflow.
The answer to a job is ``{name, error}``. Beside the names in docs/reference.md and the command line, what this needs
of the library are `text_of` and `read_experiment`.
"""

from __future__ import annotations

import json
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitwise.versions import serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Job = Mapping[str, Any]


def _answer(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in request["jobs"]:
        error = None
        try:
            _command("run", *job["run"]) if "run" in job else _report(job)
        except Exception as raised:  # noqa: BLE001  # a report that cannot be made is a finding; the others are made
            last = traceback.extract_tb(raised.__traceback__)[-1]
            error = f"{type(raised).__name__}: {raised} ({Path(last.filename).name}:{last.lineno})"
        yield {"name": job["name"], "error": error}


def _command(*arguments: str) -> None:
    """Run the command line; that a trial failed is no error."""
    sys.argv = ["initbench", *arguments]
    cli = import_module("initbench.cli")
    main = getattr(cli, "main", None) or import_module("initbench.cli.command_line").main  # `cli.main`: older versions
    try:
        main()
    except SystemExit as end:
        if end.code not in {None, 0, 1}:
            raise ValueError(f"initbench {' '.join(arguments)}: exit code {end.code}") from end


def _report(job: Job) -> None:
    reporting, output = import_module("initbench.reporting"), Path(job["output"])
    results = reporting.read_results([_experiment(Path(job["folders"][0]))] if job["mlflow"] else job["folders"])
    reporting.write_report(results, output)
    if not job["strict"]:
        return
    text_of = import_module("initbench.reporting.text_report").text_of
    for form in ("json", "md", "latex"):
        (output / f"report.{form}").write_text(text_of(results, form), encoding="utf-8")
    for name, frame in _frames(reporting, results, job["folders"]):
        _write(output / "frames" / f"{name}.json", _plain(frame))
    names = {kind: {label: getattr(results.names, kind)(label) for label in dict.fromkeys(results.trials[kind])}
             for kind in ("treatment", "workload")}  # fmt: skip
    _write(output / "names.json", names | {"metrics": {key: repr(metric) for key, metric in results.metrics.items()}})
    if job["mlflow"]:
        uri = f"sqlite:///{output.resolve() / 'mlflow.db'}"
        _command("sync", job["folders"][0], "--tracking-uri", uri)
        _write(output / "mlflow.json", sorted(_runs(uri), key=lambda run: run["name"]))


def _experiment(folder: Path) -> Any:
    """Return what MLflow knows of a suite that was run into a folder."""
    read = import_module("initbench.tracking.experiment").read_experiment
    return read(folder.name, f"sqlite:///{folder.resolve() / 'mlflow.db'}")


def _frames(reporting: Any, results: Any, folders: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield each frame that a notebook can have, by its name."""
    for folder in folders:
        yield f"load_results-{Path(folder).name}", import_module("initbench").load_results(folder)
    yield from ((name, getattr(results, name)) for name in ("frame", "trials", "cells", "refused"))
    for question in set(reporting.__all__) - {"read_results", "write_report"}:
        answer = getattr(reporting, question)(results)
        for number, table in enumerate(() if answer is None else answer.tables):
            yield f"{question}-{number}-{table.name}", table.frame


def _plain(frame: Any) -> dict[str, Any]:
    """Return a frame as texts that tell its types, order, values and their types apart."""
    return {
        "columns": [str(column) for column in frame.columns],
        "dtypes": [str(dtype) for dtype in frame.dtypes],
        "index": [repr(label) for label in frame.index],
        "rows": [[repr(value) for value in row] for row in frame.itertuples(index=False, name=None)],
    }


def _runs(uri: str) -> Iterator[dict[str, Any]]:
    """Yield what MLflow shows of each run."""
    client = import_module("mlflow").MlflowClient(uri)
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id]):
            of_run = run.info.run_id
            yield {
                "experiment": experiment.name,
                "name": run.info.run_name,
                "status": run.info.status,
                "tags": run.data.tags,
                "parameters": run.data.params,
                "metrics": {
                    key: [[value.step, repr(value.value)] for value in client.get_metric_history(of_run, key)]
                    for key in run.data.metrics
                },
                "artifacts": [artifact.path for artifact in client.list_artifacts(of_run)],
            }


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    serve(_answer)
