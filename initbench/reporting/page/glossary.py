"""The field's words for a newcomer, one line each: explained where a page first uses them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable


class Word(NamedTuple):
    """A word and what it means.

    Attributes:
        name: as the list of words has it.
        pattern: a regular expression of its forms in a text.
        meaning: one or two short sentences.
    """

    name: str
    pattern: str
    meaning: str

    @property
    def anchor(self) -> str:
        """Its place in the page."""
        return "word-" + re.sub(r"\W+", "-", self.name.lower(), flags=re.ASCII).strip("-")


WORDS = (
    Word("initializer", r"initiali[sz]ers?", "Sets the values of a network’s parameters before training."),
    Word(
        "tuner", r"tuners?", "An initializer that starts from another one and adjusts its values with batches of data."
    ),
    Word(
        "scheme", r"schemes?", "A change of the network itself that some methods need, such as added scalars or gates."
    ),
    Word(
        "treatment", r"treatments?", "What is compared: an initializer, or an initializer together with other settings."
    ),
    Word("workload", r"workloads?", "All that is not compared and is no seed: the network, the data and the recipe."),
    Word("recipe", r"recipes?", "How a network is trained: optimizer, learning rate, number of epochs."),
    Word(
        "shared rate",
        r"shared rates?",
        "One learning rate for all: the best by mean rank, each ranking its own rates on validation data.",
    ),
    Word(
        "own rate",
        r"own (?:best )?rates?",
        "The learning rate that a search of its own found best for a cell, on validation data.",
    ),
    Word("trial", r"trials?", "One network, initialized and trained once."),
    Word("seed", r"seeds?", "The number that fixes everything random in a trial; several seeds are repetitions."),
    Word("ledger", r"ledgers?", "The folder with one file for each trial. Every report is made from ledgers alone."),
    Word(
        "did not train", r"d(?:id|oes|o) not train", "No better than guessing: its median is that of a constant answer."
    ),
    Word(
        "chance level",
        r"chance levels?|guessing",
        "What the best constant answer reaches, without looking at the input.",
    ),
    Word("diverged", r"diverge[sd]?", "The loss became infinite or undefined. It counts as the worst outcome."),
    Word(
        "failed",
        r"failed",
        "The trial ended by an error. It is in no statistic; running the suite again tries it again.",
    ),
    Word("cannot run", r"cannot run", "The network lacks what the method needs, so that the pair was never run."),
    Word(
        "told apart", r"tell apart|told apart|can be told", "The difference is larger than other seeds would explain."
    ),
    Word("interval", r"intervals?", "The range that holds the true value in 95 of 100 studies such as this one."),
    Word("probe", r"probes?", "A measurement of the network before any training step."),
    Word(
        "gradient quotient",
        r"gradient quotients?|GQ",
        "How much one gradient step changes the gradient, measured before training. Small values mean a smooth start.",
    ),
    Word("saturated", r"saturated", "So little gradient is left that the quotient is near 1, whatever the curvature."),
    Word(
        "Spearman’s ρ", r"Spearman[’']s ρ|ρ", "How well two orders agree: 1 is the same order, 0 none, −1 the opposite."
    ),
    Word("regret", r"regret(?:@1)?", "What is lost by training only the treatment that a measurement prefers."),
    Word(
        "rank", r"ranks?", "Place among the treatments of one workload, 1 for the best; equal ones share their places."
    ),
)


class Glossary:
    """Explains each word once, where it first stands."""

    def __init__(self) -> None:
        self._left = {word.anchor: word for word in WORDS}

    def explain(self, text: str) -> Markup:
        """Return a text as HTML in which words that were not met before lead to their meaning.

        Args:
            text: plain.
        """
        found: list[str] = []
        end = 0
        while match := self._next(text, end):
            word = self._left.pop(str(match.lastgroup).replace("_", "-"))
            found.append(str(escape(text[end : match.start()])))
            found.append(f'<a class="term" href="#{word.anchor}" title="{escape(word.meaning)}">{escape(match[0])}</a>')
            end = match.end()
        return Markup("".join(found)) + text[end:]  # noqa: S704  # every piece is escaped

    def _next(self, text: str, start: int) -> re.Match[str] | None:
        forms = [f"(?P<{anchor.replace('-', '_')}>{word.pattern})" for anchor, word in self._left.items()]
        return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)", re.IGNORECASE).search(text, start) if forms else None


def words_of(texts: Iterable[str]) -> list[Word]:
    """Return the words that stand in any of these texts.

    Args:
        texts: plain.
    """
    whole = "\n".join(texts)
    return [word for word in WORDS if re.search(rf"(?<!\w)(?:{word.pattern})(?!\w)", whole, re.IGNORECASE)]
