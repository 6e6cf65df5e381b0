"""Metrics of a trained model that are measured once: when, in which state, and what a record says of them."""

from __future__ import annotations

import json
import time

import pytest
import torch
from torch import nn

from initbench import registry
from initbench.data.dataset import Dataset, Split, Splits
from initbench.data.sentence_pairs import SentencePairs
from initbench.errors import InitbenchError
from initbench.execution.trial import run_trial
from initbench.inputs import END, Inputs
from initbench.ledger.record import record_of
from initbench.metric import Metric
from initbench.registry import register_architecture
from initbench.tasks import find_task
from initbench.tasks.bleu import corpus_scores
from initbench.tasks.classification import Classification
from initbench.tracking.contents import parameters
from initbench.training.final import final_metrics
from initbench.training.loop import train
from initbench.training.recipe import Recipe
from suites import the_trial

pytestmark = pytest.mark.usefixtures("one_thread", "scratch_registry")


class Late(Classification):
    """Classification with two final metrics; it keeps the models that it is given."""

    final_metrics = (Metric("total", "higher"), Metric("undefined", "higher"))
    seen = ()

    def final(self, model, samples):
        modes = {module.training for module in model.modules()}
        Late.seen = (*Late.seen, (modes, len(samples), torch.is_autocast_enabled("cpu")))
        time.sleep(0.2)
        return {"total": float(sum(parameter.detach().sum() for parameter in model.parameters()))}

    def signatures(self):
        return {"total": "all:yes", "undefined": "never:seen"}


@pytest.fixture
def late(scratch_registry):
    del scratch_registry
    registry.register_task("late")(Late)
    Late.seen = ()


def dataset():
    random = torch.Generator().manual_seed(0)
    splits = [Split(torch.randn(n, 4, generator=random), torch.randint(3, (n,), generator=random)) for n in (32, 8, 16)]
    return Dataset("points", "late", Inputs((4,)), 3, Splits(*splits))


