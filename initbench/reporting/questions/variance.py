"""What does the outcome depend on: the treatment, the workload, their pairing, or the seed?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from initbench.comparing.formatting import counted
from initbench.metric import Metric
from initbench.reporting.answer import Answer
from initbench.reporting.questions.comparison import by_metric
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.tables import table_of
from initbench.statistics.variance import VarianceSplit, split_variance

Splits = Sequence[tuple[Metric, VarianceSplit]]


def variance(results: Results | str | Path) -> Answer:
    """Return what the outcome depends on.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    splits = [(metric, split_variance(rows)) for metric, rows in by_metric(results.trials, results.metrics)]
    show = "metric of treatment interaction workload seed workloads treatments seeds"
    note = "Shares of the variance, estimated by moments, without intervals; of ranks if a trial diverged."
    frame = _shares(splits)
    tables = [table_of(results, "variance", "Shares of the variance", frame, show, note)] if len(frame) else []
    sentences = [_sentence(split, metric, results, metric.title if len(splits) > 1 else "") for metric, split in splits]
    question = f"What does the {results.terms.outcome} depend on?"
    return Answer("variance", question, sentences, tables, facts=splits)


def _shares(splits: Splits) -> pd.DataFrame:
    """Return one row per metric whose variance can be split."""
    parts = ["treatment", "interaction", "workload", "seed"]
    return pd.DataFrame(
        {
            "metric": metric.title,
            **{name: getattr(split, name) for name in parts},
            **dict(zip(("workloads", "treatments", "seeds"), split.shape, strict=True)),
            "of": "ranks" if split.of_ranks else "values",
        }
        for metric, split in splits
        if split.is_known
    )


def _sentence(split: VarianceSplit, metric: Metric, results: Results, subject: str) -> Sentence:
    treatment, noun = results.terms.treatment, results.names.noun
    if split.is_too_small:
        workloads, treatments, seeds = split.shape
        have = f"{counted(workloads, noun)}, {counted(treatments, treatment)} and {counted(seeds, 'seed')}"
        text = f"A complete table of {have} is too small to tell; at least 2 of each are needed."
        return say(text, is_open=True, subject=subject)
    if not split.is_known:
        text = "All outcomes are equal, so there is no variance to split."
        return say(text, is_open=True, subject=subject)
    name, share = split.largest
    where = {
        "treatment": f"is between {treatment}s",
        "workload": f"is between {noun}s",
        "interaction": f"comes from the pairing of {treatment} and {noun}",
        "seed": "is between seeds",
    }[name]
    part = "Most" if share > 0.5 else "The largest part"
    text = f"{part} of the variance of {{what}}, {100 * share:.0f}\N{NO-BREAK SPACE}%, {where}."
    return say(text, what="ranks" if split.of_ranks else metric.title, subject=subject)
