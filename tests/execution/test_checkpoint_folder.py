"""A suite's checkpoints: asked for, said, gone on from, and removed, by the driver."""

import json
import os
import sys
from pathlib import Path

import pytest
from interrupted import contents, precious
from operations import NoTracking

from initbench.cli.command_line import main
from initbench.errors import SuiteError
from initbench.execution import trial
from initbench.execution.checkpoint_folder import checkpoint_bytes, largest_checkpoint, sentence
from initbench.execution.driver import run_suite
from initbench.execution.in_process import run_in_process
from initbench.execution.recorder import Progress
from initbench.ledger import Ledger
from initbench.reporting import report
from initbench.reporting.report import Written
from initbench.suite.load import load_suite
from initbench.suite.schema import Checkpoints
from initbench.tracking import thread
from suites import plan_of, the_trial

SUITE = """\
name: long
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, width: 8}]
initializers: [kaiming, xavier]
recipe: {epochs: 3, batch_size: 32}
probes: []
"""


class Killing(Progress):
    """Keeps what the user is told, and ends the run when so much of the n-th trial is done."""

    def __init__(self, at=2.0, nth=2):
        self.at, self.nth = at, nth
        self.notes, self.begun, self.fractions = [], [], []

    def started(self, spec):
        self.begun.append(spec.id)

    def progressed(self, spec, fraction):
        self.fractions.append((spec.id, round(3 * fraction)))
        if len(self.begun) == self.nth and fraction > self.at:
            raise KeyboardInterrupt

    def note(self, message):
        self.notes.append(message)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Neither a report nor MLflow, which take seconds and have nothing to do with it.
    monkeypatch.setattr(report, "write_report", lambda folder: Written(folder, [], []))
    monkeypatch.setattr(thread, "TrackingThread", NoTracking)


def run(more="", out="runs", **killed):
    Path("suite.yaml").write_text(SUITE + more, encoding="utf-8")
    suite, progress = load_suite("suite.yaml"), Killing(**killed)
    folder = Path(out) / "long"
    try:
        run_suite(suite, plan_of(suite), folder, run_in_process, progress=progress)
    except KeyboardInterrupt:
        progress.notes.append("killed")
    return progress


def numbers(out="runs"):
    return {record.id: record.numbers() for record in Ledger(Path(out) / "long").records()}


def files(folder="runs/long/checkpoints"):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*.pt"))


EVERY = "checkpoints: {every_epochs: 1}\n"


def test_the_same_command_goes_on_from_the_checkpoint_and_removes_it(monkeypatch):
    run(out="whole")
    killed = run(EVERY, at=0.5)  # after two of three epochs
    assert killed.notes[-1] == "killed"
    [left] = files()
    assert left.startswith(f"{killed.begun[1]}/step-000000004-")
    calls = []
    own = trial._initialize
    monkeypatch.setattr(trial, "_initialize", lambda *args: calls.append(args) or own(*args))
    again = run(EVERY)
    assert again.notes == [f"1 trial goes on from a checkpoint in {Path.cwd()}/runs/long/checkpoints"]
    assert again.fractions == [(killed.begun[1], 3)]
    assert calls == []
    assert numbers() == numbers("whole")
    assert sorted(path.name for path in Path("runs/long").iterdir() if path.is_dir()) == ["trials"]


def test_short_trials_write_nothing(monkeypatch):
    from initbench.execution.checkpoints import TrialCheckpoints

    monkeypatch.setattr(TrialCheckpoints, "save", lambda *_: pytest.fail("it was saved"))
    assert run().notes == []
    assert not Path("runs/long/checkpoints").exists()


def test_a_result_whose_checkpoint_was_not_removed_loses_it():
    """The driver was killed between the record and the removal."""
    killed = run(EVERY, at=0.5)
    own = next(Path("runs/long/checkpoints", killed.begun[1]).iterdir())
    stale = Path("runs/long/checkpoints", killed.begun[0])
    stale.mkdir()
    (stale / own.name).write_bytes(own.read_bytes())
    run(EVERY, at=0.1, nth=1)
    assert [Path(name).parts[0] for name in files()] == [killed.begun[1]]


def test_the_network_after_the_last_step_is_kept_on_request():
    progress = run("keep_checkpoints: last\n")
    assert [name[:64] for name in files()] == sorted(progress.begun)
    assert all("/step-000000006-" in name for name in files())
    assert run("keep_checkpoints: last\n").begun == []
    assert len(files()) == 2
    run()  # of a suite that no longer asks for them
    assert files() == []


