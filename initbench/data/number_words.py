"""The words of numbers in English and in German: a translation task that needs no files."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from initbench.data.dataset import Splits
from initbench.data.prepare import SPLIT_SEED, check_split_sizes
from initbench.data.sentence_pairs import SentencePairs, before_end
from initbench.errors import ArgumentError
from initbench.inputs import END, Inputs
from initbench.registry import Description, register_dataset

NUMBERS = 1_000_000
_ENGLISH_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
"""
_GERMAN_WORDS = """
null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn
neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend und eins
"""
ENGLISH = tuple(_ENGLISH_WORDS.split())
"""The source tokens, in the order of their ids, after `PAD` and `END`."""
GERMAN = tuple(_GERMAN_WORDS.split())
"""The target tokens, likewise: the parts of the one word that a German number is."""
_NUMBERED = 20  # the first words have the numbers from 0; the tens follow
_RESERVED = END + 1
_POSITIONS = 12
"""Tokens of ``neunhundertneunundneunzigtausendneunhundertneunundneunzig`` with the end of the sentence."""


def english(number: int) -> list[str]:
    """Return the words of a number from 0 to 999,999, without "and" and hyphens: one hundred twenty one."""
    if number == 0:
        return ["zero"]
    thousands, rest = divmod(number, 1000)
    return ([*_english_hundreds(thousands), "thousand"] if thousands else []) + _english_hundreds(rest)


def _english_hundreds(number: int) -> list[str]:
    hundreds, rest = divmod(number, 100)
    words = [ENGLISH[hundreds], "hundred"] if hundreds else []
    if rest >= _NUMBERED:
        words.append(_ten(ENGLISH, rest))
        rest %= 10
    return words + ([ENGLISH[rest]] if rest else [])


def german(number: int) -> list[str]:
    """Return the parts of the word of a number from 0 to 999,999: zwei·tausend·ein·hundert·ein·und·zwanzig.

    The unit comes before the ten. A hundred and a thousand always have their number, as in ``einhunderteins``; a 1 at
    the end is ``eins``.
    """
    if number == 0:
        return ["null"]
    thousands, rest = divmod(number, 1000)
    parts = ([*_german_hundreds(thousands), "tausend"] if thousands else []) + _german_hundreds(rest)
    return [*parts[:-1], "eins"] if parts[-1] == "ein" else parts


def _german_hundreds(number: int) -> list[str]:
    hundreds, rest = divmod(number, 100)
    parts = [GERMAN[hundreds], "hundert"] if hundreds else []
    if rest < _NUMBERED:
        return parts + ([GERMAN[rest]] if rest else [])
    return [*parts, *([GERMAN[rest % 10], "und"] if rest % 10 else []), _ten(GERMAN, rest)]


def _ten(words: tuple[str, ...], number: int) -> str:
    return words[_NUMBERED + number // 10 - 2]


def _describe(**sizes: int) -> Description:
    check_split_sizes(**sizes)
    if sum(sizes.values()) > NUMBERS:
        others = sum(sizes.values()) - sizes["train_size"]
        raise ArgumentError(
            f"must be at most {NUMBERS - others:,}, since there are {NUMBERS:,} numbers in all splits together, "
            f"got {sizes['train_size']:,}",
            "train_size",
        )
    return Description(Inputs((2, _POSITIONS), len(ENGLISH) + _RESERVED), len(GERMAN) + _RESERVED)


@register_dataset("number_words", task="translation", describe=_describe)
def number_words(train_size: int = 20_000, *, validation_size: int = 500, test_size: int = 1_000) -> Splits:
    """The numbers from 0 to 999,999 in English words, translated into German ones; generated, no file is read.

    "twenty one thousand three hundred five" becomes "einundzwanzigtausenddreihundertfünf". German puts the unit before
    the ten, so the order changes. A source token is a word; a target token is a part of the German word, such as
    ``ein``, ``und``, ``zwanzig``. English is without "and" and hyphens; German says ``einhundert`` and ``eintausend``.
    The splits are disjoint, drawn uniformly, and the same for every trial.

    Args:
        train_size: training numbers; smaller training splits are parts of larger ones.
        validation_size: validation numbers; may be 0.
        test_size: test numbers.
    """
    order = torch.randperm(NUMBERS, generator=torch.Generator().manual_seed(SPLIT_SEED)).tolist()
    held_out = test_size + validation_size
    parts = order[held_out : held_out + train_size], order[test_size:held_out], order[:test_size]
    return Splits(*map(_split, parts), detokenize=_text)


def _split(numbers: Iterable[int]) -> SentencePairs:
    sides = ((english, ENGLISH), (german, GERMAN))
    rows = []
    for words, tokens in sides:
        ids = {token: index for index, token in enumerate(tokens, start=_RESERVED)}
        rows.append([[ids[word] for word in words(number)] for number in numbers])
    return SentencePairs.of(rows[0], rows[1], _POSITIONS)


def _text(tokens: Iterable[int]) -> str:
    return "".join(GERMAN[token - _RESERVED] for token in before_end(tokens))
