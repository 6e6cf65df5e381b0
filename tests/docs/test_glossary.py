"""The glossary: one entry for each word, in order and short; and one name for each thing."""

from __future__ import annotations

import re
from collections import Counter
from typing import get_args

import pytest
from pages import DOCS

from initbench.ledger import Status
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES, REGISTRIES, SCHEMES, TASKS
from initbench.reporting.page.glossary import MEANINGS

SECTIONS = {
    section.partition("\n")[0]: dict(re.findall(r"^\| (?!word \|)([^|-][^|]*) \| (.+) \|$", section, re.MULTILINE))
    for section in (DOCS / "glossary.md").read_text("utf-8").split("\n## ")[1:]
}
WORDS = [word for section in SECTIONS.values() for word in section]


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_in_order_and_a_meaning_is_short(section):
    words = list(SECTIONS[section])
    assert words == sorted(words, key=lambda word: word.replace("ε", "e").casefold())
    for word, meaning in SECTIONS[section].items():
        assert meaning.endswith("."), word
        assert len(re.findall(r"\.(?= |$)", meaning)) <= 2, word
        assert len(meaning.split()) <= 55, word


def test_a_word_stands_once_and_what_a_trial_can_come_to_stands_there():
    assert {word: count for word, count in Counter(WORDS).items() if count > 1} == {}
    assert {*get_args(Status), "incompatible", "missing", "did not train"} <= set(SECTIONS["Results"])
    assert {registry.kind for registry in REGISTRIES} <= set(WORDS)


@pytest.mark.parametrize(("word", "meaning"), MEANINGS.items())
def test_a_report_explains_a_word_with_the_beginning_of_its_entry(word, meaning):
    entries = {word: text for section in SECTIONS.values() for word, text in section.items()}
    assert entries[word.replace("’", "'")].startswith(meaning.replace("’", "'").removesuffix("."))


def test_a_name_is_that_of_one_thing():
    initializers, probes = set(INITIALIZERS.names()), set(PROBES.names())
    assert not probes & (initializers | {*SCHEMES.names(), *ARCHITECTURES.names(), *DATASETS.names(), *TASKS.names()})
    assert not initializers & {*ARCHITECTURES.names(), *TASKS.names()}


def test_a_scheme_has_the_name_of_the_initializer_that_it_was_made_for():
    shared = set(SCHEMES.names()) & set(INITIALIZERS.names())
    assert shared == {"admin", "deepnorm", "fixup", "skipinit", "weight_norm"}
    assert {name: INITIALIZERS.get(name).traits.scheme for name in shared} == {name: name for name in shared}
