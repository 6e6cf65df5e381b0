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
from interrupted import MARK_FILE, Killed, KilledAt, contents, numbers, precious, run_killed, seconds, settings

from initbench.execution import checkpoints as module
from initbench.execution.checkpoints import TrialCheckpoints
from initbench.execution.trial import run_trial
from initbench.ledger import record_of
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


def before(**changed):
    """Another account of what came before training."""

    def edit(path):
        kept = json.loads(torch.load(path, weights_only=True)["before"])
        edited(path, lambda content: content.update(before=json.dumps(kept | changed)))

    return edit


def timed(**changed):
    def edit(path):
        kept = json.loads(torch.load(path, weights_only=True)["before"])["timing"]
        before(timing=kept | changed)(path)

    return edit


def initialized(**changed):
    def edit(path):
        kept = json.loads(torch.load(path, weights_only=True)["before"])["initialization"]
        before(initialization=kept | changed)(path)

    return edit


def kept_as(**changed):
    return lambda path: edited(path, lambda content: content.update(changed))


def progress(**changed):
    """Another account of the training so far."""

    def edit(content):
        known = json.loads(content["training"]["progress"])
        content["training"]["progress"] = json.dumps(known | changed)

    return lambda path: edited(path, edit)


def optimizer(edit):
    return lambda path: edited(path, lambda content: edit(content["training"]["optimizer"]))


def without_a_moment(state):
    state["state"][0].clear()


def moments_of_another_shape(state):
    state["state"][0]["momentum_buffer"] = torch.zeros(3)


def moments_without_numbers(state):
    state["state"][0]["momentum_buffer"] = state["state"][0]["momentum_buffer"].to("meta")


def rate_that_is_a_text(state):
    state["param_groups"][0]["lr"] = "fast"


def other_groups(state):
    state["param_groups"][0]["momentum"] = None


def scheduler_elsewhere(path):
    edited(path, lambda content: content["training"]["scheduler"].update(last_epoch="now"))


def batches_without_end(path):
    edited(path, lambda content: content["training"]["batches"].update(taken=10**9))


def far_step(path):
    progress(steps=10**9)(path)
    [path] = path.parent.iterdir()
    renamed(10**9)(path)


def renamed(step):
    return lambda path: path.rename(path.with_name(f"step-{step:09}-{path.stem.rpartition('-')[2]}.pt"))


