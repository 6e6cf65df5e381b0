"""The report of a tuned suite: what is compared, and what own rates change."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from ledgers import write_ledger
from planted import planted, results_of
from reports import sentences_of, table_of
from tuned import KEY, RATES, cells_of, curved, flat, noise, tuned_records, tuned_results

from initbench.errors import InitbenchError
from initbench.reporting.page.json import render_json
from initbench.reporting.page.latex import render_latex
from initbench.reporting.page.markdown import render_markdown
from initbench.reporting.questions.comparison import compare
from initbench.reporting.questions.overview import overview
from initbench.reporting.questions.protocols import main_change, protocols
from initbench.reporting.questions.stable_rates import stable_rates
from initbench.reporting.questions.tunability import tunability
from initbench.reporting.report import contents_of, write_report
from initbench.reporting.results import read_results

BEST = {"low": 0.01, "middle": 0.1, "high": 0.316}
FLOORS = {"low": 0.08, "middle": 0.12, "high": 0.16}


def family(at):
    """Each treatment has a best rate of its own; at it, `low` is the best, at the recipe's and shared ones `middle`."""
    return min(0.9, curved(BEST[at.treatment], FLOORS[at.treatment], 0.08)(at.rate) + noise(at))


@pytest.fixture(scope="module")
def planted_family():
    return tuned_results(tuned_records(family, ["net", "other", "third"], list(BEST), seeds=4, written=0.316))


# --- what is compared


def test_one_final_trial_of_each_cell_and_seed_is_compared_that_at_its_own_rate(planted_family):
    trials = planted_family.trials
    assert len(trials) == trials.drop_duplicates(["workload", "treatment", "seed"]).shape[0] == 3 * 3 * 4
    assert {name: set(own["recipe.lr"]) for name, own in trials.groupby("treatment")} == {
        name: {rate} for name, rate in BEST.items()
    }
    # Seeds that chose differently are replicates all the same.
    assert set(trials["treatment"]) == set(BEST)
    assert set(trials["workload"]) == {"net", "other", "third"}


def test_seeds_that_chose_differently_are_one_cell():
    def outcome(at):
        return 0.1 + 0.05 * abs(math.log10(at.rate / RATES[at.seed + 1]))

    results = tuned_results(tuned_records(outcome, ["net"], ["a", "b"]))
    assert sorted(results.trials["recipe.lr"]) == sorted(2 * RATES[1:4])
    assert list(results.cells["seeds"]) == [3, 3]
    assert sorted(results.cells["treatment"]) == ["a", "b"]
    found = tunability(results)
    assert "Seeds chose different rates for a and b." in sentences_of(found, "net")
    assert cells_of(found, "good_rates")["net", "a"]["chosen"] == "0.00316, 0.01, 0.0316"


