"""The field's words for a newcomer: explained where a page first uses them.

The definitions in docs/glossary.md begin with the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from markupsafe import Markup, escape


class Word(NamedTuple):
    """A word and its meaning; `anchor` is its id in the page."""

    name: str
    meaning: str
    anchor: str


MEANINGS = {
    "initializer": "Sets the values of a network’s parameters before training.",
    "tuner": "An initializer that starts from another one, its base, and adjusts the result with batches of data.",
    "scheme": "A transform that adds to any model the parts that a method needs, such as Fixup’s scalar biases.",
    "treatment": "What is compared: an initializer, or an initializer together with other settings.",
    "workload": "Everything but the treatment and the seed: usually architecture, scheme, dataset and recipe.",
    "recipe": "How a network is trained: optimizer, learning rate, schedule, epochs, augmentation, clipping.",
    "shared rate": "One learning rate for all treatments of a workload at a seed: the best by mean rank.",
    "own rate": "The best learning rate in a cell’s own search on the validation split, found at each seed.",
    "trial": "One network, initialized and trained once.",
    "seed": "The number that determines all randomness of a trial; several seeds are repetitions.",
    "ledger": "The folder of trial records, one file per trial. Everything in a report comes from it.",
    "trains": "A seed trains if it comes at least half of the way from guessing to the best of its workload.",
    "did not train": "A cell whose median is no better than guessing.",
    "chance level": "The metric of the best predictor that ignores its inputs.",
    "diverged": "A trial whose loss became infinite or undefined. It is a result, and the worst one.",
    "failed": "A trial that ended with an error or lost its worker. It has no outcome and enters no statistic.",
    "incompatible": "A pair that cannot run, because the network lacks what the method needs.",
    "difference found": "The difference is larger than the variation between seeds, or between workloads, can explain.",
    "95 % interval": "A range that contains the true value in 95 of 100 repetitions of the study.",
    "probe": "Takes a measurement of a network at initialization, before any training step.",
    "gradient quotient (GQ)": "How much a gradient step changes the gradient, relative to itself: 0 means not at all.",
    "saturated": "A saturated GQ reflects ε, not curvature: most of the gradient is smaller than ε.",
    "Spearman’s ρ": "The agreement of two orders: 1 if they are the same, -1 if reversed, 0 if unrelated.",
    "regret": "The loss in outcome from training only the treatment that a probe picks, compared with the best one.",
    "mean rank": "A treatment’s place among all, 1 for the best, averaged over the workloads.",
}
# The forms of a word in a text, as a regular expression; by default singular and plural.
_FORMS = {
    "initializer": "initiali[sz]ers?",
    "own rate": "own (?:best )?rates?",
    "trains": "trains?",
    "did not train": "d(?:id|oes|o) not train",
    "chance level": "chance levels?|guessing",
    "diverged": "diverge[sd]?",
    "failed": "failed",
    "incompatible": "cannot run",
    "difference found": "differences? (?:was|were|is|are) found|differences? found",
    "95 % interval": "intervals?",
    "gradient quotient (GQ)": "gradient quotients?|GQ",
    "saturated": "saturated",
    "Spearman’s ρ": "Spearman[’']s ρ|ρ",
    "regret": "regret(?:@1)?",
    "mean rank": "ranks?",
}
WORDS = [
    Word(name, meaning, "word-" + re.sub(r"\W+", "-", name.lower(), flags=re.ASCII).strip("-"))
    for name, meaning in MEANINGS.items()
]
_GROUPS = {word.anchor.replace("-", "_"): word for word in WORDS}
_ANY = re.compile(
    "|".join(rf"(?P<{group}>\b(?:{_FORMS.get(word.name, f'{word.name}s?')})\b)" for group, word in _GROUPS.items()),
    re.IGNORECASE,
)


class Glossary:
    """Explains each word once, at its first occurrence."""

    def __init__(self) -> None:
        self._explained: set[Word] = set()

    def explain(self, text: str) -> Markup:
        """Return a plain text as HTML with links from new words to their meanings."""
        pieces, end = Markup(), 0
        for match in _ANY.finditer(text):
            word = _GROUPS[str(match.lastgroup)]
            if word not in self._explained:
                self._explained.add(word)
                link = Markup('<a class="term" href="#{}" title="{}">{}</a>')
                pieces += escape(text[end : match.start()]) + link.format(word.anchor, word.meaning, match[0])
                end = match.end()
        return pieces + escape(text[end:])


def words_of(texts: Iterable[str]) -> list[Word]:
    """Return the words in plain texts, in the order of `WORDS`."""
    names = {match.lastgroup for match in _ANY.finditer("\n".join(texts))}
    return [word for group, word in _GROUPS.items() if group in names]