def test_another_folder_is_asked_for():
    run("checkpoints: {folder: scratch, every_epochs: 1}\n", at=0.5)
    assert len(files("scratch/long")) == 1
    assert not Path("runs/long/checkpoints").exists()
    run("checkpoints: scratch\n")
    assert not Path("scratch/long").exists()
    assert len(numbers()) == 2


def test_a_folder_that_cannot_be_made_is_said_and_nothing_fails():
    Path("taken").write_text("a file", encoding="utf-8")
    notes = run("checkpoints: {folder: taken, every_epochs: 1}\n").notes
    assert (
        notes[0]
        == f"checkpoints: {Path.cwd()}/taken/long: Not a directory; killed trials start again from the beginning"
    )
    assert len(notes) == 2  # the worker says it once, for both trials
    assert notes[1].endswith(f"{Path.cwd()}/taken/long; trials killed there start again from the beginning")
    assert {record["status"] for record in numbers().values()} == {"finished"}


def link_to_another_folder(checkpoints, somewhere):
    checkpoints.symlink_to(somewhere)
    return "is a link, which is not followed"


def link_to_another_suites(checkpoints, somewhere):
    (somewhere / ".folder").write_text("0" * 32, encoding="ascii")
    return link_to_another_folder(checkpoints, somewhere)


def files_of_somebody(checkpoints, _):
    precious(checkpoints)
    return "holds files but not initbench's mark, .folder"


def mark_that_is_a_link(checkpoints, somewhere):
    checkpoints.mkdir()
    (checkpoints / ".folder").symlink_to(somewhere / "thesis.tex")
    return "holds files but not initbench's mark, .folder"


@pytest.mark.parametrize(
    "obstacle", [link_to_another_folder, link_to_another_suites, files_of_somebody, mark_that_is_a_link]
)
@pytest.mark.parametrize("folder", ["runs/long/checkpoints", "scratch/long"])
def test_what_is_somebody_elses_is_not_touched_and_training_goes_on(obstacle, folder, tmp_path):
    somewhere, _ = precious(tmp_path / "precious")
    checkpoints = tmp_path / folder
    checkpoints.parent.mkdir(parents=True)
    why = obstacle(checkpoints, somewhere)
    Path("suite.yaml").write_text(SUITE, encoding="utf-8")
    for trial_of in plan_of(load_suite("suite.yaml")).trials:
        (somewhere / trial_of.id).mkdir()
        (somewhere / trial_of.id / "thesis.tex").write_text("précieux", encoding="utf-8")
    there, behind = contents(checkpoints), contents(somewhere)
    asked = "checkpoints: {folder: scratch, every_epochs: 1}\n" if folder.startswith("scratch") else EVERY
    notes = run(asked).notes
    assert (contents(checkpoints), contents(somewhere)) == (there, behind)
    assert {record["status"] for record in numbers().values()} == {"finished"}
    assert notes[0] == f"checkpoints: {checkpoints}: {why}; killed trials start again from the beginning"
    assert len(notes) == 2  # the worker says it once, for both trials
    assert notes[1].endswith("; trials killed there start again from the beginning")


def test_what_somebody_puts_into_a_trials_folder_stays():
    killed = run(EVERY, at=0.5)
    trial_folder = Path("runs/long/checkpoints", killed.begun[1])
    (trial_folder / "thesis.tex").write_text("précieux", encoding="utf-8")
    (trial_folder / "sub").mkdir()
    (trial_folder / "7.part").write_text("half", encoding="utf-8")
    run(EVERY)
    assert {path.name for path in trial_folder.iterdir()} == {"thesis.tex", "sub"}
    assert len(numbers()) == 2


def test_a_trials_folder_that_is_a_link_is_left_alone(tmp_path):
    somewhere, content = precious(tmp_path / "precious")
    killed = run(EVERY, at=0.5)
    for began in killed.begun:
        folder = Path("runs/long/checkpoints", began)
        for path in files(folder):
            (folder / path).unlink()
        if folder.is_dir():
            folder.rmdir()
        folder.symlink_to(somewhere)
    notes = run(EVERY).notes
    assert contents(somewhere) == content
    [note] = notes
    assert f"does not follow {Path.cwd()}/runs/long/checkpoints/{killed.begun[1]}, which is a link; " in note
    assert len(numbers()) == 2


def test_the_folder_that_is_asked_for_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    Path("scratch").symlink_to("disk")
    run("checkpoints: {folder: scratch, every_epochs: 1}\n", at=0.5)
    assert len(files("disk/long")) == 1
    run("checkpoints: scratch\n")
    assert list(Path("disk").iterdir()) == []


def test_a_home_that_nobody_has_is_a_folder_like_another():
    run("checkpoints: {folder: ~nobody-of-this-name/x, every_epochs: 1}\n", at=0.5)
    assert len(files("~nobody-of-this-name/x/long")) == 1


