"""`initbench status` and `initbench retry`: what a folder says of its run, however that ended."""

import json
import subprocess
import sys

import pytest
from operations import SUITE, NoTracking, executor, run, without_the_rest

from initbench.cli.command_line import main
from initbench.cli.retry import _request
from initbench.cli.status import lines
from initbench.errors import InitbenchError
from initbench.execution import progress_file
from initbench.execution.status import StatusReader
from initbench.ledger import Ledger

RETRY = sys.modules[_request.__module__]  # the package has the command under the module's name


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    without_the_rest(monkeypatch)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def state(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def status_of(folder):
    """The status of the suite's folder, which is left as it is to the last bit."""
    home = folder / "runs/small"
    before = state(home)
    found = StatusReader(home).read()
    assert state(home) == before
    return found


def test_a_run_that_has_ended(tmp_path):
    run(tmp_path, executor(fails={1}))
    found = status_of(tmp_path)
    assert (found.running, found.ending) == (False, "finished")
    assert (found.total, found.finished, found.failed, found.left, found.others) == (8, 4, 4, 0, 0)
    [reason] = found.reasons
    assert reason.reason == "WorkerLost: the worker process died"
    assert (reason.trials, reason.hosts, len(reason.ids)) == (4, {"node1": 4}, 4)
    told = lines(found)
    assert told[1] == "4 of 8 trials done, 4 failed, 0 left"
    assert "  failed: 4 × WorkerLost: the worker process died (on node1: 4)" in told
    assert told[-1] == f"to run the failed trials again: initbench retry {tmp_path}/runs/small --failed"
    assert json.loads(json.dumps(found.to_json()))["done"] == 4


def test_a_run_that_is_at_work(tmp_path, monkeypatch):
    monkeypatch.setattr(progress_file, "_SECONDS_BETWEEN_WRITES", 0.0)
    seen = []

    def execute(job, observer):
        observer.ready()
        first, second, *_ = job.trials
        for spec in (first, second):
            observer.started(spec)
        observer.progressed(second, 0.4)
        executor()(type(job)([first]), OnlyFinished(observer))
        seen.append(status_of(tmp_path))
        for spec in job.trials[1:]:
            executor()(type(job)([spec]), OnlyFinished(observer))

    run(tmp_path, execute)
    [found] = seen
    assert found.running
    assert (found.finished, found.left, found.ended_at) == (1, 6, None)
    [trial] = found.now
    assert (trial.name, trial.fraction) == ("xavier · mlp[depth=2, width=8] · seed 0", 0.4)
    assert found.per_hour > 0
    assert found.seconds_left is not None
    told = lines(found)
    assert told[0].startswith(f"{tmp_path}/runs/small: running since ")
    assert told[1] == "1 of 8 trials done, 1 running, 6 left"
    assert any(line.startswith("  running: xavier · mlp[depth=2, width=8] · seed 0 (40%, for ") for line in told)
    after = status_of(tmp_path)
    assert (after.running, after.now, after.finished) == (False, (), 8)


def test_failed_trials_that_run_again_are_not_taken_from_those_that_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr(progress_file, "_SECONDS_BETWEEN_WRITES", 0.0)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, executor(fails={1}, stops_after=6))
    seen = []

    def execute(job, observer):
        observer.ready()
        for spec in job.trials:
            if spec.id in {trial for reason in status_of(tmp_path).reasons for trial in reason.ids}:
                observer.started(spec)
        seen.append(status_of(tmp_path))
        executor()(job, OnlyFinished(observer))

    run(tmp_path, execute)
    [found] = seen
    assert (found.failed, len(found.now), found.left) == (2, 2, 2)
    assert lines(found)[1] == "4 of 8 trials done, 2 failed, 2 running, 2 left"


class OnlyFinished:
    """Passes on nothing but the ends of trials."""

    def __init__(self, observer):
        self.finished = observer.finished
        self.ready = lambda: None
        self.started = self.progressed = lambda *_: None


def test_a_run_that_was_interrupted_or_killed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, executor(stops_after=3))
    found = status_of(tmp_path)
    assert (found.ending, found.finished, found.left, found.now) == ("interrupted", 3, 5, ())
    assert lines(found)[0].endswith(": interrupted")
    # What a killed driver leaves: it did not come to write how it ended.
    file = tmp_path / "runs/small/progress.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"ended_at": None, "ending": None}))
    told = lines(status_of(tmp_path))
    assert "not running; the last run began " in told[0]
    assert told[0].endswith(" and was killed")
    assert told[1] == "3 of 8 trials done, 5 left"


