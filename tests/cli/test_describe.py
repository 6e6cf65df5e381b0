"""`initbench describe`: everything that is registered is documented, and what is shown can be pasted into a suite."""

import inspect
import json
import re
import sys
import textwrap
from pathlib import Path

import pytest

from initbench.cli.card import Docstring, card, parse
from initbench.cli.command_line import main
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, REGISTRIES, SCHEMES
from initbench.suite.load import load_suite
from initbench.training.named_recipes import RECIPES

pytestmark = pytest.mark.usefixtures("scratch_registry")
BUILTINS = [(r, name) for r in REGISTRIES for name in r.builtins]
every_component = pytest.mark.parametrize(
    ("registry", "name"), BUILTINS, ids=[f"{r.kind} {name}".replace("/", " ") for r, name in BUILTINS]
)
SUITE = {
    "dataset": "dataset: digits",
    "architectures": "architectures: [mlp]",
    "initializers": "initializers: [kaiming]",
}
SECTIONS = {
    "initializer": "initializers",
    "architecture": "architectures",
    "dataset": "dataset",
    "probe": "probes",
    "scheme": "architectures",
}
in_suites = pytest.mark.parametrize(
    ("registry", "name"),
    [(r, name) for r, name in BUILTINS if r.kind in SECTIONS],
    ids=[f"{r.kind} {name}".replace("/", " ") for r, name in BUILTINS if r.kind in SECTIONS],
)


def run(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["initbench", "describe", *arguments])
    main()
    return capsys.readouterr().out


def loaded(folder, kind, lines):
    """The component as the suite loader reads it from these lines."""
    text = "\n".join(["name: s", *(SUITE | {SECTIONS[kind]: lines}).values()])
    file = folder / "suite.yaml"
    file.write_text(text, encoding="utf-8")
    suite = load_suite(file)
    if kind == "probe":
        return suite.probes[0]
    if kind == "scheme":
        return suite.architectures[0]
    return getattr(suite, f"{kind}s")[0].spec


def shown(component):
    """What the lines for a suite name: of a family its example."""
    if not component.name.endswith("/*"):
        return component
    return ARCHITECTURES.get(component.name.removesuffix("*") + component.traits.example)


def defaults(component):
    return component.spec(component.resolve({}))["arguments"]


# --- the documentation gate


@every_component
def test_everything_is_documented(registry, name):
    found = card(registry.find(name))
    assert found["summary"].endswith(".")
    undocumented = [a["name"] for a in found["arguments"] if not a["description"]]
    assert undocumented == []
    assert all(found["raises"].values())
    assert found["line"] > 1
    if registry is ARCHITECTURES:
        assert found["declared"]["input"]


@every_component
def test_no_argument_is_documented_that_is_not_there(registry, name):
    component = registry.find(name)
    assert set(parse(component.documentation).arguments) == set(inspect.signature(component.factory).parameters)


@in_suites
def test_the_suite_lines_are_accepted_and_mean_the_defaults(registry, name, tmp_path):
    component = registry.find(name)
    spec = loaded(tmp_path, registry.kind, card(component)["suite"])
    if registry is SCHEMES:  # suites take its defaults
        assert spec.scheme == name
        return
    member = shown(component)
    assert spec.name == member.name
    assert spec.arguments == defaults(member)


@every_component
def test_what_is_printed_has_80_columns_and_can_be_pasted(registry, name, tmp_path, capsys, monkeypatch):
    out = run(capsys, monkeypatch, name)
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    assert "\n\n\n" not in out
    if registry.kind not in SECTIONS:
        assert "In a suite" not in out
        return
    _, _, after = out.partition(f" ({registry.kind}, ")
    pasted = after.partition("\nIn a suite\n")[2].partition("\n\n")[0].partition("\nDefined in")[0]
    spec = loaded(tmp_path, registry.kind, textwrap.dedent(pasted))
    if registry is not SCHEMES:
        assert spec.arguments == defaults(shown(registry.find(name)))


