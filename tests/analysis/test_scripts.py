"""The scripts of analysis/: each answers from a ledger, and refuses bad input in one line."""

import os
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ledgers import make_record, make_spec, quickstart_records, write_ledger

FOLDER = Path(__file__).parents[2] / "analysis"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "answering.py")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script in this process and return its exit code, and what it printed on both streams."""

    def script(name, *arguments):
        monkeypatch.setattr(sys, "argv", [str(FOLDER / name), *map(str, arguments)])
        monkeypatch.syspath_prepend(str(FOLDER))
        code = 0
        try:
            runpy.run_path(str(FOLDER / name), run_name="__main__")
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return script


@pytest.fixture
def ledger(tmp_path):
    records = []
    for record in quickstart_records():
        history = [
            entry | {"step": 21 * entry["epoch"], "test_error": 0.5 / entry["epoch"]} for entry in record.history
        ]
        cost = (
            {"forward": 30, "backward": 90}
            if record.spec["initializer"]["arguments"].get("base")
            else {"forward": 0, "backward": 0}
        )
        records.append(replace(record, history=history, initialization=record.initialization | {"cost": cost}))
    write_ledger(tmp_path / "quickstart", records)
    return tmp_path / "quickstart"


def test_there_are_five():
    assert SCRIPTS == [
        "compare_initializers.py",
        "cost_of_initialization.py",
        "depth_curves.py",
        "gq_vs_error.py",
        "probe_ranking.py",
    ]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_folder_without_trials_is_one_line_and_exit_code_2(run, tmp_path, name):
    code, out, error = run(name, tmp_path)
    assert (code, out) == (2, "")
    assert error.startswith(f"{name}: {tmp_path}: no trial records")
    assert error.count("\n") == 1


def test_gq_vs_error(run, ledger):
    code, out, _ = run("gq_vs_error.py", ledger)
    assert code == 0
    assert "Not enough evidence that the gradient quotient predicts the test error" in out
    assert "gradient_quotient, without saturated values:" in out
    # On plain and on wrn the lowest GQ is MetaInit's, which has the lowest error on both.
    assert "Picking by the gradient quotient costs 0.00 points of test error" in out
    code, _, error = run("gq_vs_error.py", ledger, "--probe", "hessian")
    assert code == 2
    assert "no probe hessian in this ledger; it has gradient_quotient, gradient_norm" in error


def test_probe_ranking(run, ledger):
    code, out, _ = run("probe_ranking.py", ledger)
    assert code == 0
    assert out.index("gradient quotient predicts") < out.index("gradient norm predicts")  # a constant says nothing
    assert "2 architectures; one is left out at a time, from 3 on" in out


def test_compare_initializers(run, ledger):
    code, out, _ = run("compare_initializers.py", ledger, "--reference", "kaiming")
    assert code == 0
    assert "metainit(delta_orthogonal) is first" in out
    # Wilson's interval over the 2 workloads, not over 6 trials.
    assert "delta_orthogonal[gain=2] diverged on 1 of 2 workloads at one seed or more (50.00" in out
    assert "95 % interval, simultaneous over 4 initializers, over workloads" in out
    assert "in 1 of 6 trials." in out
    assert "Of the variance of the rank" in out
    code, _, error = run("compare_initializers.py", ledger, "--reference", "nobody")
    assert code == 2
    assert "no initializer nobody in this ledger; it has delta_orthogonal[gain=1]" in error


def test_depth_curves(run, ledger, tmp_path):
    code, _, error = run("depth_curves.py", ledger)
    assert code == 2
    assert "do not differ in depth" in error
    records = [
        make_record(
            make_spec({"name": "kaiming"}, {"name": "plain", "depth": depth, "width": 1}, seed), (depth + seed) / 100
        )
        for depth in (10, 28)
        for seed in range(3)
    ]
    write_ledger(tmp_path / "depth", records)
    code, out, _ = run("depth_curves.py", tmp_path / "depth")
    assert code == 0
    assert (
        "plain[width=1], kaiming: depth 10: 11.00\N{NO-BREAK SPACE}% (8.52 to 13.48, n = 3 seeds); depth 28: 29.00"
        in out
    )


def test_cost_of_initialization(run, ledger):
    code, out, _ = run("cost_of_initialization.py", ledger, "--target", "0.25")
    assert code == 0
    # The target is met at epoch 2, step 42; MetaInit used 30 · 3³ / 3 gradients of 32 in place of 64 samples.
    assert "metainit(delta_orthogonal): 177 (135 before training, n = 3 seeds)" in out
    assert "kaiming: 42 (0 before training, n = 3 seeds)" in out
    code, out, _ = run("cost_of_initialization.py", ledger)
    assert code == 0
    # The targets are the middle of 90, 90, 3.89 and 3.06 %, met at step 42 by all, and of about 2 %, met by nobody.
    assert "kaiming: the cheapest on 1 of 2 workloads, within twice the least cost on 1, reaches the target on 1" in out
    assert "metainit(delta_orthogonal): the cheapest on 0 of 2 workloads" in out
    assert "kaiming: not reached by 3 of 3 seeds (0 before training)" in out
    code, _, error = run("cost_of_initialization.py", ledger, "--target", "30")
    assert code == 2
    assert "must be a fraction from 0 to 1, got 30.0" in error


def test_a_reader_that_has_read_enough_is_no_error(ledger):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, FOLDER / "compare_initializers.py", ledger]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