def test_the_frame_of_every_trial_says_its_protocols_and_only_where_a_suite_tunes():
    results = tuned_results(tuned_records(family, ["net"], list(BEST), seeds=2, written=0.316))
    frame = results.frame
    own = frame[(frame["treatment"] == "high") & (frame["seed"] == 0) & (frame["phase"] == "final")]
    assert sorted(own["protocols"]) == ["recipe own", "shared"]
    assert set(frame.loc[frame["phase"] == "search", "protocols"]) == {""}
    untuned = results_of(planted({"net": {"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.5]}}))
    assert "protocols" not in untuned.frame
    assert untuned.tune is None
    assert protocols(untuned) is tunability(untuned) is stable_rates(untuned) is None


def test_trials_of_a_suite_that_does_not_tune_stand_beside_tuned_ones_and_have_no_rates_of_protocols():
    tuned = tuned_records(family, ["net"], list(BEST), seeds=3, written=0.316)
    untuned = planted({"other": {"high": [0.1, 0.2, 0.3], "low": [0.2, 0.3, 0.5]}})
    alone, both = protocols(tuned_results(tuned)), protocols(tuned_results([*tuned, *untuned]))
    # Labels of workloads get longer beside another dataset; the cells are the same.
    cells = [[row | {"workload": ""} for row in cells_of(answer, "protocols").values()] for answer in (alone, both)]
    assert cells[0] == cells[1]


def test_without_trials_at_own_rates_the_next_protocol_is_compared_and_said():
    records = tuned_records(family, ["net", "other"], list(BEST))
    own = [
        replace(r, spec=r.spec | {"protocols": [p for p in r.spec.get("protocols", ()) if p != "own"]}) for r in records
    ]
    kept = [r for r in own if r.spec["phase"] == "search" or r.spec["protocols"]]
    results = tuned_results(kept)
    assert results.tune.protocol == "shared"
    assert set(results.trials["recipe.lr"]) == {0.1}
    assert "all at the shared rate that their searches chose" in " ".join(sentences_of(overview(results)))
    searches = [r for r in kept if r.spec["phase"] == "search"]
    assert len(tuned_results(searches).trials) == 0


def test_the_first_screen_says_at_which_rates_and_what_they_change(planted_family):
    found = sentences_of(overview(planted_family))
    assert len(found) <= 5
    assert sum("each at the rate that its own search of 7 chose" in text for text in found) == 1
    assert sum(text.startswith("Own rates change ") for text in found) == 1


# --- a planted family: each treatment has a best rate of its own


def test_own_rates_recover_the_planted_ones(planted_family):
    places = cells_of(protocols(planted_family), "protocols")
    for (_, treatment), row in places.items():
        assert float(row["own_values"]) == BEST[treatment]
        assert row["own_outcome"] == pytest.approx(FLOORS[treatment], abs=0.01)
        assert (row["recipe_values"], row["shared_values"]) == ("0.316", "0.1")


def test_the_order_at_a_shared_rate_is_another_and_the_report_says_so(planted_family):
    found = protocols(planted_family)
    places = cells_of(found, "protocols")
    order = {
        name: [places["net", treatment][f"{name}_rank"] for treatment in BEST] for name in ("recipe", "shared", "own")
    }
    assert order == {"recipe": [3, 1, 2], "shared": [2, 1, 3], "own": [1, 2, 3]}
    texts = sentences_of(found)
    both = "at the recipe’s rate and at the shared rate"
    assert f"middle has the best mean rank over 3 networks {both}, low at their own rates." in texts
    assert texts[0] == "Own rates change 3 of 9 pairwise verdicts reached at the shared rate."
    assert texts[1] == "Own rates change 6 of 9 pairwise verdicts reached at the recipe’s rate."
    net = sentences_of(found, "net")
    assert "low beats middle at their own rates; the reverse holds at the recipe’s rate and at the shared rate." in net


def test_every_verdict_that_changes_is_in_a_sentence_of_its_workload(planted_family):
    found = protocols(planted_family)
    verdicts = found.facts.verdicts
    flips = verdicts[verdicts[["recipe_better", "shared_better", "own_better"]].nunique(axis="columns") > 1]
    assert len(flips) > 6
    for flip in flips.to_dict("records"):
        subject = "" if flip["workload"] == "all" else planted_family.names.workload(flip["workload"])
        texts = sentences_of(found, subject)
        better = flip["own_better"]
        other = flip["second"] if better == flip["first"] else flip["first"]
        assert any(f"{better} beats" in text and other in text for text in texts), flip


def test_verdicts_are_those_of_the_comparison(planted_family):
    verdicts = protocols(planted_family).facts.verdicts.set_index(["workload", "first", "second"])
    frame = table_of(compare(planted_family), "paired_differences").frame
    for row in frame.to_dict("records"):
        key = (row["workload"], *sorted([row["treatment"], compare(planted_family).facts.reference]))
        own = verdicts.loc[key]
        sign = 1 if key[1] == row["treatment"] else -1
        assert sign * own["own_difference"] == pytest.approx(row["difference"])
        # Its step of Holm's procedure has at most as many comparisons as all pairs.
        assert own["own_high"] - own["own_low"] <= (row["high"] - row["low"]) * (1 + 1e-12)


def test_who_trains_at_some_rates_alone_is_said_of_it_and_not_of_every_pair():
    def outcome(at):
        if at.treatment == "fragile" and at.rate > 0.05:
            return None
        return 0.1 + noise(at) + (0.2 if at.treatment == "plain" else 0.0)

    results = tuned_results(tuned_records(outcome, ["net", "other"], ["fragile", "plain", "sturdy"]))
    found = protocols(results)
    texts = sentences_of(found, "net")
    assert "fragile trains at the shared rate and at its own rate, but not at the recipe’s rate." in texts
    assert not any("fragile" in text and "beats" in text for text in texts)
    assert "fragile trains" not in str(main_change(results))  # at the shared rate it does
    verdicts = found.facts.verdicts
    own = verdicts[(verdicts["workload"] == "net") & (verdicts[["first", "second"]] == "fragile").any(axis="columns")]
    assert len(own) == 2
    assert own["recipe_of_training"].all()
    assert not own["own_of_training"].any()


def test_training_at_a_rate_is_that_of_the_map_and_more_than_being_better_than_guessing():
    """At the recipe's rate `slow` is not half of the way from guessing to the best; `weak` nowhere is."""

    def outcome(at):
        if at.treatment == "weak":
            return 0.9 + noise(at) if at.rate > 0.05 else 0.7 + noise(at)
        return (0.7 if at.treatment == "slow" and at.rate > 0.05 else 0.1) + noise(at)

    results = tuned_results(tuned_records(outcome, ["net"], ["plain", "slow", "weak"]))
    texts = sentences_of(protocols(results), "net")
    at = "at the shared rate and at its own rate, but not at the recipe’s rate."
    assert f"slow trains {at}" in texts
    assert f"weak is better than guessing {at}" in texts
    assert not any("weak train" in text for text in texts)


def test_verdicts_on_a_workload_are_said_to_be_corrected_and_not_to_hold_at_once(planted_family):
    [remark] = protocols(planted_family).remarks
    assert "corrected for all of its pairs by Holm’s procedure" in remark
    assert "at once" not in remark


def test_the_first_screen_says_who_trains_at_own_rates_alone():
    def outcome(at):
        if at.treatment == "shy" and at.rate > 0.05:
            return None
        slow = 0.3 if at.rate < 0.05 and at.treatment != "shy" else 0.0
        return 0.1 + slow + 0.1 * (at.treatment == "brave") + noise(at)

    results = tuned_results(tuned_records(outcome, ["net", "other"], ["shy", "bold", "brave"]))
    change = str(main_change(results))
    assert change.startswith(
        "Own rates change 4 of 6 pairwise verdicts reached at the shared rate: shy trains on net at its own rate, but "
    )


def test_where_no_verdict_changes_that_is_said():
    def outcome(at):
        return 0.1 + 0.2 * (at.treatment == "worse") + noise(at)

    found = protocols(tuned_results(tuned_records(outcome, ["net"], ["better", "worse"])))
    assert sentences_of(found)[0] == "Own rates change none of 1 pairwise verdict reached at the shared rate."
    assert not any(" beats " in text or " trains " in text for text in sentences_of(found))


# --- one search for all seeds


def test_one_search_for_all_seeds_is_warned_of_wherever_verdicts_are_told():
    records = tuned_records(family, ["net", "other"], list(BEST), once=True)
    results = tuned_results(records, once=True)
    for analysis in (overview(results), compare(results), protocols(results)):
        [warning] = [text for text in sentences_of(analysis) if text.startswith("Warning: ")]
        assert "one search chose for all seeds" in warning
        assert "7 to 20\N{NO-BREAK SPACE}%" in warning
    assert len(sentences_of(overview(results))) <= 5
    found = tunability(results)
    assert len(found.facts.curves) == 0
    assert any(text.startswith("No cell has a curve by the number of tries") for text in found.remarks)
    assert not any("Warning" in text for text in sentences_of(compare(tuned_results(records))))


# --- the whole report


@pytest.mark.slow  # it draws every figure
def test_a_folder_has_the_report_in_every_form(tmp_path, planted_family):
    ledger = write_ledger(tmp_path / "fair", list(planted_family.records))
    said = {"keys": {"recipe.lr": list(RATES)}, "tries": 7, "points": "grid", "search": "once", "protocols": ["own"]}
    ledger.write_suite("name: fair\n", {"schema": 2, "compare": ["initializer"], "tune": said})
    written = write_report(ledger.folder)
    files = {path.name for path in written.files}
    tables = ("protocols", "verdicts", "good_rates", "tunability", "searched", "stable_rates")
    assert {f"{name}.csv" for name in tables} <= files
    page = written.page.read_text("utf-8")
    results = read_results(ledger.folder)
    assert results.tune.is_once
    contents = contents_of(results)
    for text in (page, render_markdown(contents), render_latex(contents)):
        assert "what was tried" in text or "stable" in text
    data = json.loads(render_json(contents))
    names = [analysis["name"] for analysis in data["analyses"]]
    assert names[:4] == ["comparison", "protocols", "tunability", "stable_rates"]
    assert "36 trials: 3 initializers × 3 networks × 4 seeds; 252 search trials" in data["line"]
    assert "The learning rate was tuned on the validation split, with 7 tries per cell." in data["methods"]


def test_a_damaged_tune_is_one_line(tmp_path, planted_family):
    ledger = write_ledger(tmp_path, list(planted_family.records[:3]))
    for damaged in (["recipe.lr"], {"search": "sometimes"}):
        ledger.write_suite("", {"schema": 2, "tune": damaged})
        with pytest.raises(InitbenchError) as refused:
            read_results(tmp_path)
        assert str(refused.value).startswith(f"{tmp_path / 'resolved.json'}: tune does not say")
        assert "\n" not in str(refused.value)


def test_a_suite_that_still_searches_has_a_report_that_says_so(tmp_path):
    """A run that is interrupted early writes one."""
    searches = [r for r in tuned_records(flat, ["net", "other"], ["a", "b"]) if r.spec["phase"] == "search"]
    write_ledger(tmp_path, searches)
    tune = {"keys": {KEY: list(RATES)}, "tries": 7, "points": "grid", "search": "each"}
    resolved = {"schema": 2, "name": "made-up", "compare": ["initializer"], "tune": tune}
    (tmp_path / "resolved.json").write_text(json.dumps(resolved), encoding="utf-8")
    written = write_report(tmp_path)
    said = "The searches are not done: no trial at a rate that they chose has a result yet."
    assert [str(sentence) for sentence in written.sentences] == [said]
    page = written.page.read_text(encoding="utf-8")
    assert "no final trial yet; 84 search trials · digits · 8 epochs of SGD, tuned rate, 7 tries" in page
    results = read_results(tmp_path)
    for render in (render_json, render_markdown):
        assert "The searches are not done" in render(contents_of(results))
    render_latex(contents_of(results))  # tables alone, of which there is none


def test_what_still_searches_stands_nowhere_beside_what_is_done(tmp_path):
    """One initializer everywhere, and all on one network, have no trial yet but that at the rate as written."""
    records = tuned_records(family, ["net", "other", "third"], list(BEST), seeds=4, written=0.316)

    def is_done(record):
        searches = record.spec["architecture"]["name"] == "third" or record.spec["initializer"]["name"] == "high"
        return not searches or "own" not in record.spec.get("protocols", ())

    write_ledger(tmp_path, [record for record in records if is_done(record)])
    results = read_results(tmp_path)
    assert set(results.trials["treatment"]) == {"low", "middle"}
    text = render_markdown(contents_of(results))
    assert "third" not in text.partition("## What happened")[2].partition("## Conditions")[0]
    assert "**other**" in text
    said = "is missing or failed and nothing is chosen yet: high on net; high on other; high on third; low on third; "
    assert said + "middle on third." in render_json(contents_of(results))


def test_a_protocol_whose_trials_all_failed_has_empty_columns():
    records = tuned_records(family, ["net", "other"], list(BEST), written=0.0316)
    failed = {"status": "failed", "metrics": {}, "history": []}
    results = tuned_results([replace(r, **failed) if "recipe" in r.spec.get("protocols", ()) else r for r in records])
    frame = table_of(protocols(results), "protocols").frame
    assert frame["own_values"].notna().all()
    assert frame["recipe_values"].isna().all()
