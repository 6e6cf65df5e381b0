"""The tables of tuned comparisons: the protocols side by side, and every verdict under each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.reporting.formatting import capitalized
from initbench.reporting.frame import natural
from initbench.reporting.searches import at_protocol, counts_text
from initbench.reporting.tables import Column, Table

if TYPE_CHECKING:
    from initbench.reporting.analyses.protocols import Protocols

_HEADS = {"recipe": "as the recipe\nwrites it", "shared": "shared", "own": "its own best"}


def places_table(found: Protocols) -> Table:
    """Return the table of every treatment on every workload under each protocol."""
    results, terms = found.results, found.results.terms
    columns = [
        Column(capitalized(results.names.noun), "workload", "workload"),
        Column(capitalized(terms.treatment), "treatment", "treatment"),
    ]
    noun = capitalized(found.tune.noun)
    for name in found.cells:
        columns += [
            Column(f"{noun},\n{_HEADS[name]}", "text", f"{name}_values"),
            Column(capitalized(terms.outcome) if terms.metric else "Outcome", "outcome", f"{name}_outcome"),
            Column("Rank", "count", f"{name}_rank"),
        ]
    note = (
        f"Median {terms.outcome} over the seeds, and the rank within the {results.names.noun}; what did not train "
        f"shares the last rank before what diverged. Where seeds have different {found.tune.noun}s, the number of "
        "seeds is in brackets."
    )
    title = f"Every {terms.treatment} at the {found.tune.noun}s of each protocol"
    metrics = {metric.name: metric for metric in results.metric_of.values()}
    return Table("protocols", title, places_frame(found), columns, note, metrics, results.names)


def places_frame(found: Protocols) -> pd.DataFrame:
    """Return one row per workload and treatment, with outcome, rank, state and values under each protocol.

    Returns:
        ``workload, treatment, metric``, and of each protocol ``<protocol>_outcome``: the median in the metric's own
        direction; ``_rank``: within the workload, equal ones share the least; ``_state``: as in `cells.cells`;
        ``_values``: at which it ran (`searches.counts_text`); ``_seeds``.
    """
    frame: pd.DataFrame | None = None
    labels = ["workload", "treatment"]
    for name, own in found.cells.items():
        judged = own[own["outcome"].notna()]
        ran = at_protocol(found.results, name)
        values = {key: counts_text(part) for key, part in ran.groupby(labels, sort=False)}
        metrics = [found.results.metric_of[workload] for workload in judged["workload"]]
        outcomes = [metric.oriented(value) for metric, value in zip(metrics, judged["outcome"], strict=True)]
        columns: dict[str, Any] = {
            f"{name}_outcome": outcomes,
            f"{name}_rank": judged.groupby("workload")["ranked"].rank(method="min"),
            f"{name}_state": judged["state"],
            f"{name}_values": [values[key] for key in zip(judged["workload"], judged["treatment"], strict=True)],
            f"{name}_seeds": judged["seeds"],
        }
        part = judged[labels].assign(metric=[metric.name for metric in metrics], **columns)
        frame = part if frame is None else frame.merge(part, on=[*labels, "metric"], how="outer")
    assert frame is not None
    keys = list(zip(frame["workload"], frame["treatment"], strict=True))
    order = sorted(range(len(keys)), key=lambda i: (natural(keys[i][0]), natural(keys[i][1])))
    return frame.iloc[order].reset_index(drop=True)


def verdicts_table(found: Protocols) -> Table:
    """Return the table of every verdict under each protocol; the page shows those that are not the same under all."""
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys(key for own in found.verdicts.values() for key in own):
        row: dict[str, Any] = {"workload": key[0] or "all", "first": key[1], "second": key[2]}
        for name, own in found.verdicts.items():
            if key not in own:
                continue
            verdict = own[key]
            better = {-1: verdict.first, 1: verdict.second, 0: ""}[verdict.side]
            row |= {
                f"{name}_better": better,
                f"{name}_difference": verdict.difference.value,
                f"{name}_low": verdict.difference.low,
                f"{name}_high": verdict.difference.high,
                f"{name}_of_training": verdict.is_of_training,
            }
        rows.append(row)
    ends = ("better", "difference", "low", "high", "of_training")
    columns = ["workload", "first", "second", *(f"{name}_{end}" for name in found.verdicts for end in ends)]
    return Table("verdicts", "Every verdict", pd.DataFrame(rows, columns=columns), is_shown=False)
