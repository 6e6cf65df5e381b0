"""The page on Ray clusters, followed on two hosts: network namespaces of this machine with a disk folder each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import NAMESPACES, NEEDS_NAMESPACES
from pages import DOCS, blocks

from initbench.ledger import Ledger

PAGE = DOCS / "how_to" / "run_on_a_ray_cluster.md"
# The head's host, then the worker's; each has its own home, /tmp/ray, and sees nothing of the driver's folder.
SCRIPT = """
set -eu
mkdir -p /tmp/ray
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp/ray
ip link set lo up
ip netns add worker
ip link add head type veth peer name worker netns worker
ip address add 192.0.2.1/24 dev head
ip link set head up
ip -n worker address add 192.0.2.2/24 dev worker
ip -n worker link set worker up
ip -n worker link set lo up

export HOME={head_home}
{token}
mkdir -p {worker_home}/.ray
cp $HOME/.ray/auth_token {worker_home}/.ray/
{head} --num-cpus 0
ip netns exec worker unshare --mount sh -eu -c '
  mount -t tmpfs tmpfs {driver}
  mount -t tmpfs tmpfs /tmp/ray
  cd {worker_home}
  export HOME={worker_home}
  {worker} --num-cpus 2
' </dev/null
cd {driver}
export TMPDIR={driver}
{run}
{stop}
"""


@pytest.mark.slow
@NEEDS_NAMESPACES
def test_a_suite_runs_on_the_other_host(tmp_path):
    files = [block for block in blocks(PAGE) if block.title is not None]
    token, head, worker, run, stop = (block.text.strip() for block in blocks(PAGE) if block.language == "sh")
    for name in ("head_home", "worker_home", "driver"):
        (tmp_path / name).mkdir()
    for block in files:
        (tmp_path / "driver" / block.title).write_text(block.text, encoding="utf-8")
    script = SCRIPT.format(
        **{name: tmp_path / name for name in ("head_home", "worker_home", "driver")},
        token=token,
        head=head,
        worker=worker,
        run=run,
        stop=stop,
    )
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("RAY_AUTH_TOKEN", None)
    done = subprocess.run(
        [*NAMESPACES, "sh", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    records = list(Ledger(tmp_path / "driver" / "runs" / "cluster").records())
    # The head has no processors for trials, so all of them ran where neither suite nor plug-in is to be seen.
    assert [record.status for record in records] == ["finished"] * 8, records[0].error if records else done.stdout