MADE_UP = [
    (kept_as(before="{}"), "it is not a checkpoint: initialization is required"),
    (kept_as(before="[]"), "it is not a checkpoint: "),
    (kept_as(before=3), "it is not a checkpoint: before must be a text, got 3"),
    (kept_as(seconds=float("nan")), "it is not a checkpoint: seconds must be finite, got .nan"),
    (kept_as(seconds=-1e300), "it is not a checkpoint: seconds must be at least "),
    (kept_as(seconds="6"), "it is not a checkpoint: seconds must be a number, got '6'"),
    (before(probes="none"), "it is not a checkpoint: probes must be a list, got 'none'"),
    (before(probes=[{"name": "norm", "kind": "scalar", "value": "large"}]), "it is not a checkpoint: the probe 'norm'"),
    (timed(data_seconds="long"), "it is not a checkpoint: timing.data_seconds must be a number, got 'long'"),
    (timed(data_seconds=1e308), "it is not a checkpoint: timing.data_seconds must be at most "),
    (timed(norm_probe_seconds=[]), "it is not a checkpoint: timing.norm_probe_seconds must be a number, got []"),
    (timed(**{"\ud800_seconds": 1.0}), "it is not a checkpoint: timing "),
    (initialized(learning_rate_multipliers={"0.weight": "x"}), "it is not a checkpoint: initialization.learning_rate"),
    (
        initialized(learning_rate_multipliers=None),
        "it is not a checkpoint: initialization.learning_rate_multipliers must",
    ),
    (
        initialized(weight_decay_multipliers={"0.weight": "x"}),
        "it is not a checkpoint: initialization.weight_decay_mul",
    ),
    (initialized(epsilon_multipliers=3), "it is not a checkpoint: initialization.epsilon_multipliers must"),
    (initialized(history="long"), "it is not a checkpoint: initialization.history must be a list, got 'long'"),
    (
        initialized(cost={"forward": 10**30}),
        "it is not a checkpoint: a number must be finite and an integer of at most",
    ),
    (progress(steps="000000005"), "it is not a checkpoint: steps must be an integer"),
    (progress(steps=6), "it is at step 6, and its name has another step"),
    (far_step, "it does not fit the trial: ValueError: it is of step 1000000000, and the trial has 12"),
    (renamed(7), "it is at step 5, and its name has another step"),
    (renamed(10**30), "it is at step 5, and its name has another step"),
    (renamed(10**180), "it is at step 5, and its name has another step"),
    (progress(seconds=-1.0), "it is not a checkpoint: seconds must be at least 0, got -1.0"),
    (progress(seconds=5e-324), "it is not a checkpoint: the number of samples"),
    (progress(history="long"), "it is not a checkpoint: history must be a list, got 'long'"),
    (
        progress(history=[{"step": "one", "epoch": 1.0}]),
        "it is not a checkpoint: history.0.step must be",
    ),
    (
        progress(history=[{"step": 1, "epoch": 1, "lr": float("inf")}]),
        "it is not a checkpoint: history.0",
    ),
    (progress(evaluations=[{}]), "it does not fit the trial: ValueError: an evaluation lacks metrics of the task"),
    (progress(first={"error": 10**400}), "it is not a checkpoint: an integer has more than 64 bits"),
    (progress(sums={"loss": "small"}), "it is not a checkpoint: sums.loss must be a number"),
    (optimizer(without_a_moment), "it does not fit the trial: ValueError: other moments"),
    (optimizer(moments_of_another_shape), "it does not fit the trial: ValueError: momentum_buffer is of another shape"),
    (optimizer(moments_without_numbers), "it does not fit the trial: ValueError: momentum_buffer is of another shape"),
    (optimizer(rate_that_is_a_text), "it does not fit the trial: ValueError: a learning rate is not a number"),
    (optimizer(other_groups), "it does not fit the trial: ValueError: other parameter groups"),
    (scheduler_elsewhere, "it does not fit the trial: ValueError: the position of the scheduler"),
    (batches_without_end, "it does not fit the trial: ValueError: the batches that were taken"),
]


