"""One trial: what its record holds, and what fails it."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from initbench import plugins
from initbench.data import Split, Splits
from initbench.execution import trial
from initbench.execution.trial import attempt_trial, run_trial
from initbench.inputs import Inputs
from initbench.registry import register_architecture, register_dataset
from suites import the_trial

PLUGIN = plugins.read_file(Path(__file__).with_name("faults.py"))
SMALL = {
    "dataset": {"name": "digits", "train_size": 64},
    "architectures": [{"name": "mlp", "width": 8}],
    "recipe": {"epochs": 2, "batch_size": 32, "lr": 0.05},
}


@pytest.fixture(scope="module", autouse=True)
def _faults():
    plugins.load_file(PLUGIN)


def test_a_record_holds_what_was_asked_what_was_hashed_and_what_its_metrics_mean():
    spec = the_trial(**SMALL, probes=["gradient_norm"])
    record = run_trial(spec)
    assert (record.id, record.identity, record.status) == (spec.id, spec.identity, "finished")
    assert record.spec == spec.model_dump(mode="json")
    assert (record.task["name"], record.task["primary"]) == ("classification", "test_error")
    assert set(record.task["metrics"]) <= set(record.metrics)
    error, accuracy = (record.task["metrics"][name] for name in ("test_error", "first_epoch_accuracy"))
    assert 0.85 < error["chance"] < 0.95
    assert accuracy["chance"] == 1 - error["chance"]
    assert accuracy["chance_standard_error"] == error["chance_standard_error"]
    assert record.environment["bf16"] in {"native", "emulated"}
    assert [(probe["name"], probe["kind"]) for probe in record.probes] == [
        ("gradient_norm", "scalar"),
        ("gradient_norm.per_layer", "per_layer"),
    ]
    assert "seconds" not in record.initialization
    stages = {f"{stage}_seconds" for stage in ("data", "initialization", "probes", "training", "total")}
    assert stages <= set(record.timing)


def test_a_search_trial_says_all_of_the_validation_split():
    record = run_trial(the_trial(**SMALL).model_copy(update={"phase": "search"}))
    assert record.task["primary"] == "validation_error"
    assert record.task["metrics"]["validation_error"]["primary"] is True
    assert not [name for name in record.metrics if "test" in name]


def test_a_trial_without_an_epoch_is_finished_and_measures():
    record = run_trial(the_trial(**SMALL | {"recipe": {"epochs": 0}}, probes=["parameter_norm"]))
    assert record.status == "finished"
    assert record.history == []
    assert (record.metrics["steps"], record.metrics.get("test_error")) == (0, None)
    assert record.metrics["parameters"] > 0
    assert record.probes[0]["value"] > 0


@pytest.mark.usefixtures("scratch_registry")
def test_a_trial_without_an_epoch_needs_no_test_split():
    @register_dataset("untested", inputs=Inputs((1, 4, 4)), outputs=2)
    def untested() -> Splits:
        none = Split(torch.zeros(0, 1, 4, 4), torch.zeros(0, dtype=torch.int64))
        return Splits(Split(torch.ones(8, 1, 4, 4), torch.arange(8) % 2), none, none)

    spec = the_trial(**SMALL | {"dataset": "untested", "recipe": {"epochs": 0}}, probes=["parameter_norm"])
    record = run_trial(spec)
    assert record.status == "finished"
    assert record.task["metrics"]["test_error"]["chance"] is None


def test_data_that_are_others_than_when_planned_fail_the_trial():
    spec = the_trial(**SMALL)
    other = spec.dataset.model_copy(update={"content": "sha256:other"})
    record = attempt_trial(spec.model_copy(update={"dataset": other}))
    assert (record.status, record.error["type"]) == ("failed", "DataError")
    assert "sha256:other" in record.error["message"]
    assert record.task == {}
    assert record.identity["dataset"]["content"] == "sha256:other"


def test_a_probe_that_returns_no_measurement_fails_its_trial_before_training(monkeypatch):
    spec = the_trial(**SMALL, probes=["bare_number"])
    monkeypatch.setattr(trial, "train", lambda *_args, **_options: pytest.fail("it was trained"))
    record = attempt_trial(spec)
    assert record.status == "failed"
    assert "probe bare_number" in record.error["message"]
    assert "\n" not in record.error["message"]


@pytest.fixture(scope="module")
def travelled():
    """The trial of a plug-in's initializer, as it comes to a worker."""
    spec = the_trial(**SMALL | {"initializers": [{"name": "fault", "kind": "leak"}]})
    return spec.id, pickle.dumps(spec)


@pytest.mark.usefixtures("scratch_registry")
def test_a_plugin_that_a_worker_cannot_import_fails_the_trial_which_keeps_its_identity(travelled):
    trial_id, pickled = travelled
    broken = plugins.PluginFile("broken.py", "raise RuntimeError('not here')")
    record = attempt_trial(pickle.loads(pickled), plugins=(broken,))  # noqa: S301  # made above
    assert record.status == "failed"
    assert "not here" in record.error["message"]
    assert record.id == trial_id
    assert record.identity["initializer"]["name"] == "fault"


def test_a_value_that_json_cannot_hold_fails_its_trial_alone(monkeypatch):
    spec = the_trial(**SMALL)
    made = run_trial(spec)
    monkeypatch.setattr(trial, "run_trial", lambda *_: replace(made, metrics={"test_error": object()}))
    record = attempt_trial(spec)
    assert (record.status, record.error["type"]) == ("failed", "TypeError")


def test_run_trial_gives_back_the_state_of_its_process():
    spec = the_trial(**SMALL | {"initializers": [{"name": "fault", "kind": "leak"}]})
    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled())
    state = torch.get_rng_state()
    run_trial(spec)
    assert (torch.get_num_threads(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()) == before
    assert torch.equal(torch.get_rng_state(), state)


class Tokens(torch.nn.Module):
    """The mean of embeddings, and a linear layer; its output holds ``logits``."""

    def __init__(self, vocabulary, classes):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(vocabulary, 8), torch.nn.Linear(8, classes)

    def forward(self, tokens):
        return type("Output", (), {"logits": self.head(self.embedding(tokens).mean(1))})()


@pytest.mark.parametrize("data", ["random", "real"])
@pytest.mark.usefixtures("scratch_registry")
def test_tokens_reach_tuners_probes_and_training(data):
    """Classes of texts: the inputs have a vocabulary of their own, which is not the number of outputs."""

    @register_dataset("texts", inputs=Inputs((6,), vocabulary=50), outputs=3)
    def texts():
        generator = torch.Generator().manual_seed(0)

        def split(size):
            inputs = torch.randint(50, (size, 6), generator=generator)
            return Split(inputs, inputs[:, 0] % 3)

        return Splits(split(64), split(32), split(32))

    @register_architecture("tokens")
    def tokens(*, inputs: Inputs, outputs: int):
        return Tokens(inputs.vocabulary, outputs)

    spec = the_trial(
        dataset="texts",
        architectures=["tokens"],
        initializers=[{"name": "metainit", "base": "gaussian", "steps": 2, "batch_size": 4, "data": data}],
        recipe={"epochs": 2, "batch_size": 16},
        probes=["gradient_quotient", "initial_loss"],
    )
    record = run_trial(spec)
    assert record.status == "finished"
    assert record.spec["dataset"]["inputs"] == {"shape": [6], "vocabulary": 50}
    assert all(probe["value"] > 0 for probe in record.probes)
