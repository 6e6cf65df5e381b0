"""How long what is left of a suite takes: from what the ledger knows, and from two short trials of each other workload.

Nothing is written. Every figure says what it rests on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from initbench.comparing.labels import Labels
from initbench.comparing.treatments import standings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from initbench.ledger import TrialRecord
    from initbench.suite.spec import TrialSpec
    from initbench.training.recipe import Recipe

SHORT, LONGER = 2, 12
"""Steps of the two short trials; their difference is the training's, what both have in common is paid once."""


@dataclass(frozen=True)
class Cost:
    """What the trials that are left of one workload take.

    Attributes:
        workload: its label.
        trials: how many are left.
        recorded: for how many of them the ledger has trials of their own cell, on this device.
        seconds: of one trial, on average; None where it is not known.
        seconds_per_step: of the two short trials; None where none ran.
        tuned: initializers among those that are not recorded that work before they train, which is in no short trial.
        problem: why a short trial did not come to its end, in one line.
    """

    workload: str
    trials: int
    recorded: int
    seconds: float | None
    seconds_per_step: float | None = None
    tuned: tuple[str, ...] = ()
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def pilot(
    missing: Sequence[TrialSpec],
    records: Iterable[TrialRecord],
    compare: Sequence[str],
    run: Callable[[TrialSpec], TrialRecord],
    here: dict[str, Any],
) -> list[Cost]:
    """Return what each workload takes, in the order of the trials.

    Args:
        missing: the trials that are left.
        records: of the ledger.
        compare: the factors that make the treatment.
        run: runs one trial and returns its record, a failed one where it does not come to its end.
        here: the environment of this device, see `execution.environment.environment`.
    """
    known = _recorded_seconds(records, here)
    specs, labels = [trial.model_dump(mode="json") for trial in missing], Labels(compare)
    workload_of = {standing.trial: labels.workload(standing.workload) for standing in standings(specs, compare)}
    workloads: dict[str, list[TrialSpec]] = defaultdict(list)
    for index, trial in enumerate(missing):
        workloads[workload_of[index]].append(trial)
    return [_cost(workload, trials, known, run) for workload, trials in workloads.items()]


def _recorded_seconds(records: Iterable[TrialRecord], here: dict[str, Any]) -> dict[str, float]:
    """Return the median seconds of the trials of each cell that ran on a device such as this."""
    from initbench.suite.spec import cell_id

    seconds: dict[str, list[float]] = defaultdict(list)
    for record in records:
        same = all(record.environment.get(name) == here.get(name) for name in ("device", "processor"))
        took = record.timing.get("total_seconds")
        if same and record.status != "failed" and took is not None:
            seconds[cell_id(record.identity)].append(took)
    return {cell: median(found) for cell, found in seconds.items()}


def _cost(
    workload: str, trials: Sequence[TrialSpec], known: dict[str, float], run: Callable[[TrialSpec], TrialRecord]
) -> Cost:
    unknown = [trial for trial in trials if trial.cell not in known]
    recorded = [known[trial.cell] for trial in trials if trial.cell in known]
    if not unknown:
        return Cost(workload, len(trials), len(recorded), sum(recorded) / len(trials))
    tuners = tuple(dict.fromkeys(trial.initializer.name for trial in unknown if is_tuned(trial)))
    # One that only draws says most of the others: what a tuner does before it trains is its own.
    first = next((trial for trial in unknown if not is_tuned(trial)), unknown[0])
    short, longer = (run(_with_steps(first, steps)) for steps in (SHORT, LONGER))
    for record in (short, longer):
        if record.status == "failed" or "training_seconds" not in record.timing:
            error = record.error or {}
            problem = f"{error.get('type')}: {error.get('message')}"
            return Cost(workload, len(trials), len(recorded), None, None, tuners, problem)
    per_step, whole = _whole_trial(first, short, longer)
    tuned = tuple(name for name in tuners if name != first.initializer.name)
    return Cost(
        workload, len(trials), len(recorded), (sum(recorded) + len(unknown) * whole) / len(trials), per_step, tuned
    )


def is_tuned(trial: TrialSpec) -> bool:
    """Return whether the initializer of a trial works with batches before the trial trains."""
    from initbench.registry import INITIALIZERS

    component = INITIALIZERS.get(trial.initializer.name)
    return bool(component.initializer_arguments)


def _with_steps(trial: TrialSpec, steps: int) -> TrialSpec:
    """Return a trial that takes so many steps, of the same cost, and evaluates once."""
    plain: dict[str, Any] = {"epochs": type(trial.recipe)().epochs, "warmup_epochs": 0.0, "warmup_steps": 0}
    plain |= {"schedule": "constant", "milestones": (), "step_factor": type(trial.recipe)().step_factor}
    plain |= {"steps": steps, "history_every": None, "evaluate_every": None}
    return trial.model_copy(update={"recipe": trial.recipe.model_copy(update=plain)})


def _whole_trial(trial: TrialSpec, short: TrialRecord, longer: TrialRecord) -> tuple[float, float]:
    """Return the seconds of one step, and of the whole trial."""
    taken = longer.metrics["steps"] - short.metrics["steps"]
    training = [record.timing["training_seconds"] for record in (short, longer)]
    if taken > 0 and training[1] > training[0]:
        per_step = (training[1] - training[0]) / taken
    else:  # it diverged at once, or is too short to be told from the clock's noise
        per_step = training[1] / max(longer.metrics["steps"], 1)
    evaluation = max(training[0] - short.metrics["steps"] * per_step, 0.0)
    before = max(longer.timing["total_seconds"] - training[1], 0.0)
    steps, evaluations = _length(trial)
    return per_step, before + steps * per_step + evaluations * evaluation


def _length(trial: TrialSpec) -> tuple[int, int]:
    """Return how many steps a trial takes and how often it evaluates."""
    from initbench.data.load import load_dataset

    recipe: Recipe = trial.recipe
    if not recipe.trains:
        return 0, 0
    dataset = load_dataset(trial.dataset.name, trial.dataset.all_arguments, content=trial.dataset.content)
    per_epoch = max(math.ceil(len(dataset.train) / recipe.batch_size), 1)
    steps = recipe.epochs * per_epoch if recipe.steps is None else recipe.steps
    every = recipe.evaluate_every or recipe.history_every
    return steps, math.ceil(steps / per_epoch) + (steps // every if every else 0)
