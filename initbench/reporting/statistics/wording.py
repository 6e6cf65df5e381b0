"""Words that the verdicts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from initbench.reporting.formatting import counted

if TYPE_CHECKING:
    from initbench.metric import Metric
    from initbench.reporting.statistics.intervals import Estimate

NOT_ENOUGH = "Not enough evidence"


@dataclass(frozen=True)
class Terms:
    """What sentences, tables and charts are about.

    Attributes:
        metric: the outcome's; None where workloads have several, whose values are never put together.
        treatment: what is compared, in one word: ``initializer`` where nothing else is, else ``treatment``.
        exchanged: the factor that permutations exchange (`exchange`), where treatments have several; else empty.
    """

    metric: Metric | None = None
    treatment: str = "initializer"
    exchanged: str = ""

    @property
    def outcome(self) -> str:
        """The outcome in words: ``test error``."""
        return "outcome" if self.metric is None else self.metric.title

    @property
    def outcomes(self) -> str:
        """Several outcomes in words: ``test errors``."""
        return "outcomes" if self.metric is None else self.metric.plural

    @property
    def edge(self) -> str:
        """The edge of a chart at which the worst outcomes stand."""
        if self.metric is None:
            return "upper (where higher is better, the lower)"
        return "upper" if self.metric.better == "lower" else "lower"

    @property
    def one(self) -> str:
        """The treatment with its article: ``an initializer``."""
        return f"{'an' if self.treatment[0] in 'aeiou' else 'a'} {self.treatment}"

    @property
    def exchange(self) -> str:
        """What permutations and jackknife do where treatments have several factors, as a sentence."""
        if not self.exchanged:
            return ""
        return (
            f" Treatments that share a factor are not independent: the {self.exchanged} is what is exchanged and left "
            "out, with all its treatments at once."
        )

    def say(self, text: str) -> str:
        """Return a text without labels, in which a treatment is called one, in the words of this comparison."""
        return text.replace("a treatment", self.one).replace("treatment", self.treatment)


def interval_words(estimate: Estimate, form: str, scale: float = 1.0, comparisons: int = 1) -> str:
    """Return ``95 % interval 0.10 to 0.30``, or that there is none.

    Args:
        estimate: of any unit.
        form: of the ends, such as ``{:.2f}``.
        scale: by which they are multiplied.
        comparisons: how many such intervals hold at once.
    """
    if not estimate.has_interval:
        return "no interval"
    level = "95 % interval" + (f", simultaneous over {comparisons} comparisons," if comparisons > 1 else "")
    return f"{level} {form.format(scale * estimate.low)} to {form.format(scale * estimate.high)}"


def difference_words(estimate: Estimate, metric: Metric, comparisons: int = 1) -> str:
    """Return the interval of a difference of two values of a metric: ``95 % interval 0.10 to 0.30 points``.

    Args:
        estimate: in the metric's own direction, of values as they are stored.
        metric: of these values.
        comparisons: how many such intervals hold at once.
    """
    return f"{interval_words(estimate, metric.show, metric.scale, comparisons)} {metric.points}".rstrip()


def points(fraction: float) -> str:
    """Return a difference of two shares in percentage points: ``1.30 points``."""
    # Adding 0 makes a rounded -0 a 0.
    return f"{round(100 * fraction, 2) + 0.0:.2f} points"


def n_workloads(workloads: int) -> str:
    """Return ``n = 5 workloads``."""
    return f"n = {workloads_words(workloads)}"


def workloads_words(count: int) -> str:
    """Return ``5 workloads``."""
    return counted(count, "workload")


def trials_words(count: int) -> str:
    """Return ``1 trial``."""
    return counted(count, "trial")
