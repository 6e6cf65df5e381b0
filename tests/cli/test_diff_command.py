"""`initbench diff`: exit codes, files and what is printed."""

import json
import sys

import pytest

from initbench.cli.command_line import main
from initbench.cli.model_options import arguments_of

MODELS = """
from torch import nn


def small(factor=1.0, width=32):
    layer = nn.Linear(width, 64)
    layer.weight.data.mul_(factor)
    return layer
"""


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    (tmp_path / "diffed_models.py").write_text(MODELS, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["initbench", "diff", *arguments])
        try:
            main()
        except SystemExit as exit_:
            return exit_.code, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


SMALL = "diffed_models:small"


def test_the_exit_code_tells_whether_a_kind_is_there(run):
    code, out, _ = run(SMALL, SMALL, "--with-b", "factor=1.5", "--fail-on", "any")
    assert code == 1
    assert "weight: U(±1/√32) against U(±0.26" in out
    assert run(SMALL, SMALL, "--with-b", "factor=1.5", "--fail-on", "scale")[0] == 1
    assert run(SMALL, SMALL, "--with-b", "factor=1.5", "--fail-on", "tied,shape")[0] == 0
    assert run(SMALL, SMALL, "--with-b", "factor=1.5")[0] == 0
    assert run(SMALL, SMALL, "--fail-on", "any")[0] == 0


def test_a_saved_fingerprint_stands_for_its_model(run, tmp_path):
    code, out, error = run(SMALL, "--save", "law.json", "--seeds", "3", "--input", "32")
    assert (code, out, error) == (0, "", "law.json: 2 tensors, 3 seeds\n")
    code, out, _ = run("law.json", SMALL, "--json")
    assert code == 0
    assert json.loads(out)["same"] is True
    assert json.loads((tmp_path / "law.json").read_text("utf-8"))["seeds"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([SMALL], "diff needs A and B, or A and --save FILE"),
        ([SMALL, "--save", "a.json", "--with-b", "width=3"], "--with-b needs B"),
        (["absent.json", SMALL], "absent.json: No such file or directory"),
        ([SMALL, "diffed_models:smal"], "diffed_models has no 'smal' (did you mean 'small'?)"),
        ([SMALL, SMALL, "--fail-on", "scales"], "--fail-on: unknown kind 'scales' (did you mean 'scale'?)"),
        ([SMALL, SMALL, "--seeds", "1"], "greater than or equal to 2"),
        ([SMALL, SMALL, "--false-alarms", "2"], "false_alarms must be below 1, got 2.0"),
        ([SMALL, SMALL, "--input", "3,8,8"], "mat1 and mat2"),
        (
            [SMALL, "other.json", "--with-b", "width=3"],
            "other.json: is a fingerprint, to which --with-b does not apply",
        ),
    ],
)
def test_bad_requests_are_one_line(run, arguments, message):
    code, out, error = run(*arguments)
    assert (code, out) == (2, "")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("!!int abc", "'abc' is not an integer of at most 64 bits"),
        ("!!bool maybe", "'maybe' is not true or false"),
        ("[" * 400 + "]" * 400, "nested deeper than 20 levels"),
    ],
    ids=["integer", "boolean", "nested"],
)
def test_a_value_that_cannot_be_read_is_one_line(run, value, message):
    code, out, error = run(SMALL, SMALL, "--with-b", f"width={value}")
    assert (code, out) == (2, "")
    assert error.startswith("initbench: --with-b width=")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("date", ["2024-01-02", "2024-13-45", "2024-01-02 03:04:05"])
def test_a_date_is_text_as_in_suites(date):
    assert arguments_of([f"of={date}", "depth=50", "norm=none"]) == {"of": date, "depth": 50, "norm": "none"}
