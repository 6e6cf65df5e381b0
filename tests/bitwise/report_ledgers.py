"""Sets of trials made up for the comparison of reports: each has what some statistic depends on.

All know their chance level, histories, what initialization cost and what measuring took.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, PLAIN, WRN, make_record, make_spec, quickstart_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from initbench.ledger import TrialRecord

    Config = dict[str, Any]
    Outcome = Callable[[int, int, int], float | None]
    """The test error by workload, treatment and seed: None where the trial diverged, else see `ABSENT` and `FAILED`."""

CHANCE, STANDARD_ERROR = 0.9, 0.016
ABSENT, FAILED = -1.0, float("nan")
SEEDS = 3
WORKLOADS: tuple[Config, ...] = (PLAIN | {"depth": 10}, PLAIN, WRN | {"depth": 10}, WRN, PLAIN | {"width": 2})
DEPTHS: tuple[Config, ...] = tuple(own | {"depth": depth} for own in (PLAIN, WRN) for depth in (10, 16, 28, 40))
TREATMENTS: tuple[Config, ...] = (
    *(KAIMING, DELTA_1, DELTA_2, METAINIT),
    {"name": "xavier", "gain": 1.0, "distribution": "uniform"},
    {"name": "lsuv", "base": DELTA_1, "batch_size": 64, "tolerance": 0.1},
    {"name": "gradinit", "base": KAIMING, "batch_size": 128, "steps": 30},
)
COSTS = {"metainit": (100, 300), "lsuv": (28, 0), "gradinit": (60, 90)}
PROBES = ("gradient_quotient", "gradient_norm")


def made_up() -> dict[str, Callable[[], list[TrialRecord]]]:
    """Return what makes each set of trials, by name."""
    coarse = partial(_outcome, grain=1 / 20)
    return {
        "like the quickstart": lambda: [_with_history(record) for record in quickstart_records()],
        "clear winner": partial(_world, _outcome),
        "ties": partial(_world, coarse),
        "one camp diverged": partial(_world, lambda w, t, s: None if t < 3 and w in {0, 1} else _outcome(w, t, s)),
        "some seeds diverged": partial(
            _world, lambda w, t, s: None if (t, s) in {(1, 0), (4, 2)} and w > 1 else coarse(w, t, s)
        ),
        "saturated, at chance": partial(
            _world, lambda w, t, s: _chance(w, t, s) if t in {0, 1, 4} and w < 2 else _outcome(w, t, s)
        ),
        "a cell at chance on each": partial(
            _world, lambda w, t, s: _chance(w, t, s) if t in {w, w + 1} else _outcome(w, t, s)
        ),
        "at chance and diverged": partial(
            _world, lambda w, t, s: None if t == 6 else _chance(w, t, s) if t < 3 and w != 2 else _outcome(w, t, s)
        ),
        "all at chance": partial(_world, _chance, workloads=WORKLOADS[:3]),
        "missing and failed": partial(
            _world,
            lambda w, t, s: (
                ABSENT
                if (w, t) in {(0, 3), (4, 3), (2, 6)}
                else FAILED
                if (w, t, s) == (1, 2, 1)
                else _outcome(w, t, s)
            ),
        ),
        "depths": partial(
            _world, lambda w, t, s: _chance(w, t, s) if w % 4 == 3 and t < 2 else _outcome(w, t, s), workloads=DEPTHS
        ),
        "one seed": partial(_world, _outcome, seeds=1),
        "one workload": partial(_world, _outcome, workloads=WORKLOADS[:1]),
        "several probes": partial(
            _world,
            coarse,
            probes=(*PROBES, "initial_loss", "gradient_quotient[eps=0.001]", "meaningless", "never finite"),
        ),
        "rules and recipes": partial(_world, _outcome, recipes=({"lr": 0.1}, {"lr": 0.01}), workloads=WORKLOADS[:3]),
        "brought schemes": lambda: [
            *_world(_outcome, workloads=(WRN, WRN | {"depth": 10}, WRN | {"width": 2})),
            *_brought(),
        ],
        "brought schemes, some at chance": lambda: [
            *_world(
                lambda w, t, s: _chance(w, t, s) if t < 3 else _outcome(w, t, s), workloads=(WRN, WRN | {"depth": 10})
            ),
            *_brought(),
        ],
    }


def _noise(*place: int) -> np.random.Generator:
    return np.random.default_rng([7, *place])


def _outcome(workload: int, treatment: int, seed: int, grain: float = 1 / 360) -> float:
    """Return a test error: treatments from good to bad, one of which is best on one workload and worst on another."""
    level = 0.03 + 0.02 * workload + 0.04 * ((treatment * 3) % 7) + (0.2 * (workload % 2) if treatment == 5 else 0.0)
    noisy = level + 0.01 * _noise(workload, treatment, seed).standard_normal()
    return float(round(max(noisy, 0.0) / grain) * grain)


def _chance(workload: int, treatment: int, seed: int) -> float:
    return round(360 * (CHANCE + 0.005 * float(_noise(workload, treatment, seed, 1).standard_normal()))) / 360


def _world(
    outcome: Outcome,
    *,
    workloads: Sequence[Config] = WORKLOADS,
    recipes: Sequence[Config] = ({},),
    seeds: int = SEEDS,
    probes: Sequence[str] = PROBES,
) -> list[TrialRecord]:
    records = []
    for w, architecture in enumerate(workloads):
        for recipe in recipes:
            for t, initializer in enumerate(TREATMENTS):
                # A rule clips the gradient of one treatment alone on the networks without a norm.
                rules = ("recipe.clip_norm",) if t == 2 and len(recipes) > 1 and architecture["name"] == "plain" else ()
                own = recipe | ({"clip_norm": 1.0} if rules else {})
                for seed in range(seeds):
                    error = outcome(w, t, seed)
                    if error != ABSENT:
                        spec = make_spec(initializer, architecture, seed, recipe=own, rules=rules, probes=PROBES)
                        records.append(_trial(spec, error, (w, t, seed), probes))
    return records


_SCHEMES: tuple[tuple[Config, str, tuple[str, ...]], ...] = (
    ({"name": "fixup"}, "fixup", ("initializer",)),
    ({"name": "skipinit"}, "skipinit", ("initializer",)),
    (KAIMING, "skipinit", ("suite",)),
)


def _brought() -> list[TrialRecord]:
    """Return trials of an initializer that brings its scheme, and of one whose scheme the suite names."""
    records = []
    for w, architecture in enumerate((WRN, WRN | {"depth": 10})):
        for t, (initializer, scheme, named_by) in enumerate(_SCHEMES):
            for seed in range(SEEDS):
                spec = make_spec(initializer, architecture, seed, scheme=scheme, named_by=named_by)
                records.append(_trial(spec, _outcome(w, t + 7, seed), (w, t + 7, seed), PROBES))
    return records


def _trial(spec: Any, error: float | None, place: tuple[int, int, int], probes: Sequence[str]) -> TrialRecord:
    """Return a trial with everything that a report reads."""
    if error is not None and error != error:  # noqa: PLR0124  # NaN alone
        return make_record(spec, status="failed")
    noise = _noise(*place, 2)
    at_chance = error is not None and error > CHANCE - 0.05
    quotient = 0.999 + 0.0001 * place[1] if at_chance else float(np.exp(noise.normal((error or 2.0) * 3, 0.3)))
    record = make_record(
        spec,
        error,
        status="diverged" if error is None else "finished",
        quotient=None if error is None and place[2] == 1 else quotient,
        saturated=at_chance,
        first_epoch_accuracy=None if error is None and place[2] == 0 else float(noise.uniform(0.1, 0.5)),
        initialization_seconds=float(noise.uniform(0.01, 20)),
    )
    entries = [_probe(name, record.probes, error, noise) for name in probes]
    return _with_history(replace(record, probes=entries), noise)


def _probe(name: str, probes: Sequence[Mapping[str, Any]], error: float | None, noise: np.random.Generator) -> Config:
    known = next((dict(probe) for probe in probes if probe["name"] == name), None)
    value = float(noise.lognormal())
    entry = known or {
        "name": name,
        "value": value,
        "conditions": {"batch_size": 32},
        "kind": "scalar",
        "unit": "",
        "log": False,
    }
    if name == "never finite":
        entry["value"] = None
    elif name in {"initial_loss", "gradient_norm"}:
        entry["value"] = value + 3 * (error or 1.0)
    batches = [float(v) for v in (entry["value"] or 1.0) * noise.uniform(0.8, 1.2, 4)]
    return entry | {"conditions": entry["conditions"] | {"per_batch": batches}}


def _with_history(record: TrialRecord, noise: np.random.Generator | None = None) -> TrialRecord:
    """Return a record with a curve that ends at its outcome, its chance level, and what initialization cost."""
    if record.status == "failed":
        return record
    noise = noise or _noise(int(record.id[:8], 16))
    error = record.metrics["test_error"]
    ends = len(record.history) if error is not None else int(noise.integers(0, 5))
    history = []
    for i, entry in enumerate(record.history[: ends + 1], start=1):
        left = (1 - i / len(record.history)) * float(noise.uniform(0.2, 1))
        own = None if error is None and i > ends else (error or 0.0) + (CHANCE - (error or 0.0)) * left
        history.append(entry | {"step": 21 * i, "epoch": i, "test_error": own})
    name = record.spec["initializer"]["name"]
    forward, backward = COSTS.get(name, (0, 0))
    metrics = record.task["metrics"]
    chance = {"chance": CHANCE, "chance_standard_error": STANDARD_ERROR}
    seconds = {f"{probe['name']}_probe_seconds": float(noise.uniform(0.1, 1)) for probe in record.probes}
    return replace(
        record,
        history=history,
        initialization=record.initialization | {"cost": {"forward": forward, "backward": backward}},
        task=record.task | {"metrics": metrics | {"test_error": metrics["test_error"] | chance}},
        timing=record.timing | seconds,
    )
