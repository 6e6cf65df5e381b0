"""The import order of the design: no module imports upwards, and there is no circle."""

import subprocess
import sys
from graphlib import TopologicalSorter

import pytest
from import_graph import MODULES, imported

# From the bottom up; modules on one line may not import one another's package, but may import within their own.
LAYERS = [
    {
        *["errors", "randomness", "arguments", "plugins", "registry", "json_values", "models", "extras"],
        *["inputs", "metric", "files", "visible_text"],
    },
    {"structure"},
    {"architectures", "data", "tasks"},
    {"schemes"},
    {"differentiation"},
    {"probes"},
    {"training", "initializers"},
    {"inspection"},
    {"comparing"},
    {"statistics"},
    {"claims"},
    {"suite"},
    {"ledger"},
    {"reporting"},
    {"tracking"},
    {"execution"},
    {"cli", "testing"},
    {"__main__"},
]
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}


def imports(name):
    """Every module of the package that this one imports, wherever in it the import stands, but for type checking."""
    return imported(MODULES[name]) - {name}


def package(name):
    return name.split(".")[1] if "." in name else None


def test_every_part_has_a_level():
    assert {package(name) for name in MODULES} - {None} == set(LEVEL)


def test_no_import_upwards():
    upwards = []
    # The package itself names the public functions of every layer, and imports none of them until it is asked.
    for name in sorted(MODULES.keys() - {"initbench"}):
        for other in sorted(imports(name) - {"initbench"}):
            one, another = package(name), package(other)
            if one != another and not LEVEL[another] < LEVEL[one] and not LEVEL[one] == LEVEL[another] == 0:
                upwards.append(f"{name} imports {other}")
    assert not upwards


def test_no_circle():
    TopologicalSorter({name: imports(name) for name in MODULES}).prepare()


@pytest.mark.parametrize(
    "statement",
    [
        "import initbench",
        "import initbench.reporting",
        "from initbench import load_results",
        "import initbench.suite.plan",
    ],
)
def test_light_imports(statement):
    check = f"import sys\n{statement}\nprint([m for m in ('torch', 'ray', 'mlflow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_nothing_heavy():
    check = (
        "import sys\nfrom initbench.cli.command_line import main\nsys.argv = ['initbench', '--help']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print([m for m in ('torch', 'ray', 'mlflow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert "run" in done.stdout
