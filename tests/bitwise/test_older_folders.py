"""Folders that an older version wrote: this one shows, resumes, reports and syncs them as if they were its own.

The older version is checked out beside this tree, and both run as commands of their own.
"""

import json
import os
import subprocess
import sys

import pytest
from mlflow import MlflowClient

from bitwise.compare import ROOT, RequestError, checked_out
from initbench.ledger import Ledger
from initbench.tracking.uri import default_tracking_uri

pytestmark = pytest.mark.slow
OLDER = "9c16a4e"
PLUGIN = '''
"""A plug-in whose trials can be made to fail, or to take the driver with them."""

import math
import os

from torch import nn

import initbench

steps = 0


class Mortal(nn.Module):
    def __init__(self, features, width, outputs):
        super().__init__()
        self.width = width
        layers = nn.Linear(features, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, outputs)
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, inputs):
        global steps
        if self.training:
            steps += 1
            if os.environ.get("FAILING_WIDTH") == str(self.width):
                raise RuntimeError("not today")
            if os.environ.get("DIE_AT_STEP") == str(steps):
                os._exit(9)
        return self.layers(inputs)


@initbench.register_architecture("mortal")
def mortal(width: int = 8, *, inputs: initbench.Inputs, outputs: int) -> nn.Module:
    """Two linear layers."""
    return Mortal(math.prod(inputs.shape), width, outputs)
'''
# An epoch has two steps.
MIXED = """\
name: mixed
dataset: {name: digits, train_size: 64}
architectures: [{name: mortal, width: [4, 8]}]
initializers: [kaiming, xavier]
recipe: {epochs: 2, batch_size: 32, lr: [0.1, 1.0e+30]}
probes: [gradient_norm]
seeds: 1
"""
TUNED = """\
name: tuned
dataset: {name: digits, train_size: 64}
architectures: [mortal]
initializers: [kaiming, xavier]
recipe: {epochs: 2, batch_size: 32}
tune: {recipe.lr: [0.01, 0.1]}
probes: []
seeds: 1
"""
KEPT = """\
name: kept
dataset: {name: gaussian, train_size: 64, image_size: 8, channels: 1}
architectures: [mortal]
initializers: [kaiming]
recipe: {epochs: 5, batch_size: 32, lr: 0.1}
probes: []
checkpoints: {every_epochs: 1}
seeds: 2
"""


