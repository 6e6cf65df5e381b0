"""`initbench plan SUITE --power`: what difference a suite can detect, and how many seeds a difference needs."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from pathlib import Path

    from initbench.reporting.statistics.power import SeedSpread
    from initbench.suite.plan import Plan


def plan_power(
    plan: Plan, own_folder: Path, pilot: Path | None, seed_deviation: float | None, difference: float
) -> dict[str, Any]:
    """Return what `--power` prints: the spread, where it is from, and what can be detected with it.

    Args:
        plan: of the suite.
        own_folder: the suite's; its ledger is the pilot where none is given.
        pilot: another suite's folder.
        seed_deviation: stated in place of a pilot: standard deviation of the test error between seeds, a fraction.
        difference: of two test errors, a fraction, whose seeds are asked for.

    Raises:
        InitbenchError: there is neither pilot nor stated deviation or there are both, the pilot has no trials or is too
            small, or a number is not positive or not below 1.
    """
    from initbench.reporting.statistics.power import (
        detectable_correlation,
        detectable_difference,
        seeds_needed,
    )

    for option, value in (("--difference", difference), ("--seed-deviation", seed_deviation)):
        if value is not None and value >= 1:
            raise InitbenchError(f"{option} is a fraction (0.01 is one point) and must be below 1, got {value:g}")
    if not difference > 0:
        raise InitbenchError(f"--difference must be positive, got {difference}")
    spread, source = _spread(own_folder, pilot, seed_deviation)
    initializers: dict[tuple[str, ...], set[str]] = defaultdict(set)
    seeds: dict[str, set[int]] = defaultdict(set)
    for trial in plan.trials:
        workload = (trial.architecture.model_dump_json(), trial.scheme, trial.dataset.model_dump_json())
        initializers[workload].add(trial.initializer.model_dump_json())
        seeds[trial.cell].add(trial.seed)
    count = min((len(found) for found in seeds.values()), default=0)
    most = max((len(found) for found in initializers.values()), default=0)
    comparisons = max(1, most * (most - 1) // 2)
    found = {
        "source": source,
        "seed_difference_deviation": spread.difference,
        "degrees_of_freedom": spread.degrees_of_freedom,
        "seeds": count,
        "initializers": most,
        "comparisons": comparisons,
        "detectable_difference": detectable_difference(spread.difference, count),
        "detectable_difference_all_pairs": detectable_difference(spread.difference, count, comparisons),
        "difference": difference,
        "seeds_needed": seeds_needed(difference, spread.difference),
        "seeds_needed_all_pairs": seeds_needed(difference, spread.difference, comparisons),
        "detectable_correlation": detectable_correlation(most),
    }
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in found.items()}


def power_sentences(power: dict[str, Any]) -> list[str]:
    """Return the sentences that `--power` prints."""

    def points(fraction: float) -> str:
        return f"{100 * fraction:.2f} points"

    def seeds(number: int | None) -> str:
        return "over 10,000" if number is None else str(number)

    s, m = power["seeds"], power["comparisons"]
    deviation = points(power["seed_difference_deviation"])
    lines = [f"power: the paired difference of two initializers has a deviation of {deviation} ({power['source']})"]
    if power["detectable_difference"] is None:
        lines.append(f"power: with {s} seed{'s' if s != 1 else ''} there is no interval; it takes 3")
    else:
        lines.append(
            f"power: with {s} seeds a difference of {points(power['detectable_difference'])} on one workload is found "
            f"with a chance of 80 % (all {m} pairs: {points(power['detectable_difference_all_pairs'])})"
        )
    lines.append(
        f"power: a difference of {points(power['difference'])} needs {seeds(power['seeds_needed'])} seeds "
        f"(all {m} pairs: {seeds(power['seeds_needed_all_pairs'])})"
    )
    n = power["initializers"]
    rho = power["detectable_correlation"]
    lines.append(
        f"power: with {n} initializers no relation between a probe and the outcome can be shown; it takes 5"
        if rho is None
        else f"power: with {n} initializers a ρ of {rho:.2f} between a probe and the outcome is found with a chance of "
        "80 % at the least; more workloads help where initializers do not do alike on all of them"
    )
    return lines


def _spread(own_folder: Path, pilot: Path | None, seed_deviation: float | None) -> tuple[SeedSpread, str]:
    from initbench.reporting.comparison import comparable_trials
    from initbench.reporting.frame import load_results
    from initbench.reporting.statistics.power import pilot_spread, stated_spread

    if seed_deviation is not None:
        if pilot is not None:
            raise InitbenchError("give --pilot or --seed-deviation, not both")
        try:
            return stated_spread(seed_deviation), f"from a stated {100 * seed_deviation:g} points for each"
        except ValueError as error:
            raise InitbenchError(f"--seed-deviation: {error}") from error
    folder = own_folder if pilot is None else pilot
    if pilot is None and not (folder / "trials").is_dir():
        raise InitbenchError(
            f"--power needs the spread between seeds, and {folder} has no trials: give --pilot DIR or --seed-deviation"
        )
    spread = pilot_spread(comparable_trials(load_results(folder)))
    if math.isnan(spread.difference):
        raise InitbenchError(f"{folder}: no workload has 2 initializers with 2 finished seeds; it tells no spread")
    plural = "s" if spread.workloads != 1 else ""
    source = f"from {folder}: {spread.workloads} workload{plural}, {spread.degrees_of_freedom} degrees of freedom"
    return spread, source
