"""Trials that are killed and go on from a checkpoint end with the record of one that was not."""

import json

import pytest
import torch
from interrupted import Killed, KilledAt, numbers, run_killed, settings

from initbench.execution import trial
from initbench.execution.checkpoints import TrialCheckpoints
from initbench.execution.trial import attempt_trial, run_trial
from suites import the_trial

# Four steps an epoch, the last of them with fewer samples.
DIGITS = {"name": "digits", "train_size": 60}
IMAGES = {"crop": 1, "flip": True, "cutout": 3, "mixup": 1.0, "label_smoothing": 0.1}
WRN = {"name": "wrn", "depth": 10, "width": 1}
TEXT = {"name": "random", "task": "language_modelling", "shape": [6], "vocabulary": 11, "outputs": 11}
SIZES = {"train_size": 20, "validation_size": 4, "test_size": 4}
GPT = {"name": "gpt", "depth": 1, "width": 8, "heads": 2, "dropout": 0.2}

# What is trained, and the steps after which it is killed; each begins where the one before was killed.
CASES = {
    "sgd with batch norm": (
        {"architectures": [WRN | {"norm": "batch"}], "recipe": {"epochs": 3, "clip_norm": 1.0, "nesterov": True}},
        (5, 4),
    ),
    "every augmentation": ({"recipe": {"epochs": 3, "random_resized_crop": [0.5, 1.0], **IMAGES}}, (0, 2, 5)),
    "adam with dropout": (
        {
            "architectures": [WRN | {"norm": "none", "dropout": 0.3}],
            "recipe": {"epochs": 2, "optimizer": "adam", "lr": 0.01, "warmup_epochs": 1.0},
        },
        (3,),
    ),
    "signsgd with mixup": (
        {"recipe": {"epochs": 3, "optimizer": "signsgd", "lr": 0.01, "weight_decay": 0.1, "mixup": 0.5}},
        (4, 1),
    ),
    "a step history": (
        {"recipe": {"epochs": 3, "history_every": 3, "evaluate_every": 5, "schedule": "step", "milestones": [1, 2]}},
        (2, 1, 4),
    ),
    "fixup's groups": (
        {"architectures": [WRN | {"norm": "none"}], "initializers": ["fixup"], "recipe": {"epochs": 2}},
        (6,),
    ),
    "the three multipliers of mup": (
        {
            "initializers": [{"name": "mup", "base_width": 2}],
            "recipe": {"epochs": 2, "optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1},
        },
        (6,),
    ),
    "micro-batches and another memory format": (
        {
            "architectures": [WRN | {"norm": "batch"}],
            "recipe": {
                "epochs": 2, "accumulate": 2, "batch_norm": "micro_batch", "channels_last": True, "optimizer": "adamw",
                "lr": 0.01, "activation_checkpointing": True,
            },
        },
        (3,),
    ),
    "text by steps": (
        {
            "dataset": TEXT | SIZES,
            "architectures": [GPT],
            "recipe": {"steps": 13, "optimizer": "adamw", "lr": 0.01, "batch_size": 4, "evaluate_every": 2},
        },
        (1, 6, 3),
    ),
    "a loss that is not finite": (
        {"architectures": [WRN | {"norm": "none"}], "recipe": {"epochs": 9, "lr": 50.0}},
        (1, 1),
    ),
}  # fmt: skip


def spec_of(name="every augmentation", **keys):
    case = {"dataset": DIGITS, **CASES[name][0], **keys}
    return the_trial(**{**case, "recipe": {"batch_size": 16, "lr": 0.05, **case["recipe"]}})


@pytest.mark.parametrize("name", CASES)
def test_a_killed_trial_ends_with_the_record_of_one_that_was_not(name, tmp_path):
    spec, kept = spec_of(name), settings(tmp_path / "checkpoints")
    whole = run_trial(spec)
    assert numbers(run_killed(spec, kept, *CASES[name][1])) == numbers(whole)
    assert whole.status == ("diverged" if name == "a loss that is not finite" else "finished")
    assert "resumed_at_step" not in whole.timing


def test_keeping_a_trial_changes_no_number(tmp_path):
    spec = spec_of()
    kept = TrialCheckpoints(settings(tmp_path / "checkpoints", every_epochs=1, keep="last"), spec.id, "cpu")
    assert numbers(run_trial(spec, checkpoints=kept)) == numbers(run_trial(spec))


def test_the_trained_network_is_the_same_bit_by_bit(tmp_path):
    spec = spec_of("adam with dropout")
    states = []
    for name, killed_at in (("whole", ()), ("killed", (3, 2))):
        kept = settings(tmp_path / name, keep="last")
        run_killed(spec, kept, *killed_at)
        [path] = (tmp_path / name / spec.id).iterdir()
        states.append(torch.load(path, weights_only=True)["training"])
    whole, killed = (leaves(state) for state in states)
    assert len(whole) > 80
    assert whole.keys() == killed.keys()
    for name in whole.keys() - {"/progress"}:
        assert same(whole[name], killed[name]), name
    without_time = [{**json.loads(state["progress"]), "seconds": 0.0} for state in states]
    assert without_time[0] == without_time[1]
    assert without_time[0]["steps"] == 8


def leaves(value, name=""):
    """Every value of nested mappings and lists, by its path."""
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {path: leaf for key, item in items for path, leaf in leaves(item, f"{name}/{key}").items()}
    return {name: value}


def same(a, b):
    return torch.equal(a, b) and a.dtype == b.dtype if isinstance(a, torch.Tensor) else a == b


def test_no_finished_epoch_is_trained_twice_and_nothing_is_initialized_or_measured_again(tmp_path, monkeypatch):
    spec, epochs, calls = spec_of(probes=["gradient_norm"]), [], []
    for name in ("_initialize", "_measure"):
        own = getattr(trial, name)
        monkeypatch.setattr(trial, name, lambda *args, _own=own, _name=name: calls.append(_name) or _own(*args))
    # Killed within the second epoch, and at the end of it, before anybody is told.
    record = run_killed(spec, settings(tmp_path / "c"), 6, 2, on_epoch=lambda done, _: epochs.append(done))
    assert (epochs, calls) == ([1, 3], ["_initialize", "_measure"])
    assert record.probes[0]["name"] == "gradient_norm"


def test_a_trial_is_killed_after_any_step_and_any_number_of_times(tmp_path):
    spec, kept = spec_of("a step history"), settings(tmp_path / "checkpoints")
    assert numbers(run_killed(spec, kept, *[1] * 12)) == numbers(run_trial(spec))


def test_fixups_scalars_keep_their_rate(tmp_path):
    """The groups are made from the record, and the optimizer has the rates that it had."""
    spec, kept = spec_of("fixup's groups"), settings(tmp_path / "checkpoints")
    with pytest.raises(Killed):
        run_trial(spec, checkpoints=KilledAt(kept, spec.id, 4))
    loaded = TrialCheckpoints(kept, spec.id, "cpu")
    loaded.load()
    groups = loaded.state["optimizer"]["param_groups"]
    assert [group["initial_lr"] for group in groups] == [0.05, pytest.approx(0.005)]
    assert set(loaded.before["initialization"]["learning_rate_multipliers"].values()) == {0.1}


def test_the_multipliers_of_mup_reach_the_optimizer(tmp_path):
    """The mlp has a first, a hidden and an output layer; it is four times as wide as the base."""
    spec, kept = spec_of("the three multipliers of mup"), settings(tmp_path / "checkpoints")
    with pytest.raises(Killed):
        run_trial(spec, checkpoints=KilledAt(kept, spec.id, 4))
    loaded = TrialCheckpoints(kept, spec.id, "cpu")
    loaded.load()
    groups = {(g["initial_lr"], g["weight_decay"], g["eps"]) for g in loaded.state["optimizer"]["param_groups"]}
    assert groups == {(0.01, 0.1, 1e-8), (0.0025, 0.4, 1e-8), (0.0025, 0.4, 4e-8)}


def test_seconds_are_those_of_all_attempts(tmp_path):
    spec = spec_of("adam with dropout", probes=["gradient_norm"])
    record = run_killed(spec, settings(tmp_path / "checkpoints"), 3)
    timing = record.timing
    assert timing["resumed_at_step"] == 3
    assert timing["initialization_seconds"] > 0
    assert timing["gradient_norm_probe_seconds"] > 0
    parts = sum(timing[f"{stage}_seconds"] for stage in ("initialization", "probes", "training"))
    assert 0 < parts < timing["total_seconds"]
    json.dumps(record.to_json(), allow_nan=False)


def test_the_training_of_a_trial_that_began_from_a_shared_network_is_that_of_both_attempts(tmp_path):
    """It is charged 600 s of initialization and took 1 s to load the network, then it trained for 100 and 40 s."""
    checkpoints = TrialCheckpoints(settings(tmp_path / "checkpoints"), "a trial", "cpu")
    before = {"data_seconds": 0.0, "initialization_seconds": 600.0, "initialization_saved_seconds": 599.0}
    checkpoints.before = {"timing": before | {"probes_seconds": 0.0}}
    checkpoints.state, checkpoints._spent = {}, 101.0
    timing = checkpoints.whole_timing({"training_seconds": 40.0, "total_seconds": 40.5})
    assert (timing["training_seconds"], timing["total_seconds"]) == (140.0, 141.5)


def test_a_failed_trial_goes_on_when_it_is_tried_again(tmp_path):
    """An exception, such as of memory that ran out: the next attempt starts at the checkpoint."""
    spec, kept = spec_of(), settings(tmp_path / "checkpoints", every_epochs=1)

    def fail_after(epoch):
        def on_epoch(done, _):
            seen.append(done)
            if done == epoch:
                raise MemoryError

        return on_epoch

    seen = []
    assert attempt_trial(spec, fail_after(2), checkpoints=kept).error["type"] == "MemoryError"
    record = attempt_trial(spec, fail_after(None), checkpoints=kept)
    assert seen == [1, 2, 3]
    assert numbers(record) == numbers(run_trial(spec))
