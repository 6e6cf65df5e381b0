"""BLEU and chrF against sacrebleu's functions and against their definitions."""

from __future__ import annotations

import math

import pytest
import sacrebleu

from initbench.tasks.bleu import METRICS, corpus_scores, signatures

REFERENCES = ["the cat sat on the mat", "a dog barks at the moon", "we all go home now"]
TRANSLATIONS = ["the cat is on the mat", "the dog barks at the moon", "we all go home"]


def test_scores_are_those_of_sacrebleu():
    assert corpus_scores(TRANSLATIONS, REFERENCES) == {
        "bleu": sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES]).score,
        "chrf": sacrebleu.corpus_chrf(TRANSLATIONS, [REFERENCES]).score,
    }


def test_bleu_of_three_sentences_counted_by_hand():
    # Matches of 1 to 4 words: 5, 3, 1, 0 | 5, 4, 3, 2 | 4, 3, 2, 1 of 6, 5, 4, 3 | 6, 5, 4, 3 | 4, 3, 2, 1.
    # There are 16 words where the references have 17.
    precisions = (5 + 5 + 4) / 16, (3 + 4 + 3) / 13, (1 + 3 + 2) / 10, (0 + 2 + 1) / 7
    expected = 100 * math.exp(1 - 17 / 16) * math.prod(precisions) ** (1 / 4)
    assert corpus_scores(TRANSLATIONS, REFERENCES)["bleu"] == pytest.approx(expected, rel=1e-12)


def test_the_counts_are_those_of_the_corpus_and_not_means_over_sentences():
    means = [corpus_scores([one], [other]).get("bleu", 0) for one, other in zip(TRANSLATIONS, REFERENCES, strict=True)]
    assert abs(corpus_scores(TRANSLATIONS, REFERENCES)["bleu"] - sum(means) / 3) > 1


def test_perfect_and_empty_translations():
    assert corpus_scores(REFERENCES, REFERENCES) == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    assert corpus_scores([""] * 3, REFERENCES) == {"bleu": 0.0, "chrf": 0.0}


def test_there_is_no_bleu_of_references_that_are_too_short():
    assert corpus_scores(["einundzwanzig", "three short words"], ["einundzwanzig", "two short words"]).keys() == {
        "chrf"
    }


def test_signatures_state_the_settings_and_the_version():
    version = f"version:{sacrebleu.__version__}"
    assert signatures() == {
        "bleu": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}",
        "chrf": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}",
    }
    assert signatures().keys() == {metric.name for metric in METRICS}
