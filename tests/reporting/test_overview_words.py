"""The sentences of the first screen: few, short, what is known first, and no claim that there is none to make."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import BITS, ERROR, R_SQUARED
from planted import (
    FAILED,
    LANGUAGE,
    MEASURED,
    NO_CHANCE,
    REGRESSION,
    TEN_CLASSES,
    planted,
    results_of,
    task_with_chance,
)

from initbench.comparing.names import Name, Names
from initbench.reporting import overview
from initbench.reporting.heat_map import HeatCell, HeatColumn, HeatMap, HeatRow
from initbench.reporting.lead import Lead
from initbench.reporting.questions.overview import MOST_SENTENCES, Cost, Overview, Unknown, overview_sentences
from initbench.reporting.sentence import say
from initbench.reporting.terms import Terms
from initbench.statistics.intervals import Estimate

BROKEN = re.compile(r"  | [.;:]|\b(nan|inf)\b|\bNone\b(?! trains)|\{|\}")
EQUALITY = re.compile(r"\b(equal|equally|identical|no difference|as good as|no better than the|none is ahead)\b")
OPEN = re.compile(r"Not known: |There is only one |No two \w+ ran |Only one \w+ has a result, ")
STATES = ["trained", "untrained", "diverged", "failed", "missing", "incompatible"]
WHAT = ["order", "sizes", "workloads", "shared", "divergence", "metrics", "differences", "seeds", "nothing"]


def check(sentences):
    """Check what holds of the first screen whatever the facts are."""
    assert 1 <= len(sentences) <= MOST_SENTENCES == 5
    for sentence in sentences:
        assert sentence.text.endswith(".")
        assert not BROKEN.search(sentence.text), sentence.text
        assert not EQUALITY.search(sentence.text), sentence.text
        assert all(name in sentence.text for name in sentence.bold)
        assert sentence.is_open == bool(OPEN.match(sentence.text))
    is_open = [sentence.is_open for sentence in sentences]
    assert is_open == sorted(is_open)
    assert not is_open[0]
    return [sentence.text for sentence in sentences]


# Facts at random, each combination of them.


def estimate(generator, n):
    value, half = generator.uniform(0.1, 0.9), generator.uniform(0.01, 0.09)
    return Estimate(value, value - half, value + half, n)


def random_facts(labels, places, metrics, seed, mixture, is_chance_known):
    """Return facts that agree with one another: states at random, who leads, what it costs, what is unknown."""
    generator = np.random.default_rng(seed)
    states = generator.choice(STATES, (len(labels), len(places)), p=mixture)
    names = Names(*({label: Name(label) for label in own} for own in (labels, places)), "network")
    metric_of = {place: metrics[i % len(metrics)] for i, place in enumerate(places)}
    rows, judged = [], []
    for i, label in enumerate(labels):
        cells = [HeatCell(state, trains=state == "trained") for state in states[i]]
        rows.append(HeatRow(names.treatments[label], label, cells))
        for place, state in zip(places, states[i], strict=True):
            if state in {"trained", "untrained", "diverged"}:
                value = math.inf if state == "diverged" else metric_of[place].oriented(generator.uniform())
                chance = 0.9 if is_chance_known else math.nan
                row = {"treatment": label, "workload": place, "outcome": value, "state": state, "chance": chance}
                trained = 3.0 * (state == "trained") if is_chance_known else math.nan
                counts = dict.fromkeys(("trained", "trains"), trained)
                judged.append(row | counts | {"seeds": 3, "diverged": 3 * (state == "diverged")})
    columns = ["treatment", "workload", "outcome", "state", "chance", "trained", "trains", "seeds", "diverged"]
    frame = pd.DataFrame(judged, columns=columns)
    columns = [HeatColumn(names.workloads[place], place) for place in places]
    lead = None
    if len(labels) > 1 and generator.uniform() < 0.7:
        winner, loser = generator.choice(labels, 2, replace=False)
        where = generator.choice(["", "", *places[:2]])
        lead = Lead(winner, loser, where, estimate(generator, 12), is_of_ranks=not where and generator.uniform() < 0.5)
    cost = Cost(generator.choice(labels), 12_345.6, 23_456.0) if generator.uniform() < 0.5 else None
    have = int(generator.integers(1, 41))
    what, more = generator.choice(WHAT), have + int(generator.integers(1, 9000))
    needed = None if what == "sizes" and generator.uniform() < 0.5 else more
    unknown = Unknown(what, have, needed) if generator.uniform() < 0.7 else None
    terms = Terms(metrics[0] if len(metrics) == 1 else None, generator.choice(["initializer", "treatment"]))
    verdicts = {place: [] for place in places}
    trials = pd.DataFrame(columns=["workload", "seed", "treatment", "oriented", "is_trained"])
    results = SimpleNamespace(
        names=names,
        judged=frame,
        cells=frame,
        trials=trials,
        suite_verdicts=verdicts,
        metric_of=metric_of,
        terms=terms,
        tune=None,
    )
    return Overview(results, HeatMap(rows, columns), lead, cost, unknown)


name = st.text("ab_1", min_size=1, max_size=12) | st.text("ab 1=()", max_size=79)
label = name.map(lambda text: " ".join(f"x{text}".split()))
mixtures = [
    (0.9, 0.1, 0, 0, 0, 0),
    (1, 0, 0, 0, 0, 0),
    (0, 1, 0, 0, 0, 0),
    (0, 0, 1, 0, 0, 0),
    (0.2, 0.4, 0.4, 0, 0, 0),
]
mixtures += [(0.3, 0.2, 0.2, 0.1, 0.1, 0.1), (0, 0, 0, 0.5, 0.5, 0), (0.02, 0.49, 0.49, 0, 0, 0)]


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    labels=st.lists(label, min_size=1, max_size=12, unique=True),
    places=st.lists(label, min_size=1, max_size=40, unique=True),
    metrics=st.sampled_from([[ERROR], [R_SQUARED], [BITS], [ERROR, R_SQUARED, BITS]]),
    seed=st.integers(0, 10_000),
    mixture=st.sampled_from(mixtures),
    is_chance_known=st.booleans(),
)
def test_the_first_screen_is_short_whatever_the_facts_and_names_are(
    labels, places, metrics, seed, mixture, is_chance_known
):
    check(overview_sentences(random_facts(labels, places, metrics, seed, mixture, is_chance_known)))


def test_failures_take_two_sentences_and_the_cost_is_left_out_before_the_unknown():
    facts = [
        random_facts(["a", "b", "c"], ["n1", "n2"], [ERROR], seed, (0.4, 0.3, 0.3, 0, 0, 0), True)
        for seed in range(200)
    ]
    full = [f for f in facts if {"untrained", "diverged"} <= f.map.states and f.lead and f.cost and f.unknown]
    assert full
    for texts in (check(overview_sentences(found)) for found in full):
        failing = [text for text in texts[1:3] if re.search(r"do(es)? not train|none trains|diverge", text)]
        assert len(failing) == 2
        assert not any("Initializing by" in text for text in texts)


def test_failures_share_a_sentence_if_claims_and_own_values_take_the_room():
    [found] = [
        f
        for f in (
            random_facts(["a", "b", "c"], ["n1", "n2"], [ERROR], seed, (0.4, 0.3, 0.3, 0, 0, 0), True)
            for seed in range(200)
        )
        if {"untrained", "diverged"} <= f.map.states and f.lead
    ][:1]
    tune = SimpleNamespace(protocol="own", chosen=lambda *_: "each at its own rate", caution=list)
    found = replace(found, claimed=say("One claim holds."), tuned=say("Own rates change little."))
    found.results.tune = tune
    texts = check(overview_sentences(found))
    assert len(texts) == 5
    assert [text for text in texts if "not train" in text or "none trains" in text] == [
        text for text in texts if "diverge" in text
    ]


# Real ledgers.


def of(outcomes, task=TEN_CLASSES, **options):
    return overview(results_of(planted(outcomes, task, **options)))


@pytest.mark.parametrize(("calls", "steps"), [(10, None), (200, 200)])
def test_the_cost_is_said_from_a_tenth_of_the_training_on(calls, steps):
    """One forward pass and one gradient cost what a step does; the training has 168."""
    records = planted({"net": {"a": [0.1], "b": [0.2]}})
    for record in records[:1]:
        record.initialization["cost"] = {"forward": calls, "backward": calls}
    found = overview(results_of(records))
    if steps is None:
        assert found.facts.cost is None
        return
    assert (found.facts.cost.treatment, found.facts.cost.steps, found.facts.cost.training_steps) == ("a", steps, 168)
    assert "Initializing by a costs as much as 200 training steps; training itself has 168." in check(found.sentences)


def test_one_treatment_and_no_outcome():
    found = of({"net": {"a": [0.1, 0.2, 0.15]}})
    assert (found.facts.lead, found.facts.unknown.what, found.facts.unknown.have) == (None, "nothing", 1)
    assert check(found.sentences) == [
        "a trains: 15.0\N{NO-BREAK SPACE}% test error.",
        "There is only one initializer, so nothing is compared.",
    ]
    apart = of({"net0": {"a": [0.1]}, "net1": {"b": [0.1]}})
    assert (apart.facts.unknown.what, apart.facts.unknown.have) == ("nothing", 2)
    assert check(of({"net": {"a": [FAILED], "b": [FAILED]}}).sentences) == [
        "Every trial failed: there is no outcome to compare."
    ]
    assert check(of({"net": {"a": [MEASURED]}}).sentences) == [
        "Nothing was trained: the networks were only measured at initialization."
    ]


def test_without_a_chance_level_nobody_is_called_trained_or_untrained():
    own = {"a": [0.9, 0.91, 0.93], "b": [0.89, 0.92, 0.9]}
    found = of({"net0": own, "net1": own}, NO_CHANCE)
    assert not found.facts.knows_chance
    assert found.facts.map.treatments_in("untrained") == {}
    texts = check(found.sentences)
    assert texts[0].startswith("Median test error goes from ")
    assert not any(" train" in text for text in texts)


outcome = st.sampled_from([None, 0.05, 0.1, 0.4, 0.5, 0.88, 0.9, 0.95, FAILED])
ledger = st.dictionaries(
    st.sampled_from(["plain", "wrn", "vgg"]),
    st.dictionaries(st.sampled_from("abcd"), st.lists(outcome, min_size=1, max_size=4), min_size=1),
    min_size=1,
)


@settings(max_examples=30, deadline=None)
@given(outcomes=ledger, task=st.sampled_from([TEN_CLASSES, NO_CHANCE, LANGUAGE, REGRESSION]))
def test_facts_agree_with_the_map_and_open_sentences_come_last(outcomes, task):
    found = of(outcomes, task)
    states = {
        (row.label, column.label): cell.state
        for row in found.facts.map.rows
        for column, cell in zip(found.facts.map.columns, row.cells, strict=True)
    }
    columns = [column.label for column in found.facts.map.columns]
    for row in found.facts.map.rows:
        assert (row.label in found.facts.everywhere) == all(cell.trains for cell in row.cells)
        assert all(cell.state in {"trained", "diverged"} for cell in row.cells if cell.trains)
        for state, failing in (
            ("untrained", found.facts.map.treatments_in("untrained")),
            ("diverged", found.facts.map.treatments_in("diverged")),
        ):
            assert {column for column in columns if row.label in failing.get(column, ())} == {
                column for column in columns if states[row.label, column] == state
            }
    if found.facts.lead is not None and found.facts.lead.workload:
        assert states[found.facts.lead.winner, found.facts.lead.workload] == "trained"
        assert found.facts.lead.difference.low > 0
    texts = check(found.sentences)
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(("task", "scale"), [(NO_CHANCE, 0.1), (LANGUAGE, 1.0), (REGRESSION, 0.2)], ids=str)
def test_where_cells_differ_by_far_more_than_their_seeds_the_first_sentence_is_no_open_one(task, scale):
    """Four levels, ten times apart what seeds vary by, in another order on each network: no order over networks."""
    generator = np.random.default_rng(0)
    outcomes = {
        f"net{i}": {
            name: list(scale * (1 + k) + 0.1 * scale * generator.uniform(size=3))
            for name, k in zip("abcd", generator.permutation(4), strict=True)
        }
        for i in range(3)
    }
    found = of(outcomes, task)
    assert not found.facts.lead.is_of_ranks
    texts = check(found.sentences)
    assert any(" beats " in text for text in texts)


def first_of(outcomes, task=TEN_CLASSES):
    return overview(results_of(planted(outcomes, task))).sentences[0].text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_values_of_two_initializers_are_in_the_order_of_their_names():
    text = first_of({"mlp": {"alpha": [0.34, 0.34], "beta": [0.24, 0.24], "gamma": [0.9, 0.9]}})
    assert re.search(r"Only beta and alpha train .* at both seeds: 24.0 % and 34.0 % test error\.$", text)
    text = first_of(
        {place: {"alpha": [0.34] * 3, "gamma": [0.9] * 3} for place in ("one", "two")}
        | {"three": {"alpha": [0.24] * 3, "gamma": [0.9] * 3}}
    )
    assert text.endswith("at all 3 seeds: 24.0 to 34.0 % test error.")


def test_nobody_trains_on_a_split_that_cannot_show_it():
    """On six samples of two classes not even an error of 0 is below the 99 % band of guessing."""
    few = task_with_chance(ERROR, 0.5, 0.5 / math.sqrt(6))
    results = results_of(planted({"wrn": {"alpha": [0.5], "beta": [0.5]}}, few))
    answer = overview(results)
    assert answer.sentences[0].text == "The evaluated split of wrn is too small to tell training from guessing."
    assert not any("train wrn" in sentence.text for sentence in answer.sentences)
    assert [row.trains for row in answer.facts.map.rows] == ["–", "–"]


def test_seeds_that_train_are_not_taken_for_seeds_that_fail():
    outcomes = {"mlp": {"alpha": [0.1, 0.1, 0.1], "beta": [0.1, 0.9, 0.9], "gamma": [0.9, 0.9, 0.9]}}
    texts = " ".join(sentence.text for sentence in overview(results_of(planted(outcomes))).sentences)
    assert "(trained at 0 to 1 of 3 seeds)" in texts
    outcomes["mlp"]["beta"][0] = 0.9
    texts = " ".join(sentence.text for sentence in overview(results_of(planted(outcomes))).sentences)
    assert "(0 of 3 seeds)" in texts
