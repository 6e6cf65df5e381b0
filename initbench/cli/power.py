"""`initbench plan SUITE --power`: the difference that a suite can detect, and the seeds that a difference needs."""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from initbench.comparing.keys import Key
from initbench.comparing.metrics import has_outcome, outcome_key, outcome_metric, outcome_metrics
from initbench.comparing.treatments import standings, treatment_word
from initbench.errors import InitbenchError
from initbench.metric import Metric
from initbench.reporting.frame import results_frames
from initbench.reporting.records import read_records
from initbench.reporting.trials import comparable_trials
from initbench.statistics.power import (
    SeedSpread,
    detectable_correlation,
    detectable_difference,
    few_seeds_needed,
    pilot_spread,
    planning_spread,
    seeds_needed,
    stated_spread,
)
from initbench.suite.plan import Plan
from initbench.tasks import find_task


def plan_power(
    plan: Plan,
    suite_folder: Path,
    pilot: Path | None,
    seed_deviation: float | None,
    difference: float,
    compare: Sequence[str],
) -> dict[str, Any]:
    """Return the data that `--power` prints: the spread, its source, and the differences that can be detected with it.

    Without a `pilot`, the ledger of `suite_folder` is used; `seed_deviation`, the standard deviation of the outcome
    between seeds, replaces both. It and `difference` are in the unit of stored outcomes: an error is a fraction.
    """
    metric = _metric(plan)
    for option, value in (("--difference", difference), ("--seed-deviation", seed_deviation)):
        if value is not None and value >= metric.largest_difference:
            raise InitbenchError(f"{option} is a fraction (0.01 is one point) and must be below 1, got {value:g}")
    if not difference > 0:
        raise InitbenchError(f"--difference must be positive, got {difference}")
    spread, source = _spread(suite_folder, pilot, seed_deviation, plan, compare)
    trials = [tuned.row.spec for tuned in plan.tuned] or plan.trials  # searches are not compared
    treatments: dict[Key, set[Key]] = defaultdict(set)
    seeds: dict[tuple[Key, Key], set[int]] = defaultdict(set)
    for standing in standings([trial.model_dump(mode="json") for trial in trials], compare):
        treatments[standing.workload].add(standing.treatment)
        seeds[standing.workload, standing.treatment].add(trials[standing.trial].seed)
    count = min((len(cell_seeds) for cell_seeds in seeds.values()), default=0)
    most = max((len(compared) for compared in treatments.values()), default=0)
    comparisons = max(1, most * (most - 1) // 2)
    suite = max(2, most), max(1, sum(len(compared) > 1 for compared in treatments.values()))
    named, any_pair = (
        (planning_spread(spread.difference, spread.degrees_of_freedom, m), m, *suite) for m in (1, comparisons)
    )
    power = {
        "metric": metric.to_json(),
        "source": source,
        "seed_difference_deviation": spread.difference,
        "degrees_of_freedom": spread.degrees_of_freedom,
        "seeds": count,
        "compare": list(compare),
        "treatments": most,
        "comparisons": comparisons,
        "detectable_difference": detectable_difference(named[0], count, *named[1:]),
        "detectable_difference_all_pairs": detectable_difference(any_pair[0], count, *any_pair[1:]),
        "difference": difference,
        "seeds_needed": seeds_needed(difference, *named),
        "seeds_needed_all_pairs": seeds_needed(difference, *any_pair),
        "few_seeds_needed": few_seeds_needed(difference, *named),
        "few_seeds_needed_all_pairs": few_seeds_needed(difference, *any_pair),
        "detectable_correlation": detectable_correlation(most),
    }
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in power.items()}


