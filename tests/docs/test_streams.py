"""The table of random streams is what trials draw from."""

import hashlib
import re
from dataclasses import fields
from types import SimpleNamespace
from typing import get_args

from pages import DOCS

import initbench
from initbench import randomness
from initbench.data.augmentation import Augmentation
from initbench.execution.trial import run_trial
from initbench.suite.document import parse
from initbench.suite.load import describe_datasets, suite_of
from initbench.suite.plan import plan
from initbench.suite.tuning import Searched
from suites import plan_of

# MetaInit's batches are noise, GradInit's are training samples; a probe takes both.
SUITE = """
name: streams
dataset: {name: gaussian, train_size: 32, validation_size: 8, test_size: 1, image_size: 4, channels: 1}
architectures: [{name: mlp, depth: 2, width: 4}]
initializers: [{name: metainit, steps: 1}, {name: gradinit, iterations: 1}]
recipe: {epochs: 1, random_resized_crop: [0.5, 1], crop: 1, flip: true, cutout: 1, mixup: 1.0}
probes:
  - {name: gradient_quotient, data: [random, real], batch_size: 8, batches: 1}
  - {name: hessian_spectrum, batch_size: 8}
tune: {recipe.lr: {log: [0.01, 0.1]}, tries: 2, points: random}
"""
SENTENCES = """
name: sentences
dataset: {name: number_words, train_size: 32, validation_size: 0, test_size: 2}
architectures: [{name: transformer, depth: 1, width: 4, heads: 1}]
initializers: [pytorch_default]
recipe: {epochs: 1, batch_tokens: 200}
probes: []
"""


def table():
    """Return the table's (stream, key), "" for no key."""
    text = (DOCS / "ids_seeds_streams.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*)\|", text, re.MULTILINE)
    return [(stream, key.strip().strip("`")) for stream, key in rows]


def test_the_table_of_streams_is_what_trials_draw_from(monkeypatch):
    hashed = set()

    def sha256(text):
        hashed.add(text.decode())
        return hashlib.sha256(text)

    monkeypatch.setattr(randomness, "hashlib", SimpleNamespace(sha256=sha256))
    suite = suite_of(parse(SUITE, "suite.yaml"))
    searches = plan_of(suite).trials
    finals = plan(
        suite, descriptions=describe_datasets(suite), results={trial.id: Searched(0.0) for trial in searches}
    ).trials
    trials = list({trial.id: trial for trial in (*searches, *finals)}.values())
    assert {trial.phase for trial in trials} == {"search", "final"}
    trials += plan_of(suite_of(parse(SENTENCES, "sentences.yaml"))).trials
    assert all(getattr(searches[0].recipe, field.name) for field in fields(Augmentation)), "all are switched on"
    for trial in trials:
        run_trial(trial)
    model = initbench.create_model("mlp", depth=2, width=4)
    pairs = initbench.Inputs((2, 12), 32)
    sentences = initbench.create_model("transformer", depth=1, width=4, heads=1, inputs=pairs, num_classes=34)
    parameters = {name for one in (model, sentences) for name, _ in one.named_parameters()}
    drawn = set()
    for text in hashed:
        _, stream, key = [*text.split("/"), ""][:3]
        words = {"recipe.lr": "the tuned key"} | dict.fromkeys(parameters, "the parameter's name")
        drawn.add((stream, words.get(key, key)))
    rows = table()
    assert len(rows) == len(set(rows))
    assert drawn == set(rows)
    assert {stream for stream, _ in rows} == set(get_args(randomness.Stream))
