"""The page of initializers on models that others wrote: is it of all of them, and would a fault show?"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import initbench
from initbench.initializers.record import InitializationRecord
from initbench.registry import INITIALIZERS, SCHEMES

DOCS = Path(__file__).parents[2] / "docs"
LEFT_OUT = {"completep", "mup"}
SCRIPTS = ("initializers_on_models", "model_pair", "models_of_others", "on_models_page", "small_model")


pytestmark = pytest.mark.usefixtures("scratch_registry")  # the page is of the built-ins


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(DOCS / "scripts"))
    yield {name: importlib.import_module(name) for name in SCRIPTS}
    sys.path.remove(str(DOCS / "scripts"))
    for name in SCRIPTS:
        del sys.modules[name]


@pytest.fixture
def pair(scripts):
    return scripts["model_pair"]


@pytest.fixture
def models(scripts):
    return scripts["models_of_others"].models()


@pytest.fixture(scope="module")
def page():
    return (DOCS / "initializers_on_models.md").read_text(encoding="utf-8")


# Where the schemes of admin and deepnorm fit is in these methods' columns.
FITTING = [scheme for scheme in SCHEMES.builtins if scheme not in {"admin", "deepnorm"}]


def tables(page):
    """Each table's head and rows, as lists of cells."""
    found = [[]]
    for line in page.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.split("|")[1:-1]])
        elif found[-1]:
            found.append([])
    return [(table[0], table[2:]) for table in found if table]


def test_the_page_is_of_every_model_initializer_and_scheme(scripts, models, page):
    assert scripts["initializers_on_models"].SCHEMES == FITTING
    names = [str(method) for method in scripts["model_pair"].methods(FITTING)]
    assert scripts["model_pair"].LEFT_OUT == LEFT_OUT
    assert len(set(names)) == len(names) == len(INITIALIZERS.builtins) - len(LEFT_OUT) + len(FITTING)
    (_, coverage), *grids = tables(page)
    columns = [head.replace("`", "") for grid, _ in grids for head in grid[1:]]
    assert sorted(columns) == sorted(names) == sorted(row[0].replace("`", "") for row in coverage)
    assert all([row[0] for row in rows] == list(models) for _, rows in grids)
    assert len(models) >= 60
    before = json.loads((DOCS / "scripts" / "initializers_on_models_before.json").read_text(encoding="utf-8"))
    assert list(before) == list(models)
    existed = {method for kinds in before.values() for of in kinds.values() for method in of}
    assert existed < set(names)
    assert all(sorted(method for of in kinds.values() for method in of) == sorted(existed) for kinds in before.values())


def test_every_cell_is_a_model_that_trains_or_a_reason_and_none_is_a_silent_failure(page):
    (_, coverage), *grids = tables(page)
    cells = [cell for _, rows in grids for row in rows for cell in row[1:]]
    trained = [cell for cell in cells if cell.startswith("✓")]
    reasons = set(re.findall(r"^(\d+)\. \S", page, re.MULTILINE))
    assert {cell for cell in cells if not cell.startswith("✓")} == reasons
    assert "silent failures: none" in page
    assert f"{len(trained):,} of {len(cells):,} pairs" in page
    assert sum(int(row[2]) for row in coverage) == len(trained)


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in INITIALIZERS.builtins if name not in LEFT_OUT),
        *(f"kaiming on {scheme}" for scheme in FITTING),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of few samples, of stopping early
def test_what_the_page_says_of_a_small_transformer_is_so(pair, models, page, name):
    """One of the models; the command tries all."""
    methods = {str(method): method for method in pair.methods(FITTING)}
    found = pair.outcome(models["timm/deit3_small"], methods[name], set())
    assert (found.kind, found.unmoved) in [("trains", {}), ("refused", {})], found
    grids = tables(page)[1:]
    said = next(
        row[column]
        for head, rows in grids
        for column, title in enumerate(head)
        for row in rows
        if (row[0], title.replace("`", "")) == ("timm/deit3_small", name)
    )
    assert said.startswith("✓") is (found.kind == "trains")


def tiny(scripts, make):
    return scripts["small_model"].Model(make, 8)


