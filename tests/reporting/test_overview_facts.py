"""The facts of the first screen, and those behind it, on ledgers whose truth is planted."""

import numpy as np
import pytest
from planted import FAILED, LANGUAGE, REGRESSION, TEN_CLASSES, planted, results_of

from initbench.reporting import compare, overview, predict


def of(outcomes, task=TEN_CLASSES, **options):
    return overview(results_of(planted(outcomes, task, **options)))


def said(*analyses):
    """Return all sentences of analyses."""
    sentences = [sentence for analysis in analyses for sentence in analysis.sentences]
    assert sentences
    return [sentence.text for sentence in sentences]


def networks(number, of_network):
    """Return an entry for each of so many networks, by its number."""
    return {f"net{i}": of_network(i) for i in range(number)}


def noisy(seed=0):
    """Return what draws outcomes around a value: an error per seed, with a standard deviation of 0.005."""
    generator = np.random.default_rng(seed)
    return lambda value, seeds=3, spread=0.005: list(value + spread * generator.standard_normal(seeds))


# A clear winner.


def test_a_clear_winner_over_many_networks_leads_by_ranks():
    draw = noisy()
    found = of(networks(8, lambda i: {name: draw(0.1 + 0.03 * i + 0.05 * k) for k, name in enumerate("abcd")}))
    assert found.facts.everywhere == ("a", "b", "c", "d")
    assert (found.facts.map.treatments_in("untrained"), found.facts.map.treatments_in("diverged")) == ({}, {})
    assert found.facts.unknown is None
    lead = found.facts.lead
    assert (lead.winner, lead.loser, lead.workload, lead.is_of_ranks) == ("a", "d", "", True)
    assert lead.difference.value == 3  # first of four on every network, and last
    assert lead.difference.n == 8
    texts = said(found, compare(found.facts.results))
    assert texts[0].startswith("All 4 initializers train all 8 networks at all 3 seeds: ")
    assert texts[1].startswith("Over 8 networks, a ranks first, ahead of d by 3.0 ranks (")
    assert compare(found.facts.results).facts.ranking.treatments == ["a", "b", "c", "d"]


def test_a_network_that_is_not_ranked_takes_nothing_from_the_lead():
    draw = noisy()
    outcomes = networks(10, lambda _: {name: draw(0.1 + 0.1 * k) for k, name in enumerate("abc")})
    before = of(outcomes).facts.lead
    crashed = {"a": draw(0.1), "b": draw(0.2), "c": [FAILED] * 3}
    found = of(outcomes | {"other": crashed})
    assert found.facts.lead == before
    assert said(found)[1].startswith("Over 10 networks, a ranks first, ahead of c by 2.0 ranks (")
    # One that does not train on a network that is ranked is none to be ahead of.
    found = of(outcomes | {"other": crashed | {"c": draw(0.9)}})
    assert (found.facts.lead.loser, found.facts.lead.difference.n) == ("b", 11)


def test_two_that_share_the_first_rank_share_the_lead():
    draw = noisy()
    found = of(networks(8, lambda i: {name: draw(0.1 + 0.1 * k) for k, name in enumerate("abcd" if i % 2 else "bacd")}))
    lead = found.facts.lead
    assert (lead.winner, lead.tied, lead.loser, lead.difference.value) == ("a", ("b",), "d", 2.5)
    first, second = found.sentences[1], compare(found.facts.results).sentences[0]
    assert first.text.startswith("Over 8 networks, a and b share the first rank, ahead of d by 2.5 ranks (")
    assert second.text.startswith("a and b share the first rank over 8 networks, ahead of d by 2.50 ranks (")
    assert first.bold == second.bold == ("a", "b")


def test_a_clear_winner_on_two_networks_leads_where_its_seeds_say_so():
    draw = noisy()
    found = of(networks(2, lambda i: {"a": draw(0.1), "b": draw(0.3 + 0.15 * i), "c": draw(0.2)}))
    lead = found.facts.lead
    assert (lead.winner, lead.loser, lead.workload) == ("a", "b", "net1")
    assert lead.difference.value == pytest.approx(0.35, abs=0.02)
    assert lead.difference.low > 0.25
    assert (found.facts.unknown.what, found.facts.unknown.have) == ("order", 2)


