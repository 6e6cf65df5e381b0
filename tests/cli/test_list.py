"""`initbench list`: read from the source, it says what the imported components say."""

import ast
import json
import subprocess
import sys

import pytest

import initbench
from initbench.cli import list as listing
from initbench.cli.command_line import main
from initbench.registry import ARCHITECTURES, INITIALIZERS, PROBES, REGISTRIES
from initbench.training.named_recipes import RECIPES

pytestmark = pytest.mark.usefixtures("scratch_registry")
BUILTINS = [(r, name) for r in REGISTRIES for name in r.builtins]


def run(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["initbench", "list", *arguments])
    main()
    return capsys.readouterr().out


@pytest.fixture
def scratch(scratch_registry):  # it must be forgotten
    @initbench.register_initializer("scratch", version=2)
    def scratch(std: float = 0.5, sizes: tuple[int, ...] = (1, 2)):
        """What it does."""


@pytest.mark.parametrize(("registry", "name"), BUILTINS, ids=[f"{r.kind} {name}" for r, name in BUILTINS])
def test_the_source_says_what_the_import_says(registry, name):
    assert listing.read_source(registry, name) == listing.of_component(registry.find(name))


def test_what_only_an_import_can_tell_is_imported(monkeypatch):
    def unreadable(*_):
        raise LookupError

    expected = listing.read_source(INITIALIZERS, "metainit")
    monkeypatch.setattr(listing, "read_source", unreadable)
    assert listing.listing(INITIALIZERS, "metainit") == expected


def test_nothing_but_the_standard_library_is_imported_to_evaluate_a_name():
    source = listing._Source(ast.parse("import torch\nfrom math import pi\nSIDE = 2\nAREA = SIDE * pi"))
    assert source["AREA"] == 2 * 3.141592653589793
    with pytest.raises(ImportError, match="torch"):
        source["torch"]
    with pytest.raises(NameError, match="ELSEWHERE"):
        source.value(ast.parse("ELSEWHERE + 1", mode="eval").body)


def test_it_loads_nothing_heavy():
    check = (
        "import sys\nfrom initbench.cli.command_line import main\nsys.argv = ['initbench', 'list']\nmain()\n"
        "print([m for m in ('torch', 'timm', 'ray', 'mlflow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.usefixtures("scratch")
def test_every_name_stands_on_a_line_of_its_own(capsys, monkeypatch):
    out = run(capsys, monkeypatch)
    for name in [*(name for _, name in BUILTINS), *RECIPES.builtins]:
        assert f"\n{name} " in out
    assert "lr_multipliers = {scalar: 0.1, bias: 0.1}, schedule = 'step'" in " ".join(out.split())
    assert "base: Initializer | null = 'delta_orthogonal', steps: int = 500, lr: float = 0.1," in out
    [line] = [line for line in out.splitlines() if line.startswith("scratch ")]
    assert line.rstrip().endswith("  What it does.")
    assert "std: float = 0.5, sizes: tuple[int, ...] = [1, 2]" in line


@pytest.mark.usefixtures("scratch")
def test_json(capsys, monkeypatch):
    data = json.loads(run(capsys, monkeypatch, "--json"))
    assert list(data) == ["initializer", "architecture", "scheme", "task", "dataset", "probe", "recipe"]
    assert {card["name"] for card in data["architecture"]} == set(ARCHITECTURES.builtins)
    assert {card["name"] for card in data["probe"]} == set(PROBES.builtins)
    recipes = {card["name"]: card for card in data["recipe"]}
    assert set(recipes) == set(RECIPES.builtins)
    cutout = next(a for a in recipes["gradinit_cifar"]["arguments"] if a["name"] == "cutout")
    assert (cutout["default"], cutout["description"]) == (16, "the authors' code, Cutout(n_holes=1, length=16)")
    cards = {card["name"]: card for card in data["initializer"]}
    assert set(cards) == {*INITIALIZERS.builtins, "scratch"}
    arguments = {a["name"]: a for a in cards["metainit"]["arguments"]}
    assert arguments["steps"] == {
        "name": "steps",
        "type": "int",
        "required": False,
        "default": 500,
        "description": "number of steps, one batch each.",
    }
    assert (arguments["base"]["type"], arguments["base"]["default"]) == ("Initializer | null", "delta_orthogonal")
    assert (arguments["batch_size"]["type"], arguments["batch_size"]["default"]) == ("int", 32)
    gradinit = {a["name"]: a["default"] for a in cards["gradinit"]["arguments"]}
    assert gradinit["base"] == {"name": "kaiming", "mode": "fan_out"}
    assert {"base", "batch_size"}.isdisjoint(a["name"] for a in cards["kaiming"]["arguments"])
    assert (cards["scratch"]["from"], cards["scratch"]["version"]) == (__name__, 2)
