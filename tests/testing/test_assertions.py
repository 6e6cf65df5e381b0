"""The assertions pass on what is right, and say in a line for each tensor or role what is not."""

import re

import pytest
import torch
from torch import nn

from initbench.errors import InitbenchError
from initbench.inspection.fingerprint import read_fingerprint
from initbench.testing import (
    assert_matches_fingerprint,
    assert_same_initialization,
)
from initbench.testing.pytest_plugin import updates


class Perceptron(nn.Module):
    """Kaiming's law in every layer but the second, whose standard deviation is another `factor` of it."""

    def __init__(self, factor=1.0, width=32, nonlinearity="relu"):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, width), nn.Linear(width, width), nn.Linear(width, 10)])
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity=nonlinearity)
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.layers[1].weight.mul_(factor)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def seeded(seed):
    torch.manual_seed(seed)
    return Perceptron()


def fails(assertion, *arguments, **options):
    """Return the message of an assertion that fails."""
    with pytest.raises(AssertionError) as raised:
        assertion(*arguments, **options)
    return str(raised.value)


@pytest.fixture
def updating(monkeypatch):
    monkeypatch.setattr(updates, "requested", True)
    monkeypatch.setattr(updates, "written", [])


@pytest.mark.parametrize("other", [Perceptron, seeded, f"{__name__}:Perceptron"], ids=["class", "seed", "name"])
def test_one_initialization_is_the_same_however_it_is_given(other):
    assert_same_initialization(Perceptron, other)


def test_the_one_layer_that_differs_is_named():
    message = fails(assert_same_initialization, Perceptron, lambda: Perceptron(factor=1.3))
    assert "layers.1.weight" in message
    assert not re.search(r"layers\.[02]|bias", message)


def test_the_random_state_is_left_unchanged():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert_same_initialization(seeded, seeded, seeds=2)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_fingerprint_is_written_when_asked_and_then_compared_with(updating, tmp_path, monkeypatch):
    path = tmp_path / "laws" / "perceptron.json"
    assert_matches_fingerprint(Perceptron, path, seeds=3)
    assert updates.written == [path]
    assert read_fingerprint(path).seeds == 3
    monkeypatch.setattr(updates, "requested", False)
    assert_matches_fingerprint(Perceptron, path)
    message = fails(assert_matches_fingerprint, lambda: Perceptron(factor=0.7), path)
    assert message.startswith(f"the initialization differs\n{path} against ")
    assert "layers.1.weight" in message
    assert not re.search(r"layers\.[02]|bias", message)


def test_only_what_has_changed_is_written_anew(updating, tmp_path):
    path = tmp_path / "perceptron.json"
    assert_matches_fingerprint(Perceptron, path)
    text = path.read_text("utf-8")
    assert_matches_fingerprint(seeded, path)  # other numbers, and the same laws
    assert path.read_text("utf-8") == text
    assert updates.written == [path]
    assert_matches_fingerprint(Perceptron, path, seeds=6)
    assert_matches_fingerprint(lambda: Perceptron(factor=0.7), path, seeds=6)
    assert updates.written == [path] * 3
    path.write_text("{", encoding="utf-8")
    assert_matches_fingerprint(Perceptron, path)
    assert path.read_text("utf-8") == text


def test_a_missing_file_says_how_it_is_made():
    message = fails(assert_matches_fingerprint, Perceptron, "no_such.json")
    assert message == "there is no no_such.json: pytest --update-fingerprints writes it; commit it"


def test_a_relative_path_is_beside_the_test(updating, tmp_path, monkeypatch):
    source = tmp_path / "tests" / "test_it.py"
    source.parent.mkdir()
    code = compile("assertion(build, 'laws/it.json')", source, "exec")
    monkeypatch.chdir(tmp_path)
    exec(code, {"assertion": assert_matches_fingerprint, "build": Perceptron})  # noqa: S102
    assert updates.written == [source.parent / "laws" / "it.json"]


def test_a_damaged_file_is_no_other_initialization(tmp_path):
    path = tmp_path / "perceptron.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(InitbenchError, match="is no fingerprint"):
        assert_matches_fingerprint(Perceptron, path)
