"""A suite that tunes, run: it chooses on the validation split, trains at what it chose, and says what came of it."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from ledgers import make_scored
from operations import NoTracking, without_the_rest
from tuned import ERRORS, At, curved

from initbench.cli.command_line import main
from initbench.cli.status import lines
from initbench.data.dataset import Samples, Split
from initbench.execution import trial as trial_module
from initbench.execution.driver import run_suite
from initbench.execution.failure import failed_record
from initbench.execution.in_process import run_in_process
from initbench.execution.progress_file import Asked
from initbench.execution.recorder import Progress
from initbench.execution.status import StatusReader
from initbench.ledger import Ledger
from initbench.reporting.questions.protocols import protocols
from initbench.reporting.results import read_results
from initbench.suite.load import describe_datasets, load_suite
from initbench.suite.plan import plan

pytestmark = pytest.mark.usefixtures("_without_mlflow")
BEST = {"kaiming": 0.01, "xavier": 0.1, "lecun": 1.0}
FLOORS = {"kaiming": 0.08, "xavier": 0.12, "lecun": 0.16}
FAMILY = """
name: family
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: [2, 3, 4], width: 8}]
initializers: [kaiming, xavier, lecun]
recipe: {epochs: 1, lr: 0.1}
tune: {recipe.lr: {log: [0.001, 10]}, tries: 5}
probes: []
seeds: 4
"""
SMALL = """
name: small
dataset: {name: digits, train_size: 200}
architectures: [{name: mlp, depth: 2, width: 8}]
initializers: [kaiming, zero]
recipe: {epochs: 2, lr: 0.1}
tune: {recipe.lr: [0.001, 0.1, 1.0]}
probes: []
seeds: 2
"""


@pytest.fixture
def _without_mlflow(monkeypatch):
    monkeypatch.setattr("initbench.tracking.thread.TrackingThread", NoTracking)


def run(folder, text, execute, asked=None):
    """Run a suite in a folder as the command line does; return the summary."""
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    suite = load_suite(path)
    described = describe_datasets(suite)

    def replan(found):
        return plan(suite, descriptions=described, results=found)

    place = folder / "runs" / suite.name
    return run_suite(suite, replan({}), place, execute, progress=Progress(), asked=asked, replan=replan)


def made_up(outcome):
    """An executor whose trials come to what a function says of them."""

    def execute(job, observer):
        observer.ready()
        for spec in job.trials:
            observer.finished(record_of(spec, outcome))

    return execute


def record_of(spec, outcome):
    split = "validation" if spec.phase == "search" else "test"
    name, depth = spec.initializer.name, spec.architecture.arguments["depth"]
    value = outcome(At(str(depth), name, spec.recipe.lr, spec.seed, split))
    return replace(make_scored(spec, ERRORS[split], value), id=spec.id, identity=spec.identity)


def family(at):
    """Each treatment has a best rate of its own; at it `kaiming` is the best, at the recipe's and shared `xavier`."""
    noise = 0.002 * math.sin(97 * at.seed + len(at.split) + sum(map(ord, at.treatment)) + int(at.workload))
    return min(0.9, curved(BEST[at.treatment], FLOORS[at.treatment], 0.08)(at.rate) + noise)


def records(folder):
    return list(Ledger(folder).records())


def chosen(folder, protocol):
    """The rates of the final trials under a protocol, by initializer."""
    rates = {}
    for record in records(folder):
        if protocol in record.spec.get("protocols", ()):
            rates.setdefault(record.spec["initializer"]["name"], set()).add(record.spec["recipe"]["lr"])
    return rates


def test_own_rates_are_found_and_the_report_says_what_the_shared_one_hides(tmp_path):
    summary = run(tmp_path, FAMILY, made_up(family))
    assert chosen(summary.folder, "own") == {name: {rate} for name, rate in BEST.items()}
    assert chosen(summary.folder, "shared") == {name: {0.1} for name in BEST}
    results = read_results(summary.folder)
    [verdicts] = [table.frame for table in protocols(results).tables if table.name == "verdicts"]
    pair = verdicts[(verdicts["first"] == "kaiming") & (verdicts["second"] == "xavier")]
    assert set(pair["own_better"]) == {"kaiming"}
    assert set(pair["shared_better"]) == {"xavier"}
    said = " ".join(summary.sentences)
    assert "each at the rate that its own search of 5 chose" in said
    assert "Own rates change 3 of 9 pairwise verdicts reached at the shared rate: kaiming beats xavier on mlp-" in said
    assert "at their own rates; the reverse holds at the shared rate" in said