@pytest.mark.parametrize("name", sorted(RECIPES.builtins))
def test_a_recipe_is_printed_in_80_columns_with_its_sources_and_can_be_pasted(name, tmp_path, capsys, monkeypatch):
    out = run(capsys, monkeypatch, name)
    lines = out.splitlines()
    assert lines[0] == f"{name} (recipe)"
    assert max(map(len, lines)) <= 80
    assert "\n\n\n" not in out
    recipe, words = RECIPES.get(name), " ".join(out.split())
    for field, source in recipe.sources.items():
        assert f" {field} = " in words
        assert source in words
    pasted = textwrap.dedent(out.partition("\nIn a suite\n")[2].partition("\n\n")[0])
    file = tmp_path / "suite.yaml"
    file.write_text("\n".join(["name: s", *SUITE.values(), pasted]), encoding="utf-8")
    assert [part.fields for part in load_suite(file).recipes] == [recipe.fields]


@pytest.mark.parametrize("name", sorted(INITIALIZERS.builtins))
def test_the_card_of_an_initializer_says_what_it_costs_and_where_it_comes_from(name, capsys, monkeypatch):
    words = " ".join(run(capsys, monkeypatch, name).split())
    assert " Reference: " in words
    if INITIALIZERS.get(name).initializer_arguments:
        assert re.search(r"\bcosts? (one|two) (forward|backward) pass", words)
    else:
        assert "it draws the parameters, takes no data and costs no forward or backward pass." in words


# --- cards


def test_a_tuner(capsys, monkeypatch):
    out = run(capsys, monkeypatch, "metainit")
    assert out.startswith("metainit (initializer, version 3)\nTune the norm of each weight")
    words = " ".join(out.split())
    assert "A tuner: it takes another initializer (base) and adjusts its result with batches of random data." in words
    assert "\nRuns on any scheme.\n" in out
    assert "  steps: int = 500\n      number of steps, one batch each.\n" in out
    assert "  base: Initializer | null = 'delta_orthogonal'\n" in out
    assert "  batch_size: int = 32\n" in out
    assert "\nReference: Dauphin & Schoenholz, MetaInit" in out
    assert "\nDefined in initbench.initializers.metainit, line " in out


def test_a_task(capsys, monkeypatch):
    out = run(capsys, monkeypatch, "classification")
    assert out.startswith("classification (task, version 1)\nCross-entropy")
    assert "\nMetric error: lower is better, at best 0.00 %. It is the outcome of a trial.\n" in out


def test_what_each_kind_declares():
    names = {"metainit", "digits", "gradient_norm", "classification"}
    declared = {r.kind: card(r.find(n))["declared"] for r, n in BUILTINS if n in names}
    assert declared["initializer"] == {
        "starts_from": ["base"],
        "data": "random",
        "scheme": None,
        "reads_optimizer": False,
    }
    assert declared["dataset"] == {
        "task": "classification",
        "inputs": {"shape": [1, 8, 8], "vocabulary": None},
        "outputs": 10,
    }
    assert [m["name"] for m in declared["task"]["metrics"]] == ["error", "loss"]
    assert declared["task"]["recipe_fields"] == ["label_smoothing", "mixup"]
    assert declared["probe"] == {}
    assert card(INITIALIZERS.get("kaiming"))["declared"]["starts_from"] == []
    found = card(ARCHITECTURES.get("wrn"))["declared"]
    assert (found["builds_schemes"], found["tasks"]) == (["fixup"], ["classification"])
    assert card(SCHEMES.get("weight_norm"))["declared"] == {
        "instead_of_norm": True,
        "keeps_function": True,
        "brings_biases": False,
        "includes": None,
    }


def test_a_name_of_two_kinds(capsys, monkeypatch):
    cards = json.loads(run(capsys, monkeypatch, "gaussian", "--json"))
    assert cards == [card(INITIALIZERS.get("gaussian")), card(DATASETS.get("gaussian"))]
    out = run(capsys, monkeypatch, "gaussian")
    assert out.index("gaussian (initializer, ") < out.index("─" * 80) < out.index("gaussian (dataset, ")


