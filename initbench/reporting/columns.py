"""The columns that tables show: for each its heading, how its values are written, and the ends of its interval.

Braces in a heading hold the report's words: `{treatment}`, `{workload}`, `{outcome}`, or with a capital letter
`{Treatment}`. The key ``table.column`` is for a column that has another meaning in one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from initbench.comparing.formatting import capitalized
from initbench.metric import Metric


class Column(NamedTuple):
    r"""A column of a table as the page shows it.

    Attributes:
        heading: its lines, separated by ``\n``.
        form: the name of the `formatting.FILTERS` that writes its values; ``outcome`` and ``difference`` are written by
            the row's metric, ``mean`` by it with a half-width, and the labels of a ``treatment`` and a ``workload`` as
            their names.
        value: the frame's column.
        low: the column with the lower end of an interval, which then follows in parentheses, or with a half-width;
            empty if there is none.
        high: the column with the upper end.
        metric: writes the values in place of the row's metric.
    """

    heading: str
    form: str
    value: str = ""
    low: str = ""
    high: str = ""
    metric: Metric | None = None

    @property
    def is_text(self) -> bool:
        """Whether its cells are words, not numbers."""
        return self.form in {"text", "treatment", "workload"}


CATALOGUE = {
    "treatment": Column("{Treatment}", "treatment"),
    "workload": Column("{Workload}", "workload"),
    **{
        f"{table}.workload": Column("Workload", "workload")
        for table in ("layers", "distances", "tuning", "tuning_outcomes", "tuner_steps", "curve_ends")
    },
    "seeds": Column("Seeds", "count"),
    "trials": Column("Trials", "count"),
    "trials_diverged": Column("Trials that\ndiverged", "count"),
    "workloads": Column("Its\n{workload}s", "count"),
    "rate": Column("Diverged on", "percent"),
    **{
        key: column
        for protocol, whose in (("recipe", "as the recipe\nwrites it"), ("shared", "shared"), ("own", "its own best"))
        for key, column in {
            f"{protocol}_values": Column(f"{{Setting}},\n{whose}", "text"),
            f"{protocol}_outcome": Column("{Outcome}", "outcome"),
            f"{protocol}_rank": Column("Rank", "count"),
        }.items()
    },
    # compare, workloads and variance
    "mean_rank": Column("Mean rank", "share"),
    "difference": Column("{Outcome} less\nthat of {reference}", "difference", low="low", high="high"),
    "improvement": Column("Probability of\nimprovement", "share"),
    "median": Column("Median\ndifference", "difference"),
    "probability_of_improvement": Column("Probability of\nimprovement", "share"),
    "diverged": Column("Diverged", "count"),
    "paired_differences.diverged": Column("Pairs with a\ndiverged trial", "count"),
    "rank_pairs.first": Column("{Treatment}", "treatment"),
    "rank_pairs.second": Column("behind it", "treatment"),
    "rank_pairs.difference": Column("Difference of\nmean ranks", "share", low="low", high="high"),
    "pvalue": Column("p (Holm)", "probability"),
    "parameters": Column("Parameters", "count"),
    "train_rate": Column("Share of seeds\nthat train", "share"),
    "outcome_median": Column("{Outcome},\nmedian", "outcome"),
    "outcome_mean": Column("mean ± 95 %\ninterval", "mean", low="outcome_interval"),
    "state_words": Column("State", "text"),
    "failed": Column("Failed", "count"),
    "gradient_quotient_median": Column("GQ,\nmedian", "quotient"),
    "gradient_quotient_saturated": Column("GQ\nsaturated", "count"),
    "initialization_seconds_mean": Column("Initialization\ntime", "duration"),
    "variance.metric": Column("Outcome", "text"),
    "variance.of": Column("Of its", "text"),
    "variance.treatment": Column("Between\n{treatment}s", "percent"),
    "variance.interaction": Column("Pairing of {treatment}\nand {workload}", "percent"),
    "variance.workload": Column("Between\n{workload}s", "percent"),
    "variance.seed": Column("Between\nseeds", "percent"),
    "variance.workloads": Column("{Workload}s", "count"),
    "variance.treatments": Column("{Treatment}s", "count"),
    # cost
    "initialization_steps": Column("Initialization\n(training steps)", "count"),
    "training_steps": Column("Training\nsteps", "count"),
    "target": Column("Target\n{outcome}", "outcome"),
    "steps_to_target": Column("Steps to the target,\ninitialization included", "steps"),
    "initialization_seconds": Column("Initialization\ntime", "duration"),
    # claims, published
    "claim": Column("Claim", "text"),
    "source": Column("Source", "text"),
    "criterion": Column("Criterion", "text"),
    "status": Column("Status", "text"),
    "measured": Column("Measured", "text"),
    "where": Column("Where", "text"),
    "what": Column("What", "text"),
    "published_text": Column("Published", "text"),
    "measured_text": Column("Measured", "text"),
    "in_spreads": Column("Difference in units\nof the combined spread", "coefficient"),
    # stable_rates
    "best": Column("Best\nrate", "quotient"),
    "stable": Column("Largest\nstable rate", "quotient"),
    "ratio": Column("Ratio", "quotient"),
    "open_seeds": Column("Seeds whose largest stable\nrate is the largest tried", "count"),
    # transfer
    "exponent": Column("Exponent of\nthe best rate", "coefficient"),
    "at_edge": Column("At edge", "count"),
    "at": Column("Size", "quotient"),
    "optima.value_median": Column("Best rate,\ngeometric mean", "quotient"),
    # scaling
    "layer": Column("Layer", "text"),
    "activation": Column("Outputs at the start,\nexponent", "coefficient"),
    "activation_verdict": Column("", "text"),
    "change": Column("Change,\nexponent", "coefficient"),
    "change_verdict": Column("", "text"),
    # tunability
    "chosen": Column("{Setting} chosen\n(seeds)", "text"),
    "edge": Column("at the edge\nof what was tried", "text"),
    "range": Column("Good rates", "text"),
    "factor": Column("Range,\nfactor", "quotient"),
    "compute": Column("Compute of a try\n(training steps)", "count"),
    # layers
    "layers": Column("Layers\nor points", "count"),
    "typical": Column("Typical", "quotient"),
    "smallest": Column("smallest", "quotient"),
    "largest": Column("largest", "quotient"),
    "layers.factor": Column("Largest over\nsmallest", "quotient"),
    "distances.median": Column("Median", "quotient"),
    "nearest": Column("nearest", "quotient"),
    "farthest": Column("farthest", "quotient"),
    # predict
    "probe": Column("Probe", "text"),
    "form": Column("Values", "text"),
    "rho": Column("Spearman’s ρ", "coefficient"),
    "tau": Column("Kendall’s τ", "coefficient"),
    "correlation.n": Column("{Treatment}s", "count"),
    "saturated": Column("Saturated", "count"),
    "remark": Column("Remark", "text"),
    "probes.rho": Column("Mean ρ", "coefficient"),
    "treatments": Column("{Treatment}s", "count"),
    "probes.workloads": Column("{Workload}s", "count"),
    "pvalue_holm": Column("p (Holm)", "probability"),
    "pvalue_benjamini_hochberg": Column("p (BH)", "probability"),
    "precision_1": Column("Precision@1", "share"),
    "regret_1": Column("Regret@1{unit}", "difference"),
    "regret_3": Column("Regret@3{unit}", "difference"),
    "regret_at_random": Column("at random{unit}", "difference"),
    "gain": Column("Gain in rank,\npoints", "points"),
    "auroc": Column("AUROC,\ndivergence", "share"),
    "seed_agreement": Column("ρ between\nseeds", "coefficient"),
    "batch_spread": Column("Spread between\nbatches", "percent"),
    "seconds": Column("Time to\nmeasure", "duration"),
    # overview
    "overview.treatment": Column("{Treatment}", "text"),
    "overview.workload": Column("Workload", "text"),
    "state": Column("State", "text"),
    "text": Column("Outcome", "text"),
    "note": Column("Seeds", "text"),
    # tuning, tuner_steps
    "tuner_steps.treatment": Column("Tuner", "treatment"),
    "quantity": Column("Quantity", "text"),
    "base": Column("Base", "treatment"),
    "steps": Column("Steps", "count"),
    "before": Column("Before", "quotient", low="before_smallest", high="before_largest"),
    "after": Column("After", "quotient", low="after_smallest", high="after_largest"),
    "smallest_factor": Column("Scale factors,\nsmallest", "quotient"),
    "largest_factor": Column("largest", "quotient"),
    "tuning_outcomes.before": Column(
        "{Outcome},\nof the base", "outcome", low="before_smallest", high="before_largest"
    ),
    "tuning_outcomes.after": Column("after tuning", "outcome", low="after_smallest", high="after_largest"),
    "value_median": Column("Median", "quotient"),
    "value_smallest": Column("smallest", "quotient"),
    "value_largest": Column("largest", "quotient"),
    # training_curves, depth_profile
    "step": Column("Last step", "count"),
    "outcome_smallest": Column("smallest", "outcome"),
    "outcome_largest": Column("largest", "outcome"),
    "train_median": Column("On training data,\nmedian", "outcome"),
    "family": Column("Networks", "workload"),
    "depth": Column("Depth", "count"),
}


def columns(show: str, table: str, frame: Iterable[str], words: Mapping[str, str]) -> list[Column]:
    """Return the columns of a table.

    Args:
        show: the names of the frame's columns, separated by blanks.
        table: its name.
        frame: the names of all columns of its frame: one that has ``<column>_low`` too is shown with its interval.
        words: of the report, for the headings.
    """
    known, texts = set(frame), dict(words) | {capitalized(key): capitalized(word) for key, word in words.items()}
    chosen = []
    for name in show.split():
        column = CATALOGUE.get(f"{table}.{name}") or CATALOGUE[name]
        ends = (f"{name}_low", f"{name}_high") if f"{name}_low" in known else (column.low, column.high)
        chosen.append(column._replace(heading=column.heading.format(**texts), value=name, low=ends[0], high=ends[1]))
    return chosen