def test_a_run_that_is_interrupted_before_it_begins_leaves_what_the_last_one_said(tmp_path):
    def interrupted(_job, _observer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, executor(stops_after=3))
    file = tmp_path / "runs/small/progress.json"
    before = file.read_text()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, interrupted)
    assert file.read_text() == before
    assert status_of(tmp_path).ending == "interrupted"


def test_a_folder_that_does_not_say_what_was_planned(tmp_path):
    run(tmp_path, executor())
    for name in ("plan.json", "progress.json"):
        (tmp_path / "runs/small" / name).unlink()
    found = status_of(tmp_path)
    assert (found.total, found.left, found.finished) == (None, None, 8)
    assert lines(found) == [f"{tmp_path}/runs/small: not running", "8 trials done"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"schema": 9}', '{"schema": 2}', '{"schema": 2, "asked": {}, "trials": [1]}']
)
def test_what_is_damaged_is_named_and_the_rest_is_told(tmp_path, text):
    run(tmp_path, executor())
    home = tmp_path / "runs/small"
    damaged = next((home / "trials").glob("*.json"))
    for file in (home / "plan.json", home / "progress.json", damaged):
        file.write_text(text)
    found = status_of(tmp_path)
    assert found.finished == 7
    assert len(found.problems) == 2
    assert [damaged.name in line for line in found.damaged] == [True]
    assert all("\n" not in line for line in lines(found))


def test_what_has_not_changed_is_not_read_again(tmp_path, monkeypatch):
    run(tmp_path, executor(stops_after=None))
    reader = StatusReader(tmp_path / "runs/small")
    before = reader.read()
    monkeypatch.setattr(Ledger, "read", lambda *_: pytest.fail("read again"))
    assert reader.read() == before


