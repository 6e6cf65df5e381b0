"""The look at each node before the first trial, on made-up nodes."""

from types import SimpleNamespace

import pytest
from operations import SUITE, Told

from initbench.errors import InitbenchError
from initbench.execution import ray_check
from initbench.execution.executor import Job
from initbench.execution.ray_cluster import Node
from initbench.suite.load import load_suite
from suites import plan_of

NODES = [Node(56 * name, name, name, 4.0, 1.0) for name in "abc"]  # Ray wants 56 digits


@pytest.fixture
def problems(monkeypatch):
    """What the check says on each node, by the node's name."""
    found = {}
    monkeypatch.setattr("ray.remote", lambda **_: lambda _: SimpleNamespace(options=options))
    monkeypatch.setattr("ray.wait", lambda running, timeout: (running[:1], running[1:]))
    monkeypatch.setattr("ray.get", lambda node: found.get(node, ""))

    def options(*, scheduling_strategy):
        return SimpleNamespace(remote=lambda *_: scheduling_strategy.node_id[0])

    return found


@pytest.fixture
def trials(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    return plan_of(load_suite(tmp_path / "suite.yaml")).trials


def test_nodes_that_cannot_run_a_trial_are_set_aside_with_a_note(problems, trials):
    told = Told()
    problems["b"] = "Ray assigns a GPU there that PyTorch cannot use: no driver"
    assert ray_check.unusable_nodes(Job(trials, gpus=1.0), NODES, told, lambda: None) == {NODES[1].id}
    assert told.notes == ["node b is set aside: Ray assigns a GPU there that PyTorch cannot use: no driver"]


def test_if_no_node_can_the_first_reason_is_given(problems, trials):
    problems |= dict.fromkeys("abc", "no data")
    with pytest.raises(InitbenchError, match=r"^no trial can run on node a \(and 2 more\): no data$"):
        ray_check.unusable_nodes(Job(trials, gpus=1.0), NODES, Told(), lambda: None)


def test_data_that_a_node_lacks_and_a_precision_that_its_device_lacks(trials):
    trial = trials[0]
    arguments = (trial.recipe,), (trial.dataset,), (), "data"
    assert ray_check._problem("cpu", *arguments) == ""
    other = trial.dataset.model_copy(update={"content": "sha256:0"})
    assert "digits" in ray_check._problem("cpu", (trial.recipe,), (other,), (), "data")
    tf32 = trial.recipe.model_copy(update={"precision": "tf32"})
    assert "tf32" in ray_check._problem("cpu", (tf32,), (trial.dataset,), (), "data")
