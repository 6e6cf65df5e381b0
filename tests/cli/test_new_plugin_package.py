"""The package that `initbench new-plugin` writes passes its tests, installs, and runs in a suite."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pytest
from environments import install, virtual_environment

import initbench
from initbench.cli.command_line import main
from initbench.ledger import Ledger
from initbench.testing.kit import PROPERTIES

ROOT = Path(initbench.__file__).parents[1]
ITS_TESTS = 11 + len(PROPERTIES)


@pytest.fixture
def package(tmp_path, monkeypatch, capsys):
    """The folder of a new package."""
    monkeypatch.setattr(sys, "argv", ["initbench", "new-plugin", "zoo_methods", "--out", str(tmp_path / "package")])
    main()
    capsys.readouterr()
    return tmp_path / "package"


def as_installed(package, *command):
    """Run a module in the package's folder as if it were installed, with the entry points of its pyproject.toml."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = package / "src" / f"zoo_methods-{project['version']}.dist-info"
    info.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {module}\n" for name, module in found.items())
        for group, found in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=package,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )


def follow_the_how_tos(package):
    """Do what the README says: an architecture, a dataset and a probe, a file each, named in the imports."""
    module = package / "src" / "zoo_methods"
    *parts, _ = re.split(r"^```\n", (package / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    examples = [part.split("```python\n") for part in parts if "```python\n" in part]
    files = {re.findall(r"`src/zoo_methods/(\w+\.py)`", before)[-1]: text for before, text in examples}
    assert list(files) == ["architecture.py", "dataset.py", "probe.py"]
    [imports] = [part for part in parts if part.startswith("from zoo_methods import ")]
    initial = (module / "__init__.py").read_text(encoding="utf-8")
    files["__init__.py"] = initial.partition("from zoo_methods import ")[0] + imports
    for name, text in files.items():
        (module / name).write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_its_tests_pass(package):
    done = as_installed(package, "pytest", "-q", "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^{ITS_TESTS} passed", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_its_suite_is_a_plan(package):
    done = as_installed(package, "initbench", "plan", "suites/zoo_methods.yaml", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["suite"], data["trials"], data["incompatible"]) == ("zoo_methods", 4, [])
    assert [(cell["initializer"], cell["seeds"]) for cell in data["cells"]] == [
        ("kaiming", [0, 1]),
        ("zoo_methods", [0, 1]),
    ]


def test_its_files_are_clean(package):
    pytest.importorskip("ruff", reason="ruff is a tool of development")
    follow_the_how_tos(package)
    config = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", "."]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *config],
            cwd=package,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "caught"),
    [
        (", generator=generator", "", "test_a_layer_in_front_shifts_no_draw"),
        (", generator=generator", "", r"test_what_holds_for_every_initializer\[leaves_the_global_random_state\]"),
        (', "gain")', ")", r"test_what_holds_for_every_initializer\[names_bad_arguments\]"),
        ("layer.fan_in", "layer.fan_out", "test_mean_and_standard_deviation"),
        ("2 * heads - 1", "heads", "test_mean_and_standard_deviation"),
        ("bernoulli_(0.5", "bernoulli_(0.6", "test_mean_and_standard_deviation"),
        ("bernoulli_(0.5", "uniform_(0, 1", "test_entries_have_one_magnitude"),
        ("return Distribution(draw)", "return lambda model, context: None", "test_biases_are_zero"),
        ('zoo_methods = "zoo_methods"', 'zoo_methods = "zoo_method"', "test_suites_find_it_by_name"),
    ],
)
def test_its_tests_catch_mistakes(package, old, new, caught):
    edited = 0
    for file in (package / "src" / "zoo_methods" / "initializer.py", package / "pyproject.toml"):
        text = file.read_text(encoding="utf-8")
        edited += text.count(old)
        file.write_text(text.replace(old, new), encoding="utf-8")
    assert edited == 1
    done = as_installed(package, "pytest", "-q")
    assert done.returncode == 1
    assert re.search(rf"^FAILED .*::{caught}", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
def test_its_types_are_right(package):
    pytest.importorskip("mypy", reason="mypy is a tool of development")
    follow_the_how_tos(package)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "src", "tests"],
        cwd=package,
        env=os.environ | {"MYPYPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the layout of the virtual environment")
def test_an_installed_package_ends_in_a_report(package, tmp_path):
    pytest.importorskip("hatchling", reason="the package's build backend")
    python = virtual_environment(tmp_path / "environment")
    install(python, package)

    def run(*command):
        done = subprocess.run([python, "-m", *command], cwd=package, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert re.search(rf"^{ITS_TESTS} passed", run("pytest", "-q", "-W", "error"), re.MULTILINE)
    run("initbench", "run", "suites/zoo_methods.yaml", "--executor", "in-process")
    records = list(Ledger(package / "runs" / "zoo_methods").records())
    assert [record.status for record in records] == ["finished"] * 4
    comparison = pd.read_csv(package / "runs" / "zoo_methods" / "report" / "comparison.csv")
    assert {"kaiming", "zoo_methods"} == set(comparison["treatment"])

    follow_the_how_tos(package)
    install(python, package)
    (package / "suites" / "more.yaml").write_text(
        "name: more\ndataset: stripes\narchitectures: [small_net]\ninitializers: [zoo_methods]\n"
        "recipe: {epochs: 4, batch_size: 32, lr: 0.1}\nprobes: [output_scale]\n",
        encoding="utf-8",
    )
    run("initbench", "run", "suites/more.yaml", "--executor", "in-process")
    [record] = Ledger(package / "runs" / "more").records()
    assert (record.status, record.spec["dataset"]["name"]) == ("finished", "stripes")
    [scale] = record.probes
    assert scale["name"] == "output_scale"
    assert 0 < scale["value"] < 10
    # Chance is 1/2; one convolution tells the stripes apart, unless its targets are not those of its patterns.
    assert record.metrics["test_error"] < 0.1


def test_the_wheel_of_initbench_brings_the_templates(tmp_path):
    pytest.importorskip("hatchling", reason="the build backend")
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", str(tmp_path), str(ROOT)], check=True
    )
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        brought = {name for name in archive.namelist() if "/plugin_template/" in name}
    assert brought == {
        f"initbench/cli/plugin_template/{path.name}" for path in (ROOT / "initbench/cli/plugin_template").iterdir()
    }