def trained(recipe, split="test"):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    training = train(model, dataset(), recipe, 0, evaluate_on=split)
    return model, final_metrics(model, dataset(), recipe, split, training)


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize(("split", "size"), [("test", 16), ("validation", 8)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_they_are_of_the_trained_model_in_evaluation_mode_on_the_evaluated_split(split, size, precision):
    model, metrics = trained(Recipe(epochs=2, batch_size=8, lr=0.1, precision=precision), split)
    assert Late.seen == (({False}, size, precision == "bf16"),)
    assert {module.training for module in model.modules()} == {True}, "the modes are restored"
    assert metrics == {
        f"{split}_total": float(sum(parameter.detach().sum() for parameter in model.parameters())),
        f"{split}_undefined": None,
        f"{split}_undefined_reason": "not defined on these data",
    }


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize(
    ("recipe", "reason"),
    [(Recipe(epochs=0), "not trained"), (Recipe(epochs=2, batch_size=8, lr=1e30), "diverged at step 1")],
)
def test_a_training_without_an_end_has_none(recipe, reason):
    _, metrics = trained(recipe)
    assert Late.seen == ()
    assert metrics == {
        **dict.fromkeys(("test_total", "test_undefined")),
        **dict.fromkeys(("test_total_reason", "test_undefined_reason"), reason),
    }


def test_a_final_metric_cannot_be_primary():
    with pytest.raises(InitbenchError, match="Chosen: none of its final_metrics may be primary"):
        type("Chosen", (Classification,), {"final_metrics": (Metric("total", "higher", primary=True),)})


@pytest.mark.usefixtures("late")
def test_a_record_has_their_values_signatures_and_seconds():
    @registry.register_dataset("points", task="late", inputs=Inputs((4,)), outputs=3)
    def points():
        return dataset().splits

    @register_architecture("line", tasks=("late",))
    def line(*, inputs: Inputs, outputs: int) -> nn.Module:
        """A linear layer."""
        return nn.Linear(*inputs.shape, outputs)

    recipe = {"epochs": 2, "batch_size": 8, "lr": 0.1}
    spec = the_trial(dataset="points", architectures=["line"], initializers=["pytorch_default"], recipe=recipe)
    record = run_trial(spec)
    assert len(Late.seen) == 1
    assert record.task["primary"] == "test_error"
    assert record.task["signatures"] == {"test_total": "all:yes"}
    assert record.task["metrics"]["test_total"]["label"] == "test total"
    assert record.timing["final_metrics_seconds"] >= 0.2
    whole = sum(record.timing[f"{stage}_seconds"] for stage in ("data", "initialization", "training", "final_metrics"))
    assert record.timing["total_seconds"] >= whole, "seconds of the final metrics are not also those of training"
    assert not [name for entry in record.history for name in entry if "total" in name]
    assert record_of(json.dumps(record.to_json())) == record
    broken = record.to_json() | {"task": record.task | {"signatures": {"test_total": 1}}}
    with pytest.raises(ValueError, match=r"task\.signatures\.test_total"):
        record_of(json.dumps(broken))


class Copying(nn.Module):
    """Repeats the source, with an 8 for each 9."""

    def forward(self, pair):
        source = pair[:, 0]
        return 20 * nn.functional.one_hot(torch.where(source == 9, 8, source), 10).float()


def test_translations_are_scored_as_text():
    sources = [[2, 3, 4, 5, 6], [7, 8, 2, 3], [4, 5, 6, 7, 8, 9]]
    pairs = SentencePairs.of(sources, sources, 9)
    data = Dataset("copies", "translation", Inputs((2, 9), 10), 10, Splits(pairs, pairs, pairs, detokenize=_text))
    scores = find_task("translation").on(data).final(Copying(), pairs)
    texts = ["a2 a3 a4 a5 a6", "a7 a8 a2 a3", "a4 a5 a6 a7 a8 a9"]
    assert scores == corpus_scores([*texts[:2], "a4 a5 a6 a7 a8 a8"], texts)
    assert 50 < scores["bleu"] < 99


def _text(tokens):
    words = []
    for token in tokens:
        if token == END:
            break
        words.append(f"a{token}")
    return " ".join(words)


def test_a_dataset_without_text_has_no_score():
    pairs = SentencePairs.of([[2, 3]], [[4]], 5)
    data = Dataset("ids", "translation", Inputs((2, 5), 10), 10, Splits(pairs, pairs, pairs))
    assert find_task("translation").on(data).final(Copying(), pairs) == {}


@pytest.mark.parametrize("name", ["transformer", "only_forward"])
def test_a_trial_of_translation_has_both_scores_and_how_they_came_about(name):
    @register_architecture("only_forward", tasks=("translation",))
    def only_forward(depth: int = 1, width: int = 8, heads: int = 1, *, inputs: Inputs, outputs: int) -> nn.Module:
        """A model without `start` and `step`.

        Args:
            depth: is ignored.
            width: of the embedding.
            heads: is ignored.
        """
        return OnlyForward(inputs.vocabulary, width, outputs)

    spec = the_trial(
        dataset={"name": "number_words", "train_size": 64, "validation_size": 4, "test_size": 8},
        architectures=[{"name": name, "depth": 1, "width": 8, "heads": 1}],
        initializers=["pytorch_default"],
        recipe={"epochs": 1, "batch_tokens": 256, "lr": 0.01, "optimizer": "adam"},
    )
    record = run_trial(spec)
    assert record.task["primary"] == "test_loss"
    assert 0 <= record.metrics["test_chrf"] <= 100
    # A number is one word in German.
    assert (record.metrics["test_bleu"], record.metrics["test_bleu_reason"]) == (None, "not defined on these data")
    assert record.task["signatures"].keys() == {"test_chrf"}
    assert parameters(record)["signature.test_chrf"] == record.task["signatures"]["test_chrf"]
    assert record.task["signatures"]["test_chrf"].startswith("beam:5|lenpen:1|maxlen:1.2*source+10|nrefs:1|")
    assert "|version:" in record.task["signatures"]["test_chrf"]


class OnlyForward(nn.Module):
    def __init__(self, source, width, target):
        super().__init__()
        self.embedding = nn.Embedding(max(source, target), width)
        self.out = nn.Linear(width, target)

    def forward(self, pair):
        return self.out(self.embedding(pair[:, 1]).cumsum(1) + self.embedding(pair[:, 0]).mean(1, keepdim=True))
