"""Networks that trials share: made once, by what initialization reads, and no number is another for it."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from interrupted import contents, precious, seconds
from operations import NoTracking, Told

import initbench
from initbench.execution import shared_networks
from initbench.execution.driver import run_suite
from initbench.execution.in_process import run_in_process
from initbench.execution.shared_networks import FOLDER, NetworkKeeper, network_name
from initbench.ledger import Ledger
from initbench.reporting.report import Written
from initbench.suite.load import load_suite
from suites import plan_of, planned

SUITE = """
name: shared
dataset: {name: digits, train_size: 128}
architectures: [{name: mlp, depth: 3, width: [8, 64], norm: batch}]
initializers: [counted, {name: metainit, base: counted, steps: 2, batch_size: 8}, reads_it]
recipe: {epochs: 1, batch_size: 32, lr: [0.01, 0.1, 0.3]}
probes: []
seeds: [4]
"""
NONE = "resources: {shared_networks_gb: 0}\n"
TRIALS = 2 * 3 * 3
NETWORK = f"{'0' * 64}.{'f' * 16}"
MADE = 2 * (1 + 1 + 3)  # by width: once by itself and once under metainit; reads_it for each of three rates


@pytest.fixture
def made(scratch_registry, monkeypatch):
    """The initializations that took place: (initializer, first weight)."""
    calls = []

    def fill(name, model, context):
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.data.copy_(0.1 * torch.randn(parameter.shape, generator=context.generator(key)))
        for key, buffer in model.named_buffers():
            if key.endswith("running_mean"):
                buffer.fill_(0.25)  # buffers are part of what is kept
        calls.append((name, next(model.parameters()).flatten()[0].item()))

    @initbench.register_initializer("counted")
    def counted():
        """Normal weights."""
        return lambda model, context: fill("counted", model, context)

    @initbench.register_initializer("reads_it", reads_optimizer=True)
    def reads_it():
        """Normal weights, the larger the rate the larger."""

        def apply(model, context):
            fill("reads_it", model, context)
            for parameter in model.parameters():
                parameter.data.mul_(1 + context.optimizer.lr)

        return apply

    monkeypatch.setattr(shared_networks, "_WORTH_KEEPING_SECONDS", 0.0)
    monkeypatch.setattr("initbench.reporting.report.write_report", lambda folder: Written(folder, [], []))
    monkeypatch.setattr("initbench.tracking.thread.TrackingThread", NoTracking)
    return calls


def run(folder, text=SUITE, execute=run_in_process):
    folder.mkdir(exist_ok=True)
    (folder / "suite.yaml").write_text(text, encoding="utf-8")
    suite, progress = load_suite(folder / "suite.yaml"), Told()
    run_suite(suite, plan_of(suite), folder / "runs", execute, progress=progress)
    return progress.notes


def records(folder):
    return {record.id: record for record in Ledger(folder / "runs").records()}


def numbers(folder):
    return {trial: json.dumps(record.numbers(), sort_keys=True) for trial, record in records(folder).items()}


def test_what_reads_no_rate_is_made_once_and_every_number_is_that_of_networks_of_their_own(made, tmp_path):
    run(tmp_path / "own", SUITE + NONE)
    alone = len(made)
    assert alone == TRIALS
    made.clear()
    run(tmp_path / "shared")
    assert len(made) == MADE
    assert numbers(tmp_path / "shared") == numbers(tmp_path / "own")
    assert not (tmp_path / "shared" / "runs" / FOLDER).exists()  # all of it is removed when nobody needs it


def test_each_trial_is_charged_the_initialization_and_says_what_was_saved(made, tmp_path):
    run(tmp_path)
    assert made
    charged = {}
    for record in records(tmp_path).values():
        assert record.timing["total_seconds"] >= record.timing["initialization_seconds"] > 0
        saved = "initialization_saved_seconds" in record.timing
        key = record.spec["architecture"]["arguments"]["width"], record.spec["initializer"]["name"], record.spec["seed"]
        charged.setdefault(key, []).append((record.timing["initialization_seconds"], saved))
    for (_, name, _), own in charged.items():
        assert sorted(saved for _, saved in own) == [False, *[name != "reads_it"] * 2]
        assert name == "reads_it" or len({seconds for seconds, _ in own}) == 1


class Killed(BaseException):
    """In the place of kill -9 between two trials."""


def killed_after(count):
    """An executor whose driver dies after so many trials of this run."""

    def execute(job, observer):
        finished, done = observer.finished, []

        def counting(record):
            finished(record)
            done.append(record)
            if len(done) == count:
                raise Killed

        observer.finished = counting
        run_in_process(job, observer)

    return execute


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["nothing", "cut off", "no file of torch", "of another shape"])
def test_over_kills_the_numbers_are_the_same_and_a_damaged_network_is_made_anew(made, tmp_path, harm):
    run(tmp_path / "own", SUITE + NONE)
    made.clear()
    whole = tmp_path / "killed"
    for count in (1, 4, 7):
        with pytest.raises(Killed):
            run(whole, execute=killed_after(count))
        kept = sorted((whole / "runs" / FOLDER).glob("*.pt"))
        if harm == "cut off":
            for path in kept:
                path.write_bytes(path.read_bytes()[:-100])
        elif harm == "no file of torch":
            for path in kept:
                path.write_bytes(b"PK")
        elif harm == "of another shape":
            for path in kept:
                found = torch.load(path, weights_only=True)
                torch.save(found | {"tensors": {name: t.flatten()[:1] for name, t in found["tensors"].items()}}, path)
        (whole / "runs" / FOLDER).mkdir(exist_ok=True)
        (whole / "runs" / FOLDER / f"{NETWORK}.123.part").write_bytes(b"half")  # of a worker that was killed
    run(whole)
    assert numbers(whole) == numbers(tmp_path / "own")
    assert not (whole / "runs" / FOLDER).exists()
    if harm == "nothing":
        assert len(made) == MADE


def test_a_bound_on_the_disk_is_kept_and_costs_nothing_but_time(made, tmp_path, monkeypatch):
    run(tmp_path / "own", SUITE + NONE)
    taken = []
    keep = shared_networks.SharedNetworks.keep
    folder = tmp_path / "bounded" / "runs" / FOLDER

    def watched(self, *arguments):
        keep(self, *arguments)
        taken.append(sum(path.stat().st_size for path in folder.glob("[!.]*")))

    monkeypatch.setattr(shared_networks.SharedNetworks, "keep", watched)
    made.clear()
    run(
        tmp_path / "bounded", SUITE + "resources: {shared_networks_gb: 0.00005}\n"
    )  # 50 kB: the narrow perceptrons and few others
    assert 0 < max(taken) <= 50_000
    assert len(made) > MADE
    assert numbers(tmp_path / "bounded") == numbers(tmp_path / "own")


@pytest.mark.parametrize(
    ("key", "values", "shares"),
    [
        ("lr", [0.1, 0.2], True),
        ("epochs", [1, 2], True),
        ("momentum", [0.9, 0.5], True),
        ("batch_size", [32, 64], True),
        ("mixup", [0.0, 0.5], True),
        ("threads", [1, 2], False),  # sums in another order
    ],
)
def test_what_initialization_does_not_read_is_not_in_the_name(key, values, shares):
    trials = planned(recipe={key: values}).trials
    assert len(trials) == 2
    assert len({network_name(trial) for trial in trials}) == (1 if shares else 2)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("initializer", ["gradinit", "reads_it", {"name": "metainit", "base": "reads_it"}])
def test_the_name_has_the_optimizer_where_an_initializer_or_its_base_reads_it(initializer):
    names = [network_name(trial) for trial in planned(initializers=[initializer], recipe={"lr": [0.1, 0.2]}).trials]
    assert len(set(names)) == 2
    names = [network_name(t) for t in planned(initializers=[initializer], recipe={"momentum": [0.5, 0.9]}).trials]
    assert len(set(names)) == 1


def test_seeds_phases_and_arguments_have_networks_of_their_own():
    trials = planned(initializers=["xavier", {"name": "xavier", "gain": 2.0}], seeds=2).trials
    searches = [trial.model_copy(update={"phase": "search"}) for trial in trials]
    assert len({network_name(trial) for trial in (*trials, *searches)}) == 8


def another_folder(folder):
    folder.symlink_to(folder.parent.parent / "precious")
    return "is a link, which is not followed"


def another_folder_that_is_gone(folder):
    folder.symlink_to("gone")
    return "is a link, which is not followed"


def no_end(folder):
    folder.symlink_to(folder)
    return "is a link, which is not followed"


def files_of_somebody(folder):
    shutil.copytree(folder.parent.parent / "precious", folder)
    return "holds files but not initbench's mark, .folder"


def files_of_somebody_who_marks(folder):
    files_of_somebody(folder)
    (folder / ".folder").write_text("mine", encoding="utf-8")
    return "holds files but not initbench's mark, .folder"


def trials_of_the_suite(folder):
    (folder.parent / "trials").mkdir()
    folder.symlink_to("trials")
    return "is a link, which is not followed"


def a_file(folder):
    folder.write_text("précieux", encoding="utf-8")
    return "File exists"


@pytest.mark.parametrize(
    "obstacle",
    [
        another_folder,
        another_folder_that_is_gone,
        no_end,
        files_of_somebody,
        files_of_somebody_who_marks,
        trials_of_the_suite,
        a_file,
    ],
)
def test_what_is_somebody_elses_is_not_touched_and_no_networks_are_shared(made, tmp_path, obstacle):
    folder, content = precious(tmp_path / "precious")
    (folder / f"{NETWORK}.pt").write_bytes(b"even that")
    content |= {f"{NETWORK}.pt": b"even that"}
    place = tmp_path / "runs" / FOLDER
    place.parent.mkdir()
    why = obstacle(place)
    there = contents(place) if place.is_dir() and not place.is_symlink() else None
    run(tmp_path)
    assert contents(folder) == content
    assert len(records(tmp_path)) == TRIALS
    assert {record.status for record in records(tmp_path).values()} == {"finished"}
    assert place.is_symlink() or place.is_file() or contents(place) == there
    assert len(made) == TRIALS
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    keeper = NetworkKeeper(tmp_path / "runs", plan_of(load_suite(tmp_path / "suite.yaml")).trials, 1e9)
    assert keeper.problem == f"networks: {place}: {why}; each trial initializes its own network"


def test_what_somebody_puts_beside_the_networks_stays(made, tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, execute=killed_after(1))
    folder = tmp_path / "runs" / FOLDER
    assert len(list(folder.glob("*.pt"))) == 1
    for name in ("thesis.tex", "half.123.part", f"{NETWORK}.pt.bak", f"{NETWORK}.part", f"copy.{NETWORK}.pt"):
        (folder / name).write_text("précieux", encoding="utf-8")
    (folder / f"{NETWORK}.7.part").write_bytes(b"half")
    run(tmp_path)
    assert len(made) == MADE
    left = {"thesis.tex", "half.123.part", f"{NETWORK}.pt.bak", f"{NETWORK}.part", f"copy.{NETWORK}.pt", ".folder"}
    assert {path.name for path in folder.iterdir()} == left


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def endless(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def edited(**values):
    def edit(path):
        torch.save(torch.load(path, weights_only=True) | values, path)

    return edit


def without_numbers(path):
    kept = torch.load(path, weights_only=True)
    edited(tensors={name: tensor.to("meta") for name, tensor in kept["tensors"].items()})(path)


@pytest.mark.parametrize(
    "harm",
    [
        pipe,
        without_numbers,
        endless,
        edited(record="{}"),
        edited(record="[]"),
        edited(record='{"learning_rate_multipliers": {"0.weight": "fast"}}'),
        edited(record='{"learning_rate_multipliers": {}, "tensors": {"0.weight": 1}}'),
        edited(record='{"learning_rate_multipliers": {}, "cost": {"forward": NaN}}'),
        edited(seconds="1"),
        edited(seconds=float("nan")),
        edited(tensors={"0.weight": "text"}),
    ],
)
@pytest.mark.usefixtures("made")
def test_a_network_that_somebody_made_up_is_made_anew(tmp_path, harm):
    text = SUITE.replace("[8, 64]", "8").replace("[0.01, 0.1, 0.3]", "[0.01, 0.1]")
    run(tmp_path / "own", text + NONE)
    whole = tmp_path / "killed"
    with pytest.raises(Killed):
        run(whole, text, execute=killed_after(1))
    [path] = (whole / "runs" / FOLDER).glob("*.pt")
    harm(path)
    with seconds(20):
        run(whole, text)
    assert numbers(whole) == numbers(tmp_path / "own")
    assert {record.status for record in records(whole).values()} == {"finished"}
    assert not path.parent.exists()


def of_another_machine(folder):
    folder.mkdir(exist_ok=True)
    (folder / ".folder").write_text("0" * 32, encoding="ascii")


def put_in_its_place(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.symlink_to(folder.parent.parent / "precious")


@pytest.mark.parametrize("change", [of_another_machine, put_in_its_place])
def test_a_worker_that_sees_another_folder_shares_none(made, tmp_path, change):
    folder, content = precious(tmp_path / "precious")

    def elsewhere(job, observer):
        change(tmp_path / "runs" / FOLDER)
        run_in_process(job, observer)

    run(tmp_path, execute=elsewhere)
    assert len(made) == TRIALS
    assert contents(folder) == content
    assert not list((tmp_path / "runs" / FOLDER).glob("*.pt"))
