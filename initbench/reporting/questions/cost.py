"""What does initialization cost, and what reaches a target with the least compute in all?"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import counted, duration, listed, steps
from initbench.comparing.names import label_of
from initbench.errors import ArgumentError
from initbench.reporting.answer import Answer
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import LEAST_PROFILED, profile_panel
from initbench.reporting.charts.rows import Bar, spending_panel
from initbench.reporting.comparison_sentences import left_out_remark
from initbench.reporting.file_names import file_names
from initbench.reporting.questions.line_figures import drawn
from initbench.reporting.results import Results, as_results, once
from initbench.reporting.sentence import Sentence, named, say
from initbench.reporting.sizes import share_words
from initbench.reporting.tables import table_of
from initbench.statistics.cells import Complete, complete
from initbench.statistics.cost import Spending, Spent, costs_to_target, initialization_steps, on_one_device, spent
from initbench.statistics.profiles import Fastest, fastest, performance_profiles

_SMALLEST = 2  # workloads, and treatments, below which nothing is compared over workloads
_COLUMNS = ["workload", "treatment", "initialization_steps", "training_steps", "initialization_seconds"]


class Cost(NamedTuple):
    """What initialization costs, and who reaches each workload's target with the least compute.

    Attributes:
        spent: as from `initialization_costs`.
        to_target: the cost of each cell to the target of its workload, workloads × treatments, +∞ for a miss.
        targets: of the workloads, NaN if there is none.
    """

    spent: pd.DataFrame
    to_target: pd.DataFrame
    targets: pd.Series[float]

    @property
    def whole(self) -> Complete:
        """The costs to the target without gaps."""
        return complete(self.to_target)

    @property
    def is_over_workloads(self) -> bool:
        """Whether there are costs to compare over workloads."""
        return min(self.whole.table.shape) >= _SMALLEST


def cost(results: Results | str | Path, *, target: float | None = None, workload: str = "") -> Answer | None:
    """Return what initialization costs; None if no trial has a result.

    Args:
        results: as from `read_results`, or a suite's folder.
        target: an outcome, for all workloads: shares as fractions; by default each workload has its own
            (`statistics.cost.costs_to_target`).
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read; there is no such workload; or no outcome can
            be compared with the target.
    """
    results = as_results(results)
    costs = initialization_costs(results)
    if workload:
        label = label_of(workload, results.names.workloads, "workload")
        costs = costs[costs["workload"] == label].reset_index(drop=True)
    if not len(costs):
        return None
    if target is not None:
        _check_target(target, results)
    to_target, targets = costs_to_target(results.trials, results.by_id, results.metric_of, target)
    labels = [str(label) for label in targets.index if label in set(costs["workload"])]
    facts = Cost(costs, to_target.reindex(index=labels), targets[labels])
    names, treatment = results.names, results.terms.treatment
    target_note = (
        f"The target of a {names.noun} is the final outcome of its middle {treatment} (of two middle ones, the "
        "better; of two middle seeds, the worse); if that one does not train, of the worst that does."
    )
    if target is not None:
        [metric] = results.metrics.values()
        target_note = f"The target is a {metric.title} of {metric.beside_title.text(target)}."
    note = (
        f"Medians over the seeds; a target that half of the seeds miss is not reached. {target_note} Passes are "
        "counted in gradients: F forward passes with B calls of autograd are F · 3^(B/F) / 3 gradients, because the "
        "derivative of a derivative goes back through everything that was computed before."
    )
    show = "workload treatment initialization_steps training_steps target steps_to_target initialization_seconds"
    frame = _frame(facts, results)
    title = f"What each {treatment} costs, and when it reaches the target"
    sentences = [spent_sentence(spent(costs), treatment, names.treatment)]
    figures, remarks = _spending_figures(frame, facts, results)
    if without := [names.workload(str(label)) for label, value in facts.targets.items() if math.isnan(value)]:
        remarks.append(f"No target on {', '.join(without)}: nothing trains there.")
    if facts.is_over_workloads:
        sentences.append(_fastest_sentence(fastest(facts.whole.table), results))
        if len(facts.whole.table) >= LEAST_PROFILED:
            figures.append(_profile_figure(facts, target_note, sentences[-1], results))
        unknown = costs["initialization_steps"].isna().any()
        left = left_out_remark(facts.whole, results, " with a recorded cost" if unknown else "")
        remarks += [left] if left else []
    tables = [table_of(results, "costs", title, frame, show, note)]
    return Answer("cost", "What does initialization cost?", sentences, tables, figures, remarks, facts)


def _check_target(target: float, results: Results) -> None:
    if len(results.metrics) != 1:
        titles = listed([metric.title for metric in results.metrics.values()])
        raise ArgumentError(f"is of one metric, and these results have {titles or 'none'}", "target")
    [metric] = results.metrics.values()
    if not math.isfinite(target):
        raise ArgumentError(f"must be finite, got {target}", "target")
    if metric.unit == "%" and not 0 <= target <= 1:
        raise ArgumentError(f"must be a fraction from 0 to 1, got {target:g}", "target")


@once
def initialization_costs(results: Results) -> pd.DataFrame:
    """Return for each workload and treatment the median over seeds of what its initializer spent before training.

    Returns:
        ``workload, treatment, initialization_steps`` (in training steps of the same cost, NaN if unknown),
        ``training_steps`` (median; NaN if none finished), ``initialization_seconds`` (NaN if the workload ran on
        several kinds of device, whose seconds cannot be compared).
    """
    ran = results.trials[results.trials["status"] != "failed"]
    comparable = {
        str(name): on_one_device(results.by_id[i] for i in group["trial_id"]) for name, group in ran.groupby("workload")
    }
    rows = []
    for (workload, treatment), cell in ran.groupby(["workload", "treatment"], sort=False):
        members = [results.by_id[i] for i in cell["trial_id"]]
        trained = [record.metrics.get("steps") for record in members if record.status == "finished"]
        seconds = [record.timing.get("initialization_seconds", math.nan) for record in members]
        medians = (
            float(np.median([initialization_steps(record) for record in members])),
            float(np.median([number for number in trained if number is not None] or [math.nan])),
            float(np.median(seconds)) if comparable[str(workload)] else math.nan,
        )
        rows.append((workload, treatment, *medians))
    return pd.DataFrame(rows, columns=_COLUMNS)


def cost_texts(results: Results) -> dict[str, str]:
    """Return for each treatment what its initialization costs in short: ``450 steps · 24 s``, or ``none``.

    The most over the workloads. No seconds if trials ran on several kinds of device.
    """
    texts = {}
    comparable = on_one_device(results.by_id.values())
    for treatment, costs in initialization_costs(results).groupby("treatment", sort=False):
        spent_steps, seconds = costs["initialization_steps"].max(), costs["initialization_seconds"].max()
        if costs["initialization_steps"].isna().any():
            continue
        taken = duration(seconds) if seconds < 10 or seconds >= 100 else f"{seconds:.0f}\N{NO-BREAK SPACE}s"
        timed = f" · {taken}" if comparable and math.isfinite(seconds) else ""
        texts[str(treatment)] = f"{_step_words(steps(spent_steps))}{timed}" if spent_steps > 0 else "none"
    return texts


def _frame(facts: Cost, results: Results) -> pd.DataFrame:
    to_target = facts.to_target.rename_axis("workload").reset_index()
    to_target = to_target.melt("workload", var_name="treatment", value_name="steps_to_target")
    frame = facts.spent.merge(to_target, how="left").assign(target=facts.spent["workload"].map(facts.targets))
    return frame.assign(metric=[results.metric_of[workload].name for workload in frame["workload"]])


def spent_sentence(costs: Spent, treatment: str, display: Callable[[str], str] = str) -> Sentence:
    """Return what initialization costs in training steps: ``metainit costs 450 steps, 2.7 times the training``."""
    if not costs.is_known:
        return say("Not known: the records do not say what initializers spent.", is_open=True)
    if not costs.spending and costs.unknown:
        who = named([display(name) for name in costs.unknown])
        text = f"The cost of {{who}} is unknown; the other {treatment}s cost nothing before training."
        return say(text, who=who, is_open=True)
    if not costs.spending:
        return say(f"No {treatment} costs a forward or a backward pass before training.")
    first, *more = costs.spending
    sentence = say(f"{{first!b}} costs {_amount(first)}", first=display(first.treatment))
    if len(more) == 1:
        sentence += say(f"; {{second}} costs {_amount(more[0])}", second=display(more[0].treatment))
    elif more:
        sentence += say(f", the most of {len(costs.spending)} that cost anything")
    elif costs.nothing and not costs.unknown:  # what is unknown is no other that costs nothing
        sentence += say("; the others cost nothing")
    return sentence + say(".")


def _amount(spending: Spending) -> str:
    """Return ``450 steps, 2.7 times the training``."""
    low, high = steps(spending.least), steps(spending.most)
    text = _step_words(high if low == high else f"{low} to {high}")
    if math.isnan(spending.most_times):
        return text
    least, most = _times(spending.least_times), _times(spending.most_times)
    return f"{text}, {least if least == most else f'up to {most}'} the training"


def _step_words(number: str) -> str:
    return f"{number} step{'' if number in {'1', 'less than 1'} else 's'}"


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio >= 1 else f"{100 * ratio:.2g}\N{NO-BREAK SPACE}% of"


def _fastest_sentence(first: Fastest, results: Results) -> Sentence:
    """Return what reaches the targets with the least compute, its own passes included, on the most workloads."""
    noun = results.names.noun
    if not first.names:
        return say(f"No {results.terms.treatment} reaches the target of any {noun}.")
    on = f"on {first.wins} of {counted(first.share.n, noun)}, {share_words(first.share)}"
    who = named([results.names.treatment(name) for name in first.names])
    if len(first.names) > 1:
        return say(f"{{who}} each reach the target with the least compute {on}.", who=who)
    return say(f"{{who!b}} reaches the target with the least compute, its own passes included, {on}.", who=who)


def _spending_figures(frame: pd.DataFrame, facts: Cost, results: Results) -> tuple[list[Figure], list[str]]:
    """Return what every treatment spends until the target, on each workload that has something to draw."""
    labels, left = drawn(frame, "workload", "costs.csv")
    files, figures = file_names(labels, "spent-"), []
    bars_on: dict[str, list[Bar]] = {label: [] for label in labels}
    # The least in all first; what misses the target last, in the order of what it spent before training.
    ordered = frame.sort_values(["steps_to_target", "initialization_steps"], kind="stable")
    for row in ordered[ordered["workload"].isin(labels)].to_dict("records"):
        before, total = row["initialization_steps"], row["steps_to_target"]
        name = results.names.treatment_in_figure(row["treatment"])
        bars_on[row["workload"]].append(Bar(name, before, total, f"{name}: {_spent_until(before, total)}"))
    for label, bars in bars_on.items():
        metric, where = results.metric_of[label], results.names.workload(label)
        if panel := spending_panel(bars, "compute (training steps)", beside=list(chain(*bars_on.values()))):
            title = f"Compute to a {metric.title} of {metric.beside_title.text(facts.targets[label])}: {where}"
            alt = f"{title}. {'; '.join(bar.words for bar in bars)}."
            figures.append(Figure(files[label], title, alt, panel, subject=where))
    return figures, left


def _spent_until(before: float, total: float) -> str:
    """Return ``550 steps, including 450 before training``."""
    if math.isnan(before) or math.isnan(total):
        return "unknown"
    if math.isinf(total):
        return "target not met" + (f", {_step_words(steps(before))} before training" if before > 0 else "")
    return _step_words(steps(total)) + (f", including {steps(before)} before training" if before > 0 else "")


def _profile_figure(facts: Cost, target_note: str, sentence: Sentence, results: Results) -> Figure:
    noun = results.names.noun
    note = (
        f"The share of the {noun}s on which {results.terms.one} reaches the target within a factor of the least "
        f"compute, its own passes included. {target_note}"
    )
    profiles = performance_profiles(facts.whole.table.rename(columns=results.names.treatment_in_figure))
    drawing = profile_panel(profiles, f"compute over the least of the {noun}, log scale", results.palette)
    return Figure("profile-cost", "Performance profile: compute to a target", f"{note} {sentence}", drawing, note)
