"""Whose fault a failure is, the trial's or the node's, and what is tried next."""

import pytest
from ledgers import make_record
from operations import LOST, SUITE, Told

from initbench.errors import InitbenchError
from initbench.execution import ray_sweep
from initbench.execution.attempts import Attempt, Attempts
from initbench.execution.executor import Job
from initbench.execution.ray_cluster import Node
from initbench.execution.ray_sweep import Sweep
from initbench.suite.load import load_suite
from suites import plan_of

NODES = {"a", "b", "c"}


def drain(attempts, run):
    """Run everything one after another, on the first node that is not avoided; return how each attempt went."""
    went = []
    while not attempts.done:
        attempt = attempts.next()
        node = min(NODES - attempt.avoid)
        fine = run(attempt.trial, node)
        went.append((attempt.trial, node, fine))
        if fine:
            attempts.succeeded(attempt.trial, node)
        else:
            attempts.failed(attempt.trial, node, NODES, own_fault=False)
    return went


def test_trials_start_in_order_and_nothing_is_left():
    attempts = Attempts(["t1", "t2"])
    assert [attempts.next(), attempts.next(), attempts.next()] == [Attempt("t1"), Attempt("t2"), None]
    attempts.succeeded("t2", "a")
    assert not attempts.done
    attempts.succeeded("t1", "a")
    assert attempts.done


def test_a_failed_trial_is_tried_elsewhere_before_all_others():
    attempts = Attempts(["t1", "t2"])
    attempts.next()
    assert not attempts.failed("t1", "a", NODES, own_fault=False)
    assert attempts.next() == Attempt("t1", frozenset("a"))


def test_a_trial_that_fails_wherever_it_is_tried_ends_after_three_nodes_and_no_node_is_blamed():
    trials = [f"t{i}" for i in range(9)]
    attempts = Attempts(trials)
    went = drain(attempts, lambda trial, _: trial not in trials[2:7])
    assert [len([1 for trial, *_ in went if trial == t]) for t in trials] == [1, 1, 3, 3, 3, 3, 3, 1, 1]
    assert attempts.set_aside == frozenset()


def test_a_node_on_which_everything_fails_is_set_aside_and_loses_no_trial():
    trials = [f"t{i}" for i in range(9)]
    attempts = Attempts(trials)
    went = drain(attempts, lambda _, node: node != "a")
    assert attempts.set_aside == {"a"}
    assert [trial for trial, node, _ in went if node == "a"] == trials[:3]
    assert {trial for trial, _, fine in went if fine} == set(trials)


def test_the_last_good_node_stays():
    attempts = Attempts([f"t{i}" for i in range(9)])
    attempts.succeeded("t0", "a")
    for trial in ("t1", "t2", "t3"):
        attempts.failed(trial, "a", NODES, own_fault=False)
    assert attempts.set_aside == frozenset()


def test_a_success_between_failures_is_no_row():
    attempts = Attempts([f"t{i}" for i in range(9)])
    attempts.succeeded("t0", "b")
    for trial in ("t1", "t2"):
        attempts.failed(trial, "a", NODES, own_fault=False)
    attempts.succeeded("t3", "a")
    attempts.failed("t4", "a", NODES, own_fault=False)
    assert attempts.set_aside == frozenset()


def test_where_there_is_no_other_node_a_failure_is_the_end():
    attempts = Attempts(["t1"])
    assert attempts.failed("t1", "a", {"a"}, own_fault=False)
    assert attempts.done


def test_what_exceeds_a_limit_is_not_tried_elsewhere():
    attempts = Attempts(["t1"])
    assert attempts.failed("t1", "a", NODES, own_fault=True)
    assert attempts.done


def test_a_node_takes_trials_again_once_what_failed_there_failed_elsewhere_too():
    attempts = Attempts(["t0", "t1", "t2", "t3"])
    attempts.succeeded("t0", "b")
    for trial in ("t1", "t2", "t3"):
        attempts.failed(trial, "a", {"a", "b"}, own_fault=False)
    assert attempts.set_aside == {"a"}
    assert attempts.failed("t1", "b", {"a", "b"}, own_fault=False)  # no third node
    assert attempts.set_aside == frozenset()


def test_what_was_to_start_and_did_not_is_next_and_nobody_is_blamed():
    attempts = Attempts(["t1", "t2"])
    attempts.next()
    attempts.returned("t1")
    assert [attempts.next(), attempts.next()] == [Attempt("t1"), Attempt("t2")]
    assert not attempts.done


def test_a_node_that_a_success_elsewhere_sets_aside_is_named_with_what_failed_there(monkeypatch, tmp_path):
    monkeypatch.setattr(
        ray_sweep, "alive_nodes", lambda: [Node(name, name, name, 1.0, 0.0) for name in ("broken", "sound")]
    )
    (tmp_path / "suite.yaml").write_text(SUITE)
    trials, told = plan_of(load_suite(tmp_path / "suite.yaml")).trials, Told()
    sweep = Sweep(Job(trials), told, lambda: None, named_nodes=True)
    specs = {attempt: sweep.next(attempt).spec for attempt in "1234"}
    for attempt in "123":
        lost = make_record(specs[attempt], status="failed", error=LOST | {"message": "no GPU"})
        sweep.ended(attempt, lost, "broken")
    assert told.notes == []
    sweep.ended("4", make_record(specs["4"]), "sound")
    assert told.notes == ["node broken is set aside, because trials in a row failed there: WorkerLost: no GPU"]


def failed_sweep(tmp_path, errors, **options):
    """Return what stops a sweep of trials that fail one after another with these errors; None is a success."""
    (tmp_path / "suite.yaml").write_text(SUITE.replace("seeds: 2", "seeds: 12"))
    trials = plan_of(load_suite(tmp_path / "suite.yaml")).trials
    sweep = Sweep(Job(trials), Told(), lambda: None, named_nodes=True)
    for number, error in enumerate(errors):
        spec = sweep.next(str(number)).spec
        if error is None:
            record = make_record(spec)
        else:
            record = make_record(spec, status="failed", error=LOST | {"message": error})
        sweep.ended(str(number), record, "node", **options)
    try:
        sweep.watch()
    except InitbenchError as stop:
        return str(stop)
    return None


@pytest.mark.parametrize(
    ("errors", "was_fresh", "stops"),
    [
        (["no GPU"] * 20, True, True),
        (["no GPU"] * 19, True, False),
        (["no GPU"] * 19 + [None, "no GPU"], True, False),
        ([None, *["no GPU"] * 20], True, True),
        (["no GPU"] * 19 + ["another", "no GPU"], True, False),
        (["no GPU"] * 20, False, False),
    ],
)
def test_twenty_trials_in_a_row_with_the_same_error_stop_the_sweep(monkeypatch, tmp_path, errors, was_fresh, stops):
    monkeypatch.setattr(ray_sweep, "alive_nodes", lambda: [Node("node", "node", "node", 1.0, 0.0)])
    assert failed_sweep(tmp_path, errors, was_fresh=was_fresh) == (
        "20 trials in a row failed with the same error, each in a fresh process: WorkerLost: no GPU; finished trials "
        "are kept, and the same command continues"
        if stops
        else None
    )