def test_a_member_of_a_family(capsys, monkeypatch):
    [found] = json.loads(run(capsys, monkeypatch, "timm/resnet18", "--json"))
    assert (found["name"], found["kind"]) == ("timm/resnet18", "architecture")
    assert "model" not in [a["name"] for a in found["arguments"]]
    # 20 convolutions, of which 3 are shortcuts, and the classifier; 2 layers to each of 8 blocks.
    assert found["structure"][0] == "layers: 21 (20 convolution, 1 linear), at most 18 one after another"
    assert found["structure"][1].startswith("residual branches: 8 (layer1.0 (layer1.0.conv1 → layer1.0.conv2), ")
    assert found["structure_inputs"] == {"shape": [3, 32, 32], "vocabulary": None}


def test_a_plug_in(tmp_path, capsys, monkeypatch):
    file = Path(tmp_path, "mine.py")
    file.write_text(
        "import initbench\n\n"
        '@initbench.register_initializer("mine", version=3, scheme="fixup")\n'
        'def mine(std: float, mode: str = "on", note: str = "a: b", sizes: tuple[int, ...] = (1, 2)):\n'
        '    """Do it."""\n',
        encoding="utf-8",
    )
    [found] = json.loads(run(capsys, monkeypatch, "mine", "--plugin", str(file), "--json"))
    assert (found["from"], found["line"], found["text"], found["raises"]) == (str(file), 3, [], {})
    assert found["arguments"][0] == {
        "name": "std",
        "type": "float",
        "required": True,
        "default": None,
        "description": "",
    }
    # What YAML would read as something else than a text is quoted.
    assert found["suite"] == 'initializers:\n  - {name: mine, std: "<float>", mode: "on", note: "a: b", sizes: [1, 2]}'
    spec = loaded(tmp_path, "initializer", found["suite"].replace('"<float>"', "0.5"))
    assert spec.arguments == {"std": 0.5, "mode": "on", "note": "a: b", "sizes": [1, 2]}
    out = run(capsys, monkeypatch, "mine", "--plugin", str(file))
    assert out.startswith("mine (initializer, version 3)\nDo it.\n")
    assert "  std: float (required)\n  mode: str = 'on'\n" in out
    assert "Needs the scheme fixup." in out


def test_plug_ins_that_cannot_be_looked_at_have_cards_all_the_same(tmp_path, capsys, monkeypatch):
    file = Path(tmp_path, "mine.py")
    file.write_text(
        "import initbench, torch\n\n"
        '@initbench.register_architecture("reads_numbers")\n'
        "def reads_numbers(inputs, outputs):\n"
        '    """Build it."""\n'
        "    [size.item() for size in torch.linspace(0, 1, 3)]\n\n"
        "def describe(size: int = 0):\n"
        '    raise ValueError("size must be at least 1")\n\n'
        '@initbench.register_dataset("refuses_its_defaults", describe=describe)\n'
        "def refuses_its_defaults(size: int = 0):\n"
        '    """Read it."""\n',
        encoding="utf-8",
    )
    for name in ("reads_numbers", "refuses_its_defaults"):
        [card] = json.loads(run(capsys, monkeypatch, name, "--plugin", str(file), "--json"))
        assert card["from"] == str(file)


# --- docstrings


def test_a_docstring_taken_apart():
    text = """\
        Summary.

        A paragraph, whose second line
        ends here.

        Note: this is text.

        Args:
            first: one line.
            second (int): two
                lines: the second has a colon.

            *rest: behind an empty line.
            empty:

        Returns:
            value: not an argument.

        Raises:
            ValueError: too small.
            ValueError: too large.
            initbench.errors.DataError: missing.

        The end.
        """
    assert parse(inspect.cleandoc(text)) == Docstring(
        ["A paragraph, whose second line ends here.", "Note: this is text.", "The end."],
        {"first": "one line.", "second": "two lines: the second has a colon.", "rest": "behind an empty line."}
        | {"empty": ""},
        {"ValueError": "too small. too large.", "initbench.errors.DataError": "missing."},
    )


def test_docstrings_without_sections():
    assert parse("") == parse("Summary.") == Docstring()
    assert parse("Summary.\n\nText.") == Docstring(["Text."])
