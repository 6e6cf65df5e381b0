"""BLEU and chrF of translations, computed by sacrebleu (Post, A Call for Clarity in Reporting BLEU Scores, 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from initbench.metric import Metric

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as Scorer

METRICS = (
    Metric("bleu", "higher", label="BLEU", show="{:.2f}", best=100.0),
    Metric("chrf", "higher", label="chrF", show="{:.2f}", best=100.0),
)


def corpus_scores(translations: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Return ``bleu`` and ``chrf``, from 0 to 100, of all sentences together, with one reference each.

    BLEU is defined by Papineni et al., BLEU: a Method for Automatic Evaluation of Machine Translation, 2002, and chrF,
    here of characters without words and with β = 2, by Popović, chrF: character n-gram F-score, 2015. sacrebleu
    computes both with its defaults, see `signatures`. ``bleu`` is left out if no reference has the four tokens that it
    needs, because even a perfect translation would then get 0.

    Args:
        translations: the translation of each sentence, as plain text.
        references: its reference.
    """
    scorers = _scorers()
    scores = {name: scorer.corpus_score(translations, [references]).score for name, scorer in scorers.items()}
    if not scorers["bleu"].corpus_score(references, [references]).score:
        del scores["bleu"]
    return scores


def signatures() -> dict[str, str]:
    """Return sacrebleu's signature of each of the `corpus_scores`: its settings and its version."""
    scorers = _scorers()
    for scorer in scorers.values():
        scorer.corpus_score([""], [[""]])  # a scorer learns the number of references from the first call
    return {name: str(scorer.get_signature()) for name, scorer in scorers.items()}


def _scorers() -> dict[str, Scorer]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return {"bleu": BLEU(), "chrf": CHRF()}
