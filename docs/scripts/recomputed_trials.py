"""The trials of a packed ledger, and what criteria ask of them, without the library."""

from __future__ import annotations

import json
import math
import tarfile
from pathlib import Path
from typing import Any

from recomputed_statistics import every, interval

Trial = dict[str, Any]
Trials = list[Trial]

PAPERS = Path(__file__).parents[1] / "results" / "papers"


def _trial(record: dict[str, Any]) -> Trial:
    """Return one level of what a trial is and has measured; a diverged run is infinitely bad."""
    spec, metrics = record["spec"], record["metrics"]
    start = spec["initializer"]
    bad = math.inf if record["status"] == "diverged" else math.nan
    measure = "loss" if record["task"]["name"] == "translation" else "error"
    error, validation = (metrics.get(f"{split}_{measure}") for split in ("test", "validation"))
    about = record["task"]["metrics"]
    return {
        **start["arguments"],
        **spec["architecture"]["arguments"],
        **spec["recipe"],
        "base_std": (start["arguments"].get("base") or {}).get("arguments", {}).get("std"),
        "tuning_momentum": start["arguments"].get("momentum"),
        "start": start["name"],
        "treatment": json.dumps(start, sort_keys=True),
        "net": spec["architecture"]["name"],
        "scheme": spec["scheme"],
        "image_size": spec["dataset"]["arguments"].get("image_size"),
        "images": spec["dataset"]["name"],
        "seed": spec["seed"],
        "phase": spec["phase"],
        "id": record["id"],
        "error": bad if error is None else error,
        "validation": bad if validation is None else validation,
        "mean_train_loss": _mean_train_loss(record),
        "accuracy_1": metrics.get("first_epoch_accuracy"),
        "chance": {split: _chance_of(about, f"{split}_{measure}") for split in ("test", "validation")},
        "scales": _scales(record["initialization"]),
        "diverged_at": metrics.get("diverged_at_step"),
        "probes": {probe["name"]: probe.get("value", probe.get("values")) for probe in record["probes"] or []},
    }


def _mean_train_loss(record: dict[str, Any]) -> float:
    """Return the mean of the epochs' training losses, infinite if the run diverged."""
    losses = [entry["train_loss"] for entry in record["history"] if float(entry.get("epoch", 0.5)).is_integer()]
    return math.inf if record["status"] == "diverged" else math.fsum(losses) / len(losses) if losses else math.nan


def _chance_of(about: dict[str, Any], metric: str) -> tuple[float, float] | None:
    """Return the chance level of a metric and its standard error."""
    described = about.get(metric)
    return described and (described["chance"], described["chance_standard_error"])


def _scales(initialization: dict[str, Any] | None) -> dict[str, float]:
    """Return the factor by which each tensor was scaled, of those that were."""
    tensors = (initialization or {}).get("tensors", {})
    factors = {name: [e["factor"] for e in events if e["event"] == "scaled"] for name, events in tensors.items()}
    return {name: math.prod(known) for name, known in factors.items() if known}


def read_ledger(name: str) -> Trials:
    """Return the trials of a packed ledger."""
    with tarfile.open(PAPERS / f"{name}.tar.xz") as archive:
        files = [file for file in archive.getmembers() if "trials/" in file.name and file.name.endswith(".json")]
        return [_trial(json.load(archive.extractfile(file))) for file in files]  # type: ignore[arg-type]


def trials_of(trials: Trials, **choice: Any) -> Trials:
    """Return the trials of a choice by seed, or of several choices if a seed has several."""
    chosen = [trial for trial in trials if all(trial.get(key) == value for key, value in choice.items())]
    if not chosen:
        raise LookupError(f"no trial has {choice}")
    return sorted(chosen, key=lambda trial: (trial["seed"], trial["lr"]))


def by_value(trials: Trials, key: str) -> list[Trials]:
    return [trials_of(trials, **{key: value}) for value in sorted({trial[key] for trial in trials})]


def best_trials(trials: Trials) -> Trials:
    """Return each seed's trial of least validation error, at the smaller rate on ties."""

    def rank(trial: Trial) -> tuple[float, float]:
        return (math.inf if math.isnan(trial["validation"]) else trial["validation"], trial["lr"])

    return [min(of_seed, key=rank) for of_seed in by_value(trials, "seed")]


def tuned_trials(trials: Trials, recipe_rate: float | None = None) -> Trials:
    """Return each seed's final trial at the rate that is best in that seed's search.

    Args:
        trials: of one treatment, with the trials of its searches.
        recipe_rate: another rate that final trials may have.
    """
    final, winners = trials_of(trials, phase="final"), best_trials(trials_of(trials, phase="search"))
    chosen = [trial for best in winners for trial in trials_of(final, seed=best["seed"], lr=best["lr"])]
    if any(trial not in chosen and trial["lr"] != recipe_rate for trial in final):
        raise ValueError("a final trial has another rate than the best of the search")
    return chosen


def is_at_chance(trial: Trial) -> bool:
    band = 0.041 if trial["images"] == "digits" else 0.008
    return bool(trial["error"] == math.inf or abs(trial["error"] - 0.9) <= band + 1e-9)


def all_at_chance(trials: Trials, share: float = 1.0) -> bool:
    return every(map(is_at_chance, trials), share)


def fail_at_every_rate(rates: Trials) -> bool:
    """Return whether all seeds are at chance at every rate."""
    return all(all_at_chance(rate) for rate in by_value(rates, "lr"))


def all_train(trials: Trials, share: float = 1.0) -> bool:
    return every((trial["error"] <= 0.45 for trial in trials), share)


def train_at_some_rate(rates: Trials, share: float) -> bool:
    return any(all_train(rate, share) for rate in by_value(rates, "lr"))


def paired_differences(low: Trials, high: Trials, measure: str = "error") -> list[float]:
    if [trial["seed"] for trial in low] != [trial["seed"] for trial in high]:
        raise ValueError("the seeds are not paired")
    return [b[measure] - a[measure] for a, b in zip(low, high, strict=True)]


def all_lower(low: Trials, high: Trials, share: float = 1.0) -> bool:
    return every((difference > 0 for difference in paired_differences(low, high)), share)


def ahead_by(low: Trials, high: Trials, by: float) -> list[bool]:
    return [difference >= by for difference in paired_differences(low, high)]


def equal_within(one: Trials, other: Trials, within: float) -> bool:
    """Return whether both one-sided tests reject at 5 %, which is the 90 % interval inside the margin."""
    low, high = interval(paired_differences(one, other), 0.90)
    return -within < low and high < within


def differ_beyond(one: Trials, other: Trials, margin: float) -> bool:
    low, high = interval(paired_differences(one, other))
    return low > margin or high < -margin


def leads_by(low: Trials, high: Trials, margin: float) -> bool:
    return interval(paired_differences(low, high))[0] > margin