def test_no_checkpoints_are_asked_for():
    run("checkpoints: null\n", at=0.5)
    assert files() == []


def test_settings_are_no_part_of_a_trials_identity():
    ids = set()
    for more in ("", EVERY, "checkpoints: null\n", "checkpoints: /scratch\nkeep_checkpoints: last\n"):
        Path("suite.yaml").write_text(SUITE + more, encoding="utf-8")
        ids.add(tuple(trial.id for trial in plan_of(load_suite("suite.yaml")).trials))
    assert len(ids) == 1


def test_what_a_suite_says_is_what_is_meant():
    def asked(more):
        Path("suite.yaml").write_text(SUITE + more, encoding="utf-8")
        return load_suite("suite.yaml").checkpoints

    assert asked("").every_seconds == 600
    assert asked("checkpoints: {every_minutes: 0.5}\n").every_seconds == 30
    assert asked(EVERY).every_seconds is None
    assert asked("checkpoints: /scratch\n") == Checkpoints(folder="/scratch")
    assert asked("checkpoints: null\n") is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("checkpoints: {every_epochs: 0}", "7: checkpoints.every_epochs: must be at least 1, got 0"),
        ("checkpoints: {every_minutes: -1}", "7: checkpoints.every_minutes: must be greater than 0, got -1"),
        (
            "checkpoints: {every_epochs: 1, every_minutes: 5}",
            "7: checkpoints: has every_epochs and every_minutes; give one of them",
        ),
        (
            "checkpoints: {every_epoch: 1}",
            "7: checkpoints.every_epoch: is an unknown key (did you mean 'every_epochs'?)",
        ),
        (
            "checkpoints: false",
            "7: checkpoints: must be a folder or a mapping {every_minutes: ...}, or null for none, got false",
        ),
        (
            'checkpoints: {folder: "a\\0b"}',
            "7: checkpoints.folder: holds \\x00, which text cannot contain",
        ),
        ("keep_checkpoints: all", "7: keep_checkpoints: must be one of none, last; got 'all'"),
        (
            "checkpoints: null\nkeep_checkpoints: last",
            "8: keep_checkpoints: last needs checkpoints, and the suite says checkpoints: null",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(more, message):
    Path("suite.yaml").write_text(f"{SUITE}{more}\n", encoding="utf-8")
    with pytest.raises(SuiteError) as error:
        load_suite("suite.yaml")
    assert str(error.value) == f"suite.yaml:{message}"


def test_the_size_that_is_said_is_that_of_the_file():
    """Parameters, buffers and moments, and less than 100 kB beside them."""
    for recipe, moments in (({"optimizer": "adam"}, 2), ({}, 1), ({"momentum": 0.0}, 0), ({"optimizer": "signsgd"}, 1)):
        spec = the_trial(architectures=[{"name": "mlp", "width": 100}], recipe=recipe)
        assert checkpoint_bytes(spec) == (1 + moments) * 4 * (64 * 100 + 100 * 100 + 200 + 100 * 10 + 10)
    assert largest_checkpoint([spec]) == checkpoint_bytes(spec)
    assert largest_checkpoint([]) is None
    run("keep_checkpoints: last\n")
    real = Path("runs/long/checkpoints", files()[0]).stat().st_size
    said = checkpoint_bytes(plan_of(load_suite("suite.yaml")).trials[0])
    assert said < real < said + 100_000


def test_the_plan_says_what_checkpoints_take(capsys, monkeypatch):
    Path("suite.yaml").write_text(SUITE + EVERY, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["initbench", "plan", "suite.yaml"])
    main()
    assert "a checkpoint every epoch of a trial, up to 5.46 kB each; one per running trial" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["initbench", "plan", "suite.yaml", "--json"])
    main()
    assert json.loads(capsys.readouterr().out)["checkpoints"]["largest_bytes"] == 5456
    assert sentence(Checkpoints(), None) == (
        "a checkpoint every 10 minutes of a trial; one per running trial, two while one is written"
    )
    assert " every 3 epochs of a trial, up to 1.2 GB each; " in sentence(Checkpoints(every_epochs=3), 1_200_000_000)


def test_a_large_network_is_said_when_it_runs(monkeypatch):
    from initbench.execution import checkpoint_folder

    monkeypatch.setattr(checkpoint_folder, "_LARGE", 5000)
    [note] = run().notes
    assert note.startswith("a checkpoint every 10 minutes of a trial, up to 5.46 kB each")
    assert note.endswith(f"(in {os.getcwd()}/runs/long/checkpoints)")  # noqa: PTH109