def test_a_difference_is_named_among_those_that_train_alone():
    draw = noisy()
    found = of({"net": {"a": draw(0.1), "b": draw(0.3), "c": draw(0.6), "d": draw(0.9)}})
    assert (found.facts.lead.winner, found.facts.lead.loser) == ("a", "b")  # c does not come half of the way
    found = of({"net": {"a": draw(0.1), "c": draw(0.9)}})
    assert found.facts.lead is None
    assert found.facts.everywhere == ("a",)
    assert found.facts.map.treatments_in("untrained") == {"net": ("c",)}
    assert said(found)[:2] == [
        f"Only a trains net at all 3 seeds: {found.facts.map.rows[0].cells[0].text} test error.",
        "c does not train (0 of 3 seeds): guessing gives 90.0\N{NO-BREAK SPACE}%.",
    ]


def test_two_initializers_are_told_over_networks_where_no_network_tells():
    """On each, seeds vary by more than the difference; over 12 networks it is plain."""
    draw = noisy(3)
    found = of(networks(12, lambda i: {"a": draw(0.1 + 0.03 * i), "b": draw(0.11 + 0.03 * i)}))
    lead = found.facts.lead
    assert (lead.winner, lead.loser, lead.workload, lead.is_of_ranks) == ("a", "b", "", False)
    assert lead.difference.value == pytest.approx(0.01, abs=0.004)
    assert 0 < lead.difference.low < 0.01 < lead.difference.high
    assert lead.difference.n == 12
    assert found.facts.unknown is None
    texts = said(found)
    assert texts[0].startswith("Both initializers train all 12 networks at all 3 seeds: ")
    assert texts[1].startswith("Over 12 networks, a beats b by ")
    assert compare(found.facts.results).facts.against[0][1]["b"].difference.value == pytest.approx(
        lead.difference.value
    )


def test_one_seed_each_tells_over_many_networks_and_nothing_over_two():
    draw = noisy()
    many = of(networks(10, lambda _: {name: draw(0.1 + 0.1 * k, 1) for k, name in enumerate("abc")}))
    assert (many.facts.lead.winner, many.facts.lead.is_of_ranks) == ("a", True)
    assert many.facts.unknown is None  # what ranks tell is more than chance
    two = of(networks(2, lambda _: {name: draw(0.1 + 0.1 * k, 1) for k, name in enumerate("abc")}))
    assert two.facts.lead is None
    assert (two.facts.unknown.what, two.facts.unknown.have, two.facts.unknown.needed) == ("seeds", 1, 3)


# A tie.


@pytest.mark.parametrize("treatments", ["ab", "abc", "abcdef"])
@pytest.mark.parametrize(("number", "seed"), [(1, 0), (2, 1), (6, 2)])
def test_a_tie_has_no_leader_and_says_so(treatments, number, seed):
    draw = noisy(seed)
    found = of(networks(number, lambda i: {name: draw(0.1 + 0.05 * i) for name in treatments}))
    assert found.facts.lead is None
    assert found.facts.everywhere
    assert set(found.facts.everywhere) == set(treatments)
    of_two = "workloads" if number == 2 else "sizes"  # two differences have no interval
    what = "differences" if number == 1 else of_two if len(treatments) == 2 else "order"
    assert (found.facts.unknown.what, found.facts.unknown.have) == (what, number)
    *closed, last = found.sentences
    assert not any(sentence.is_open for sentence in closed)
    assert last.is_open
    assert last.text.startswith("Not known: ")
    said(found, compare(found.facts.results))


def test_two_networks_are_too_few_and_a_diverged_trial_leaves_no_mean():
    draw = noisy(0)
    two = networks(2, lambda i: {name: draw(0.1 + 0.05 * i) for name in "ab"})
    assert of(two).sentences[-1].text == (
        "Not known: which initializer is better over networks; 2 networks are too few, and at least 3 are needed."
    )
    two["net0"]["a"][0] = None
    text = of(two).sentences[-1].text
    assert text == (
        "Not known: which initializer is better over networks; there is no mean difference because trials diverged, "
        "and more networks would be needed."
    )