class Commands:
    """The commands of one version of the library, in a folder with the plug-in and the suites."""

    def __init__(self, tree, folder):
        self.tree, self.folder = tree, folder

    def __call__(self, *words, code=0, **environment):
        """Run a command, which ends with this code; return what it prints."""
        own = {"PYTHONPATH": str(self.tree), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        inherited = {k: v for k, v in os.environ.items() if k not in {"MLFLOW_TRACKING_URI", "INITBENCH_DATA"}}
        command = [sys.executable, "-P", "-m", "initbench", *map(str, words)]
        done = subprocess.run(
            command, cwd=self.folder, env=inherited | own | environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def run(self, name, out="runs", **options):
        words = ("--out", out, "--executor", "in-process", "--plugin", "mortal_plugin.py")
        self("run", f"{name}.yaml", *words, **options)
        return self.folder / out / name

    def status(self, home):
        return json.loads(self("status", home, "--json"))


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """The commands of the older version and of this one."""
    folder = tmp_path_factory.mktemp("older")
    (folder / "mortal_plugin.py").write_text(PLUGIN)
    for name, text in (("mixed", MIXED), ("tuned", TUNED), ("kept", KEPT)):
        (folder / f"{name}.yaml").write_text(text)
    try:
        with checked_out(OLDER) as tree:
            yield Commands(tree, folder), Commands(ROOT, folder)
    except RequestError as error:
        pytest.skip(str(error))


def files(home):
    """What each record's file holds, and when it was written."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (home / "trials").iterdir()}


def tracked(home):
    """The MLflow runs of each trial."""
    client = MlflowClient(tracking_uri=default_tracking_uri(home))
    found = {}
    for run in client.search_runs([client.get_experiment_by_name(home.name).experiment_id], max_results=500):
        if (trial := run.data.tags.get("initbench.trial_id")) is not None:
            found.setdefault(trial, []).append(run.info.run_id)
    return found


def outcomes(home):
    """What came of each trial; its spec may have arguments of which the older version does not know."""
    return {
        record.id: (record.status, json.dumps([record.metrics, record.history, record.probes]))
        for record in Ledger(home).records()
    }


def assert_kept(before, home):
    """No trial with a result ran again: its file is the one that was written then."""
    after = files(home)
    assert {name: after[name] for name in before} == before


def with_results(home, statuses=("finished", "diverged")):
    found = {f"{record.id}.json" for record in Ledger(home).records([]) if record.status in statuses}
    return {name: state for name, state in files(home).items() if name in found}


def test_a_folder_is_shown_as_it_was_left_and_what_failed_alone_runs_again(versions):
    older, newer = versions
    home = older.run("mixed", code=1, FAILING_WIDTH="8")
    said = newer.status(home)
    assert (said["finished"], said["diverged"], said["failed"], said["left"]) == (2, 2, 4, 0)
    assert said == older.status(home)
    whole, kept, runs = files(home), with_results(home), tracked(home)
    rows = (home / "report" / "results.csv").read_text().splitlines()
    newer("report", home)
    assert len((home / "report" / "results.csv").read_text().splitlines()) == len(rows) > 1
    newer("sync", home)
    assert (files(home), tracked(home)) == (whole, runs)
    newer.run("mixed")
    assert_kept(kept, home)
    assert newer.status(home)["done"] == 8
    assert outcomes(home) == outcomes(older.run("mixed", "whole"))
    after = tracked(home)
    assert {len(ids) for ids in after.values()} == {1}
    assert {trial: ids for trial, ids in after.items() if f"{trial}.json" in kept} == {
        trial: ids for trial, ids in runs.items() if f"{trial}.json" in kept
    }
    again = files(home)
    newer.run("mixed")
    assert (files(home), tracked(home)) == (again, after)
    a_damaged_file_runs_again_alone(newer, home)


def a_damaged_file_runs_again_alone(newer, home):
    kept, known = with_results(home), outcomes(home)
    damaged = home / "trials" / min(kept)
    whole, _ = kept.pop(damaged.name)
    damaged.write_bytes(whole[:1000])
    said = newer.status(home)
    assert (said["done"], len(said["damaged"])) == (7, 1)
    newer.run("mixed")
    assert_kept(kept, home)
    assert damaged.with_name(f"{damaged.name}.damaged").read_bytes() == whole[:1000]
    assert outcomes(home) == known
    assert {len(ids) for ids in tracked(home).values()} == {1}


def test_a_half_finished_search_goes_on(versions):
    older, newer = versions
    home = older.run("tuned", code=9, DIE_AT_STEP="10")
    before, said = with_results(home), newer.status(home)
    assert 0 < len(before) < 4
    assert said == older.status(home)
    assert said["running"] is False
    assert (said["done"], said["awaited"] > 0) == (len(before), True)
    newer.run("tuned")
    assert_kept(before, home)
    assert outcomes(home) == outcomes(older.run("tuned", "whole"))
    assert {len(ids) for ids in tracked(home).values()} == {1}
    assert newer.status(home)["left"] == 0
    assert 'role="img"' in (home / "report" / "index.html").read_text(encoding="utf-8")


def test_a_trial_that_was_killed_goes_on_from_its_checkpoint(versions):
    older, newer = versions
    home = older.run("kept", code=9, DIE_AT_STEP="18")
    assert list(home.glob("checkpoints/**/*.pt"))
    assert newer.status(home) == older.status(home)
    kept = with_results(home)
    assert (newer.status(home)["left"], len(kept)) == (1, 1)
    newer.run("kept")
    assert_kept(kept, home)
    assert [r.timing.get("resumed_at_step") for r in Ledger(home).records() if f"{r.id}.json" not in kept] == [6]
    assert outcomes(home) == outcomes(older.run("kept", "whole"))
    assert {len(ids) for ids in tracked(home).values()} == {1}
