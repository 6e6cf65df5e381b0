"""The words of a report for its outcome and its treatments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from initbench.comparing.metrics import UNKNOWN
from initbench.comparing.treatments import treatment_word
from initbench.metric import Metric


@dataclass(frozen=True)
class Terms:
    """The words of sentences, tables and charts.

    Attributes:
        metric: the outcome; None if workloads have different ones, whose values are never combined.
        treatment: ``initializer`` if nothing else is compared, else ``treatment``.
        exchanged: the factor that permutations exchange (`exchange`); empty if treatments have one factor.
    """

    metric: Metric | None = None
    treatment: str = "initializer"
    exchanged: str = ""

    @property
    def outcome(self) -> str:
        """Such as ``test accuracy``."""
        return "outcome" if self.metric is None else self.metric.title

    @property
    def one(self) -> str:
        """Such as ``an initializer``."""
        return f"{'an' if self.treatment[0] in 'aeiou' else 'a'} {self.treatment}"

    @property
    def exchange(self) -> str:
        """A sentence on permutations and the jackknife; empty if treatments have one factor."""
        if not self.exchanged:
            return ""
        return (
            " Treatments that share a factor are not independent, so permutations exchange and the jackknife leaves "
            f"out the {self.exchanged} with all its treatments at once."
        )

    def say(self, text: str) -> str:
        """Return a text about treatments with this comparison's word for them; it must contain no labels."""
        return text.replace("a treatment", self.one).replace("treatment", self.treatment)


def terms_of(compare: Sequence[str], metrics: Mapping[str, Metric]) -> Terms:
    """Return the words for factors that make the treatment, and for the metrics of the trials, by name."""
    metric = next(iter(metrics.values()), UNKNOWN) if len(metrics) <= 1 else None
    exchanged = "initializer" if "initializer" in compare else compare[0]
    return Terms(metric, treatment_word(compare), exchanged if len(compare) > 1 else "")
