"""The words of numbers: against a table, and read back by an independent parser."""

from __future__ import annotations

import re

import pytest

from initbench.data import describe_dataset, load_dataset
from initbench.data.number_words import ENGLISH, GERMAN, english, german
from initbench.errors import ArgumentError
from initbench.inputs import END, PAD, Inputs

# By hand.
TABLE = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    6: ("six", "sechs"),
    7: ("seven", "sieben"),
    10: ("ten", "zehn"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    66: ("sixty six", "sechsundsechzig"),
    77: ("seventy seven", "siebenundsiebzig"),
    100: ("one hundred", "einhundert"),
    101: ("one hundred one", "einhunderteins"),
    111: ("one hundred eleven", "einhundertelf"),
    121: ("one hundred twenty one", "einhunderteinundzwanzig"),
    1000: ("one thousand", "eintausend"),
    1001: ("one thousand one", "eintausendeins"),
    1100: ("one thousand one hundred", "eintausendeinhundert"),
    21_300: ("twenty one thousand three hundred", "einundzwanzigtausenddreihundert"),
    100_000: ("one hundred thousand", "einhunderttausend"),
    101_000: ("one hundred one thousand", "einhunderteintausend"),
    101_101: ("one hundred one thousand one hundred one", "einhunderteintausendeinhunderteins"),
    999_999: (
        "nine hundred ninety nine thousand nine hundred ninety nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
}
UNITS = ["", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
UNITS += ["dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"]
TENS = ["", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
HUNDREDS = re.compile(
    rf"(?:(?P<hundreds>{'|'.join(UNITS[1:10])})hundert)?"
    rf"(?:(?:(?P<unit>{'|'.join(UNITS[1:10])})und)?(?P<ten>{'|'.join(TENS[2:])})"
    rf"|(?P<small>{'|'.join(sorted(UNITS[1:], key=len, reverse=True))}))?"
)


def parsed(word):
    """The number of a German word, by a regular expression."""
    if word == "null":
        return 0
    thousands, has_thousands, rest = word.rpartition("tausend")
    return 1000 * (below_1000(thousands) if has_thousands else 0) + below_1000(re.sub("eins$", "ein", rest))


def below_1000(word):
    match = HUNDREDS.fullmatch(word)
    assert match, word
    parts = {name: part or "" for name, part in match.groupdict().items()}
    small = UNITS.index(parts["small"]) + UNITS.index(parts["unit"])
    return 100 * UNITS.index(parts["hundreds"]) + 10 * TENS.index(parts["ten"]) + small


@pytest.mark.parametrize("number", TABLE)
def test_words_of_the_table(number):
    assert (" ".join(english(number)), "".join(german(number))) == TABLE[number]


def test_every_word_is_that_of_its_number_alone():
    numbers = [*range(1200), *range(9_900, 1_000_000, 701)]
    for number in numbers:
        assert parsed("".join(german(number))) == number
    assert len({" ".join(english(number)) for number in numbers}) == len(numbers)
    assert {word for number in numbers for word in english(number)} == set(ENGLISH)
    assert {part for number in numbers for part in german(number)} == set(GERMAN)


@pytest.fixture(scope="module")
def data():
    return load_dataset("number_words", {})


def texts(dataset, split):
    return [dataset.splits.detokenize(row) for row in split.targets.tolist()]


def test_splits_are_disjoint_and_true(data):
    assert (data.task, data.inputs, data.outputs) == ("translation", Inputs((2, 12), 32), 34)
    splits = [data.train, data.validation, data.test]
    assert [len(split) for split in splits] == [20_000, 500, 1_000]
    for side in ("source", "targets"):
        assert len({tuple(row) for split in splits for row in getattr(split, side).tolist()}) == 21_500
    for split in splits:
        part = [parsed(word) for word in texts(data, split)[:1000]]
        for row, number in zip(split.source.tolist(), part, strict=False):
            words = [ENGLISH[token - 2] for token in row[: row.index(END)]]
            assert words == english(number)
            assert set(row[row.index(END) + 1 :]) <= {PAD}
        # Uniform: a mean of n numbers has the deviation 288,675 / √n.
        assert abs(sum(part) / len(part) - 499_999.5) < 4 * 288_675 / len(part) ** 0.5


def test_the_longest_numbers_fill_all_positions(data):
    assert int(data.train.lengths.max()) == 12
    inputs, targets = data.train.take(data.train.lengths.argmax()[None])
    assert (inputs.shape, targets.shape) == ((1, 2, 12), (1, 12))


def test_a_smaller_training_split_is_part_of_a_larger_one_and_leaves_the_others(data):
    small = load_dataset("number_words", {"train_size": 50})
    assert texts(small, small.train) == texts(data, data.train)[:50]
    assert texts(small, small.test) == texts(data, data.test)


def test_text_ends_where_the_sentence_does(data):
    detokenize = data.splits.detokenize
    ids = [GERMAN.index(part) + 2 for part in ("ein", "und", "zwanzig")]
    assert detokenize([*ids, END, ids[0], PAD]) == detokenize(ids) == "einundzwanzig"
    assert detokenize([END]) == ""


@pytest.mark.parametrize(
    ("argument", "sizes"),
    [
        ("train_size", {"train_size": 0}),
        ("test_size", {"test_size": 0}),
        ("validation_size", {"validation_size": -1}),
        ("train_size", {"train_size": 998_501}),
    ],
)
def test_sizes_that_cannot_be(argument, sizes):
    with pytest.raises(ArgumentError) as refusal:
        describe_dataset("number_words", sizes)
    assert refusal.value.argument == argument
    assert len(load_dataset("number_words", {"train_size": 10, "validation_size": 0}).validation) == 0
