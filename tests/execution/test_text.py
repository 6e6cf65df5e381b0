"""Trials on text: the record, its report, and a smoke run."""

from __future__ import annotations

import sys

import pytest
from language_models import bigram

from initbench.cli.command_line import main
from initbench.comparing.metrics import training_key
from initbench.data import load_dataset
from initbench.execution.trial import run_trial
from initbench.ledger import Ledger
from initbench.registry import register_architecture
from initbench.suite.load import load_suite
from initbench.suite.smoke import is_smoke
from initbench.tasks import find_task
from initbench.tasks.describe import chance_levels
from suites import plan_of

SUITE = """
name: text
dataset:
  - {name: text_file, files: book.txt, tokenizer: bpe, vocabulary: 280, context: 16}
  - {name: text_file, files: book.txt, context: 16}
architectures: [{name: bigram, width: 8}]
initializers: [kaiming, {name: metainit, steps: 2, batch_size: 4}]
recipe: {epochs: 1, batch_size: 16, optimizer: adam, lr: 0.01}
probes: [gradient_quotient, initial_loss]
seeds: 1
"""


@pytest.fixture
def home(tmp_path, monkeypatch, scratch_registry):
    """A folder with a suite and its text in the data root."""
    del scratch_registry
    register_architecture("bigram", tasks=("language_modelling",))(bigram)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    lines = [f"Line {i} of {i * i % 89} is here.\n" for i in range(500)]
    (tmp_path / "data" / "book.txt").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return tmp_path


def test_a_record_compares_over_tokenizers(home):
    assert home.is_dir()
    trials = plan_of(load_suite("suite.yaml")).trials
    records = [run_trial(trial) for trial in trials if trial.initializer.name == "kaiming"]
    chances = {}
    for record in records:
        dataset = record.spec["dataset"]
        loaded = load_dataset(dataset["name"], dataset["arguments"])
        task = find_task("language_modelling").on(loaded)
        levels = chance_levels(task, loaded.test.targets, loaded.outputs)
        described = record.task["metrics"]["test_bits_per_byte"]
        assert (described["chance"], described["chance_standard_error"]) == levels["bits_per_byte"]
        assert training_key(record) == "train_bits_per_byte"
        assert record.history[-1][training_key(record)] > 0
        assert record.timing["tokens_per_second"] > 0
        chances[dataset["arguments"]["tokenizer"]] = levels
    # A token of several bytes says more than a byte; per byte, frequent words by themselves say less than letters.
    assert chances["bpe"]["loss"][0] > chances["bytes"]["loss"][0]
    assert chances["bpe"]["bits_per_byte"][0] < chances["bytes"]["bits_per_byte"][0]


def test_tuners_and_probes_have_random_and_real_text(home):
    assert home.is_dir()
    for trial in plan_of(load_suite("suite.yaml")).trials:
        if trial.initializer.name == "metainit":
            record = run_trial(trial)
            assert record.status == "finished"
            assert {probe["name"] for probe in record.probes} >= {"gradient_quotient", "initial_loss"}


@pytest.mark.slow
def test_a_smoke_run(home, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["initbench", "run", "suite.yaml", "--smoke", "--executor", "in-process"])
    main()
    records = list(Ledger(home / "runs" / "text-smoke").records())
    assert {record.status for record in records} == {"finished"}
    assert all(is_smoke(record.spec) for record in records)
    assert {tuple(record.spec["dataset"]["inputs"]["shape"]) for record in records} == {(16,)}
    assert {record.spec["dataset"]["inputs"]["vocabulary"] for record in records} == {256, 280}
