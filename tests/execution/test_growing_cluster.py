"""Clusters that cannot run a trial yet, or not at all: a GPU that torch does not see, no processors, no nodes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import NAMESPACES, NEEDS_NAMESPACES
from test_executors import start

from initbench.ledger import Ledger

SUITE = """
name: growing
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, width: 8}]
initializers: [kaiming, xavier]
recipe: {epochs: 1}
seeds: 2
"""


@pytest.fixture
def head(monkeypatch, tmp_path):
    """A function that starts a head with these resources and returns its cluster."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    started = []

    def start_head(**resources):
        arguments = {"node_name": "head", "include_dashboard": False} | resources
        started.append(Cluster(initialize_head=True, head_node_args=arguments))
        return started[0]

    (tmp_path / "suite.yaml").write_text(SUITE)
    yield start_head
    for cluster in started:
        cluster.shutdown()


@pytest.mark.slow
def test_a_gpu_that_torch_does_not_see_is_told_in_one_line_before_the_first_trial(tmp_path, head):
    cluster = head(num_cpus=1, num_gpus=1)
    command = ("run", "suite.yaml", "--address", cluster.address, "--set", "resources.gpus=1")
    driver = start(*command, cwd=tmp_path)
    out, err = driver.communicate(timeout=300)
    assert (driver.returncode, out) == (2, "")
    assert err.startswith("initbench: no trial can run on node head: Ray assigns a GPU there that PyTorch cannot use: ")
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["suite.yaml"]


@pytest.mark.slow
def test_a_head_without_processors_waits_for_a_node_at_the_address_of_ray(tmp_path, head, monkeypatch):
    cluster = head(num_cpus=0)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    driver = start("run", "suite.yaml", cwd=tmp_path)
    note = "note: resources.cpus: 1 asked for, but the cluster has 0 CPUs; waiting for a node that has them"
    out = ""
    while note not in " ".join(out.split()):
        line = driver.stdout.readline()
        assert line, "it ended without the note"
        out += line
    cluster.add_node(num_cpus=1, node_name="late")
    _, err = driver.communicate(timeout=300)
    assert (driver.returncode, err) == (0, "")
    assert {record.environment["node"] for record in Ledger(tmp_path / "runs/growing").records()} == {"late"}


GROWING = """
from ray.cluster_utils import AutoscalingCluster


class Growing(AutoscalingCluster):
    def _generate_config(self, head_resources, worker_node_types, **_):  # Ray's wheel lacks the file that it reads
        head = {"resources": head_resources, "node_config": {}, "max_workers": 0}
        none = ("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
                "head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude",
                "rsync_filter")
        return dict.fromkeys(none, []) | {
            "cluster_name": "growing", "max_workers": 2, "provider": {"type": "fake_multinode"}, "auth": {},
            "available_node_types": worker_node_types | {"ray.head.default": head}, "docker": {}, "file_mounts": {},
            "head_node_type": "ray.head.default", "idle_timeout_minutes": 1, "upscaling_speed": 1.0,
            "file_mounts_sync_continuously": False,
        }


kinds = {"small": {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2}}
Growing(head_resources={"CPU": 0}, worker_node_types=kinds).start()
"""


@pytest.mark.slow
@NEEDS_NAMESPACES
def test_a_cluster_grows_from_zero(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "start.py").write_text(GROWING)
    alone = "mkdir -p /tmp/ray && mount -t tmpfs tmpfs /tmp/ray && ip link set lo up"
    script = f"{alone} && python start.py >/dev/null 2>&1 && python -m initbench run suite.yaml --address auto"
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [*NAMESPACES, "sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resources.cpus: 1 asked for, but the cluster has 0 CPUs; waiting for a node that has them" in " ".join(
        done.stdout.split()
    )
    assert "4 trials: 4 finished" in done.stdout
