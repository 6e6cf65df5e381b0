"""What works after `pip install initbench`, without an extra, and what the rest says."""

import os
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from import_graph import MODULES, source
from installation import CORE, PROJECT, SUITE, core_environment, installed_by
from ledgers import KAIMING, make_record, make_spec, write_ledger
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from initbench.cli import command_line
from initbench.cli.command_line import app, main
from initbench.extras import EXTRA_OF, needed_by

SUITE_FILE = """\
name: one
dataset: random
architectures: [mlp]
initializers: [kaiming]
recipe: {epochs: 1, batch_size: 64, lr: 0.1}
"""
# What needs no extra: the modules of these packages can be imported, and the components in them be built and used.
LIBRARY = """\
import importlib, pkgutil
import torch
import initbench
from initbench.registry import PROBES, REGISTRIES

for package in "architectures differentiation initializers models probes registry schemes structure training".split():
    folder = importlib.import_module(f"initbench.{package}").__path__
    for module in pkgutil.iter_modules(folder, f"initbench.{package}."):
        importlib.import_module(module.name)
for registry in REGISTRIES:
    for name in registry.names():
        registry.find(name)

model = initbench.create_model("resnet", norm="none")
initbench.initialize(model, "delta_orthogonal", seed=1)
batch = torch.randn(2, 3, 32, 32), torch.tensor([0, 1])
assert initbench.gradient_quotient(model, *batch) > 0
assert len(initbench.find_structure(model, batch[0]).branches) == 9
probe = PROBES.get("signal_by_depth").build({"data": "random", "batch_size": 2})
assert probe(model, initbench.ProbeContext(0, initbench.Inputs((3, 32, 32)), 10))
assert initbench.rewrite(model, "skipinit", inputs=batch[0])(batch[0]).shape == (2, 10)
dropping = initbench.create_model("wrn", depth=10, width=1, drop_path=0.5)
assert dropping(batch[0]).shape == (2, 10)
for name in ("timm/resnet18", "torchvision/resnet18", "hf/gpt2"):
    try:
        initbench.create_model(name)
    except initbench.InitbenchError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """Run Python in an environment with the core alone, in a folder with a suite and a suite's folder."""
    folder = tmp_path_factory.mktemp("core")
    python = core_environment(folder / "environment")
    (folder / "one.yaml").write_text(SUITE_FILE, encoding="utf-8")
    write_ledger(folder / "results", [make_record(make_spec(KAIMING), 0.1)])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments):
        command = [python, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return run


def modules():
    """Return the modules of others, by their top level, that the library imports."""
    all_of_them = {name.partition(".")[0] for path in MODULES.values() for name, _ in source(path).imports}
    return all_of_them - sys.stdlib_module_names - {"initbench"}


def direct(requirements):
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def test_every_import_is_installed_by_the_core_or_by_its_extra():
    extras = PROJECT["optional-dependencies"]
    installed = {None: installed_by(CORE), **{extra: installed_by(extras[extra]) for extra in set(EXTRA_OF.values())}}
    distributions = packages_distributions()
    imported = set()
    for module in modules():
        by = {canonicalize_name(name) for name in distributions[module]}
        assert by & installed[EXTRA_OF.get(module)].keys(), module
        imported |= by
    assert EXTRA_OF.keys() <= modules()
    assert direct([*CORE, *SUITE]) <= imported


def test_the_environment_has_the_core_alone(core):
    script = f"from importlib.util import find_spec; print([name for name in {list(EXTRA_OF)} if find_spec(name)])"
    assert core("-c", script).stdout == "['jinja2']\n", "PyTorch needs jinja2 too"


def test_models_are_built_initialized_rewritten_and_measured(core):
    done = core("-W", "error", "-c", LIBRARY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "architectures timm/NAME need the library timm: pip install 'initbench[suite]'",
        "architectures torchvision/NAME need the library torchvision: pip install 'initbench[suite]'",
        "architectures hf/NAME need the library transformers: pip install 'initbench[hf]'",
    ]


def test_the_help_lists_every_command(core):
    done = core("-m", "initbench", "--help")
    listed = [line.split()[0] for line in done.stdout.partition("Commands:\n")[2].splitlines()]
    assert listed == [command.name for command in app.registered_commands]


@pytest.mark.parametrize(
    "command", ["list", "describe kaiming", "plan one.yaml", "status results", "new-plugin my_methods"]
)
def test_a_command_that_needs_no_extra_works(core, command):
    done = core("-m", "initbench", *command.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize(
    ("command", "library"),
    [
        ("run one.yaml", "ray"),
        ("report results", "pandas"),
        ("plan one.yaml --power", "pandas"),
        ("sync results", "mlflow"),
        ("ui", "mlflow"),
    ],
)
def test_a_command_whose_extra_is_missing_says_so_and_writes_nothing(core, command, library):
    before = core("-c", "import os; print(sorted(os.listdir()), sorted(os.listdir('results')))").stdout
    done = core("-m", "initbench", *command.split())
    assert done.stderr == f"initbench: this command needs {library}: pip install 'initbench[suite]'\n"
    assert (done.returncode, done.stdout) == (2, "")
    assert core("-c", "import os; print(sorted(os.listdir()), sorted(os.listdir('results')))").stdout == before


@pytest.mark.parametrize("name", ["nothing", "pandas.nothing"])
def test_any_other_missing_module_is_a_fault(monkeypatch, name):
    def fail(**_):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(ModuleNotFoundError):
        main()
    with pytest.raises(ModuleNotFoundError), needed_by("some names"):
        fail()
