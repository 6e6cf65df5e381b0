"""`initbench plan SUITE --pilot`: hours and cost of what is left, and what the figures rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from initbench.ledger import TrialRecord
    from initbench.suite.load import Suite
    from initbench.suite.plan import Plan
    from initbench.suite.spec import TrialSpec


def plan_pilot(
    suite: Suite, plan: Plan, folder: Path, workers: int | None = None, price: float | None = None
) -> dict[str, Any]:
    """Return what `--pilot` prints.

    Args:
        suite: gives what it compares and its resources.
        plan: of the suite.
        folder: the suite's, whose ledger may know how long trials take.
        workers: trials at a time; 1 where not given.
        price: of an hour of the machine, in any currency.

    Raises:
        InitbenchError: trials ask for a GPU and there is none, files of a dataset are absent, or the price is negative.
    """
    import torch

    from initbench.execution.environment import environment
    from initbench.execution.pilot import pilot
    from initbench.execution.trial import attempt_trial
    from initbench.ledger import Ledger

    for dataset in plan.waiting:
        raise dataset.origin.error(str(dataset.absent)) from dataset.absent
    if price is not None and not price >= 0:
        raise InitbenchError(f"--price must be at least 0, got {price:g}")
    device = "cuda" if suite.resources.gpus else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise InitbenchError("--pilot: trials ask for a GPU (resources.gpus), and this machine has none to try them on")
    records = {record.id: record for record in Ledger(folder).records([])}
    missing = plan.missing({i: record.status for i, record in records.items()})

    def run(trial: TrialSpec) -> TrialRecord:
        return attempt_trial(trial, device=device)

    here = environment(device)
    costs = pilot(missing, records.values(), suite.compare, run, here)
    at_a_time = workers or 1
    each: list[dict[str, Any]] = []
    for cost in costs:
        hours = None if cost.seconds is None else cost.trials * cost.seconds / at_a_time / 3600
        each.append(cost.to_json() | {"hours": hours, "cost": _times(hours, price)})
    known = [entry["hours"] for entry in each if entry["hours"] is not None]
    hours = sum(known) if len(known) == len(each) else None
    return {
        "device": f"{here['processor']}, {here['device']}",
        "workers": at_a_time,
        "price_per_hour": price,
        "workloads": each,
        "trials": len(missing),
        "hours": hours,
        "cost": _times(hours, price),
    }


def pilot_sentences(found: dict[str, Any]) -> list[str]:
    """Return the sentences that `--pilot` prints."""
    from initbench.cli.progress import duration
    from initbench.comparing.formatting import counted

    if not found["workloads"]:
        return ["pilot: nothing is left to run"]
    lines = []
    for entry in found["workloads"]:
        left = counted(entry["trials"], "trial")
        if entry["seconds"] is None:
            lines.append(f"pilot: {entry['workload']}: {left}; not known: a short trial failed ({entry['problem']})")
            continue
        each, whole = duration(entry["seconds"]), duration(entry["hours"] * 3600)
        line = f"pilot: {entry['workload']}: {left} of {each} each, {whole}{_price(entry['cost'])}; {_rests_on(entry)}"
        lines.append(line)
    several = f"{found['workers']} trials at a time, which must not slow one another" if found["workers"] > 1 else ""
    how = several or "one trial at a time"
    if found["hours"] is None:
        lines.append("pilot: in all: not known")
    else:
        whole = duration(found["hours"] * 3600)
        lines.append(f"pilot: in all {whole}{_price(found['cost'])}, {how}, on {found['device']}")
    tuned = dict.fromkeys(name for entry in found["workloads"] for name in entry["tuned"])
    if tuned:
        steps = f"pilot: not in it: the steps that {_and(list(tuned))} {'takes' if len(tuned) == 1 else 'take'}"
        lines.append(f"{steps} before training; a first seed in the ledger tells them")
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


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