def with_a_command(path):
    named_as(path, pickle.dumps(Command()))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (truncated, "it is damaged"),
        (emptied, "it is damaged"),
        (one_bit, "it is damaged"),
        (no_checkpoint, "it cannot be read: "),
        (of_another_trial, "it belongs to trial ffffffffffff"),
        (of_another_format, "it has format 99"),
        (of_another_processor, "it was written elsewhere (processor: abacus → "),
        (of_another_version, "it was written elsewhere (initbench: 0.0 → "),
        (of_another_shape, "it does not fit the trial: "),
        (without_a_part, "it does not fit the trial: KeyError"),
        (with_a_command, "it cannot be read: "),
        *MADE_UP,
    ],
)
def test_a_checkpoint_that_cannot_be_gone_on_from_is_named_and_the_trial_starts_again(
    damage, why, kept, whole, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    killed_at(kept, 5)
    damage(the_file(kept))
    with seconds(20):
        record, told = go_on(kept)
    assert numbers(record) == whole
    record_of(json.dumps(record.to_json()))
    [message] = told
    assert f"of trial {SPEC.id[:12]} is not used, and the trial starts again: {why}" in message
    assert str(Path(kept.folder, SPEC.id)) in message
    assert "\n" not in message
    assert not Path("done").exists()
    assert "resumed_at_step" not in record.timing
    # Where it was written somebody may go on from it; the others nobody needs to read again.
    elsewhere = damage in {of_another_format, of_another_processor, of_another_version}
    assert len(list(Path(kept.folder, SPEC.id).iterdir())) == elsewhere


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
    assert f"cannot write to {kept.folder}: File too large; training continues" in told[0]
    assert the_file(kept) == before


def of_another_machine(kept, _):
    Path(kept.folder, MARK_FILE).write_text("another one", encoding="ascii")
    return f"has a different folder at {kept.folder} than the driver"


def absent(kept, _):
    Path(kept.folder, MARK_FILE).unlink()
    Path(kept.folder).rmdir()
    return f"cannot see the driver's folder {kept.folder}"


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
    assert message.endswith(f" {why}; trials killed there start again from the beginning")
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


def pipe(path):
    os.mkfifo(path)
    return "is a pipe, not a file"


def device(path):
    path.symlink_to("/dev/zero")
    return "is a device, not a file"


def folder(path):
    path.mkdir()
    return "is a folder, not a file"


@pytest.mark.parametrize("kind", [pipe, device, folder])
def test_what_is_no_file_is_not_opened(kind, kept, whole):
    killed_at(kept, 5)
    path = the_file(kept)
    path.unlink()
    why = kind(path)
    with seconds(20):
        record, told = go_on(kept)
    assert numbers(record) == whole
    [message] = told
    assert message.endswith(f" is not used, and the trial starts again: it cannot be read: {why}")


def test_too_little_memory_leaves_the_checkpoint_for_the_next_attempt(kept, whole, monkeypatch):
    killed_at(kept, 5)
    monkeypatch.setattr(torch, "load", lambda *_, **__: torch.zeros(10**15))
    _, [message] = go_on(kept)
    assert "it cannot be read: RuntimeError: " in message
    monkeypatch.undo()
    record, told = go_on(kept)
    assert (numbers(record), told, record.timing["resumed_at_step"]) == (whole, [], 5)


def test_a_trials_folder_that_is_a_link_is_not_followed(kept, whole, tmp_path):
    killed_at(kept, 5)
    somewhere, content = precious(tmp_path / "precious")
    for name in (the_file(kept).name, "123.part"):
        (somewhere / name).write_bytes(b"even that")
        content[name] = b"even that"
    the_file(kept).unlink()
    Path(kept.folder, SPEC.id).rmdir()
    Path(kept.folder, SPEC.id).symlink_to(somewhere)
    record, told = go_on(replace(kept, every_seconds=1e-9))
    assert numbers(record) == whole
    [message] = told
    assert f"does not follow {kept.folder}/{SPEC.id}, which is a link; trials killed there start again" in message
    assert contents(somewhere) == content


def test_a_link_in_the_place_of_a_file_that_is_written_is_not_followed(kept, whole, tmp_path):
    somewhere, content = precious(tmp_path / "precious")

    class Linked(TrialCheckpoints):
        def due(self, *_, **__):
            self.folder.mkdir(exist_ok=True)
            (self.folder / f"{os.getpid()}.part").symlink_to(somewhere / "thesis.tex")
            return True

    assert numbers(run_trial(SPEC, checkpoints=Linked(kept, SPEC.id, "cpu"))) == whole
    assert contents(somewhere) == content
    the_file(kept)


def test_what_somebody_puts_beside_the_checkpoints_stays(kept, whole):
    killed_at(kept, 5)
    own = the_file(kept)
    names = {"thesis.tex", "half.part", "step-5.pt", f"copy-{own.name}", f"{own.name}.bak", f"step-5-{'0' * 64}.pt"}
    for name in names:
        own.with_name(name).write_text("précieux", encoding="utf-8")
    record, told = go_on(replace(kept, every_seconds=1e-9))
    assert (numbers(record), told) == (whole, [])
    assert {path.name for path in own.parent.iterdir() if path.suffix == ".bak" or path.name in names} == names


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
