"""`initbench plan SUITE --pilot`: hours and cost of the missing trials, from the ledger and from short trials."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from initbench.cli.output import duration, say
from initbench.comparing.formatting import counted, listed
from initbench.comparing.labels import Labels
from initbench.comparing.treatments import standings
from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatches
from initbench.data.load import load_dataset
from initbench.errors import InitbenchError
from initbench.execution.environment import environment
from initbench.execution.executor import TRIAL_ENVIRONMENT, device_of
from initbench.execution.trial import attempt_trial
from initbench.ledger import Ledger, TrialRecord
from initbench.registry import INITIALIZERS
from initbench.suite.load import Suite
from initbench.suite.plan import Plan
from initbench.suite.spec import TrialSpec, cell_id
from initbench.training.optimizer import Schedule
from initbench.training.recipe import Recipe

SHORT, LONGER = 2, 12
"""Steps of the two short trials: the difference of their times is training, the rest is paid once per trial."""


@dataclass(frozen=True)
class Cost:
    """The time that the missing trials of one workload take."""

    workload: str
    trials: int
    recorded: int  # how many of them have trials of the same cell, on this device, in the ledger
    seconds: float | None  # mean of one trial; None if unknown
    seconds_per_step: float | None = None  # of the two short trials; None if none ran
    tuned: tuple[str, ...] = ()  # initializers that work before training, which the short trials leave out
    problem: str | None = None  # why a short trial failed


def pilot(
    missing: Sequence[TrialSpec],
    records: Iterable[TrialRecord],
    compare: Sequence[str],
    run: Callable[[TrialSpec], TrialRecord],
    here: dict[str, Any],
) -> list[Cost]:
    """Return the cost of each workload, in the order of the trials; `here` is the environment of this device."""
    known = _recorded_seconds(records, here)
    specs, labels = [trial.model_dump(mode="json") for trial in missing], Labels(compare)
    workload_of = {standing.trial: labels.workload(standing.workload) for standing in standings(specs, compare)}
    workloads: dict[str, list[TrialSpec]] = defaultdict(list)
    for index, trial in enumerate(missing):
        workloads[workload_of[index]].append(trial)
    return [_cost(workload, trials, known, run) for workload, trials in workloads.items()]


def _recorded_seconds(records: Iterable[TrialRecord], here: dict[str, Any]) -> dict[str, float]:
    """Return the median seconds per cell of the trials that ran on this kind of device."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for record in records:
        same = all(record.environment.get(name) == here.get(name) for name in ("device", "processor"))
        took = record.timing.get("total_seconds")
        if same and record.status != "failed" and took is not None:
            seconds[cell_id(record.identity)].append(took)
    return {cell: median(times) for cell, times in seconds.items()}


def _cost(
    workload: str, trials: Sequence[TrialSpec], known: dict[str, float], run: Callable[[TrialSpec], TrialRecord]
) -> Cost:
    unknown = [trial for trial in trials if trial.cell not in known]
    recorded = [known[trial.cell] for trial in trials if trial.cell in known]
    cost = partial(Cost, workload, len(trials), len(recorded))
    if not unknown:
        return cost(sum(recorded) / len(trials))
    tuners = tuple(dict.fromkeys(trial.initializer.name for trial in unknown if is_tuned(trial)))
    # An initializer that only draws represents the others best, because only tuners work before training.
    first = next((trial for trial in unknown if not is_tuned(trial)), unknown[0])
    say(f"pilot: two short trials of {workload}", to_stderr=True)
    short, longer = (run(_with_steps(first, steps)) for steps in (SHORT, LONGER))
    for record in (short, longer):
        if record.status == "failed" or "training_seconds" not in record.timing:
            error = record.error or {}
            problem = f"{error.get('type')}: {error.get('message')}"
            return cost(None, None, tuners, problem)
    per_step, whole = _whole_trial(first, short, longer)
    tuned = tuple(name for name in tuners if name != first.initializer.name)
    return cost((sum(recorded) + len(unknown) * whole) / len(trials), per_step, tuned)


def is_tuned(trial: TrialSpec) -> bool:
    return bool(INITIALIZERS.get(trial.initializer.name).initializer_arguments)


def _with_steps(trial: TrialSpec, steps: int) -> TrialSpec:
    """Return the trial with this number of steps, of the same cost per step, and with one evaluation."""
    left_out = ("epochs", "milestones", "step_factor", "warmup_epochs", "warmup_steps", "shift_steps")
    plain = {name: Recipe.model_fields[name].default for name in (*left_out, "history_every", "evaluate_every")}
    plain |= {"steps": steps, "schedule": "constant"}
    return trial.model_copy(update={"recipe": trial.recipe.model_copy(update=plain)})


