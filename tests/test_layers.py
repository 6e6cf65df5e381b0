"""The import order of the design: no module imports upwards, and there is no circle."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import initbench

ROOT = Path(initbench.__file__).parent
# From the bottom up; modules on one line may not import one another's package, but may import within their own.
LAYERS = [
    {
        *["errors", "randomness", "arguments", "plugins", "registry", "json_values", "models"],
        *["inputs", "metric", "files", "visible_text"],
    },
    {"structure"},
    {"architectures", "data", "tasks"},
    {"schemes"},
    {"differentiation"},
    {"probes"},
    {"training", "initializers"},
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


def module_name(path):
    parts = ("initbench", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}


def imports(name):
    """Every module of the package that this one imports, wherever in it the import stands, but for type checking."""
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else node.module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(MODULES[name].read_text(encoding="utf-8")))
    return {m for m in found if m in MODULES and m != name}


def package(name):
    return name.split(".")[1] if "." in name else None


def test_every_part_has_a_level():
    assert {package(name) for name in MODULES} - {None} == set(LEVEL)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_no_import_upwards(name):
    if name == "initbench":
        return  # it names the public functions of every layer, and imports none of them until it is asked
    for imported in imports(name) - {"initbench"}:
        own, other = package(name), package(imported)
        assert own == other or LEVEL[other] < LEVEL[own] or LEVEL[own] == LEVEL[other] == 0, (
            f"{name} imports {imported}"
        )


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
        "import sys\nfrom initbench.cli import main\nsys.argv = ['initbench', '--help']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print([m for m in ('torch', 'ray', 'mlflow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert "run" in done.stdout
