"""A plug-in package, installed, whose initializer and architecture a suite uses through Ray."""

import hashlib
import json
import math
import os
import subprocess
import sys

import pytest
from environments import install, virtual_environment

from initbench.ledger import Ledger

PACKAGE = {
    "pyproject.toml": """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "zoo-plugin"
version = "1.0"

[project.entry-points."initbench.plugins"]
zoo = "zoo_plugin.parts"
""",
    # A build backend of its own: none need be installed where the tests run, and nothing is downloaded.
    "backend.py": """\
import tomllib
import zipfile
from pathlib import Path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    files = {str(path): path.read_text() for path in Path("zoo_plugin").glob("*.py")}
    info = "zoo_plugin-1.0.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\\nName: {project['name']}\\nVersion: {project['version']}\\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[f"{info}/entry_points.txt"] = "".join(
        f"[{group}]\\n" + "".join(f"{name} = {module}\\n" for name, module in points.items())
        for group, points in project["entry-points"].items()
    )
    files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(Path(wheel_directory, "zoo_plugin-1.0-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "zoo_plugin-1.0-py3-none-any.whl"
""",
    "zoo_plugin/__init__.py": "",
    "zoo_plugin/parts.py": '''\
import math

import torch
from torch import nn

import initbench


@initbench.register_architecture("zoo_net")
def zoo_net(width: int = 4, *, inputs: initbench.Inputs, outputs: int) -> nn.Module:
    """Two linear layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(inputs.shape), width), nn.Tanh(), nn.Linear(width, outputs)
    )


@initbench.register_initializer("zoo_init")
def zoo_init(scale: float = 1):
    """Every output is the same: the last layer is zero."""

    def apply(model, context):
        for name, parameter in model.named_parameters():
            nn.init.normal_(parameter, 0.0, scale, generator=context.generator(name))
        with torch.no_grad():
            model[-1].weight.zero_()
            model[-1].bias.zero_()

    return apply
''',
}
SUITE = """\
name: zoo
dataset: {name: digits, train_size: 128}
architectures: [{name: zoo_net, width: 6}]
initializers: [{name: zoo_init, scale: [1, 2]}]
recipe: {epochs: 1, batch_size: 32}
probes: [initial_loss]
"""


@pytest.fixture
def python(tmp_path):
    """The interpreter of a virtual environment in which the plug-in is installed."""
    python = virtual_environment(tmp_path / "environment")
    package = tmp_path / "package"
    for name, text in PACKAGE.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    install(python, package)
    return python


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the layout of the virtual environment")
def test_an_installed_plugin_through_ray(python, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")

    def run(*arguments):
        command = [python, "-m", "initbench", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    described = run("describe", "zoo_init", "--json")
    [card] = json.loads(described.stdout)
    assert (card["from"], card["summary"]) == ("zoo_plugin.parts", "Every output is the same: the last layer is zero.")

    done = run("run", "suite.yaml", "--executor", "ray")
    assert done.returncode == 0, done.stderr
    records = list(Ledger(folder / "runs" / "zoo").records())
    assert [record.status for record in records] == ["finished", "finished"]
    digest = hashlib.sha256()
    for name in ("__init__.py", "parts.py"):
        text = hashlib.sha256(PACKAGE[f"zoo_plugin/{name}"].encode()).hexdigest()
        digest.update(f"{name}\n{text}\n".encode())
    for record in records:
        architecture, initializer = record.spec["architecture"], record.spec["initializer"]
        assert (architecture["name"], architecture["arguments"]) == ("zoo_net", {"width": 6})
        assert initializer["name"] == "zoo_init"
        assert architecture["source"] == initializer["source"] == digest.hexdigest()
        # Equal outputs for the 10 classes: the initializer did its work in the worker. float32 rounding of ln 10.
        assert record.probes[0]["value"] == pytest.approx(math.log(10), abs=1e-5)
    assert {record.spec["initializer"]["arguments"]["scale"] for record in records} == {1.0, 2.0}

    # What one environment has, another may lack: there the suite names what is missing.
    without = subprocess.run(
        [sys.executable, "-m", "initbench", "plan", "suite.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert without.returncode == 2
    assert without.stderr.startswith(
        "initbench: suite.yaml:4: initializers[0].name: unknown initializer 'zoo_init'"
    ) or (without.stderr.startswith("initbench: suite.yaml:3: architectures[0].name: unknown architecture 'zoo_net'"))
