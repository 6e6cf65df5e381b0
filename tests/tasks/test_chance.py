"""Chance levels against hand-computed ones and against leaving samples out one by one."""

from __future__ import annotations

import math

import pytest
import torch
from cases import random_dataset

from initbench.metric import Metric
from initbench.tasks import Task, find_task
from initbench.tasks.describe import chance_levels, describe_task

CLASSIFICATION = find_task("classification")


def test_the_majority_class_of_the_evaluated_split():
    targets = torch.tensor([0, 0, 0, 2, 1, 0, 2, 2])
    levels = chance_levels(CLASSIFICATION, targets, 3)
    value, error = levels["error"]
    assert value == 4 / 8
    wrong = torch.tensor([0.0, 0, 0, 1, 1, 0, 1, 1], dtype=torch.float64)
    assert error == pytest.approx((wrong.std() / math.sqrt(8)).item(), rel=1e-12)  # s / √n
    nats = -torch.tensor([4 / 8, 1 / 8, 3 / 8], dtype=torch.float64).log()[targets]
    assert levels["loss"][0] == pytest.approx(nats.mean().item(), rel=1e-12)
    assert levels["loss"][1] == pytest.approx((nats.std() / math.sqrt(8)).item(), rel=1e-12)


def test_no_constant_answer_beats_chance():
    """Whatever the training split holds: always naming one class, and any fixed probabilities, are no better."""
    random = torch.Generator().manual_seed(0)
    for _ in range(50):
        targets = torch.randint(4, (30,), generator=random)
        levels = chance_levels(CLASSIFICATION, targets, 4)
        assert levels["error"][0] == pytest.approx(min((targets != named).double().mean().item() for named in range(4)))
        probabilities = torch.rand(4, generator=random, dtype=torch.float64).softmax(0)
        assert levels["loss"][0] < -probabilities.log()[targets].mean().item()


def test_the_standard_error_of_a_share_is_never_0():
    """Without it, one hit among a few samples would be learning."""
    value, error = chance_levels(CLASSIFICATION, torch.zeros(10, dtype=torch.int64), 2)["error"]
    assert value == 0
    assert error == pytest.approx(math.sqrt(1 / 12 * 11 / 12 / 10), rel=1e-12)
    value, error = chance_levels(CLASSIFICATION, torch.arange(10), 10)["error"]
    assert value == 0.9
    assert error == pytest.approx(math.sqrt(10 / 12 * 2 / 12 / 10), rel=1e-12)  # the jackknife's, 0.1, is smaller


def test_of_one_sample_there_is_no_standard_error():
    value, error = chance_levels(CLASSIFICATION, torch.tensor([1]), 2)["error"]
    assert value == 0.0
    assert math.isnan(error)


class Regression(Task):
    """A number per sample, judged by R², which is no mean over samples."""

    metrics = (Metric("r_squared", "higher", best=1.0, primary=True), Metric("mean_squared_error", "lower"))
    loss = random_targets = None

    def totals(self, outputs, targets):
        squares = (outputs.squeeze(1) - targets).square()
        return {"squared_error": squares.sum(), "sum": targets.sum(), "sum_of_squares": targets.square().sum()}

    def values(self, totals, samples):
        spread = totals["sum_of_squares"] - totals["sum"] ** 2 / samples
        return {
            "r_squared": 1 - totals["squared_error"] / spread,
            "mean_squared_error": totals["squared_error"] / samples,
        }

    def constant_predictor(self, targets, outputs):
        return targets.mean().expand(outputs)


Regression.__abstractmethods__ = frozenset()


@pytest.mark.parametrize("repeated", [False, True])
def test_a_ratio_of_sums_against_leaving_each_sample_out(repeated):
    random = torch.Generator().manual_seed(0)
    targets = torch.randn(25, dtype=torch.float64, generator=random) + 0.3
    if repeated:
        targets = targets.round()

    def r_squared(kept):
        return (1 - (kept - targets.mean()).square().sum() / (kept - kept.mean()).square().sum()).item()

    left_out = torch.tensor([r_squared(torch.cat([targets[:i], targets[i + 1 :]])) for i in range(25)]).double()
    jackknife = (24 / 25 * (left_out - left_out.mean()).square().sum()).sqrt().item()
    levels = chance_levels(Regression(), targets, 1)
    value, error = levels["r_squared"]
    assert value == pytest.approx(r_squared(targets), rel=1e-10)
    assert error == pytest.approx(jackknife, rel=1e-5)  # of float32
    squares = (targets - targets.mean()).square()
    assert levels["mean_squared_error"][0] == pytest.approx(squares.mean().item(), rel=1e-12)
    assert levels["mean_squared_error"][1] == pytest.approx((squares.std() / 5).item(), rel=1e-10)


class Unigram(Task):
    """Blocks of tokens: a sample is a block, and the standard error is over blocks."""

    metrics = (Metric("nats", "lower", primary=True),)
    loss = random_targets = None

    def totals(self, outputs, targets):
        log_probabilities = outputs.log_softmax(-1).gather(-1, targets[..., None])
        return {"nats": -log_probabilities.sum(), "tokens": torch.tensor(targets.numel())}

    def values(self, totals, samples):
        del samples
        return {"nats": totals["nats"] / totals["tokens"]}

    def constant_predictor(self, targets, outputs):
        shares = torch.bincount(targets.flatten(), minlength=outputs).double() / targets.numel()
        return shares.log().expand(targets.shape[1], outputs)


Unigram.__abstractmethods__ = frozenset()


def test_the_unigram_distribution_over_blocks():
    random = torch.Generator().manual_seed(1)
    evaluated = torch.randint(5, (12, 8), generator=random)
    value, error = chance_levels(Unigram(), evaluated, 5)["nats"]
    counts = evaluated.flatten().bincount(minlength=5).double()
    of_blocks = -(counts / counts.sum()).log()[evaluated].mean(1)
    assert value == pytest.approx(of_blocks.mean().item(), rel=1e-12)
    assert error == pytest.approx((of_blocks.std() / math.sqrt(12)).item(), rel=1e-10)


def test_a_record_has_the_chance_levels_of_the_splits_that_it_has_numbers_of():
    data = random_dataset((1, 2, 2), 3, (30, 10, 20))
    metrics = {"test_error": 0.1, "test_loss": 1.0, "train_loss": 0.5, "validation_error": 0.2}
    metrics |= {"first_epoch_accuracy": 0.7, "steps": 5, "parameters": 3}
    described = describe_task(CLASSIFICATION, data, "test", metrics)
    assert described["name"] == "classification"
    assert described["primary"] == "test_error"
    assert described["metrics"].keys() == metrics.keys() - {"steps", "parameters"}
    for split, samples in (("test", data.test), ("validation", data.validation)):
        value, error = chance_levels(CLASSIFICATION, samples.targets, 3)["error"]
        entry = described["metrics"][f"{split}_error"]
        assert (entry["chance"], entry["chance_standard_error"]) == (value, error)
        assert entry["primary"] is (split == "test")
    assert described["metrics"]["train_loss"]["chance"] is None
    search = describe_task(CLASSIFICATION, data, "validation", {"validation_error": 0.2})
    assert search["primary"] == "validation_error"
    assert search["metrics"].keys() == {"validation_error"}
