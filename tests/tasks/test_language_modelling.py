"""Language modelling against its definitions, and its chance level against an independent count."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from initbench.data.dataset import Dataset, Split, Splits
from initbench.errors import InitializationError
from initbench.inputs import Inputs
from initbench.tasks import Task, find_task
from initbench.tasks.describe import chance_levels, describe_task
from initbench.training.run import evaluation_batch_size

TASK = find_task("language_modelling")
BYTES = torch.tensor([1, 2, 3, 1])


def dataset(train, test, token_bytes=None):
    """A dataset of these target tokens, (N, T) each, of a vocabulary of 4 or as many as there are bytes."""
    vocabulary = 4 if token_bytes is None else len(token_bytes)
    splits = [Split(torch.zeros_like(targets), targets) for targets in (train, test[:0], test)]
    return Dataset(
        "d", TASK.name, Inputs((train.shape[1],), vocabulary), vocabulary, Splits(*splits, token_bytes=token_bytes)
    )


def batch(blocks=6, length=5, vocabulary=4, seed=0):
    random = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(blocks, length, vocabulary, dtype=torch.float64, generator=random)
    return logits, torch.randint(vocabulary, (blocks, length), generator=random)


class TestAModelComputedByHand:
    """Two blocks of three tokens; each target has a power of two as its probability, so that bits are whole."""

    targets = torch.tensor([[0, 1, 2], [3, 0, 2]])
    bits = torch.tensor([[1.0, 2, 3], [1, 4, 2]])  # 13 of 6 tokens, of 1 + 2 + 3 + 1 + 1 + 3 = 11 bytes

    def outputs(self):
        of_target = torch.exp2(-self.bits.double())
        others = ((1 - of_target) / 3)[..., None].expand(2, 3, 4)
        return others.scatter(2, self.targets[..., None], of_target[..., None]).log() + 7.0  # logits have no zero

    def values(self, task):
        totals = {name: float(total) for name, total in task.totals(self.outputs(), self.targets).items()}
        return task.values(totals, 2)

    def test_tokens_of_one_byte(self):
        values = self.values(TASK.on(dataset(self.targets, self.targets)))
        assert values.keys() == {metric.name for metric in TASK.metrics}
        assert values["bits_per_byte"] == pytest.approx(13 / 6, rel=1e-12)
        assert values["perplexity"] == pytest.approx(2 ** (13 / 6), rel=1e-12)
        assert values["loss"] == pytest.approx(13 / 6 * math.log(2), rel=1e-12)

    def test_tokens_of_several_bytes(self):
        values = self.values(TASK.on(dataset(self.targets, self.targets, BYTES)))
        assert values["bits_per_byte"] == pytest.approx(13 / 11, rel=1e-12)
        assert values["perplexity"] == pytest.approx(2 ** (13 / 6), rel=1e-12)  # of a token, as before

    def test_the_losses(self):
        outputs = self.outputs()
        loss = 13 / 6 * math.log(2)
        assert TASK.loss(outputs, self.targets).item() == pytest.approx(loss, rel=1e-12)
        uniform = (outputs.logsumexp(2) - outputs.mean(2)).mean().item()
        smoothed = TASK.smoothed_loss(outputs, self.targets, 0.3).item()
        assert smoothed == pytest.approx(0.7 * loss + 0.3 * uniform, rel=1e-12)
        assert TASK.reference_losses(50257) == {"log_vocabulary": math.log(50257)}


def test_two_tokenizers_agree_on_a_model_that_gives_the_text_the_same_probability():
    """Each byte of the text has 1/256, whether it is predicted by itself or as a part of a longer token."""

    def bits_per_byte(lengths, targets):
        task = TASK.on(dataset(targets, targets, lengths))
        of_target = torch.exp2(-8.0 * lengths.double())[targets]
        logits = torch.full((*targets.shape, len(lengths)), -math.inf, dtype=torch.float64)
        logits.scatter_(2, ((targets + 1) % len(lengths))[..., None], (1 - of_target).log()[..., None])
        logits.scatter_(2, targets[..., None], of_target.log()[..., None])
        totals = {name: float(total) for name, total in task.totals(logits, targets).items()}
        return task.values(totals, len(targets))["bits_per_byte"]

    # The same twelve bytes as twelve tokens, and as four tokens of 1, 5, 2 and 4 bytes.
    assert bits_per_byte(torch.ones(3, dtype=torch.int64), torch.tensor([[0, 1, 2, 0, 1, 1]] * 2)) == pytest.approx(8)
    assert bits_per_byte(torch.tensor([1, 5, 2, 4]), torch.tensor([[0, 1], [2, 3]])) == pytest.approx(8)


@pytest.mark.parametrize("size", [1, 4, 6])
def test_totals_of_batches_add_up_to_the_values_of_the_split(size):
    logits, targets = batch()
    task = TASK.on(dataset(targets, targets, BYTES))
    parts = [task.totals(o, t) for o, t in zip(logits.split(size), targets.split(size), strict=True)]
    totals = {name: math.fsum(float(part[name]) for part in parts) for name in parts[0]}
    values = task.values(totals, 6)
    assert values["loss"] == pytest.approx(TASK.loss(logits, targets).item(), rel=1e-12)
    assert totals["bytes"] == np.asarray(BYTES)[targets.numpy()].sum()


def test_losses_of_many_tokens_are_added_in_float64():
    """A million losses of 1/3 nats: summed in float32 they would be off in the sixth digit or so."""
    logits = torch.zeros(1000, 1000, 2)
    logits[..., 0] = -math.log(math.expm1(1 / 3))
    totals = TASK.totals(logits, torch.zeros(1000, 1000, dtype=torch.int64))
    one = torch.nn.functional.cross_entropy(logits[0, :1], torch.zeros(1, dtype=torch.int64)).double()
    assert float(totals["nats"]) == pytest.approx(1e6 * one.item(), rel=1e-12)


def test_a_perplexity_beyond_all_floats_is_infinite():
    assert TASK.values({"nats": 1e4, "tokens": 10.0, "bytes": 10.0}, 1)["perplexity"] == math.inf


def test_bits_per_byte_of_training_batches_average_to_those_of_the_epoch():
    """Batches differ in bytes, so that the mean of their own ratios would be another number."""
    logits, targets = batch()
    task = TASK.on(dataset(targets, targets, BYTES))
    pairs = list(zip(logits.split(2), targets.split(2), strict=True))
    mean = sum(task.training_values(o, t)["bits_per_byte"].item() for o, t in pairs) / 3
    totals = {name: float(total) for name, total in task.totals(logits, targets).items()}
    assert mean == pytest.approx(task.values(totals, 6)["bits_per_byte"], rel=1e-12)
    ratios = [TASK.loss(o, t).item() / math.log(2) * t.numel() / int(BYTES[t].sum()) for o, t in pairs]
    assert abs(sum(ratios) / 3 - mean) > 1e-3


class TestChance:
    @pytest.fixture
    def parts(self):
        random = torch.Generator().manual_seed(1)
        train = torch.randint(3, (30, 8), generator=random)  # of token 3 there is none to train on
        test = torch.randint(4, (12, 8), generator=random)
        return train, test

    def test_the_unigram_distribution_against_an_independent_count(self, parts):
        train, test = (part.numpy() for part in parts)
        assert 3 not in train
        probabilities = np.array([(test == token).mean() for token in range(4)])
        bits = -np.log2(probabilities[test])
        data = dataset(*parts, BYTES)
        levels = chance_levels(TASK.on(data), parts[1], 4)
        lengths = BYTES.numpy()[test]
        assert levels["bits_per_byte"][0] == pytest.approx(bits.sum() / lengths.sum(), rel=1e-12)
        assert levels["perplexity"][0] == pytest.approx(2 ** bits.mean(), rel=1e-12)

        def jackknife(value):
            left_out = np.array([value(np.delete(bits, i, 0), np.delete(lengths, i, 0)) for i in range(12)])
            return math.sqrt(11 / 12 * ((left_out - left_out.mean()) ** 2).sum())

        assert levels["bits_per_byte"][1] == pytest.approx(jackknife(lambda b, n: b.sum() / n.sum()), rel=1e-9)
        assert levels["perplexity"][1] == pytest.approx(jackknife(lambda b, _: 2 ** b.mean()), rel=1e-9)
        error = bits.mean(1).std(ddof=1) / math.sqrt(12) * math.log(2)  # a mean over blocks: s / √n
        assert levels["loss"][1] == pytest.approx(error, rel=1e-9)

    def test_all_blocks_at_once_are_each_by_itself(self, parts):
        train, test = parts
        task = TASK.on(dataset(train, test, BYTES))
        predicted = task.constant_predictor(test, 4)
        assert predicted.shape == (8, 4)
        for own, other in zip(
            task.constant_totals(predicted, test), Task.constant_totals(task, predicted, test), strict=True
        ):
            assert own == pytest.approx(other, rel=1e-12)

    def test_ten_thousand_blocks_are_not_taken_one_by_one(self, monkeypatch):
        monkeypatch.setattr(type(TASK), "totals", None)
        blocks = torch.randint(256, (10_000, 256), generator=torch.Generator().manual_seed(0))
        value, error = chance_levels(TASK, blocks, 256)["bits_per_byte"]
        assert 7.999 < value < 8  # at most log₂ 256, and nearly that
        assert 0 < error < 0.001

    def test_a_record_has_it_and_the_training_curve(self, parts):
        metrics = {"test_bits_per_byte": 2.0, "train_bits_per_byte": 2.0, "train_loss": 1.0}
        data = dataset(*parts, BYTES)
        described = describe_task(TASK, data, "test", metrics)
        entry = described["metrics"]["test_bits_per_byte"]
        assert (entry["chance"], entry["chance_standard_error"]) == chance_levels(TASK.on(data), parts[1], 4)[
            "bits_per_byte"
        ]
        assert described["primary"] == "test_bits_per_byte"
        assert described["metrics"]["train_bits_per_byte"]["unit"] == entry["unit"] == "bits"

    def test_it_is_computed_once_for_a_dataset(self, parts, monkeypatch):
        from initbench.tasks import describe

        data, calls = dataset(*parts), []
        monkeypatch.setattr(describe, "chance_levels", lambda *given: calls.append(given) or {})
        for _ in range(2):
            describe_task(TASK, data, "test", {"test_bits_per_byte": 2.0})
        assert len(calls) == 1
        describe_task(TASK, dataset(*parts), "test", {"test_bits_per_byte": 2.0})
        assert len(calls) == 2


def test_the_bytes_of_one_dataset_are_not_those_of_another():
    _, targets = batch()
    own = TASK.on(dataset(targets, targets, BYTES))
    assert int(own.totals(torch.zeros(6, 5, 4), targets)["bytes"]) > targets.numel()
    assert int(TASK.totals(torch.zeros(6, 5, 4), targets)["bytes"]) == targets.numel()
    assert find_task("classification").on(dataset(targets, targets)).name == "classification"


def test_random_batches_are_uniform_tokens_with_unrelated_targets():
    inputs, targets = TASK.random_batch(Inputs((16,), 9), 9, 2000, torch.Generator().manual_seed(0))
    assert inputs.dtype == targets.dtype == torch.int64
    assert inputs.shape == targets.shape == (2000, 16)
    pairs = (inputs * 9 + targets).flatten().bincount(minlength=81).double()
    expected = 32000 / 81
    # χ² of 80 degrees of freedom: 5 standard deviations from its mean.
    assert abs(((pairs - expected) ** 2 / expected).sum() - 80) < 5 * math.sqrt(160)
    assert TASK.random_targets(9, 5, torch.Generator()).shape == (5, 1)


def test_what_a_model_has_to_give():
    assert TASK.output_shape(Inputs((16,), 9), 9) == (16, 9)
    TASK.check_outputs(torch.zeros(2, 16, 9), 9)
    TASK.check_outputs(torch.zeros(2, 16, 12), 9)  # a vocabulary may be padded
    for outputs, said in (
        (torch.zeros(2, 16, 8), "9.* 8 outputs"),
        (torch.zeros(2, 9), r"\(batch, tokens, 9\).*\(2, 9\)"),
        ("logits", "str"),
    ):
        with pytest.raises(InitializationError, match=said) as refusal:
            TASK.check_outputs(outputs, 9)
        assert "\n" not in str(refusal.value)


def test_the_vocabulary_is_as_large_as_the_outputs_where_these_are_known():
    example = torch.tensor([[0, 3]])
    assert TASK.inputs_for((2,), 9, example) == Inputs((2,), 9)
    assert TASK.inputs_for((2,), None, example) == Inputs((2,), 4)


def test_an_evaluation_with_a_large_vocabulary_takes_fewer_blocks():
    """Logits of a pass are at most 2²⁶ numbers, 256 MiB, or those of one block."""
    assert evaluation_batch_size(TASK, Inputs((256,), 256), 256, torch.device("cpu")) == 1024
    assert evaluation_batch_size(TASK, Inputs((256,), 50257), 50257, torch.device("cpu")) == 5
    assert evaluation_batch_size(TASK, Inputs((4096,), 50257), 50257, torch.device("cpu")) == 1
