"""The table of initializers on models that others wrote: is the page's one of all, and does each really run?"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import initbench
from initbench.registry import INITIALIZERS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    path = DOCS / "scripts" / "initializers_on_models.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the names in their annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_page_has_every_initializer_and_every_model_and_no_mistake(script):
    page = (DOCS / "initializers_on_models.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("|")]
    head, _, *cells = ([cell.strip() for cell in row] for row in rows)
    assert [re.sub(r", \d+×\d+$", "", model) for model in head[1:]] == list(script.MODELS)
    assert [row[0].strip("`") for row in cells] == list(INITIALIZERS.names())
    reasons = set(re.findall(r"^(\d+)\. ", page, re.MULTILINE))
    for row in cells:
        assert all(re.fullmatch(r"\d+ of \d+", cell) or cell.strip("– ()") in reasons for cell in row[1:]), row


# What is refused on MobileNetV3, and why; all others run.
REFUSED = {
    "gradinit": "derivative for aten::hardsigmoid_backward is not implemented",
    "looks_linear": "does not join both halves",
    "metainit": "derivative for aten::hardsigmoid_backward is not implemented",
    "gpt2": "no transformer block",
    "layer_scale": "no residual branch ends in a gate",
}


@pytest.mark.parametrize("name", INITIALIZERS.names())
@pytest.mark.filterwarnings("ignore::UserWarning")  # of BatchNorm over few pixels, of stopping early
def test_an_initializer_runs_on_a_model_of_timm_or_says_why_not(script, name):
    """A small one of the table's; the command tries the others."""
    ran, text = script.outcome(name, script.MODELS["mobilenetv3_small_050"](32), 32)
    assert ran is (name not in REFUSED), text
    if ran:
        number, of = map(int, text.split(" of "))
        assert 0 < number <= of
    else:
        assert REFUSED[name] in text


class From8(nn.Module):
    """Takes images of 8×8 and more."""

    def __init__(self):
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(3, 4, 8), nn.LazyLinear(10)

    def forward(self, x):
        return self.linear(self.convolution(x).mean((2, 3)))


def test_the_smallest_size_is_found(script):
    assert script.smallest_size(lambda _: From8()) == 8
    with pytest.raises(ValueError, match="no size up to 256 is taken"):
        script.smallest_size(lambda _: nn.Flatten())


def test_a_model_that_is_spoilt_is_a_mistake_and_no_reason(script, monkeypatch):
    def spoil(model, *_, **__):
        with torch.no_grad():
            next(model.parameters()).fill_(torch.nan)
        return initbench.initializers.record.InitializationRecord("kaiming")

    monkeypatch.setattr(script.initbench, "initialize", spoil, raising=False)
    monkeypatch.setattr(script, "MODELS", {"tiny": lambda _: nn.Sequential(nn.Flatten(), nn.Linear(12, 10))})
    table = script.Table()
    assert list(script.rows(table, ["kaiming"])) == [("kaiming", "tiny")]
    assert table.cells == {"kaiming": ["**fails**"]}
    assert table.mistakes == ["kaiming on tiny: AssertionError: not finite"]
