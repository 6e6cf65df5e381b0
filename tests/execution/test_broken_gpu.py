"""A Ray node with two GPUs, of which one is broken. Both are made up: the trials compute on the CPU."""

import os

import pytest
from test_executors import PLUGIN, initbench

from initbench.ledger import Ledger

SUITE = """
name: gpus
dataset: {name: digits, train_size: 64}
architectures: [tiny]
initializers: [{name: fault, kind: broken_gpu}]
recipe: {epochs: 1}
resources: {gpus: 1}
seeds: 12
"""
# Read by every Python process at its start: the trials of workers with a GPU compute on the CPU.
SITE = """
import sys
from importlib.machinery import PathFinder


def compute_on_the_cpu(module):
    start = module.TrialProcess.__init__
    module.TrialProcess.__init__ = lambda self, device, limits, share: start(self, "cpu", limits)


def see_every_gpu(module):
    module.problem = lambda device: None


CHANGES = {
    "initbench.execution.trial_process": compute_on_the_cpu,
    "initbench.execution.worker_device": see_every_gpu,
}


class Changed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in CHANGES:
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (execute(module), CHANGES[name](module))
        return spec


sys.meta_path.insert(0, Changed)
"""


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    (tmp_path / "failures").touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("INITBENCH_TEST_FAILURES", str(tmp_path / "failures"))
    monkeypatch.setenv("INITBENCH_TEST_BROKEN_GPU", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "num_gpus": 2, "node_name": "head", "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=head)
    yield started
    started.shutdown()


@pytest.mark.slow
def test_a_broken_gpu_is_set_aside_and_fails_no_trial(tmp_path, cluster):
    """The other GPU's successes, on the same node, do not clear it."""
    (tmp_path / "suite.yaml").write_text(SUITE)
    out = initbench("run", "suite.yaml", "--plugin", PLUGIN, "--address", cluster.address, cwd=tmp_path)
    note = (
        "note: GPU 0 of node head is set aside, because trials in a row failed there: RuntimeError: this GPU is broken"
    )
    assert note in " ".join(out.split())
    assert "12 trials: 12 finished" in out
    assert [record.status for record in Ledger(tmp_path / "runs/gpus").records()] == ["finished"] * 12
    failures = (tmp_path / "failures").read_text().count("one")
    assert 3 <= failures <= 12  # at most once each: Tune has asked for trials in advance
