"""A suite's folder that is moved, emptied or removed while a run writes to it: the run stops and says so."""

import json
import shutil

import pytest
from ledgers import make_record

from initbench.errors import InitbenchError
from initbench.execution.driver import run_suite
from initbench.ledger import Ledger
from initbench.suite.load import load_suite
from suites import plan_of

SUITE = """\
name: small
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
initializers: [kaiming, xavier]
recipe: {epochs: 1, lr: 0.1}
probes: [parameter_norm]
compare: [architecture.depth]
seeds: 3
"""
TRIALS, BEFORE = 12, 5


def run(folder, damage, after=BEFORE):
    """Run a suite whose folder is damaged once some trials have ended."""
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
    suite = load_suite(folder / "suite.yaml", [])
    runs = folder / "runs" / "small"
    ended = 0

    def execute(job, observer):
        nonlocal ended
        observer.ready()
        for spec in job.trials:
            observer.started(spec)
            observer.finished(make_record(spec))
            ended += 1
            if ended == after:
                damage(runs)

    return run_suite(suite, plan_of(suite), runs, execute)


def move(runs):
    runs.rename(runs.with_name("moved"))


def move_and_put_another_there(runs):
    move(runs)
    runs.mkdir()


def move_and_put_a_file_there(runs):
    move(runs)
    runs.write_text("a file", encoding="utf-8")


def move_and_put_a_file_above(runs):
    move(runs)
    runs.parent.rename(runs.parent.with_name("elsewhere"))
    runs.parent.write_text("a file", encoding="utf-8")


def empty(runs):
    for path in runs.iterdir():  # as `rm -rf runs/small/*` does: what begins with a dot stays
        if not path.name.startswith("."):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove_the_lock(runs):
    (runs / ".lock").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        shutil.rmtree,
        move,
        move_and_put_another_there,
        move_and_put_a_file_there,
        move_and_put_a_file_above,
        empty,
        remove_the_lock,
    ],
)
def test_the_run_stops_at_the_next_record(tmp_path, damage):
    with pytest.raises(InitbenchError, match=r"so the run stops; the same\s+command") as caught:
        run(tmp_path, damage)
    assert "\n" not in str(caught.value)
    # Nothing was put in the place of the folder, and every record that was not removed is where it was moved to.
    kept = [path for path in tmp_path.rglob("*.json") if path.parent.name == "trials"]
    assert len(kept) == (0 if damage in {shutil.rmtree, empty} else BEFORE)
    assert not list(tmp_path.rglob(".*.part"))


def test_records_that_were_removed_are_not_said_to_be_finished(tmp_path):
    def remove_three(runs):
        for path in sorted((runs / "trials").iterdir())[:3]:
            path.unlink()

    with pytest.raises(InitbenchError, match=r"small/trials: 3 of 12 records were removed"):
        run(tmp_path, remove_three, after=TRIALS)
    assert run(tmp_path, lambda _: None).statuses == {"finished": TRIALS}


def test_what_lies_beside_the_records_is_written_again(tmp_path):
    def remove_the_suite(runs):
        for name in ("suite.yaml", "resolved.json"):
            (runs / name).unlink()

    summary = run(tmp_path, remove_the_suite)
    assert summary.statuses == {"finished": TRIALS}
    assert (summary.folder / "suite.yaml").read_text(encoding="utf-8") == SUITE
    assert json.loads((summary.folder / "resolved.json").read_text(encoding="utf-8"))["compare"] == [
        "architecture.depth"
    ]
    assert len(Ledger(summary.folder).files()) == TRIALS