def test_what_is_too_few_has_a_unit():
    draw = noisy(2)
    text = of(networks(6, lambda i: {name: draw(0.1 + 0.05 * i) for name in "ab"})).sentences[-1].text
    assert text.startswith("Not known: an order of the initializers over networks; 6 networks are too few, and ")


def test_two_that_share_one_of_several_networks_need_more_seeds_or_networks():
    draw = noisy(0)
    found = of({"net0": {"a": draw(0.1), "b": draw(0.1)}, "net1": {"a": draw(0.1)}, "net2": {"b": draw(0.1)}})
    assert (found.facts.unknown.what, found.facts.unknown.have) == ("shared", 1)
    assert found.sentences[-1].text == (
        "Not known: which initializer is better over networks; the two share only one network, and more seeds or "
        "networks are needed."
    )


def test_a_tie_over_enough_networks_says_how_many_would_tell():
    draw = noisy(5)
    found = of(networks(12, lambda _: {name: draw(0.1) for name in "abc"}))
    assert (found.facts.unknown.what, found.facts.unknown.have) == ("sizes", 12)
    assert found.facts.unknown.needed is None or found.facts.unknown.needed > 12


# An interaction: best on one, worst on another.


def test_an_interaction_has_no_leader_over_networks_and_one_on_the_clearest():
    draw = noisy()
    levels = {"net0": {"a": 0.1, "b": 0.2, "c": 0.3}, "net1": {"a": 0.5, "b": 0.2, "c": 0.3}}
    found = of({net: {name: draw(value) for name, value in own.items()} for net, own in levels.items()})
    assert set(found.facts.everywhere) == set("abc")
    lead = found.facts.lead
    assert (lead.winner, lead.loser, lead.workload) == ("b", "a", "net1")
    assert lead.difference.value == pytest.approx(0.3, abs=0.02)
    assert found.facts.unknown.what == "order"
    best = {
        column.label: {row.label for row in found.facts.map.rows if row.cells[i].is_best}
        for i, column in enumerate(found.facts.map.columns)
    }
    assert best == {"net0": {"a"}, "net1": {"b"}}
    texts = said(found, compare(found.facts.results))
    assert any(text.startswith("On net1, b beats a by ") for text in texts)
    assert not any("ranks first" in text for text in texts)


def test_an_interaction_of_two_over_many_networks_is_no_lead_over_networks():
    draw = noisy()
    found = of(networks(10, lambda i: {"a": draw(0.1 + 0.3 * (i % 2)), "b": draw(0.4 - 0.3 * (i % 2))}))
    assert found.facts.lead.workload in {f"net{i}" for i in range(10)}
    even = int(found.facts.lead.workload[3:]) % 2 == 0
    assert (found.facts.lead.winner, found.facts.lead.loser) == (("a", "b") if even else ("b", "a"))
    assert (found.facts.unknown.what, found.facts.unknown.have) == ("sizes", 10)


# All at chance, and one camp diverged.


@pytest.mark.parametrize(("task", "chance"), [(TEN_CLASSES, 0.9), (REGRESSION, 0.0), (LANGUAGE, 4.0)], ids=str)
def test_all_at_chance(task, chance):
    draw = noisy()
    found = of(networks(3, lambda _: {name: draw(chance, spread=0.003) for name in "abc"}), task)
    assert found.facts.everywhere == ()
    assert max(found.facts.trained.values()) == 0
    assert found.facts.map.treatments_in("untrained") == {f"net{i}": ("a", "b", "c") for i in range(3)}
    assert found.facts.lead is None
    texts = said(found)
    level = found.facts.results.metrics[task["primary"]].brief(chance)
    assert texts[0] == f"Nothing trains: none of the 9 cells is better than guessing, {level}."
    assert not any("none trains" in text for text in texts)  # it is said once
    assert not any(cell.is_best for cell in found.facts.map.cells)


def test_a_difference_of_two_that_did_not_train_is_no_lead():
    """Far apart, by seeds that hardly vary, and both worse than guessing."""
    found = of({"net": {"a": [0.901, 0.902, 0.903], "b": [0.951, 0.953, 0.952]}})
    assert found.facts.lead is None
    assert found.facts.map.treatments_in("untrained") == {"net": ("a", "b")}


