"""Why a number of a report may be another than it was, and how each reason is proved."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Reason(NamedTuple):
    """A reason for which numbers may differ.

    Attributes:
        name: short.
        words: what changed, for people, and what proves that this is why.
        columns: those that it may change, ``table.column`` as patterns of a shell; a row is ``table.``.
    """

    name: str
    words: str
    columns: tuple[str, ...]

    def covers(self, table: str, column: str = "") -> bool:
        """Return whether it may change a column of a table, or add and remove its rows."""
        return any(fnmatchcase(f"{table}.{column}", pattern) for pattern in self.columns)


UNTRAINED = Reason(
    "did not train",
    "Cells that did not train are tied in ranks, behind all that trained and before those that diverged: ranks, ρ, τ "
    "and what permutes or counts ranks differ. Proved: the old version comes to the same number where every trial of "
    "such cells is given one and the same test error that is worse than any other.",
    (
        "comparison.rank",
        "correlation.rho*",
        "correlation.tau*",
        "correlation.remark",
        "differences.",
        "differences.mean_rank",
        "paired_differences.",
        "rank_pairs.*",
        *(f"probes.{name}" for name in ("rho*", "treatments", "workloads", "pvalue*", "pooled_rho*", "i_squared")),
        *("probes.precision_*", "probes.gain*"),
    ),
)
SCHEMES = Reason(
    "joined the comparison",
    "An initializer that brings its own scheme (Fixup and its like) is compared with the others on the network without "
    "it, and no longer on one of its own. Proved: the old version comes to the same number where the trials say that "
    "their network has no scheme.",
    ("*",),
)
REFERENCE = Reason(
    "another one ranks best",
    "With the ranks another treatment ranks best, with which all others are compared. Proved: the old version comes to "
    "the same number where it is told to compare with that one.",
    ("differences.*", "paired_differences.*"),
)
TARGET = Reason(
    "another cost target",
    "The target of a workload is an outcome that a cell which trained has attained, or there is none. Proved: it is "
    "the median of such a cell in comparison.csv, and the steps to it are those of the old version's function at it.",
    ("costs.target", "costs.steps_to_target"),
)
UNTESTABLE = Reason(
    "no ρ without a test",
    "Of fewer than 5 treatments no mean ρ is given, since nothing can be rejected. Proved: the old version's row has "
    "no p-value.",
    ("probes.rho*",),
)
FURTHER = Reason(
    "was left out before",
    "A treatment that did not run everywhere, which the ranking leaves out, is compared where it did run. Proved: it "
    "has no mean rank, and the old version's tables over workloads lack it.",
    ("differences.", "paired_differences."),
)
NEW = Reason(
    "new",
    "A table, a column or a row that the old version did not have: a field of the recipe that schema 1 lacked, the "
    "name of the metric, measurements that are no single number. No old number is touched.",
    ("*",),
)
REASONS = (UNTRAINED, SCHEMES, REFERENCE, TARGET, UNTESTABLE, FURTHER, NEW)
