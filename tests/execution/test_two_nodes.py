"""Two Ray nodes of one core each, on loopback: a black hole, a node that is lost, and trials that fit on neither."""

import time

import pytest
from test_executors import PLUGIN, initbench, start

from initbench.ledger import Ledger

SUITE = """
name: nodes
dataset: {name: digits, train_size: 64}
architectures: [tiny]
initializers: [{name: fault, kind: black_hole}]
recipe: {epochs: 1}
seeds: 16
"""


@pytest.fixture
def nodes(monkeypatch, tmp_path):
    """A head and a second node, each with one core; on the second `fault[kind=black_hole]` fails.

    On the head it ends once three have failed: then a success there, no failure, sets the second node aside.
    """
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    (tmp_path / "failures").touch()
    monkeypatch.setenv("INITBENCH_TEST_FAILURES", str(tmp_path / "failures"))
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "node_name": "sound", "include_dashboard": False}
    )
    second = cluster.add_node(num_cpus=1, node_name="black-hole", env_vars={"INITBENCH_TEST_BLACK_HOLE": "1"})
    yield cluster, second
    cluster.shutdown()


def arguments(cluster, *more):
    return ("run", "suite.yaml", "--plugin", PLUGIN, "--address", cluster.address, *more)


@pytest.mark.slow
def test_a_black_hole_is_set_aside_and_named_and_fails_no_trial(tmp_path, nodes):
    cluster, _ = nodes
    (tmp_path / "suite.yaml").write_text(SUITE)
    # First the request that no node can fulfil, though both together could.
    driver = start(*arguments(cluster, "--set", "resources.cpus=2"), cwd=tmp_path)
    out, err = driver.communicate(timeout=120)
    assert (driver.returncode, out) == (2, "")
    assert err == (
        "initbench: resources.cpus: 2 asked for, but the cluster has 2 CPUs on 2 nodes, 1 at most on one of them\n"
    )
    assert not (tmp_path / "runs").exists()
    out = initbench(*arguments(cluster), cwd=tmp_path)
    note = "note: node black-hole is set aside, because trials in a row failed there: RuntimeError: this node is broken"
    assert note in " ".join(out.split())
    records = list(Ledger(tmp_path / "runs/nodes").records())
    assert [record.status for record in records] == ["finished"] * 16
    assert {record.environment["node"] for record in records} == {"sound"}
    # A trial that is to blame itself fails on both nodes, and neither is set aside for it.
    (tmp_path / "suite.yaml").write_text(SUITE.replace("black_hole", "raise").replace("nodes", "own"))
    out = initbench(*arguments(cluster, "--seeds", "2"), cwd=tmp_path, check=1)
    errors = [record.error["message"] for record in Ledger(tmp_path / "runs/own").records()]
    assert {tuple(sorted(error.rpartition("failed on ")[2].strip(")").split(", "))) for error in errors} == {
        ("black-hole", "sound")
    }
    assert "set aside" not in out


@pytest.mark.slow
def test_a_head_whose_server_is_killed_ends_the_run_with_one_line(tmp_path, nodes):
    cluster, _ = nodes
    (tmp_path / "suite.yaml").write_text(SUITE.replace("black_hole", "pause"))
    driver = start(*arguments(cluster), cwd=tmp_path)
    trials = tmp_path / "runs/nodes/trials"
    while not trials.is_dir() or not list(trials.glob("*.json")):
        assert driver.poll() is None
        time.sleep(0.1)
    cluster.head_node.kill_gcs_server()
    _, err = driver.communicate(timeout=100)
    assert driver.returncode == 2
    assert err.startswith("initbench: Ray has ended: its GCS server at ")
    assert err.endswith(" no longer answers; finished trials are kept, and the same command continues\n")
    assert {record.status for record in Ledger(tmp_path / "runs/nodes").records()} == {"finished"}


@pytest.mark.slow
def test_the_trials_of_a_node_that_is_lost_run_on_another(tmp_path, nodes):
    cluster, second = nodes
    (tmp_path / "suite.yaml").write_text(SUITE.replace("black_hole", "pause").replace("seeds: 16", "seeds: 4"))
    driver = start(*arguments(cluster), cwd=tmp_path)
    trials = tmp_path / "runs/nodes/trials"
    deadline = time.monotonic() + 120
    while not trials.is_dir() or not list(trials.glob("*.json")):
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    cluster.remove_node(second, allow_graceful=False)
    out, err = driver.communicate(timeout=200)
    assert driver.returncode == 0, out + err
    assert [record.status for record in Ledger(tmp_path / "runs/nodes").records()] == ["finished"] * 4
