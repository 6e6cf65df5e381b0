"""The assertions pass on what is right, and say in a line for each tensor or role what is not."""

import re

import pytest
import torch
from torch import nn

from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import Inputs
from initbench.inspection.fingerprint import read_fingerprint
from initbench.models.batches import zero_inputs
from initbench.testing import (
    assert_healthy,
    assert_initialized,
    assert_matches_fingerprint,
    assert_same_initialization,
    assertions,
)
from initbench.testing.pytest_plugin import Updates


class Perceptron(nn.Module):
    """Kaiming's law in every layer but the second, whose standard deviation is another `factor` of it."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 10)])
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight)
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
    """What `--update-fingerprints` asks of the assertions; the running session itself does not hear of it."""
    updates = Updates(requested=True)
    monkeypatch.setattr(assertions, "updates", updates)
    return updates


LAWS = [
    {"name": "*.weight", "law": "normal", "std": "sqrt(2 / fan_in)"},
    {"role": "*bias", "law": "zeros"},
]


@pytest.mark.parametrize("model", [Perceptron, seeded(0), f"{__name__}:Perceptron"], ids=["class", "model", "name"])
def test_a_sound_model_passes_however_it_is_given(model):
    assert_initialized(model)
    assert_initialized(model, LAWS)
    assert_healthy(model)


def test_each_finding_has_a_line():
    model = seeded(0)
    with torch.no_grad():
        model.layers[0].weight[3] = torch.nan
        model.layers[1].weight[5] = model.layers[1].weight[6]
    _, first, second = fails(assert_initialized, model).splitlines()
    assert first.startswith("not_finite: layers.0.weight: 16 of 512 entries")
    assert second.startswith("repeated_rows: layers.1.weight: 2 of 32 rows")


def test_a_tensor_without_its_declared_law_has_a_line(tmp_path):
    def halved():
        return Perceptron(factor=0.5)

    _, line = fails(assert_initialized, halved, LAWS).splitlines()
    assert line.startswith("unexpected_law: layers.1.weight: declared normal with std sqrt(2 / fan_in)")
    file = tmp_path / "laws.yaml"
    file.write_text("- {name: layers.1.weight, law: normal, std: 0.5 * sqrt(2 / fan_in)}\n", encoding="utf-8")
    assert_initialized(halved, file)


@pytest.mark.parametrize(
    ("laws", "message"),
    [
        ([{"role": "linaer", "law": "zeros"}], "no tensor matches 'linaer' (did you mean 'linear'?)"),
        ([{"role": "linear", "law": "gauss"}], "declared laws: entry 1: unknown law 'gauss'"),
        ([{"law": "zeros"}], "declared laws: entry 1: needs role or name"),
        ([], "declared laws: must be a list of entries"),
    ],
    ids=["pattern", "law", "entry", "empty"],
)
def test_laws_that_cannot_be_read_are_no_failures(laws, message):
    with pytest.raises(InitbenchError, match=re.escape(message)):
        assert_initialized(Perceptron, laws)


@pytest.mark.parametrize("assertion", [assert_initialized, assert_healthy])
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3, "must be a function that returns a model, or a model, is 3"),
        (dict, "must return a torch.nn.Module, returned dict"),
    ],
    ids=["number", "dict"],
)
def test_what_is_no_model_is_no_failure(assertion, model, message):
    with pytest.raises(ArgumentError, match=message):
        assertion(model)


class Pooled(nn.Module):
    """Runs on images of 40 × 40 alone."""

    def __init__(self):
        super().__init__()
        self.end = nn.Linear(1600, 10)

    def forward(self, images):
        if images.shape[1:] != (1, 40, 40):
            raise ValueError(images.shape)
        return self.end(images.flatten(1))


@pytest.mark.parametrize("build", [Pooled, lambda: Pooled().double()], ids=["float32", "float64"])
def test_one_sample_is_given_to_all_alike(build):
    inputs = Inputs((1, 40, 40))
    head = [{"role": "head", "law": "uniform", "bound": "1/sqrt(fan_in)"}]  # without a run it has the role linear
    for model in (build, build()):
        assert_initialized(model, head, inputs=inputs)
        assert_healthy(model, inputs=inputs)
    assert_initialized(build, head, inputs=zero_inputs(inputs, build()))
    assert_same_initialization(build, build, inputs=inputs, seeds=2)


@pytest.mark.parametrize(("factor", "verdict"), [(1e-4, "vanish"), (1e6, "explode")])
def test_an_unhealthy_model_is_told_where(factor, verdict):
    def scaled():
        return Perceptron(factor=factor)

    assert re.match(rf"scaled .*{verdict}", fails(assert_healthy, scaled))


def test_assertions_leave_the_model_and_the_random_state():
    model = seeded(0)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = torch.get_rng_state()
    assert_initialized(model)
    assert_healthy(model, seeds=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


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


def test_a_fingerprint_is_written_when_asked_and_then_compared_with(updating, tmp_path):
    path = tmp_path / "laws" / "perceptron.json"
    assert_matches_fingerprint(Perceptron, path, seeds=3)
    assert updating.written == [path]
    assert read_fingerprint(path).seeds == 3
    updating.requested = False
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
    assert updating.written == [path]
    assert_matches_fingerprint(Perceptron, path, seeds=6)
    assert_matches_fingerprint(lambda: Perceptron(factor=0.7), path, seeds=6)
    assert updating.written == [path] * 3
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
    assert updating.written == [source.parent / "laws" / "it.json"]


def test_a_damaged_file_is_no_other_initialization(tmp_path):
    path = tmp_path / "perceptron.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(InitbenchError, match="is no fingerprint"):
        assert_matches_fingerprint(Perceptron, path)