def test_one_camp_diverged():
    draw = noisy()
    outcomes = networks(6, lambda _: {"a": draw(0.1), "b": draw(0.2), "c": [None] * 3, "d": [None, None, 0.1]})
    found = of(outcomes)
    assert found.facts.everywhere == ("a", "b")
    assert found.facts.map.treatments_in("diverged") == {f"net{i}": ("c", "d") for i in range(6)}
    assert found.facts.map.treatments_in("untrained") == {}
    assert (found.facts.lead.winner, found.facts.lead.loser) == ("a", "b")  # of those that train
    texts = said(found, compare(found.facts.results))
    assert texts[0].startswith("Only a and b train all 6 networks at all 3 seeds: ")
    assert texts[1] == "On all 6 networks, c and d diverge (2 to 3 of 3 seeds)."


def test_all_diverged():
    found = of(networks(2, lambda _: {"a": [None] * 3, "b": [None] * 3}))
    assert found.facts.lead is None
    assert said(found)[0] == "Nothing trains: all 4 cells diverge."
    mixed = of({"net0": {"a": [None], "b": [0.9]}, "net1": {"a": [None], "b": [None]}})
    assert said(mixed)[:3] == [
        "Nothing trains: none of the 4 cells is better than guessing.",
        "On net0, b does not train: guessing gives 90.0\N{NO-BREAK SPACE}%.",
        "On net0, a diverges; on net1, all diverge.",
    ]


def test_who_fails_where():
    draw = noisy()
    outcomes = {
        "net0": {"a": draw(0.1), "b": draw(0.9), "c": [None] * 3},
        "net1": {"a": draw(0.1), "b": draw(0.1), "c": draw(0.1)},
        "net2": {"a": draw(0.9), "b": draw(0.1), "c": [FAILED] * 3},
    }
    found = of(outcomes)
    assert found.facts.everywhere == ()
    assert found.facts.trained == {"b": 2, "a": 2, "c": 1}
    assert found.facts.map.treatments_in("untrained") == {"net0": ("b",), "net2": ("a",)}
    assert found.facts.map.treatments_in("diverged") == {"net0": ("c",)}
    texts = said(found)
    assert texts[0] == "No initializer trains all 3 networks at all 3 seeds; b and a train 2 of 3, the most."
    assert "c diverges" in " ".join(texts)


def test_who_was_not_run_everywhere_but_trains_wherever_it_was():
    draw = noisy()
    outcomes = {f"net{i}": {"a": draw(0.1), "b": draw(0.9 if i == 3 else 0.1)} for i in range(4)}
    outcomes["net3"]["a"] = draw(0.9)
    for i in range(2):
        outcomes[f"net{i}"]["c"] = draw(0.2)
    found = of(outcomes)
    assert found.facts.wherever_run == {"c": 2}
    assert (
        said(found)[0] == "No initializer trains all 4 networks at all 3 seeds; b and a train 3 of 4, the most, "
        "and c all 2 that it ran on."
    )
    outcomes["net3"]["d"], outcomes["net2"]["d"] = draw(0.3), draw(0.3)
    assert said(of(outcomes))[0].endswith("train 3 of 4, the most, and d and c all on which they ran.")
    outcomes["net2"]["c"] = outcomes["net3"]["d"] = [FAILED] * 3
    assert of(outcomes).facts.wherever_run == {}


# Simpson's case.


def test_simpsons_case_of_treatments():
    """A has most of its seeds on the easy networks, so that its pooled mean is far better; on each it is worse."""
    draw = noisy(1)
    easy, hard = {"a": draw(0.12, 9), "b": draw(0.10, 3)}, {"a": draw(0.52, 3), "b": draw(0.50, 9)}
    outcomes = networks(8, lambda i: easy if i % 2 else hard)
    pooled = {name: np.mean(np.concatenate([own[name] for own in outcomes.values()])) for name in "ab"}
    assert pooled["a"] < pooled["b"] - 0.1
    found = of(outcomes)
    assert (found.facts.lead.winner, found.facts.lead.loser) == ("b", "a")
    assert found.facts.lead.difference.value == pytest.approx(0.02, abs=0.01)
    compared = compare(found.facts.results)
    assert compared.facts.ranking.treatments == ["b", "a"]
    assert compared.facts.against[0][1]["a"].side == 1
    assert not any("a beats b" in text or "a ranks first" in text for text in said(found, compared))


