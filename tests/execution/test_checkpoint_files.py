"""The files of checkpoints: whole or absent, read with suspicion, never the reason why a trial fails."""

import json
import os
import pickle
import resource
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from interrupted import Killed, KilledAt, numbers, run_killed, settings

from initbench.execution import checkpoints as module
from initbench.execution.checkpoints import MARK_FILE, TrialCheckpoints
from initbench.execution.trial import run_trial
from suites import the_trial

SPEC = the_trial(dataset={"name": "digits", "train_size": 60}, recipe={"epochs": 3, "batch_size": 16, "mixup": 1.0})


@pytest.fixture(scope="module")
def whole():
    return numbers(run_trial(SPEC))


@pytest.fixture
def kept(tmp_path):
    return settings(tmp_path / "checkpoints")


def the_file(kept, spec=SPEC):
    [path] = Path(kept.folder, spec.id).iterdir()
    return path


def killed_at(kept, n, spec=SPEC):
    with pytest.raises(Killed):
        run_trial(spec, checkpoints=KilledAt(kept, spec.id, n))


def go_on(kept, spec=SPEC):
    """Run the trial to its end; return its record and what was told."""
    told = []
    return run_trial(spec, checkpoints=TrialCheckpoints(kept, spec.id, "cpu", told.append)), told


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path):
    path.write_bytes(b"")


def one_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def named_as(path, content):
    """Put other content in the place of a checkpoint, under the name that it has to have."""
    path.write_bytes(content)
    path.rename(path.with_name(f"step-000000005-{sha256(content).hexdigest()}.pt"))


def no_checkpoint(path):
    named_as(path, b"no checkpoint")


def edited(path, edit):
    content = torch.load(path, weights_only=True)
    edit(content)
    torch.save(content, path)
    named_as(path, path.read_bytes())


def of_another_trial(path):
    edited(path, lambda content: content.update(trial="f" * 64))


def of_another_format(path):
    edited(path, lambda content: content.update(format=99))


def written_with(path, **environment):
    content = torch.load(path, weights_only=True)
    there = json.dumps(json.loads(content["environment"]) | environment)
    edited(path, lambda content: content.update(environment=there))


def of_another_processor(path):
    written_with(path, processor="abacus")


def of_another_version(path):
    written_with(path, initbench="0.0")


def of_another_shape(path):
    edited(path, lambda content: content["training"]["parameters"].update({"0.bias": torch.zeros(3)}))


def without_a_part(path):
    edited(path, lambda content: content["training"].pop("batches"))


class Command:
    def __reduce__(self):
        return Path.touch, (Path("done"),)


