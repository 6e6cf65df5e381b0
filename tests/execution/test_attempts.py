"""Whose fault a failure is, the trial's or the node's, and what is tried next."""

from types import SimpleNamespace

import pytest
from ledgers import make_record
from operations import LOST, SUITE, Told

from initbench.errors import InitbenchError
from initbench.execution import ray_sweep
from initbench.execution.attempts import Attempt, Attempts, Location
from initbench.execution.executor import Job
from initbench.execution.ray_cluster import Node
from initbench.execution.ray_sweep import Sweep
from initbench.suite.load import load_suite
from suites import plan_of

NODES = {"a": 1, "b": 1, "c": 1}
A, B, FOUR = Location("a"), Location("b"), {"a": 4}


def drain(attempts, run):
    """Run everything one after another, on the first node that is not avoided; return how each attempt went."""
    went = []
    while not attempts.done:
        attempt = attempts.next()
        node = min(NODES.keys() - {location.node for location in attempt.avoid})
        fine = run(attempt.trial, node)
        went.append((attempt.trial, node, fine))
        if fine:
            attempts.succeeded(attempt.trial, Location(node))
        else:
            attempts.failed(attempt.trial, Location(node), NODES, exceeded_limit=False)
    return went


def test_trials_start_in_order_and_nothing_is_left():
    attempts = Attempts(["t1", "t2"])
    assert [attempts.next(), attempts.next(), attempts.next()] == [Attempt("t1"), Attempt("t2"), None]
    attempts.succeeded("t2", A)
    assert not attempts.done
    attempts.succeeded("t1", A)
    assert attempts.done


def test_a_failed_trial_is_tried_elsewhere_before_all_others():
    attempts = Attempts(["t1", "t2"])
    attempts.next()
    assert not attempts.failed("t1", A, NODES, exceeded_limit=False)
    assert attempts.next() == Attempt("t1", frozenset({A}))


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
    assert attempts.set_aside == {A}
    assert [trial for trial, node, _ in went if node == "a"] == trials[:3]
    assert {trial for trial, _, fine in went if fine} == set(trials)


def test_the_last_good_node_stays():
    attempts = Attempts([f"t{i}" for i in range(9)])
    attempts.succeeded("t0", A)
    for trial in ("t1", "t2", "t3"):
        attempts.failed(trial, A, NODES, exceeded_limit=False)
    assert attempts.set_aside == frozenset()


def test_a_success_between_failures_is_no_row():
    attempts = Attempts([f"t{i}" for i in range(9)])
    attempts.succeeded("t0", B)
    for trial in ("t1", "t2"):
        attempts.failed(trial, A, NODES, exceeded_limit=False)
    attempts.succeeded("t3", A)
    attempts.failed("t4", A, NODES, exceeded_limit=False)
    assert attempts.set_aside == frozenset()


def test_where_there_is_no_other_node_a_failure_is_the_end():
    attempts = Attempts(["t1"])
    assert attempts.failed("t1", A, {"a": 1}, exceeded_limit=False)
    assert attempts.done


def test_what_exceeds_a_limit_is_not_tried_elsewhere():
    attempts = Attempts(["t1"])
    assert attempts.failed("t1", A, NODES, exceeded_limit=True)
    assert attempts.done


def test_a_node_takes_trials_again_once_what_failed_there_failed_elsewhere_too():
    attempts = Attempts(["t0", "t1", "t2", "t3"])
    attempts.succeeded("t0", B)
    for trial in ("t1", "t2", "t3"):
        attempts.failed(trial, A, {"a": 1, "b": 1}, exceeded_limit=False)
    assert attempts.set_aside == {A}
    assert attempts.failed("t1", B, {"a": 1, "b": 1}, exceeded_limit=False)  # no third node
    assert attempts.set_aside == frozenset()


class TestGpus:
    """Of one node with several GPUs, which Ray assigns without a choice."""

    def fail(self, attempts, trials, location, nodes):
        for trial in trials:
            attempts.failed(trial, location, nodes, exceeded_limit=False)

    def test_a_failed_trial_gets_another_gpu_of_the_only_node(self):
        attempts = Attempts(["t1"])
        for gpu in "01":
            attempts.next()
            assert not attempts.failed("t1", Location("a", gpu), FOUR, exceeded_limit=False)
        assert attempts.next() == Attempt("t1", frozenset({Location("a", "0"), Location("a", "1")}))
        assert attempts.failed("t1", Location("a", "3"), FOUR, exceeded_limit=False)  # the third location

    def test_another_node_comes_first(self):
        attempts = Attempts(["t1"])
        attempts.next()
        attempts.failed("t1", Location("a", "0"), {"a": 4, "b": 1}, exceeded_limit=False)
        assert attempts.next().avoid == {A}

    def test_an_unknown_node_is_not_avoided(self):
        """Ray refuses a selector with an empty name."""
        attempts = Attempts(["t1"])
        for location in (Location(""), Location("a", "0")):
            attempts.next()
            assert not attempts.failed("t1", location, FOUR, exceeded_limit=False)
        assert attempts.next().avoid == {Location("a", "0")}

    def test_the_only_gpu_is_the_end(self):
        attempts = Attempts(["t1"])
        assert attempts.failed("t1", Location("a", "0"), {"a": 1}, exceeded_limit=False)

    def test_successes_on_other_gpus_of_its_node_do_not_clear_a_gpu(self):
        attempts = Attempts([f"t{i}" for i in range(9)])
        for n in range(3):
            assert attempts.set_aside == frozenset()
            self.fail(attempts, [f"t{n}"], Location("a", "2"), FOUR)
            attempts.succeeded(f"t{n + 3}", Location("a", "1"))
        assert attempts.set_aside == {Location("a", "2")}

    def test_a_node_whose_gpus_are_all_set_aside_gets_no_trial(self):
        attempts, nodes = Attempts([f"t{i}" for i in range(9)]), {"a": 2, "b": 1}
        attempts.succeeded("t0", B)
        self.fail(attempts, ("t1", "t2", "t3"), Location("a", "0"), nodes)
        assert attempts.set_aside == {Location("a", "0")}
        self.fail(attempts, ("t4", "t5", "t6"), Location("a", "1"), nodes)
        assert attempts.set_aside == {Location("a", "0"), Location("a", "1")}
        *_, untried = (attempts.next() for _ in range(7))
        assert untried.avoid == {A, Location("a", "0"), Location("a", "1")}


