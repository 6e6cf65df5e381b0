"""The progress of a run: a live display on a terminal, else one line for each finished trial."""

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from initbench.arguments import show
from initbench.cli.cells import crossed_fields
from initbench.cli.console import VisibleConsole
from initbench.cli.output import duration
from initbench.comparing.formatting import counted
from initbench.execution.driver import RunSummary
from initbench.execution.recorder import Progress, labels_by_id
from initbench.execution.time_left import TimeLeft
from initbench.ledger import TrialRecord
from initbench.metric import Metric
from initbench.suite.plan import Plan
from initbench.suite.spec import TrialSpec
from initbench.visible_text import visible

_STYLES = {"finished": "green", "diverged": "yellow", "failed": "red"}
_COUNTS = ("finished", "diverged", "failed")


class Display(Progress):
    """Shows a run's progress, on the standard error if the standard output is for JSON."""

    def __init__(self, plan: Plan, *, to_stderr: bool = False) -> None:
        self.console = VisibleConsole(
            file=sys.stderr if to_stderr else sys.stdout, highlight=False, emoji=False, soft_wrap=True
        )
        self.known = {trial.id: trial for trial in (*plan.trials, *plan.unselected)}
        self._name_by(())
        self.total = 0
        self.counts: Counter[str] = Counter()
        self.have: int | None = None
        self.ended = 0.0  # when the trials of the latest round ended; 0 while they run
        self.live: Live | None = None
        self.bar: Bar | None = None
        self.time_left = TimeLeft(())

    def _name_by(self, more: tuple[TrialSpec, ...]) -> None:
        self.known |= {trial.id: trial for trial in more}
        every = list(self.known.values())
        self.labels = labels_by_id(every)
        self.several_datasets = len({trial.dataset.model_dump_json() for trial in every}) > 1
        self.crossed = crossed_fields(every)

    def begin(self, missing: tuple[TrialSpec, ...], have: int, awaited: int) -> None:
        self.time_left, self.ended = TimeLeft(missing), 0.0
        if {trial.id for trial in missing} - self.known.keys():
            self._name_by(missing)
        if self.have is None:
            self.have = have
            kept = f", {have} {'has' if have == 1 else 'have'} a result already" if have else ""
            more = f"; up to {awaited} more follow from the results of searches" if awaited else ""
            self._say(f"{counted(len(missing), 'trial')} to run{kept}{more}")
        else:
            self._say(f"the searches have ended; {counted(len(missing), 'trial')} to run at the values that they chose")
        self.total = self._done() + len(missing) + awaited
        if not self.console.is_terminal:
            return
        self.bar = Bar(
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            console=self.console,
        )
        self.bar.add_task("trials", total=self.total, completed=self._done(), state="starting")
        self.live = Live(
            self.bar,
            console=self.console,
            refresh_per_second=2,
            get_renderable=self._drawn,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.live.start()

    def started(self, spec: TrialSpec) -> None:
        self.time_left.started(spec.id)

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        self.time_left.fractions[spec.id] = fraction

    def finished(self, record: TrialRecord) -> None:
        seconds = self.time_left.finished(record.id)
        self.counts[record.status] += 1
        done = self._done()
        left = self.time_left.seconds()
        ending = "" if self.live or not left else f"  ({duration(left)} left)"
        name = self._name(record)
        line = f"[{done:>{len(str(self.total))}}/{self.total}] {record.status:<8}  {name}  {outcome(record)}"
        self._say(f"{line}  {duration(seconds)}{ending}", _STYLES[record.status])

    def note(self, message: str) -> None:
        self._say(f"note: {message}", "yellow")

    def end(self) -> None:
        self.ended = self.ended or time.monotonic()
        if self.live:
            self.live.stop()
            self.live = None

    def interrupted(self, folder: Path, command: str) -> None:
        self.end()
        if self.have is None:
            self._say("interrupted before the first trial")
            self._say(f"to go on from here: {command}")
            return
        kept, failed = self._done() - self.counts["failed"], self.counts["failed"]
        lost = f", {counted(failed, 'trial')} failed" if failed else ""
        if running := len(self.time_left.running):
            longest = self.ended - min(self.time_left.running.values())
            lost += f", {running} running {'is' if running == 1 else 'are'} given up (begun {duration(longest)} ago)"
        self._say(f"interrupted: {kept} of {self.total} trials are kept in {folder}{lost}")
        self._say(f"to go on from here: {command}")

    def summary(self, result: RunSummary) -> None:
        counts = ", ".join(f"{result.statuses[s]} {s}" for s in _COUNTS if result.statuses.get(s))
        total = sum(result.statuses.values())
        if result.ran:
            self._say(f"{counted(total, 'trial')}: {counts}; {result.ran} ran now, in {duration(result.seconds)}")
        else:
            have = f"all {total} trials have" if total > 1 else "the one trial has"
            self._say(f"nothing to run: {have} a result ({counts})")
        if result.statuses.get("failed"):
            self._say("the same command tries failed trials again; the report has their errors")
        for sentence in result.sentences:
            self._say(sentence)
        self._say(f"report: {result.report}")
        self._say(f"MLflow: initbench ui {result.folder}")

    def _say(self, line: str, style: str | None = None) -> None:
        self.console.print(visible(line), style=style, markup=False)

    def _done(self) -> int:
        return (self.have or 0) + self.counts.total()

    def _drawn(self) -> Any:
        assert self.bar is not None
        left = self.time_left.seconds()
        parts = [f"{len(self.time_left.running)} running"]
        parts += [f"{self.counts[s]} {s}" for s in ("diverged", "failed")]
        parts.append("estimating the time left" if left is None else f"{duration(left)} left")
        self.bar.update(self.bar.task_ids[0], completed=self._done(), state=", ".join(parts))
        return self.bar.get_renderable()

    def _name(self, record: TrialRecord) -> str:
        labels, recipe = self.labels[record.id], record.spec["recipe"]
        parts = [labels["architecture"], labels["initializer"], *[labels["dataset"]] * self.several_datasets]
        parts += [f"{name}={show(recipe[name])}" for name in self.crossed]
        parts += ["search"] * (record.spec["phase"] == "search")
        return " · ".join([*parts, f"seed {record.spec['seed']}"])


def outcome(record: TrialRecord) -> str:
    if record.status == "failed" and record.error:
        return f"{record.error['type']}: {record.error['message']}"
    if record.status == "diverged":
        return f"at step {record.metrics['diverged_at_step']}"
    primary = record.task["primary"]
    if record.metrics.get(primary) is None:
        return "measured"  # a recipe without a step
    metric = Metric.from_json(record.task["metrics"][primary])
    return f"{metric.title} {metric.beside_title.text(record.metrics[primary])}".replace("\N{NO-BREAK SPACE}", " ")
