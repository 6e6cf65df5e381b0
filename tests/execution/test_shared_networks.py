"""Networks that trials share: made once, by what initialization reads, and no number is another for it."""

from __future__ import annotations

import json

import pytest
import torch

import initbench
from initbench.execution import shared_networks
from initbench.execution.driver import run_suite
from initbench.execution.in_process import run_in_process
from initbench.execution.recorder import Progress
from initbench.execution.shared_networks import FOLDER, network_name
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
MADE = 2 * (1 + 1 + 3)  # by width: once by itself and once under metainit; reads_it for each of three rates


@pytest.fixture
def made(scratch_registry, monkeypatch):  # noqa: ARG001
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
    monkeypatch.setattr("initbench.tracking.thread.TrackingThread", _NoTracking)
    return calls


class _NoTracking:
    def __init__(self, *_):
        self.put = self.put_suite = self.abandon = lambda *_: None
        self.close = lambda *_: []


class _Notes(Progress):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


def run(folder, text=SUITE, execute=run_in_process):
    folder.mkdir(exist_ok=True)
    (folder / "suite.yaml").write_text(text, encoding="utf-8")
    suite, progress = load_suite(folder / "suite.yaml"), _Notes()
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
        (whole / "runs" / FOLDER / "half.123.part").write_bytes(b"half")  # of a worker that was killed
    run(whole)
    assert numbers(whole) == numbers(tmp_path / "own")
    assert not (whole / "runs" / FOLDER).exists()
    if harm == "nothing":
        assert len(made) == MADE


def test_a_bound_on_the_disk_is_kept_and_costs_nothing_but_time(made, tmp_path, monkeypatch):
    run(tmp_path / "own", SUITE + NONE)
    taken = []
    keep = shared_networks.SharedNetworks.keep

    def watched(self, *arguments):
        keep(self, *arguments)
        folder = self.folder
        taken.append(sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0)

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
