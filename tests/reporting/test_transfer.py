"""How the best rate changes with the size of networks, from planted searches."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from reports import sentences_of, table_of
from tuned import RATES, noise, tuned_records, tuned_results

from initbench.reporting.questions.overview import overview
from initbench.reporting.questions.transfer import main_transfer, transfer
from initbench.reporting.sized_networks import sized_networks

HEADS = {32: 2, 64: 4, 128: 8}


def records(best, depths=(2,)):
    """Searches of networks of several widths, whose heads follow, with the best rate at `best`(treatment, width)."""
    found = []
    for depth in depths:
        for width, heads in HEADS.items():

            def outcome(at, width=width):
                return 0.2 + 0.05 * math.log10(at.rate / best(at.treatment, width)) ** 2 + 0.5 * noise(at)

            sizes = {"width": width, "heads": heads, "depth": depth}
            found += tuned_records(outcome, ["gpt"], ["mup", "standard"], sizes=sizes)
    return found


def without_other_protocols(every):
    """Return the searches, and the final trials at each cell's own rate."""
    return [
        record if record.spec["phase"] == "search" else replace(record, spec=record.spec | {"protocols": ["own"]})
        for record in every
        if record.spec["phase"] == "search" or "own" in record.spec["protocols"]
    ]


def test_the_exponent_of_a_planted_law():
    results = tuned_results(records(lambda name, width: 0.03 * (1 if name == "mup" else 32 / width)))
    [network] = sized_networks(results)
    assert (network.argument, list(network.sizes.values())) == ("width", [32, 64, 128])
    found = transfer(results)
    rows = found.facts.exponents.set_index("treatment")
    assert rows["exponent"].to_dict() == pytest.approx({"mup": 0.0, "standard": -1.0}, abs=0.05)
    assert rows["at_edge"].sum() == 0
    rates = found.facts.optima.query("treatment == 'standard'").set_index("at")["value_median"]
    assert rates.to_dict() == pytest.approx({32: 0.03, 64: 0.015, 128: 0.0075}, rel=0.1)
    texts = sentences_of(found)
    # Every seed has the same exponent, so that there is no interval to judge it by.
    undecided = "with mup, whether the best rate depends on the width is undecided: its exponent is +0.00, the same at "
    assert any(f"{undecided}each of 3 seeds." in text for text in texts)
    assert any("with standard, the best rate falls as width to the power −0.98" in text for text in texts)
    assert len(found.figures) == 1


def test_the_first_screen_has_the_exponents_in_one_sentence():
    every = records(lambda name, width: 0.03 * (1 if name == "mup" else 32 / width))
    results = tuned_results(every)
    sentence = main_transfer(results)
    assert str(sentence) == (
        "On gpt-2, the best rate is proportional to width to the power +0.00 with mup and −0.98 (−1.01 to −0.95) with "
        "standard."
    )
    assert sentence.bold == ("gpt-2", "mup", "standard")
    assert sentence not in overview(results).sentences  # which say what own rates change
    assert sentence in overview(tuned_results(without_other_protocols(every))).sentences
    assert main_transfer(tuned_results(records(lambda *_: 0.03, depths=(2, 4)))) is None


def test_an_exponent_with_an_interval_around_0_was_not_found_to_differ():
    of_seeds = [
        record
        for seed, exponent in enumerate((0.2, -0.2, 0.1))
        for record in records(lambda _, width, b=exponent: 0.03 * (width / 32) ** b)
        if record.spec["seed"] == seed
    ]
    found = transfer(tuned_results(of_seeds))
    for sentence in found.sentences:
        assert "the best rate was not found to depend on the width: its exponent is +0.0" in str(sentence)
        assert not sentence.is_open


@pytest.mark.parametrize(("seeds", "words"), [(2, "from 2 seeds"), (1, "from 1 seed")])
def test_an_exponent_from_too_few_seeds_is_undecided(seeds, words):
    every = [record for record in records(lambda _, width: 0.03 * 32 / width) if record.spec["seed"] < seeds]
    found = transfer(tuned_results(every))
    for sentence in found.sentences:
        assert "whether the best rate depends on the width is undecided: its exponent is −" in str(sentence)
        assert str(sentence).endswith(f", {words}.")
        assert sentence.is_open


def test_without_a_seed_at_every_size_there_is_no_exponent():
    """Each width of `mup` was run at a seed of its own."""
    seed_of = {width: seed for seed, width in enumerate(HEADS)}
    kept = [
        record
        for record in records(lambda *_: 0.03)
        if record.spec["initializer"]["name"] == "standard"
        or record.spec["seed"] == seed_of[record.spec["architecture"]["arguments"]["width"]]
    ]
    found = transfer(tuned_results(kept))
    assert found.facts.exponents["treatment"].tolist() == ["standard"]
    assert not any("with mup" in text for text in sentences_of(found))


def test_an_optimum_at_the_edge_asks_for_more_rates():
    results = tuned_results(records(lambda name, width: RATES[-1] * 5 if (name, width) == ("mup", 128) else 0.03))
    found = transfer(results)
    rows = found.facts.exponents.set_index("treatment")
    assert rows["at_edge"].to_dict() == {"mup": 3, "standard": 0}
    [text] = [sentence for sentence in found.sentences if "rate tried" in str(sentence)]
    assert str(text).endswith("but in 3 of 9 searches it is the largest rate tried: try larger ones.")
    assert text.is_open
    short = main_transfer(results)
    assert str(short).endswith("; but in 3 of 18 searches it is the smallest or the largest rate tried.")
    assert short.is_open
    assert "at_edge" in table_of(found, "transfer").frame


def test_a_seed_that_one_size_lacks_counts_at_none():
    every = records(lambda name, width: 0.03 * 32 / width)

    def lacks(record):
        return record.spec["architecture"]["arguments"]["width"] == 64 and record.spec["seed"] == 1

    rows = transfer(tuned_results([record for record in every if not lacks(record)])).facts.exponents
    assert rows["seeds"].tolist() == [2, 2]
    without = [record for record in every if record.spec["seed"] != 1]
    assert rows["exponent"].tolist() == transfer(tuned_results(without)).facts.exponents["exponent"].tolist()


def test_width_and_depth_are_sizes_of_their_own():
    results = tuned_results(records(lambda *_: 0.03, depths=(2, 4)))
    found = sorted((network.argument, len(network.sizes)) for network in sized_networks(results))
    assert found == [("depth", 2)] * 3 + [("width", 3)] * 2


def test_without_sizes_or_searches_there_is_no_answer():
    one = [record for record in records(lambda *_: 0.03) if record.spec["architecture"]["arguments"]["width"] == 32]
    assert transfer(tuned_results(one)) is None
