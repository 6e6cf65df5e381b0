import json
import os
import signal
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import replace

import pytest
from ledgers import KAIMING, make_record, make_spec

from initbench.arguments import show
from initbench.errors import InitbenchError, LedgerError
from initbench.ledger import Ledger
from initbench.suite.spec import digest
from suites import the_trial

LOST = {"type": "RuntimeError", "message": "lost", "traceback": "line 1"}


def record(seed=0, **changes):
    """A record as a run writes it, with other values in some fields."""
    return replace(make_record(make_spec(KAIMING, seed=seed)), **changes)


def test_a_record_comes_back_as_it_was_written(tmp_path):
    ledger = Ledger(tmp_path)
    written = record(metrics={"test_error": 0.1 + 0.2, "steps": 3, "diverged_at_step": None})
    ledger.write(written)
    assert list(ledger.records()) == [written]  # floats survive JSON exactly: repr is the shortest that reads back
    assert ledger.statuses() == {written.id: "finished"}


def test_a_new_attempt_replaces_the_failed_one(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.write(record(status="failed", error=LOST))
    ledger.write(record(status="finished"))
    assert [r.status for r in ledger.records()] == ["finished"]


def test_a_non_finite_number_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        Ledger(tmp_path).write(record(metrics={"test_error": float("nan")}))
    assert list(tmp_path.iterdir()) == []


def test_kill_9_leaves_whole_records_alone(tmp_path):
    """A process that rewrites one record without pause is killed: what is there is whole."""
    script = (
        "import sys\nfrom dataclasses import replace\nfrom initbench.ledger import Ledger\n"
        "ledger = Ledger(sys.argv[1])\n[small] = ledger.records()\n"
        "big = replace(small, history=[{'step': i, 'epoch': i} for i in range(20000)])\n"
        "while True:\n    ledger.write(big)\n"
    )
    small = record()
    Ledger(tmp_path).write(small)
    for delay in (0.05, 0.11, 0.17):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
        ledger = Ledger(tmp_path)
        while ledger.path(small.id).stat().st_size < 400_000:
            assert process.poll() is None, "the writer has failed"
            time.sleep(0.01)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        [kept] = ledger.records()
        assert len(kept.history) == 20000


def edited(**changes):
    """The text of a record in which somebody has changed something."""
    data = deepcopy(record(1).to_json())
    for path, value in changes.items():
        *above, last = path.split("__")
        place = data
        for name in above:
            place = place[int(name) if name.isdigit() else name]
        place[last] = value
    return json.dumps(data)


WHOLE = edited()
DAMAGED = {
    "nothing": "",
    "a bracket": "{",
    "a list": "[]",
    "no schema": "{}",
    "other keys": '{"schema": 2, "surplus": 2}',
    "null": "null",
    "cut off": WHOLE[: len(WHOLE) // 2],
    "cut off by one": WHOLE[:-1],
    "deep": WHOLE.replace('"environment": {', '"environment": {"a": ' + "[" * 100_000 + "]" * 100_000 + ",", 1),
    "half a character": WHOLE.replace('"torch": "', '"torch": "\\ud800', 1),
    "a constant": WHOLE.replace('"lr": 0.1', '"lr": NaN', 1),
    "an infinity": WHOLE.replace('"test_error": 0.05', '"test_error": 1e999', 1),
    "a number as text": edited(metrics__test_error="0.05"),
    "a number as text deep inside": edited(history__3__test_error="0.5"),
    "a list for a number": edited(timing__total_seconds=[20.0]),
    "a device that is no name": edited(environment__device={"name": "cpu"}),
    "a probe's value": edited(probes__0__value="0.5"),
    "no spec": edited(spec=None),
    "no seed": edited(spec__seed=None),
    "another seed": edited(spec__seed=0),
    "another rate": edited(spec__recipe__lr=0.5, identity__recipe__lr=0.5),
    "another momentum": edited(spec__recipe__momentum=0.5),
    "half a pair": edited(spec__recipe__betas=[0.9]),
    "another network": edited(spec__architecture__name="wrn"),
    "another id": edited(id="b" * 64),
    "another status": edited(status="failed"),
    "a key that would hide a method": edited(to_json=1),
    "a key that would hide an argument": WHOLE[:-1] + ', "__dataclass_self__": 1}',
    "an unknown status": edited(status="done"),
    "a format that takes all memory": edited(task__metrics__test_error__show="{:999999999d}"),
    "a format that reads attributes": edited(task__metrics__test_error__show="{0.__class__}"),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_file_that_is_no_record_is_named_and_loses_no_other(tmp_path, text):
    ledger = Ledger(tmp_path)
    ledger.write(record())
    damaged = ledger.path(record(1).id)
    damaged.write_text(text)
    with pytest.raises(InitbenchError, match=rf"{damaged.name}: not a trial record \(.+\)") as caught:
        list(ledger.records())
    assert "\n" not in str(caught.value)
    skipped = []
    assert list(ledger.records(skipped)) == [record()]
    [line] = skipped
    assert line.startswith(f"{tmp_path.name}/trials/{damaged.name}: not a trial record (")


def make_pipe(path):
    os.mkfifo(path)


def make_device(path):
    path.symlink_to("/dev/zero")


def make_huge(path):
    with path.open("wb") as file:
        file.truncate(2**40)


def make_circle(path):
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (make_pipe, "is a pipe, not a file"),
        (make_device, "is a device, not a file"),
        (make_huge, "has 1,099,511,627,776 bytes, more than the limit of 268,435,456"),
        (make_circle, "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
        (lambda path: path.mkdir(), "is a folder, not a file"),
    ],
)
def test_what_is_no_file_is_never_opened(tmp_path, make, problem):
    ledger = Ledger(tmp_path)
    ledger.write(record())
    make(ledger.path("0" * 64))
    skipped = []
    assert list(ledger.records(skipped)) == [record()]
    assert skipped == [f"{tmp_path.name}/trials/{'0' * 64}.json: not a trial record ({problem})"]


def test_a_file_whose_name_is_not_utf_8_is_named_as_people_can_read_it(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.write(record())
    (ledger.trials / os.fsdecode(b"\xff\x1b[2J.json")).write_text("{}", encoding="utf-8")
    skipped = []
    assert list(ledger.records(skipped)) == [record()]
    assert skipped == [rf"{tmp_path.name}/trials/\xff\x1b[2J.json: not a trial record (it has no schema)"]


def test_texts_of_a_record_that_anybody_wrote_are_made_visible(tmp_path):
    ledger, hostile = Ledger(tmp_path), "\0\x1b[2J"
    probes = [{"name": hostile, "kind": "scalar", "value": 1.0, "unit": "", "conditions": {}}]
    ledger.write(record(probes=probes, environment={"host": "β \U0001f600" + hostile}))
    [read] = ledger.records()
    assert (read.probes[0]["name"], read.environment["host"]) == (r"\x00\x1b[2J", r"β 😀\x00\x1b[2J")


def test_nothing_is_written_through_a_link_that_leads_out(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "trials").symlink_to(tmp_path / "precious")
    with pytest.raises(InitbenchError, match=r"cannot be written: lies behind a link that leads out of .*suite"):
        Ledger(tmp_path / "suite").write(record())
    assert list((tmp_path / "precious").iterdir()) == []
    # The folder itself may be a link: it is the one that the user named.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "named").symlink_to(tmp_path / "elsewhere")
    Ledger(tmp_path / "named").write(record())
    assert Ledger(tmp_path / "elsewhere").statuses() == {record().id: "finished"}


def test_a_record_under_another_name_is_no_second_one(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.write(record())
    ledger.path("copy").write_text(ledger.path(record().id).read_text())
    skipped = []
    assert list(ledger.records(skipped)) == [record()]
    assert skipped == [f"{tmp_path.name}/trials/copy.json: not a trial record (its id is not the file's name)"]


def test_a_damaged_file_is_kept_aside(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.write(record())
    assert ledger.set_aside(record(1).id) is None
    damaged = ledger.path(record(1).id)
    for number, text in enumerate(("first", "second")):
        damaged.write_text(text)
        aside = ledger.set_aside(record(1).id)
        assert aside.name == f"{damaged.name}.damaged{number or ''}"
        assert aside.read_text() == text
    assert list(ledger.records()) == [record()]


def test_a_record_of_a_newer_version_is_named_and_loses_no_other(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.write(record())
    ledger.path("b").write_text(json.dumps({"schema": 99, "what": "another version wrote"}))
    skipped = []
    assert list(ledger.records(skipped)) == [record()]
    assert skipped == [f"{tmp_path.name}/trials/b.json: has schema 99; this version of initbench reads schema 2"]


@pytest.mark.parametrize("schema", [1, 99, "2", {"a": 1}])
def test_a_ledger_of_another_schema_is_refused_as_a_whole(tmp_path, schema):
    ledger = Ledger(tmp_path)
    ledger.trials.mkdir()
    ledger.path("b").write_text(json.dumps({"schema": schema, "what": "another version wrote"}))
    for skipped in (None, []):
        with pytest.raises(LedgerError) as caught:
            list(ledger.records(skipped))
        assert str(tmp_path) in str(caught.value)
        assert f"schema {show(schema)}" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_labels_are_given_anew_and_nothing_else_changes(tmp_path):
    labels = {"suite": "now", "set_by_rules": ("recipe.lr",), "scheme_named_by": ("suite", "initializer")}
    labels |= {"tuned": ("recipe.lr",), "protocols": ("recipe", "own")}
    spec = the_trial().model_copy(update=labels)
    plain = spec.model_dump(mode="json")
    trial = make_record(spec)
    before = replace(trial, spec=plain | {"suite": "before", "set_by_rules": [], "scheme_named_by": ["suite"]})
    after = before.labelled_as(spec)
    assert after == replace(trial, spec=plain)
    Ledger(tmp_path).write(after)
    assert list(Ledger(tmp_path).records()) == [after.labelled_as(spec)]


def test_the_suite_is_written_beside_its_trials_and_whole(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "runs" / "suite")
    resolved = {"schema": 2, "name": "suite", "compare": ["initializer", "architecture.norm"]}
    ledger.write_suite("name: suite\n", resolved)
    assert (ledger.folder / "suite.yaml").read_text() == "name: suite\n"
    assert json.loads((ledger.folder / "resolved.json").read_text()) == resolved

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        ledger.write_suite("name: other\n", {})
    assert {path.name: path.read_text() for path in ledger.folder.iterdir()} == {
        "suite.yaml": "name: suite\n",
        "resolved.json": json.dumps(resolved, indent=1) + "\n",
    }


def test_one_driver_per_ledger(tmp_path):
    holder = f"from initbench.ledger import Ledger\nwith Ledger({str(tmp_path)!r}).lock(): pass"
    with Ledger(tmp_path).lock():
        done = subprocess.run([sys.executable, "-c", holder], capture_output=True, text=True, check=False)
        assert "another initbench run is writing here" in done.stderr
    subprocess.run([sys.executable, "-c", holder], check=True)


def test_a_lock_under_which_nothing_was_written_leaves_nothing(tmp_path):
    with Ledger(tmp_path / "runs" / "suite").lock():
        assert (tmp_path / "runs" / "suite").is_dir()
    assert list(tmp_path.iterdir()) == []
    with Ledger(tmp_path / "runs" / "suite").lock():
        Ledger(tmp_path / "runs" / "suite").write(record())
    assert Ledger(tmp_path / "runs" / "suite").statuses() == {record().id: "finished"}


def test_a_folder_within_a_file_is_refused(tmp_path):
    (tmp_path / "runs").touch()
    problem = r"runs/suite: cannot be a folder, because .*/runs is a file$"
    with pytest.raises(InitbenchError, match=problem):
        Ledger(tmp_path / "runs/suite").check_folder()
    Ledger(tmp_path / "others/suite").check_folder()


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(InitbenchError, match=r"runs/suite: cannot be written"), Ledger(tmp_path / "runs/suite").lock():
        pass


def test_numbers_leave_out_what_need_not_be_reproducible():
    first = record(environment={"torch": "1"}, timing={"total_seconds": 1.0})
    second = record(environment={"torch": "2"}, timing={"total_seconds": 2.0})
    assert first.numbers() == second.numbers()
    assert record(metrics={"test_error": 0.2}).numbers() != first.numbers()
    assert json.loads(json.dumps(first.to_json())) == first.to_json()


def test_labels_of_tuning_are_taken_away_where_the_suite_tunes_no_more():
    plain = the_trial().model_dump(mode="json")
    assert not plain.keys() & {"tuned", "protocols"}  # a trial that nothing tunes is recorded as it always was
    tuned = record(spec=plain | {"tuned": ["recipe.lr"], "protocols": ["own"]})
    assert tuned.labelled_as(the_trial()).spec == plain


def test_keys_of_a_later_version_survive_a_rewrite(tmp_path):
    spec = make_spec(KAIMING)
    data = make_record(spec).to_json()
    data |= {"later": [1], "spec": data["spec"] | {"later": 2, "suite": "before"}}
    data["spec"]["recipe"] |= {"later": None}
    data["spec"]["dataset"] |= {"later": {"a": "b"}}
    for part in (data["environment"], data["probes"][0], data["task"]["metrics"]["test_error"], data["initialization"]):
        part["later"] = {"name": "β"}
    ledger = Ledger(tmp_path)
    ledger.trials.mkdir()
    ledger.path(spec.id).write_text(json.dumps(data), encoding="utf-8")
    [read] = ledger.records()
    ledger.write(read.labelled_as(spec))
    data["spec"]["suite"] = spec.suite
    assert json.loads(ledger.path(spec.id).read_text()) == data
    assert json.loads(json.dumps(read.without_labels_of_tuning().to_json()))["later"] == [1]


def test_a_combination_that_planning_refuses_is_read(tmp_path):
    recipe = {"optimizer": "adam", "momentum": 0.5, "nesterov": True, "steps": 3}
    with pytest.raises(ValueError, match="cannot be combined with epochs"):
        make_spec(KAIMING, recipe=recipe)
    data = record().to_json()
    for part in (data["spec"], data["identity"]):
        part["recipe"] = part["recipe"] | recipe
    written = replace(record(), **data | {"id": digest(data["identity"])})
    Ledger(tmp_path).write(written)
    assert list(Ledger(tmp_path).records()) == [written]
