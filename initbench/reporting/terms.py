"""What a report is about, in words: its outcome, and what is compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from initbench.comparing.metrics import UNKNOWN
from initbench.comparing.treatments import treatment_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.metric import Metric


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
        """The outcome in words, such as ``test accuracy``."""
        return "outcome" if self.metric is None else self.metric.title

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


def terms_of(compare: Sequence[str], metrics: Mapping[str, Metric]) -> Terms:
    """Return what a report is about.

    Args:
        compare: the factors that make the treatment.
        metrics: of its trials, by name.
    """
    metric = next(iter(metrics.values()), UNKNOWN) if len(metrics) <= 1 else None
    exchanged = "initializer" if "initializer" in compare else compare[0]
    return Terms(metric, treatment_word(compare), exchanged if len(compare) > 1 else "")