def with_a_command(path):
    named_as(path, pickle.dumps(Command()))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (truncated, "it is damaged"),
        (emptied, "it is damaged"),
        (one_bit, "it is damaged"),
        (no_checkpoint, "it cannot be read: "),
        (of_another_trial, "it is of trial ffffffffffff"),
        (of_another_format, "it is of format 99"),
        (of_another_processor, "it was written elsewhere (processor: abacus → "),
        (of_another_version, "it was written elsewhere (initbench: 0.0 → "),
        (of_another_shape, "it does not fit the trial: "),
        (without_a_part, "it does not fit the trial: KeyError"),
        (with_a_command, "it cannot be read: "),
    ],
)
def test_a_checkpoint_that_cannot_be_gone_on_from_is_named_and_the_trial_starts_again(
    damage, why, kept, whole, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    killed_at(kept, 5)
    damage(the_file(kept))
    record, told = go_on(kept)
    assert numbers(record) == whole
    [message] = told
    assert f"of trial {SPEC.id[:12]} is not used, and the trial starts again: {why}" in message
    assert str(Path(kept.folder, SPEC.id)) in message
    assert "\n" not in message
    assert not Path("done").exists()
    assert "resumed_at_step" not in record.timing


def test_the_checkpoint_of_a_trial_that_started_again_takes_the_place_of_the_damaged_one(kept, whole):
    killed_at(kept, 5)
    one_bit(the_file(kept))
    killed_at(kept, 2)
    assert the_file(kept).name.startswith("step-000000002-")
    record, told = go_on(kept)
    assert (numbers(record), told, record.timing["resumed_at_step"]) == (whole, [], 2)


def test_the_one_before_is_gone_on_from_where_the_last_is_damaged(kept, whole):
    killed_at(kept, 2)
    first = the_file(kept)
    content = first.read_bytes()
    killed_at(kept, 3)
    one_bit(the_file(kept))
    first.write_bytes(content)
    record, told = go_on(kept)
    assert (numbers(record), record.timing["resumed_at_step"], len(told)) == (whole, 2, 1)


def test_a_writer_that_is_killed_leaves_the_one_before_and_its_part_is_removed(kept, whole, monkeypatch):
    killed_at(kept, 2)
    save = torch.save

    def killed_while_writing(content, file):
        save(content, file)
        file.truncate(1000)
        raise Killed

    monkeypatch.setattr(torch, "save", killed_while_writing)
    killed_at(kept, 3)
    assert sorted(path.suffix for path in Path(kept.folder, SPEC.id).iterdir()) == [".part", ".pt"]
    monkeypatch.undo()
    killed_at(kept, 4)
    the_file(kept)  # it is the only one
    record, told = go_on(kept)
    assert (numbers(record), told) == (whole, [])


def test_there_are_never_more_than_two_files(kept, monkeypatch):
    """One, and while another is written two; seen whenever something is brought to the disk."""
    seen, sync = [], os.fsync

    def counted(handle):
        sync(handle)
        seen.append(len(list(Path(kept.folder, SPEC.id).iterdir())))

    monkeypatch.setattr(os, "fsync", counted)
    monkeypatch.setattr(TrialCheckpoints, "due", lambda *_, **__: True)
    run_trial(SPEC, checkpoints=TrialCheckpoints(kept, SPEC.id, "cpu"))
    # Before the first step and after each of the twelve: the file, then the folder in which it got its name.
    assert seen == [1, 1] + [2, 2] * 12
    the_file(kept)


def test_a_full_disk_is_told_and_training_goes_on(kept, whole):
    """A limit on the size of files stands for it; what was kept before stays."""
    killed_at(kept, 2)
    before = the_file(kept)
    told = []
    checkpoints = TrialCheckpoints(replace(kept, every_seconds=1e-9), SPEC.id, "cpu", told.append)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        record = run_trial(SPEC, checkpoints=checkpoints)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert numbers(record) == whole
    assert set(told) == {told[0]}
    assert f"cannot write to {kept.folder}: File too large; training goes on" in told[0]
    assert the_file(kept) == before


def of_another_machine(kept, _):
    Path(kept.folder, MARK_FILE).write_text("another one", encoding="ascii")
    return f"has another folder at {kept.folder} than the driver has"


def absent(kept, _):
    Path(kept.folder, MARK_FILE).unlink()
    Path(kept.folder).rmdir()
    return f"does not reach the driver's {kept.folder}"


def read_only(kept, monkeypatch):
    # Whoever runs the tests may be root, who may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    return f"may not write to {kept.folder}"


@pytest.mark.parametrize("fault", [of_another_machine, absent, read_only])
def test_a_node_that_does_not_reach_the_folder_says_so_once_and_writes_nothing(fault, kept, whole, monkeypatch):
    why = fault(replace(kept, every_epochs=1), monkeypatch)
    record, told = go_on(replace(kept, every_epochs=1, every_seconds=None))
    assert numbers(record) == whole
    [message] = told
    assert message.endswith(f" {why}; a trial that is killed there begins again")
    assert not Path(kept.folder, SPEC.id).exists()


def test_a_trial_is_kept_by_epochs_or_by_time(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    by_epochs = TrialCheckpoints(settings(tmp_path, every_epochs=2), SPEC.id, "cpu")
    assert [by_epochs.due(epoch) for epoch in (None, 1, 2, 3, 4)] == [False, False, True, False, True]
    assert not by_epochs.due(4, last=True)
    assert TrialCheckpoints(settings(tmp_path, every_epochs=2, keep="last"), SPEC.id, "cpu").due(5, last=True)
    by_time = TrialCheckpoints(settings(tmp_path, every_seconds=60.0), SPEC.id, "cpu")
    due = []
    for now[0] in (100.0, 159.0, 160.0, 500.0):
        due.append((by_time.due(), by_time.due(7), by_time.due(7, last=True)))
    assert due == [(False, False, False), (False, False, False), (True, True, False), (True, True, False)]


def test_writing_takes_a_twentieth_of_the_time_at_most(kept, monkeypatch):
    """A network whose checkpoint takes long is kept more seldom than the suite says."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    checkpoints = TrialCheckpoints(replace(kept, every_seconds=1.0), SPEC.id, "cpu")
    checkpoints.load()

    def slow(*_):
        now[0] += 10.0

    monkeypatch.setattr(checkpoints, "_put", slow)
    monkeypatch.setattr(module, "training_state", lambda _: {})
    now[0] = 1.0
    assert checkpoints.due()
    checkpoints.save(type("Run", (), {"steps": 1}))
    assert now[0] == 11.0
    now[0] = 210.0
    assert not checkpoints.due()
    now[0] = 211.0
    assert checkpoints.due()


def test_a_long_initialization_is_kept_before_the_first_step(kept, whole):
    """The clock starts with the trial: what was initialized and measured for longer than the period is kept at once."""
    at_once = replace(kept, every_seconds=1e-9)
    checkpoints = KilledAt(at_once, SPEC.id, 0)
    with pytest.raises(Killed):
        run_trial(SPEC, checkpoints=checkpoints)
    assert the_file(kept).name.startswith("step-000000000-")
    assert numbers(run_killed(SPEC, kept, 1)) == whole