class Gated(nn.Module):
    """Two factors that are both 0, and a head."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(192, 4), nn.Linear(192, 10)
        self.gate, self.other = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        x = x.flatten(1)
        return self.head(x) + (self.gate * self.other * self.inner(x)).sum(1, keepdim=True)


def test_a_tensor_that_never_moves_is_a_silent_failure_unless_the_model_was_built_so(scripts, pair):
    """The gates and what is behind them get no gradient; what the loss does not use is said to be so."""
    model, method = tiny(scripts, Gated), pair.Method("kaiming", "standard")
    found = pair.outcome(model, method, set())
    assert (found.kind, found.reason) == ("silent", "5 of 7 tensors do not move")
    assert found.unmoved == dict.fromkeys(("gate", "other", "inner.weight", "inner.bias"), pair.ZERO_GRADIENT) | {
        "unused": pair.NO_GRADIENT
    }
    built = pair.outcome(model, pair.Method(pair.AS_BUILT, "standard"), set())
    assert (built.kind, built.unmoved) == ("trains", found.unmoved)
    assert pair.outcome(model, method, set(built.unmoved)).kind == "trains"
    assert pair.outcome(model, method, {*built.unmoved} - {"gate"}).reason == "1 of 7 tensors do not move"


class Saturated(nn.Module):
    """A softmax over logits that are far apart, which become close where weights are a tenth."""

    def __init__(self):
        super().__init__()
        self.logits, self.head = nn.Linear(192, 10), nn.Linear(192, 10)

    def forward(self, x):
        x = x.flatten(1)
        return self.head(x) + (20 * self.logits(x)).softmax(1)


def test_a_softmax_that_is_saturated_is_told_from_two_factors_of_zero(scripts, pair, monkeypatch):
    def large(model, *_, **__):
        with torch.no_grad():
            model.logits.weight.mul_(1000)
        return forgetful(model)

    monkeypatch.setattr(pair.initbench, "initialize", large, raising=False)
    monkeypatch.setattr(pair, "_passed_over", lambda *_: {})
    monkeypatch.setattr(pair, "SMALLER", 1e-5)
    found = pair.outcome(tiny(scripts, Saturated), pair.Method("kaiming", "standard"), set())
    assert (found.kind, set(found.unmoved)) == ("saturates", {"logits.weight", "logits.bias"})


def test_names_of_a_rewritten_model_are_those_that_it_had(pair, models):
    model = models["timm/resnet18"].built()
    before = {name for name, _ in model.named_parameters()}
    for scheme in ("fixup", "weight_norm"):
        rewritten = initbench.rewrite(model, scheme, inputs=torch.zeros(2, 3, 32, 32))
        after = {pair.plain_name(name) for name, _ in rewritten.named_parameters()}
        assert {name for name in before if name.endswith("conv1.weight")} <= after


def forgetful(model, *_, **__):
    record = InitializationRecord("kaiming", _parameters=dict(model.named_parameters()))
    for name, _ in model.named_parameters():
        record.left(name)
    return record


def spoilt(model, *_, **__):
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    return forgetful(model)


def exploding(model, *_, **__):
    with torch.no_grad():
        model[1].weight.fill_(3e38)
    return forgetful(model)


def broken(*_, **__):
    raise KeyError("weight")


def endless(*_, **__):
    while True:
        pass


@pytest.mark.parametrize(
    ("initialize", "kind", "reason"),
    [
        (forgetful, "silent", "1 weights are not set, and it is not said"),
        (spoilt, "silent", "a parameter is not finite"),
        (exploding, "diverges", "the loss is not finite at step 1"),
        (broken, "fails", "KeyError: 'weight'"),
        (endless, "slow", "it takes more than 1 s"),
    ],
)
def test_what_is_neither_trained_nor_refused_is_seen(scripts, pair, monkeypatch, initialize, kind, reason):
    monkeypatch.setattr(pair.initbench, "initialize", initialize, raising=False)
    monkeypatch.setattr(pair, "SECONDS", 1)
    model = tiny(scripts, lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 10)))
    found = pair.outcome(model, pair.Method("kaiming", "standard"), set())
    assert (found.kind, found.reason) == (kind, reason)
    outcomes = {("tiny", "kaiming"): found}
    mistakes = [] if kind == "diverges" else [f"tiny, kaiming: {kind}: {reason}"]
    assert scripts["on_models_page"].mistakes(outcomes) == mistakes