def test_simpsons_case_of_a_probe():
    """On each network a higher value goes with a higher error; networks with higher values have lower errors."""
    names, draw = "abcdefgh", noisy()
    level = {f"net{i}": i for i in range(4)}
    errors = {net: {name: 0.6 - 0.15 * i + 0.01 * k for k, name in enumerate(names)} for net, i in level.items()}
    quotients = {(net, name): 10.0 * i + k + 1 for net, i in level.items() for k, name in enumerate(names)}
    flat = [(errors[net][name], quotients[net, name]) for net, name in quotients]
    assert np.corrcoef(*zip(*flat, strict=True))[0, 1] < -0.9
    outcomes = {net: {name: draw(value, spread=0.001) for name, value in own.items()} for net, own in errors.items()}
    results = results_of(planted(outcomes, quotients=quotients, probes=("gradient_quotient",)))
    predicted = predict(results)
    [probe] = predicted.facts.probes
    assert probe.rho.value > 0.9
    assert probe.test.statistic > 0.9
    texts = said(predicted)
    assert texts[0].startswith("The higher the gradient quotient, the higher the test error: ρ = +")


# Several tasks.


def test_several_tasks_are_each_judged_by_their_own_metric():
    draw = noisy()
    tasks = {"cnn": TEN_CLASSES, "mlp": REGRESSION, "transformer": LANGUAGE}
    outcomes = {
        "cnn": {"a": draw(0.1), "b": draw(0.2), "c": draw(0.9)},
        "mlp": {"a": draw(0.9), "b": draw(0.5), "c": draw(0.0, spread=0.001)},
        "transformer": {"a": draw(2.0), "b": draw(2.8), "c": draw(4.0, spread=0.001)},
    }
    found = of(outcomes, tasks)
    assert found.facts.everywhere == ("a", "b")
    places = {
        found.facts.results.names.workload(label): names
        for label, names in found.facts.map.treatments_in("untrained").items()
    }
    assert places == dict.fromkeys(tasks, ("c",))
    assert (found.facts.lead.winner, found.facts.lead.loser) == ("a", "b")
    assert found.facts.results.names.workload(found.facts.lead.workload) in tasks
    texts = said(found, compare(found.facts.results))
    assert texts[0] == "Only a and b train all 3 workloads at all 3 seeds."
    assert texts[1] == "On all 3 workloads, c does not train (0 of 3 seeds), no better than guessing."


def test_two_treatments_over_several_metrics_have_no_difference_over_all():
    draw = noisy()
    tasks = {"cnn": TEN_CLASSES, "transformer": LANGUAGE}
    found = of({"cnn": {"a": draw(0.1), "b": draw(0.1)}, "transformer": {"a": draw(2.0), "b": draw(2.0)}}, tasks)
    assert found.facts.lead is None
    assert (found.facts.unknown.what, found.facts.unknown.have) == ("metrics", 2)
    said(found)


@pytest.mark.parametrize(
    ("task", "better", "worse", "text"),
    [
        (TEN_CLASSES, 0.2, 0.5, "points"),
        (REGRESSION, 0.6, 0.4, "in test R²"),
        (LANGUAGE, 2.0, 2.4, "bits"),
    ],
    ids=["lower", "higher", "no best value"],
)
def test_the_direction_of_the_lead(task, better, worse, text):
    draw = noisy()
    found = of({"net": {"a": draw(worse), "b": draw(better), "c": draw(better)}}, task)
    assert found.facts.lead.winner in {"b", "c"}
    assert found.facts.lead.loser == "a"
    assert found.facts.lead.difference.value == pytest.approx(
        abs(worse - better), abs=0.02
    )  # positive, whatever the direction
    [sentence] = [sentence for sentence in said(found) if " beats a by " in sentence]
    assert text in sentence
    assert "-" not in sentence.split(" by ")[1]