def _whole_trial(trial: TrialSpec, short: TrialRecord, longer: TrialRecord) -> tuple[float, float]:
    """Return the seconds of one step and of the whole trial."""
    taken = longer.metrics["steps"] - short.metrics["steps"]
    training = [record.timing["training_seconds"] for record in (short, longer)]
    if taken > 0 and training[1] > training[0]:
        per_step = (training[1] - training[0]) / taken
    else:  # it diverged at once, or the difference is below the noise of the clock
        per_step = training[1] / max(longer.metrics["steps"], 1)
    evaluation = max(training[0] - short.metrics["steps"] * per_step, 0.0)
    before = max(longer.timing["total_seconds"] - training[1], 0.0)
    steps, evaluations = _steps_and_evaluations(trial)
    return per_step, before + steps * per_step + evaluations * evaluation


def _steps_and_evaluations(trial: TrialSpec) -> tuple[int, int]:
    recipe = trial.recipe
    if not recipe.trains:
        return 0, 0
    dataset = load_dataset(trial.dataset.name, trial.dataset.all_arguments, content=trial.dataset.content)
    batches = TrainingBatches(dataset.train, recipe.batch_size, Augmentation(), trial.seed, recipe.batch_tokens)
    schedule = Schedule(recipe, max(len(batches), 1))
    every = recipe.evaluate_every or recipe.history_every
    return schedule.steps, schedule.epochs + (schedule.steps // every if every else 0)


def plan_pilot(
    suite: Suite, plan: Plan, folder: Path, workers: int | None = None, price: float | None = None
) -> dict[str, Any]:
    for dataset in plan.waiting:
        raise dataset.origin.error(str(dataset.absent)) from dataset.absent
    if price is not None and not price >= 0:
        raise InitbenchError(f"--price must be at least 0, got {price:g}")
    device = device_of(suite.resources.gpus)
    if device == "cuda" and not torch.cuda.is_available():
        raise InitbenchError("--pilot: the trials need a GPU (resources.gpus), and this machine has none")
    os.environ |= TRIAL_ENVIRONMENT | os.environ  # as the process of a trial has it
    records = list(Ledger(folder).records([]))
    missing = plan.missing({record.id: record.status for record in records})
    # A final trial that is still unknown costs about as much as at the suite's own values.
    missing += tuple(tuned.row.spec for tuned in plan.tuned for _ in tuned.awaited)
    here = environment(device)
    costs = pilot(missing, records, suite.compare, partial(attempt_trial, device=device), here)
    at_a_time = workers or 1
    each: list[dict[str, Any]] = []
    for cost in costs:
        hours = None if cost.seconds is None else cost.trials * cost.seconds / at_a_time / 3600
        each.append(asdict(cost) | {"hours": hours, "cost": _times(hours, price)})
    known = [entry["hours"] for entry in each if entry["hours"] is not None]
    hours = sum(known) if len(known) == len(each) else None
    return {
        "device": f"{here['processor']}, {here['device']}",
        "workers": at_a_time,
        "price_per_hour": price,
        "workloads": each,
        "trials": len(missing),
        "awaited": plan.awaited,
        "hours": hours,
        "cost": _times(hours, price),
    }


def pilot_sentences(costs: dict[str, Any]) -> list[str]:
    if not costs["workloads"]:
        return ["pilot: no trial is left to run"]
    lines = []
    for entry in costs["workloads"]:
        left = counted(entry["trials"], "trial")
        if entry["seconds"] is None:
            lines.append(f"pilot: {entry['workload']}: {left}; unknown: a short trial failed ({entry['problem']})")
            continue
        each, whole = duration(entry["seconds"]), duration(entry["hours"] * 3600)
        cost = f"{left} of {each} each, {whole}{_price(entry['cost'])}"
        lines.append(f"pilot: {entry['workload']}: {cost}; {_rests_on(entry)}")
    how = "one trial at a time"
    if costs["workers"] > 1:
        how = f"{costs['workers']} trials at a time, if they do not slow one another down"
    if costs["hours"] is None:
        lines.append("pilot: in total: unknown")
    else:
        whole = duration(costs["hours"] * 3600)
        lines.append(f"pilot: in total {whole}{_price(costs['cost'])}, {how}, on {costs['device']}")
    if costs["awaited"]:
        finals = counted(costs["awaited"], "final trial")
        lines.append(f"pilot: this includes {finals} that the searches lead to; equal ones run once")
    tuned = dict.fromkeys(name for entry in costs["workloads"] for name in entry["tuned"])
    if tuned:
        steps = f"pilot: not included: the steps that {listed(list(tuned))} {'takes' if len(tuned) == 1 else 'take'}"
        lines.append(f"{steps} before training; a first seed in the ledger would include them")
    return lines


def _rests_on(entry: dict[str, Any]) -> str:
    if entry["seconds_per_step"] is None:
        return "from the ledger's trials of these cells on this device"
    short = f"two short trials of {entry['seconds_per_step']:.3g} s a step"
    if entry["recorded"]:
        return f"{entry['recorded']} from the ledger, the others from {short}"
    return f"from {short}"


def _times(hours: float | None, price: float | None) -> float | None:
    return None if hours is None or price is None else hours * price


def _price(cost: float | None) -> str:
    return "" if cost is None else f", a cost of {cost:.2f}"