def test_an_attempt_on_a_gpu_that_its_trial_avoids_occupies_it_until_the_trial_runs_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_sweep, "alive_nodes", lambda: [Node("node", "node", "node", 4.0, 2.0)])
    (tmp_path / "suite.yaml").write_text(SUITE)
    trials = plan_of(load_suite(tmp_path / "suite.yaml")).trials
    sweep = Sweep(Job(trials, gpus=1.0), Told(), lambda: None, named_nodes=False)
    first, bad = sweep.next("1").spec, Location("node", "0")
    sweep.started("1")
    sweep.ended("1", make_record(first, status="failed", error=LOST), bad)

    def avoids(attempt):
        assert sweep.next(attempt).spec == first
        assert bad in sweep.under_way[attempt].avoid
        sweep.started(attempt)
        trial = SimpleNamespace(trial_id=attempt)
        result = {"avoided": ["node", "0"]}
        left = sweep.may_leave(attempt)  # Tune asks before it passes the result on
        sweep.reported(trial, result)
        return left, sweep.may_leave(attempt)

    assert avoids("2") == (False, False)
    assert not sweep.running
    assert sweep.next("3").spec == first
    assert not sweep.may_leave("2")
    sweep.started("3")
    assert not sweep.may_leave("2")  # it may have landed on the bad one again
    sweep.reported(SimpleNamespace(trial_id="3", config={"trial": sweep.under_way["3"]}), {"placed": True})
    assert sweep.may_leave("2")
    sweep.ended("3", make_record(first), Location("node", "1"))
    assert not sweep.under_way


def test_two_trials_that_occupy_each_others_gpu_let_each_other_in(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_sweep, "alive_nodes", lambda: [Node("node", "node", "node", 4.0, 2.0)])
    (tmp_path / "suite.yaml").write_text(SUITE)
    trials = plan_of(load_suite(tmp_path / "suite.yaml")).trials[:2]
    sweep = Sweep(Job(trials, gpus=1.0), Told(), lambda: None, named_nodes=False)
    specs = {gpu: sweep.next(gpu).spec for gpu in "01"}
    for gpu, spec in specs.items():
        sweep.started(gpu)
        sweep.ended(gpu, make_record(spec, status="failed", error=LOST), Location("node", gpu))
    for gpu in "01":  # Tune has put each on the GPU that it avoids
        sweep.next(f"again{gpu}")
        sweep.started(f"again{gpu}")
    for gpu in "01":
        sweep.reported(SimpleNamespace(trial_id=f"again{gpu}"), {"avoided": ["node", gpu]})
    last_to_fail = sweep.next("next")
    assert last_to_fail.avoid == {Location("node", "1")}
    assert sweep.may_leave("again0")  # so `next` gets GPU 0
    assert not sweep.may_leave("again1")
    sweep.started("next")
    assert not sweep.may_leave("again1")
    sweep.reported(SimpleNamespace(trial_id="next", config={"trial": last_to_fail}), {"placed": True})
    assert sweep.may_leave("again1")


def test_a_trial_for_which_nothing_else_is_left_may_run_where_it_failed():
    attempts = Attempts([f"t{i}" for i in range(8)])
    gpus = [Location("a", "0"), Location("a", "1")]
    for trial, location in (("t0", gpus[1]), ("t1", gpus[0])):
        attempts.next()
        attempts.succeeded(trial, location)
    for i in range(2, 5):
        attempts.next()
        assert not attempts.failed(f"t{i}", gpus[0], {"a": 2}, exceeded_limit=False)
    for _ in range(3):  # they avoid GPU 0, and GPU 1 breaks meanwhile
        attempt = attempts.next()
        assert gpus[0] in attempt.avoid
        attempts.returned(attempt.trial)
    attempts.set_aside = frozenset({gpus[1]})
    assert attempts.next().avoid == {gpus[1]}


@pytest.mark.parametrize(
    ("cpus", "gpus", "share", "reach"), [(4, 2, 1, 2), (1, 2, 1, 1), (4, 2, 0.25, 1), (5, 2, 0.25, 2)]
)
def test_without_cpus_for_another_gpu_there_is_none(cpus, gpus, share, reach):
    node = Node("node", "node", "node", float(cpus), float(gpus))
    assert ray_sweep._gpus_within_reach(node, Job((), gpus=share)) == reach


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
        sweep.ended(attempt, lost, Location("broken"))
    assert told.notes == []
    sweep.ended("4", make_record(specs["4"]), Location("sound"))
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
        sweep.ended(str(number), record, Location("node"), **options)
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