def power_sentences(power: dict[str, Any]) -> list[str]:
    from initbench.statistics.seed_variance import FEW_SEEDS

    points = Metric.from_json(power["metric"]).difference

    def seeds(pairs: str = "") -> str:
        few, needed = power[f"few_seeds_needed{pairs}"], power[f"seeds_needed{pairs}"]
        enough = "over 10,000" if needed is None else str(needed)
        if few is None or few == needed:
            return enough
        return f"{few if few == FEW_SEEDS else f'{few} to {FEW_SEEDS}'} or at least {enough}"

    s, m, one = power["seeds"], power["comparisons"], treatment_word(power["compare"])
    deviation = points(power["seed_difference_deviation"])
    lines = [f"power: the paired difference of two {one}s has a standard deviation of {deviation} ({power['source']})"]
    if power["detectable_difference"] is None:
        lines.append(f"power: with {s} seed{'s' if s != 1 else ''} there is no interval; 3 seeds are needed")
    else:
        lines.append(
            f"power: with {s} seeds a difference of {points(power['detectable_difference'])} on one workload is "
            f"detected with a chance of 80 % (all {m} pairs: {points(power['detectable_difference_all_pairs'])})"
        )
    lines.append(
        f"power: a difference of {points(power['difference'])} needs {seeds()} seeds "
        f"(all {m} pairs: {seeds('_all_pairs')})"
    )
    n = power["treatments"]
    rho = power["detectable_correlation"]
    lines.append(
        f"power: with {n} {one}s no relation between a probe and the outcome can be shown; 5 are needed"
        if rho is None
        else f"power: with {n} {one}s a ρ of {rho:.2f} between a probe and the outcome is detected with a chance of "
        f"at least 80 %; more workloads help if {one}s do not behave alike on all of them"
    )
    return lines


def _metric(plan: Plan) -> Metric:
    metrics = {find_task(name).primary.on("test") for name in sorted({t.dataset.task for t in plan.trials})}
    if len(metrics) != 1:
        titles = ", ".join(sorted(metric.title for metric in metrics))
        raise InitbenchError(f"--power needs a single metric, and the suite has {titles or 'none'}")
    return metrics.pop()


def _spread(
    suite_folder: Path, pilot: Path | None, seed_deviation: float | None, plan: Plan, compare: Sequence[str]
) -> tuple[SeedSpread, str]:
    metric = _metric(plan)
    if seed_deviation is not None:
        if pilot is not None:
            raise InitbenchError("give --spread-from or --seed-deviation, not both")
        stated = f"{metric.scale * seed_deviation:g} {metric.points}".rstrip()
        try:
            return stated_spread(seed_deviation), f"from a stated {stated} for each treatment"
        except ValueError as error:
            raise InitbenchError(f"--seed-deviation: {error}") from error
    folder = suite_folder if pilot is None else pilot
    if pilot is None and not (folder / "trials").is_dir():
        raise InitbenchError(
            f"--power needs the spread between seeds, and {folder} has no trials: "
            "give --spread-from DIR or --seed-deviation"
        )
    records = read_records(folder)
    metrics = outcome_metrics(records)
    # Another task may have a metric with the same name.
    known = {(trial.dataset.task, metric.name) for trial in plan.trials}
    others = [r for r in records if has_outcome(r) and (r.task["name"], outcome_key(r)) not in known]
    if others:
        titles = {f"{outcome_metric(record).title} ({record.task['name']})" for record in others}
        planned = f"{metric.title} ({', '.join(sorted(task for task, _ in known))})"
        raise InitbenchError(f"{folder}: a pilot of {', '.join(sorted(titles))} says nothing about the {planned}")
    try:
        frames = results_frames(records, compare)
    except InitbenchError as error:
        raise InitbenchError(f"{folder}: {error}") from error
    spread = pilot_spread(comparable_trials(frames, metrics))
    if math.isnan(spread.difference):
        several = f"2 {treatment_word(compare)}s with 2 finished seeds"
        raise InitbenchError(f"{folder}: no workload has {several}, so the spread is unknown")
    plural = "s" if spread.workloads != 1 else ""
    source = f"from {folder}: {spread.workloads} workload{plural}, {spread.degrees_of_freedom} degrees of freedom"
    return spread, source