@pytest.mark.slow
def test_a_tuned_suite_that_is_there_runs_nothing_again(tmp_path):
    first = run(tmp_path, FAMILY, made_up(family))
    before = [record.to_json() for record in records(first.folder)]
    again = run(tmp_path, FAMILY, made_up(family))
    assert (first.ran, again.ran) == (len(before), 0)
    assert again.statuses == first.statuses
    assert [record.to_json() for record in records(again.folder)] == before


class Killed(BaseException):
    """In the place of kill -9 between two trials."""


@pytest.mark.slow
def test_kills_while_it_searches_and_after_change_nothing(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    first = run(whole, FAMILY, made_up(family))
    finished = []

    def dying(job, observer):
        observer.ready()
        for spec in job.trials:
            observer.finished(record_of(spec, family))
            finished.append(spec.id)
            if len(finished) in {1, 100, 180, 181, 216, 217, 239}:
                raise Killed

    kills = 0
    while True:
        try:
            again = run(killed, FAMILY, dying)
            break
        except Killed:
            kills += 1
    assert kills == 7
    assert len(finished) == len(set(finished)) == first.ran  # no trial ran twice
    assert again.statuses == first.statuses
    assert [r.numbers() for r in records(again.folder)] == [r.numbers() for r in records(first.folder)]


@pytest.mark.slow
def test_a_final_trial_that_its_search_chooses_no_more_is_compared_no_more(tmp_path):
    first = run(tmp_path, FAMILY, made_up(family))

    def moved(at):
        return family(at._replace(rate=at.rate * 10 if at.treatment == "kaiming" else at.rate))

    for record in records(first.folder):
        if record.spec["phase"] == "search" and record.spec["initializer"]["name"] == "kaiming":
            Ledger(first.folder).path(record.id).unlink()
    again = run(tmp_path, FAMILY, made_up(moved))
    assert chosen(again.folder, "own") == {"kaiming": {0.001}, "xavier": {0.1}, "lecun": {1.0}}
    stale = [record for record in records(again.folder) if record.spec["phase"] == "final"]
    unnamed = {record.spec["recipe"]["lr"] for record in stale if not record.spec.get("protocols")}
    assert unnamed == {0.01}
    compared = read_results(again.folder).trials
    assert len(compared) == 3 * 3 * 4
    assert set(compared.loc[compared["treatment"] == "kaiming", "recipe.lr"]) == {0.001}


@pytest.mark.slow
def test_a_search_that_fails_is_said_wherever_its_final_trials_are_missed(tmp_path):
    """Its cell has no own rate, and nobody of its workload a shared one."""

    def failing(at):
        if (at.treatment, at.workload, at.rate, at.split, at.seed) == ("lecun", "2", 0.1, "validation", 0):
            raise RuntimeError("broken")
        return family(at)

    def execute(job, observer):
        observer.ready()
        for spec in job.trials:
            try:
                observer.finished(record_of(spec, failing))
            except RuntimeError:
                observer.finished(failed_record(spec, "RuntimeError", "broken", "", {}))

    summary = run(tmp_path, FAMILY, execute, asked=Asked())
    assert summary.statuses["failed"] == 1
    assert summary.statuses["missing"] == 1 + 3  # its own, and the shared ones of three treatments at that seed
    found = StatusReader(summary.folder).read()
    assert (found.awaited, found.left) == (4, 0)
    assert "up to 4 more follow from the results of searches" in " ".join(lines(found))


SEARCHED = "tune: {recipe.lr: {log: [0.001, 10]}, tries: 5}\n"


@pytest.mark.slow
def test_what_a_range_that_was_changed_has_searched_is_no_part_of_the_search(tmp_path):
    run(tmp_path, FAMILY, made_up(family))
    changed = FAMILY.replace(SEARCHED, "tune: {recipe.lr: [0.02, 0.2, 2.0]}\n")
    summary = run(tmp_path, changed, made_up(family))
    results = read_results(summary.folder)
    assert results.tune.tries == 3
    assert set(results.searched["recipe.lr"]) == {0.02, 0.2, 2.0}
    assert {rate for own in chosen(summary.folder, "own").values() for rate in own} == {0.02, 0.2, 2.0}
    assert "its own search of 3 chose" in " ".join(summary.sentences)
    # One that is tried again counts again.
    again = run(tmp_path, FAMILY, made_up(family))
    assert again.ran == 0
    assert read_results(again.folder).tune.tries == 5
    assert chosen(again.folder, "own") == {name: {rate} for name, rate in BEST.items()}


@pytest.mark.slow
def test_trials_of_before_a_suite_tuned_and_of_after_are_kept_apart(tmp_path):
    plain = FAMILY.replace(SEARCHED, "").replace("lr: 0.1", "lr: 0.3")
    run(tmp_path, plain, made_up(family))
    own = FAMILY.replace("tries: 5", "tries: 5, protocols: [own]").replace("lr: 0.1", "lr: 0.3")
    tuned = run(tmp_path, own, made_up(family))
    compared = read_results(tuned.folder).trials
    assert len(compared) == 3 * 3 * 4
    assert 0.3 not in set(compared["recipe.lr"])
    again = run(tmp_path, plain, made_up(family))
    assert again.ran == 0
    results = read_results(again.folder)
    assert results.tune is None
    assert not any(record.spec.get("protocols") for record in records(again.folder))


class Sealed(Samples):
    """A split that may not be looked at."""

    def __getattribute__(self, name):
        raise AssertionError(f"a search has read the test split: {name}")

    sample_shape = take = to = None  # what `Samples` asks for


def shuffled(split):
    """The same images with labels of others."""
    return Split(split.inputs, split.targets.roll(1))


def poisoned(monkeypatch, test_split):
    """Trials see another test split than the one of their dataset, by their phase."""
    load, phases = trial_module.load_dataset, []

    def loaded(*arguments, **named):
        dataset = load(*arguments, **named)
        return replace(dataset, splits=replace(dataset.splits, test=test_split(phases[-1], dataset.splits.test)))

    def execute(job, observer):
        observer.started = lambda spec: phases.append(spec.phase)
        run_in_process(job, observer)

    monkeypatch.setattr(trial_module, "load_dataset", loaded)
    return execute


def by_phase(folder, phase):
    return {record.id: record for record in records(folder) if record.spec["phase"] == phase}


def test_nothing_of_the_test_split_is_read_before_the_choice(tmp_path, monkeypatch):
    """A search has a test split that fails whatever is asked of it, a final trial one with wrong labels."""
    honest, other = tmp_path / "honest", tmp_path / "poisoned"
    honest.mkdir()
    other.mkdir()
    first = run(honest, SMALL, run_in_process)
    assert first.statuses == {"finished": sum(first.statuses.values())}
    execute = poisoned(monkeypatch, lambda phase, test: Sealed() if phase == "search" else shuffled(test))
    second = run(other, SMALL, execute)
    assert second.statuses == first.statuses
    searches, poisoned_searches = by_phase(first.folder, "search"), by_phase(second.folder, "search")
    assert len(searches) == 2 * 3 * 2
    assert {i: r.numbers() for i, r in searches.items()} == {i: r.numbers() for i, r in poisoned_searches.items()}
    assert not [key for record in searches.values() for key in record.metrics if "test" in key]
    finals, poisoned_finals = by_phase(first.folder, "final"), by_phase(second.folder, "final")
    assert finals.keys() == poisoned_finals.keys()  # the ids say at which rates
    for trial, record in finals.items():
        assert record.spec == poisoned_finals[trial].spec
        if record.spec["initializer"]["name"] == "kaiming":
            assert record.metrics["test_error"] != poisoned_finals[trial].metrics["test_error"]


# --- the command line


THREE_RATES = """
name: small
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: 2, width: 8}]
initializers: [kaiming, xavier]
recipe: {epochs: 1, lr: 1.0}
tune: {recipe.lr: [0.01, 0.1, 1.0]}
probes: []
seeds: 1
"""


@pytest.fixture
def initbench(tmp_path, monkeypatch, capsys):
    """Run `initbench COMMAND` on the suite: return its exit code, what it printed, and which trials it ran."""
    without_the_rest(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(THREE_RATES)

    def command(name, *arguments, fails=lambda spec: False, stops_after=None):
        ran = []

        def execute(job, observer):
            observer.ready()
            for spec in job.trials:
                if len(ran) == stops_after:
                    raise KeyboardInterrupt
                ran.append((spec.phase, spec.initializer.name, spec.recipe.lr))
                if fails(spec):
                    observer.finished(failed_record(spec, "RuntimeError", "broken", "", {}))
                else:
                    observer.finished(record_of(spec, family))

        monkeypatch.setattr(import_module(f"initbench.cli.{name}"), "chosen_executor", lambda *_: execute)
        monkeypatch.setattr(sys, "argv", ["initbench", name, *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        return code, capsys.readouterr().out, ran

    return command


def is_search_of_kaiming(spec):
    return (spec.phase, spec.initializer.name, spec.recipe.lr) == ("search", "kaiming", 0.1)


def test_a_final_trial_at_a_rate_that_was_found_runs_again_alone_if_it_failed(initbench):
    failed = ("final", "kaiming", 0.01)
    code, _, _ = initbench("run", "suite.yaml", fails=lambda s: (s.phase, s.initializer.name, s.recipe.lr) == failed)
    assert code == 1
    code, _, ran = initbench("retry", "runs/small", "--failed")
    assert (code, ran) == (0, [failed])
    assert initbench("retry", "runs/small", "--failed") == (0, "runs/small: no trial has failed\n", [])


def test_a_run_that_goes_on_counts_final_trials_at_the_same_rate_once(initbench):
    """Of six final trials two are one: the rate of xavier is the one that it shares with kaiming."""
    failed = ("final", "kaiming", 0.01)
    _, said, ran = initbench("run", "suite.yaml", fails=lambda s: (s.phase, s.initializer.name, s.recipe.lr) == failed)
    assert "8 trials to run; up to 4 more follow from the results of searches\n" in said
    assert "[11/11] " in said
    assert len(ran) == 6 + 5
    _, said, ran = initbench("run", "suite.yaml")
    assert ran == [failed]
    assert "1 trial to run, 10 have a result already\n" in said
    assert "[11/11] finished" in said


def test_a_damaged_file_in_the_place_of_a_final_trial_that_the_searches_choose_is_kept_aside(initbench):
    initbench("run", "suite.yaml")
    paths = {}
    for record in records(Path("runs/small")):
        trial = record.spec["phase"], record.spec["initializer"]["name"], record.spec["recipe"]["lr"]
        paths[trial] = Ledger("runs/small").path(record.id)
    damaged = paths["final", "kaiming", 0.01]
    damaged.write_text("half", encoding="utf-8")
    paths["search", "kaiming", 0.1].unlink()
    code, said, ran = initbench("run", "suite.yaml")
    assert (code, ran) == (0, [("search", "kaiming", 0.1), ("final", "kaiming", 0.01)])
    assert damaged.with_name(f"{damaged.name}.damaged").read_text(encoding="utf-8") == "half"
    assert f"the unreadable file {damaged.name} is kept as {damaged.name}.damaged\n" in said


def test_a_search_trial_that_failed_before_an_interruption_runs_again_alone(initbench):
    code, _, ran = initbench("run", "suite.yaml", fails=is_search_of_kaiming, stops_after=4)
    assert (code, len(ran)) == (130, 4)
    code, said, ran = initbench("retry", "runs/small", "--failed")
    assert (code, ran) == (0, [("search", "kaiming", 0.1)])
    assert "1 trial to run\n" in said


def test_final_trials_of_a_search_that_failed_run_without_failed(initbench):
    code, said, ran = initbench("run", "suite.yaml", fails=is_search_of_kaiming)
    assert (code, len(ran)) == (1, 2 * 3 + 2 + 1)
    # kaiming's at its own rate, and both initializers' at the shared one.
    assert (
        "3 final trials cannot be determined while search trials fail; to run these again, and then the others" in said
    )
    code, said, ran = initbench("retry", "runs/small", "--failed", fails=is_search_of_kaiming)
    assert (code, ran) == (1, [("search", "kaiming", 0.1)])
    code, said, ran = initbench("retry", "runs/small", "--failed")
    assert (code, ran) == (0, [("search", "kaiming", 0.1)])
    code, said, ran = initbench("retry", "runs/small")
    assert code == 0
    assert ("final", "kaiming", 0.01) in ran
    assert {phase for phase, _, _ in ran} == {"final"}
    status = StatusReader(Path("runs/small")).read()
    assert (status.left, status.awaited, status.others) == (0, 0, 0)


def test_a_retry_of_a_part_leaves_the_plan_whole(initbench):
    initbench("run", "suite.yaml", fails=is_search_of_kaiming)
    before = Path("runs/small/plan.json").read_text(encoding="utf-8")
    initbench("retry", "runs/small", "--only", "initializer=xavier")
    assert Path("runs/small/plan.json").read_text(encoding="utf-8") == before
    initbench("retry", "runs/small")
    assert json.loads(Path("runs/small/plan.json").read_text(encoding="utf-8"))["asked"]["only"] == []


def test_a_shared_rate_that_waits_for_searches_left_out_is_nothing_missing(initbench):
    code, said, _ = initbench("run", "suite.yaml", "--only", "initializer=kaiming")
    assert code == 0
    assert "1 final trial cannot be determined: the shared rate depends on searches that --only left out" in said
    assert "fail" not in said