def test_status_needs_neither_torch_nor_ray(tmp_path):
    run(tmp_path, executor())
    script = (
        "import sys\nfrom initbench.cli.command_line import main\n"
        "sys.argv = ['initbench', 'status', sys.argv[1]]\nmain()\n"
        "assert not {'torch', 'ray', 'mlflow', 'pandas'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "runs/small")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "8 of 8 trials done, 0 left" in done.stdout


# --- retry


def test_what_failed_alone_runs_again_with_the_suite_as_it_was_run(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, executor(fails={1}, stops_after=7), assignments=["recipe.epochs=3"])
    home = tmp_path / "runs/small"
    (tmp_path / "suite.yaml").unlink()
    failed = {i for i, status in Ledger(home).statuses().items() if status == "failed"}
    assert len(failed) == 3
    request = _request(home, None, None, failed=True)
    assert {trial.id for trial in request.plan.trials} == failed
    assert {trial.recipe.epochs for trial in request.plan.trials} == {3}
    assert len(request.plan.unselected) == 5
    kaiming = _request(home, ["initializer=kaiming"], None, failed=True)
    assert {trial.initializer.name for trial in kaiming.plan.trials} == {"kaiming"}
    assert len(_request(home, None, None, failed=False).plan.trials) == 8


def test_a_retry_leaves_what_was_planned_as_it_is(tmp_path, monkeypatch, capsys):
    run(tmp_path, executor(fails={1}), assignments=["recipe.epochs=3"])
    home, ran = tmp_path / "runs/small", []
    before = [(home / name).read_text() for name in ("plan.json", "suite.yaml", "resolved.json")]
    monkeypatch.setattr(RETRY, "chosen_executor", lambda *_: executor(ran=ran))
    monkeypatch.setattr(sys, "argv", ["initbench", "retry", str(home), "--failed", "--json"])
    main()
    assert json.loads(capsys.readouterr().out)["statuses"] == {"finished": 4}
    assert len(ran) == 4
    assert [(home / name).read_text() for name in ("plan.json", "suite.yaml", "resolved.json")] == before
    found = status_of(tmp_path)
    assert (found.total, found.finished, found.failed) == (8, 8, 0)
    monkeypatch.setattr(sys, "argv", ["initbench", "retry", str(home), "--failed"])
    main()
    assert capsys.readouterr().out == f"{home}: no trial has failed\n"


def test_the_experiment_of_a_suite_is_the_same_whatever_its_folder_is_called(tmp_path, monkeypatch):
    named = []
    monkeypatch.setattr(
        "initbench.tracking.thread.TrackingThread", lambda *given: named.append(given[2]) or NoTracking()
    )
    run(tmp_path, executor(fails={1}))
    (tmp_path / "runs/small").rename(tmp_path / "renamed")
    monkeypatch.setattr(RETRY, "chosen_executor", lambda *_: executor(fails={1}))
    monkeypatch.chdir(tmp_path / "renamed")
    for folder in (tmp_path / "renamed", "."):
        monkeypatch.setattr(sys, "argv", ["initbench", "retry", str(folder)])
        with pytest.raises(SystemExit):
            main()
    assert named == ["small"] * 3


def test_what_fails_again_is_exit_code_1(tmp_path, monkeypatch):
    run(tmp_path, executor(fails={1}))
    monkeypatch.setattr(RETRY, "chosen_executor", lambda *_: executor(fails={1}))
    monkeypatch.setattr(sys, "argv", ["initbench", "retry", str(tmp_path / "runs/small"), "--failed"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1


def test_a_plug_in_that_a_folder_names_is_not_run_because_it_does(tmp_path):
    run(tmp_path, executor(fails={1}))
    home = tmp_path / "runs/small"
    mark = tmp_path / "mark"
    (home / "evil.py").write_text(f"open({str(mark)!r}, 'w')")
    stored = json.loads((home / "plan.json").read_text())
    stored["asked"]["plugins"] = [str(home / "evil.py")]
    (home / "plan.json").write_text(json.dumps(stored))
    with pytest.raises(InitbenchError, match=r"was run with --plugin .*evil\.py; give it again$"):
        _request(home, None, None, failed=True)
    assert not mark.exists()


def test_a_folder_that_does_not_say_how_it_was_run_is_one_line(tmp_path):
    run(tmp_path, executor(fails={1}))
    (tmp_path / "runs/small/plan.json").unlink()
    with pytest.raises(
        InitbenchError, match=r"lacks plan.json or suite.yaml, which store its request; use initbench run"
    ):
        _request(tmp_path / "runs/small", None, None, failed=True)


# --- a run beside damaged records, and without MLflow


def test_a_damaged_record_runs_again_and_is_kept_aside(tmp_path):
    run(tmp_path, executor())
    home, ran = tmp_path / "runs/small", []
    damaged = next((home / "trials").glob("*.json"))
    whole = damaged.read_text()
    damaged.write_text(whole[:1000])
    summary, notes = run(tmp_path, executor(ran=ran))
    assert ran == [damaged.stem]
    assert summary.statuses == {"finished": 8}
    assert damaged.with_name(f"{damaged.name}.damaged").read_text() == whole[:1000]
    named = [note for note in notes if damaged.name in note]
    assert named[0].startswith(f"skipped small/trials/{damaged.name}: not a trial record (")
    assert named[1:] == [f"the unreadable file {damaged.name} is kept as {damaged.name}.damaged"]
    assert len(list(Ledger(home).records())) == 8


@pytest.mark.parametrize("uri", ["http://me:hush@127.0.0.1:1", "postgresql://me:hush@127.0.0.1:1/runs?sslkey=hush"])
def test_a_store_that_does_not_answer_is_a_note_without_its_secrets(tmp_path, uri):
    summary, notes = run(tmp_path, executor(), tracking_uri=uri)
    assert summary.statuses == {"finished": 8}
    [note] = [note for note in notes if "does not answer" in note]
    assert note.endswith(f"initbench sync {tmp_path}/runs/small writes them to MLflow")
    assert "hush" not in str(notes) + json.dumps(summary.to_json())
    for path in (tmp_path / "runs").rglob("*"):
        assert path.is_dir() or b"hush" not in path.read_bytes()


def test_a_uri_that_cannot_be_right_is_refused(tmp_path):
    with pytest.raises(InitbenchError, match="unknown scheme 'ftp'"):
        run(tmp_path, executor(), tracking_uri="ftp://host")
    assert not (tmp_path / "runs").exists()


def test_the_options_of_a_run_stand_once_below_its_suite(tmp_path):
    for _ in range(2):
        run(tmp_path, executor(), assignments=["recipe.epochs=3"])
    text = (tmp_path / "runs/small/suite.yaml").read_text()
    assert text == SUITE + "# run with --set recipe.epochs=3\n"
