"""How far what was measured in each layer is from what it is with a reference, such as a known good initializer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.labels import label_of
from initbench.reporting.columns import Column
from initbench.reporting.measurements import of_weights
from initbench.reporting.tables import Table

if TYPE_CHECKING:
    from initbench.reporting.results import Results

_CELL = ["probe", "workload", "treatment"]
_LAYER = ["probe", "workload", "seed", "layer"]


def distances(every: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return how far each treatment's layers are from a reference's.

    Figure 3 of MetaInit (Dauphin & Schoenholz, NeurIPS 2019, section 4.1) draws norms beside those of a known good
    initialization; this is their distance as a number, without unit: of a trial the mean over the weights
    (`measurements.of_weights`) of |ln(value / the reference's value at the same seed)|. A value that is 0 or not finite
    is infinitely far. Left out are layers that one of the two lacks, or in which the reference has no value above 0.

    Args:
        every: rows of ``probe``, ``workload``, ``treatment``, ``seed``, ``layer`` and ``value``.
        reference: the treatment's label.

    Returns:
        One row for each probe, workload and treatment: ``seeds``, and over them ``median``, ``nearest`` and
        ``farthest``. No row where the reference was not measured.
    """
    names = every.astype(dict.fromkeys([*_CELL, "layer"], "str"))
    own_kinds = [of_weights(own) for _, own in names.groupby(["probe", "workload"], sort=False)]
    known = pd.concat(own_kinds) if own_kinds else names
    own = known[(known["treatment"] == reference) & (known["value"] > 0) & np.isfinite(known["value"])]
    both = known.merge(own[[*_LAYER, "value"]], on=_LAYER, suffixes=("", "_of_reference"))
    both = both[both["treatment"] != reference]
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = (both["value"] / both["value_of_reference"]).map(np.log).abs()
    both = both.assign(distance=distance.fillna(math.inf))
    over = both.groupby([*_CELL, "seed"], sort=False)["distance"].mean().groupby(_CELL, sort=False)
    return over.agg(seeds="size", median="median", nearest="min", farthest="max").reset_index()


def distance_table(results: Results, every: pd.DataFrame, reference: str) -> Table:
    """Return `distances` as a table, empty where the reference was not measured.

    Args:
        results: that they are of.
        every: as of `distances`.
        reference: the treatment, by its short or whole name.

    Raises:
        InitbenchError: there is no such treatment.
    """
    names, term = results.names, results.terms.treatment
    label = label_of(reference, names.treatments, term)
    columns = [
        Column("Probe", "text", "probe"),
        Column("Workload", "workload", "workload"),
        Column(capitalized(term), "treatment", "treatment"),
        Column("Seeds", "count", "seeds"),
        Column("Median", "quotient", "median"),
        Column("nearest", "quotient", "nearest"),
        Column("farthest", "quotient", "farthest"),
    ]
    title = f"Distance from {names.treatment(label)}: the mean over the weights of |log(value / its value)|"
    return Table("distances", title, distances(every, label), columns, names=names)
