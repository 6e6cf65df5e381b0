"""Simulated ledgers with known truth: what is peculiar to an initializer, to a workload and to a pair, and seeds.

Arrays have the shape (worlds, workloads, initializers, seeds): many worlds at once, so that a thousand cost little.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Setting:
    """The size of a world and how its values come about.

    Attributes:
        shared: share of the variation between the initializers of a workload that is the same on all workloads, in
            outcome and in probe alike.
        heavy: Student's t with 3 degrees of freedom in place of normal noise.
        unequal: each initializer's noise between seeds has its own size, from a fourth of the usual to four times it.
        common: share of the noise's variance that all initializers of a workload have in common at a seed, as they
            see the same data in the same order.
        diverged: share of the runs that diverge, whatever their initializer.
        norms: treatments are an initializer and one of so many norms. What is peculiar to an initializer shows with
            every norm, and what is peculiar to a norm with every initializer.
        gaps: whether some treatments cannot run everywhere (`runs`).
    """

    workloads: int = 6
    initializers: int = 5
    seeds: int = 5
    shared: float = 0.0
    heavy: bool = False
    unequal: bool = False
    common: float = 0.0
    diverged: float = 0.0
    norms: int = 1
    gaps: bool = False

    @property
    def treatments(self):
        """The labels, in the order of the arrays: of one initializer with every norm, then of the next."""
        if self.norms == 1:
            return [f"i{i}" for i in range(self.initializers)]
        return [f"i{i}, norm={n}" for i in range(self.initializers) for n in range(self.norms)]

    @property
    def parts(self):
        """What of each treatment is exchanged, and the rest; None where they are initializers alone."""
        if self.norms == 1:
            return None
        return {label: tuple(label.split(", ")) for label in self.treatments}

    @property
    def runs(self):
        """Which treatments run where, (workloads, treatments).

        With `gaps`, as of Fixup and its like: the last two initializers run with the first norm alone, and the last of
        them on the second half of the workloads alone.
        """
        runs = np.ones((self.workloads, self.initializers, self.norms), dtype=bool)
        if self.gaps:
            runs[:, -2:, 1:] = False
            runs[: self.workloads // 2, -1] = False
        return runs.reshape(self.workloads, -1)

    def __str__(self):
        kinds = ["heavy tails"] * self.heavy + ["unequal variances"] * self.unequal
        kinds += [f"{self.diverged:.0%} diverged"] if self.diverged else []
        return ", ".join(kinds) or "light tails"


@dataclass(frozen=True)
class Worlds:
    """`outcome` and `probe`, shape (worlds, workloads, initializers, seeds); a diverged run has the outcome +∞."""

    outcome: np.ndarray
    probe: np.ndarray

    def cells(self):
        """Return the medians over seeds of both, shape (worlds, workloads, initializers)."""
        return np.median(self.outcome, axis=-1), np.median(self.probe, axis=-1)


def null_worlds(setting, number, seed, *, effects=1.0):
    """Return worlds in which probe and outcome are unrelated.

    Both have a level of their workload, a normal effect of standard deviation `effects` for each workload and
    initializer, of whose variance `setting.shared` is the same on all workloads, and noise between seeds of standard
    deviation about 1/2. With `effects` of 0 all initializers are equal.
    """
    generator = np.random.default_rng(seed)
    outcome = _values(setting, number, generator, effects)
    probe = _values(replace(setting, diverged=0.0), number, generator, effects)
    return Worlds(outcome, probe)


def related_worlds(setting, number, seed, strength):
    """Return worlds in which the probe's effects are `strength` times the outcome's, and noise of their own."""
    worlds = null_worlds(replace(setting, diverged=0.0), number, seed)
    truth = worlds.outcome.mean(axis=-1, keepdims=True)
    truth = truth - truth.mean(axis=2, keepdims=True)
    return Worlds(worlds.outcome, worlds.probe + strength * truth)


def simpson_worlds(setting, number, seed):
    """Return worlds where the probe orders the initializers rightly, and the workloads wrongly."""
    worlds = related_worlds(setting, number, seed, strength=6.0)
    level = 40.0 * np.arange(setting.workloads)[None, :, None, None]
    return Worlds(worlds.outcome + level, worlds.probe - level)


def prone_worlds(setting, number, seed):
    """Return a probe, and 1 where a cell diverged, both of shape (worlds, workloads, initializers).

    Some initializers diverge more often than others, and the probe knows nothing of it.
    """
    _, x = null_worlds(setting, number, seed).cells()
    generator = np.random.default_rng([seed, 1])
    prone = generator.uniform(0, 0.6, (number, 1, setting.initializers))
    return x, (generator.uniform(size=x.shape) < prone).astype(float)


def unrelated_probes(setting, number, seed, probes, correlation):
    """Return the cells of several probes, shape (probes, worlds, workloads, initializers), unrelated to any outcome.

    With a correlation the probes have that share of their variance in common.
    """
    generator = np.random.default_rng(seed)
    calm = replace(setting, diverged=0.0)
    base, *own = (np.median(_values(calm, number, generator, 1.0), axis=-1) for _ in range(probes + 1))
    return np.sqrt(correlation) * base + np.sqrt(1 - correlation) * np.stack(own)


def two_factor_worlds(setting, number, seed, *, effects=1.0, norm=1.0):
    """Return null worlds of initializer × norm, in which probe and outcome are unrelated; NaN where nothing runs.

    As `null_worlds`, with a normal effect of standard deviation `norm` for each norm, the same on all workloads. The
    effects of initializers, which are the same with all norms, are `effects` times √`setting.shared`, and those of
    each treatment on each workload √(1 - `setting.shared`).
    """
    generator = np.random.default_rng(seed)
    shape = (number, setting.workloads, setting.initializers, setting.norms)

    def values():
        level = generator.standard_normal((number, setting.workloads, 1, 1))
        main = generator.standard_normal((number, 1, setting.initializers, 1))
        of_norm = generator.standard_normal((number, 1, 1, setting.norms))
        pair = generator.standard_normal(shape)
        effect = effects * (np.sqrt(setting.shared) * main + np.sqrt(1 - setting.shared) * pair)
        found = (level + effect + norm * of_norm)[..., None] + 0.5 * noise(setting, (*shape, setting.seeds), generator)
        found = found.reshape(number, setting.workloads, -1, setting.seeds)
        return np.where(setting.runs[None, :, :, None], found, np.nan)

    return Worlds(values(), values())


def noise(setting, shape, generator):
    """Return noise with standard deviation 1 where it has light tails."""
    return generator.standard_t(3, shape) if setting.heavy else generator.standard_normal(shape)


def _values(setting, number, generator, effects):
    shape = (number, setting.workloads, setting.initializers)
    level = generator.standard_normal((number, setting.workloads, 1))
    main = generator.standard_normal((number, 1, setting.initializers))
    pair = generator.standard_normal(shape)
    effect = effects * (np.sqrt(setting.shared) * main + np.sqrt(1 - setting.shared) * pair)
    scale = 0.5
    if setting.unequal:
        scale = 0.5 * 4 ** generator.uniform(-1, 1, (number, 1, setting.initializers, 1))
    between = scale * noise(setting, (*shape, setting.seeds), generator)
    if setting.common:
        shared = 0.5 * noise(setting, (number, setting.workloads, 1, setting.seeds), generator)
        between = np.sqrt(1 - setting.common) * between + np.sqrt(setting.common) * shared
    values = (level + effect)[..., None] + between
    if setting.diverged:
        values[generator.uniform(size=values.shape) < setting.diverged] = np.inf
    return values


def table(values, treatments=None):
    """Return one world's (workloads, treatments) as the table that the statistics take."""
    workloads, count = values.shape
    names = [f"i{i}" for i in range(count)] if treatments is None else treatments
    return pd.DataFrame(values, index=[f"w{a}" for a in range(workloads)], columns=names)


def frame(outcome, treatments=None, **columns):
    """Return one world's (workloads, treatments, seeds) as trials, with further columns of the same shape."""
    names = [f"i{i}" for i in range(outcome.shape[1])] if treatments is None else treatments
    rows = []
    for a, i, s in np.ndindex(*outcome.shape):
        error = outcome[a, i, s]
        if np.isnan(error):
            continue
        diverged = np.isinf(error)
        row = {"workload": f"w{a}", "treatment": names[i], "seed": s, "status": "diverged" if diverged else "finished"}
        row["trial_id"] = f"{a}-{i}-{s}"
        row |= {"outcome": np.nan if diverged else error, "oriented": error, "metric": "test_error"}
        row |= dict.fromkeys(("oriented_chance", "chance_standard_error", "oriented_best", "is_trained"), np.nan)
        rows.append(row | {name: values[a, i, s] for name, values in columns.items()})
    return pd.DataFrame(rows)
