"""The pytest plug-in, in processes of its own: it loads no torch, and says which fingerprints it wrote."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from plugin_options import OPTIONS, PLUGIN
from torch import nn

import initbench
from initbench.inspection.fingerprint import fingerprint, write_fingerprint

ROOT = Path(initbench.__file__).parents[1]
ASSERTS = """\
from initbench.testing import assert_matches_fingerprint
from torch import nn

def network():
    return nn.Linear(8, 8)

def test_the_network():
    assert_matches_fingerprint(network, "laws/linear.json", seeds=2)
"""
# Writes as `assert_matches_fingerprint` does, and needs no torch.
WRITES = """\
from pathlib import Path
from initbench.testing.pytest_plugin import updates

def test_one():
    if updates.requested:
        updates.written.append(Path("one.json").absolute())

def test_two():
    assert not updates.written
    if updates.requested:
        updates.written.append(Path("two.json"))
        assert False
"""


def run_pytest(folder, *arguments):
    """Run pytest with the plug-in and, for speed, no other that is installed."""
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments]
    variables = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_entry_point_is_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"initbench": PLUGIN}
    assert importlib.import_module(PLUGIN).pytest_addoption


def test_it_loads_no_torch(tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "pytest", *OPTIONS, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.count("--update-fingerprints") == 1
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pluggy" in imported
    assert not {"torch", "numpy"} & imported


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_each_written_file_has_a_line_whatever_became_of_the_test(options, tmp_path):
    (tmp_path / "test_writes.py").write_text(WRITES, encoding="utf-8")
    done = run_pytest(tmp_path, *options, "--update-fingerprints")
    assert "1 failed, 1 passed" in done.stdout
    wrote = [line for line in done.stdout.splitlines() if line.startswith("wrote")]
    assert wrote == ["wrote one.json", "wrote two.json"]


def test_nothing_is_written_unasked(tmp_path):
    (tmp_path / "test_writes.py").write_text(WRITES, encoding="utf-8")
    done = run_pytest(tmp_path)
    assert "2 passed" in done.stdout
    assert "wrote" not in done.stdout


def test_a_failure_shows_the_test_and_what_differs_alone(tmp_path):
    (tmp_path / "test_network.py").write_text(ASSERTS, encoding="utf-8")
    without_bias = fingerprint(lambda: nn.Linear(8, 8, bias=False), seeds=2)
    (tmp_path / "laws").mkdir()
    write_fingerprint(tmp_path / "laws" / "linear.json", without_bias)
    done = run_pytest(tmp_path, "-q").stdout
    assert "1 failed" in done
    said = [line.removeprefix("E").strip() for line in done.splitlines() if line.startswith("E")]
    assert said[0] == "AssertionError: the initialization differs"
    assert said[1].startswith("laws/linear.json against network (")
    assert "bias: in network, missing in laws/linear.json" in said
    assert "initbench/testing" not in done
