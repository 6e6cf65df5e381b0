"""`initbench plan`: the cells, what tells them apart, what is incompatible, what the ledger has."""

import json
import sys
from pathlib import Path

import pytest
from ledgers import make_record

from initbench.cli.command_line import main
from initbench.ledger import Ledger
from initbench.suite.load import load_suite
from suites import VALID, edited, plan_of


@pytest.fixture
def show(tmp_path, monkeypatch, capsys):
    """Run `initbench plan` on a text and return what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options):
        Path("suite.yaml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["initbench", "plan", "suite.yaml", *options])
        main()
        return capsys.readouterr().out

    return run


def test_json(show):
    data = json.loads(show(VALID, "--json"))
    assert (data["suite"], data["trials"], data["missing"], data["excluded"]) == ("valid", 10, 10, 2)
    trials = plan_of(load_suite("suite.yaml")).trials
    assert [(c["architecture"], c["initializer"], c["seeds"], c["set_by_rules"]) for c in data["cells"]] == [
        ("plain[depth=10, width=1]", "kaiming", [0, 1], {"recipe.clip_norm": 1.0}),
        ("plain[depth=10, width=1]", "metainit(delta_orthogonal)", [0, 1], {"recipe.clip_norm": 1.0}),
        ("plain[depth=16, width=1]", "kaiming", [0, 1], {"recipe.clip_norm": 1.0}),
        ("plain[depth=16, width=1]", "metainit(delta_orthogonal)", [0, 1], {"recipe.clip_norm": 1.0}),
        ("mlp[depth=3, width=8]", "kaiming", [0, 1], {}),
    ]
    assert sorted(i for cell in data["cells"] for i in cell["trials"]) == sorted(trial.id for trial in trials)
    assert all(cell["statuses"] == {"missing": 2} and cell["recipe"] == {} for cell in data["cells"])


def test_what_the_ledger_has(show):
    show(VALID)
    first, second, third, *_ = plan_of(load_suite("suite.yaml")).trials
    ledger = Ledger(Path("runs/valid"))
    for trial, status in ((first, "finished"), (second, "diverged"), (third, "failed")):
        ledger.write(make_record(trial, status=status))
    data = json.loads(show(VALID, "--json"))
    assert data["missing"] == 8  # the failed one is tried again
    assert [cell["statuses"] for cell in data["cells"][:3]] == [
        {"finished": 1, "missing": 1},
        {"diverged": 1, "missing": 1},
        {"failed": 1, "missing": 1},
    ]
    assert "10 trials in 5 cells: 8 to run, 2 have a result, 2 excluded" in show(VALID)


def test_crossed_recipes_and_data_tell_cells_apart(show):
    text = edited(
        ("dataset: digits", "dataset: {name: digits, train_size: [100, 200]}"),
        ("epochs: 1, lr: 0.1", "epochs: 1, lr: [0.1, 0.2]"),
    )
    data = json.loads(show(text, "--json", "--only", "architecture=mlp"))
    assert [(cell["dataset"], cell["recipe"]) for cell in data["cells"]] == [
        (f"digits[train_size={size}]", {"lr": lr}) for size in (100, 200) for lr in (0.1, 0.2)
    ]
    assert "digits[train_size=100]  lr=0.2" in show(text)
    assert "lr=" not in show(VALID)  # a column that says the same everywhere is left out


def test_incompatible_pairs(show):
    text = edited(("{name: mlp, width: 8}", "{name: mlp, width: 8, scheme: [standard, fixup]}"))
    assert "incompatible: mlp[depth=3, width=8] + fixup: mlp: fixup: no residual branches" in show(text)


def test_each_reason_stands_once(show):
    text = edited(
        ("{name: mlp, width: 8}", "{name: mlp, width: [8, 9], scheme: [standard, fixup]}"),
        ("epochs: 1, lr: 0.1", "epochs: 1, lr: [0.1, 0.2]"),
    )
    out = show(text)
    assert out.count("mlp: fixup: no residual branches") == 1
    assert "mlp[depth=3, width=8] + fixup; mlp[depth=3, width=9] + fixup: mlp" in out
    assert len(json.loads(show(text, "--json"))["incompatible"]) == 2


def test_a_suite_in_which_nothing_can_run(show, capsys):
    """Its reasons are printed, each once, and the request was wrong."""
    text = edited(
        ("- {name: plain, depth: [10, 16], width: 1, norm: none}", "- {name: mlp, depth: [3, 4], scheme: skipinit}"),
        ("{name: mlp, width: 8}", "{name: mlp, width: 8, scheme: fixup}"),
        ("epochs: 1, lr: 0.1", "epochs: 1, lr: [0.1, 0.2]"),
        ("when: {architecture: plain}", "when: {architecture: mlp}"),
        ("exclude: [{architecture: mlp, initializer: metainit}]\n", ""),
    )
    for options in ((), ("--json",)):
        with pytest.raises(SystemExit) as stop:
            show(text, *options)
        out, err = capsys.readouterr()
        assert stop.value.code == 2
        assert err == "initbench: suite.yaml: no trial can run\n"
        if options:
            found = json.loads(out)
            assert (found["trials"], len(found["incompatible"])) == (0, 3)
        else:
            assert [out.count(f"mlp: {scheme}: no residual branches") for scheme in ("skipinit", "fixup")] == [1, 1]


def test_run_says_why_nothing_can_run(refused):
    """Here, as other options than those of `run` may come to another plan."""
    options = ("--executor", "in-process", "--set", "architectures.scheme=[fixup, skipinit]")
    message = refused("run", "suite.yaml", *options, "--only", "architecture=mlp", suite_yaml=VALID)
    assert message == (
        "suite.yaml: no trial can run: mlp: fixup: no residual branches are found in Sequential; "
        "mlp: skipinit: no residual branches are found in Sequential"
    )


def test_what_one_pair_of_many_is(show):
    """It is told apart from those that run, and named by what it does not go with alone."""
    text = edited(
        ("norm: none}", "norm: [none, batch]}"),
        ("- {name: mlp, width: 8}\n", "- {name: wrn, depth: 10, width: 1, norm: [none, batch], scheme: fixup}\n"),
        ("architecture: mlp,", "architecture: plain,"),
        ("epochs: 1", "epochs: 1, accumulate: 2"),
    )
    out = show(text)
    assert "incompatible: wrn[depth=10, width=1, norm=batch] + fixup: wrn: norm must be none for scheme fixup" in out
    assert (
        "incompatible: plain[depth=10, width=1, norm=batch]; plain[depth=16, width=1, norm=batch]: accumulate " in out
    )
    assert "on digits" not in out
    pairs = json.loads(show(text, "--json"))["incompatible"]
    assert pairs[0].keys() == {"architecture", "reason"}


def test_a_dataset_that_a_pair_is_not_for_is_named(show):
    text = edited(
        ("dataset: digits", "dataset: [{name: digits, image_size: [8, 32]}]"),
        ("{name: mlp, width: 8}", "timm/crossvit_9_240"),
        ("exclude: [{architecture: mlp, initializer: metainit}]\n", ""),
    )
    assert "incompatible: timm/crossvit_9_240 on digits[image_size=8]: timm/crossvit_9_240 refuses" in show(text)


def test_one_is_one(show):
    text = edited(("seeds: 2", "seeds: 1"))
    out = show(text, "--only", "architecture=mlp")
    assert "1 trial in 1 cell: 1 to run, 0 have a result" in out


def test_what_is_compared_is_said(show):
    text = edited(("seeds: 2", "seeds: 2\ncompare: [initializer, architecture.norm]"))
    assert "compares initializer, architecture.norm\n" in show(text)
    assert json.loads(show(text, "--json"))["compare"] == ["initializer", "architecture.norm"]
    assert "compares" not in show(VALID)


def test_only_measuring(show):
    data = json.loads(show(edited(("epochs: 1", "epochs: 0")), "--json"))
    assert data["trials"] == 10


def test_who_names_the_scheme(show):
    text = edited(
        ("{name: mlp, width: 8}", "{name: wrn, depth: 10, width: 1, norm: none}"),
        ("- kaiming\n", "- kaiming\n  - fixup\n"),
        ("exclude: [{architecture: mlp, initializer: metainit}]\n", ""),
    )
    cells = json.loads(show(text, "--json", "--only", "architecture=wrn"))["cells"]
    assert {c["initializer"]: c["scheme_named_by"] for c in cells} == {
        "kaiming": ["suite"],
        "fixup": ["initializer"],
        "metainit(delta_orthogonal)": ["suite"],
    }


def test_nothing_is_written(show, tmp_path):
    show(VALID)
    assert [path.name for path in tmp_path.iterdir()] == ["suite.yaml"]
