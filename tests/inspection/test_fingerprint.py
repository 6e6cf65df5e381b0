"""A fingerprint holds the laws of tensors, none of their values, and survives its file."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from laws import Perceptron
from torch import nn
from transformers.pytorch_utils import Conv1D

from initbench import InitbenchError, Inputs, fingerprint
from initbench.inspection.fingerprint import read_fingerprint, write_fingerprint
from initbench.inspection.law_in_words import law_in_words
from initbench.inspection.source import model_source
from initbench.inspection.tensors import QUANTILES


def one_layer(draw, rows=64, columns=256, bias=True):
    def build():
        layer = nn.Linear(columns, rows, bias=bias)
        draw(layer.weight)
        return layer

    return build


def weight_of(draw, **sizes):
    return next(t for t in fingerprint(one_layer(draw, **sizes)).tensors if t.name == "weight")


def test_moments_and_quantiles_of_a_uniform_law():
    tensor = weight_of(lambda weight: nn.init.uniform_(weight, -0.3, 0.3))
    entries = 64 * 256
    for mean, std, kurtosis in zip(tensor.means, tensor.stds, tensor.kurtoses, strict=True):
        assert mean == pytest.approx(0, abs=4 * 0.3 / math.sqrt(3 * entries))
        assert std == pytest.approx(0.3 / math.sqrt(3), rel=4 * math.sqrt(0.8 / (4 * entries)))
        assert kurtosis == pytest.approx(-1.2, abs=4 * math.sqrt(1.32 / entries))
    law = [math.sqrt(3) * (2 * level - 1) for level in QUANTILES]
    assert tensor.quantiles == pytest.approx(law, abs=4 * math.sqrt(3 / (5 * entries)))
    assert law_in_words(tensor) == "U(±0.3)"


def test_singular_values_of_independent_entries():
    """E mean(σ⁴)/mean(σ²)² is 1 + rows/columns, and the largest σ is √columns + √rows, as rows and columns grow."""
    tensor = weight_of(lambda weight: nn.init.normal_(weight, std=0.1))
    assert sum(tensor.fourth_moments) / 5 == pytest.approx(1 + 64 / 256, rel=0.02)
    assert sum(tensor.largest) / 5 == pytest.approx(1 + math.sqrt(64 / 256), rel=0.05)
    assert sum(tensor.smallest) / 5 == pytest.approx(math.sqrt(1 - math.sqrt(64 / 256)), rel=0.05)


@pytest.mark.parametrize(("rows", "columns"), [(64, 256), (300, 300)])
def test_an_orthogonal_matrix_has_equal_singular_values(rows, columns):
    tensor = weight_of(nn.init.orthogonal_, rows=rows, columns=columns)
    assert tensor.fourth_moments == pytest.approx([1] * 5, abs=1e-5)
    assert tensor.largest == pytest.approx([1] * 5, abs=1e-5)


@pytest.mark.parametrize(
    ("draw", "words", "pattern"),
    [
        (lambda w: nn.init.normal_(w, std=0.01), "N(0, 0.01²)", "N(0, 0.01²)"),
        (lambda w: nn.init.normal_(w, mean=1.0, std=0.01), "N(1, 0.01²)", "N(1, 0.01²)"),
        (nn.init.kaiming_normal_, "N(0, 2/256)", "N(0, 2/fan_in)"),
        (lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), "U(±1/√256)", "U(±1/√fan_in)"),
        (nn.init.xavier_uniform_, "U(±√(6/320))", "U(±√(6/(fan_in + fan_out)))"),
        (lambda w: nn.init.trunc_normal_(w, std=0.02, a=-0.04, b=0.04), "N(0, 0.02²) cut at ±2σ", None),
        (nn.init.orthogonal_, "orthogonal, N(0, 1/256)", "orthogonal, N(0, 1/fan_in)"),
        (lambda w: nn.init.constant_(w, 0.5), "constant 0.5", "constant 0.5"),
    ],
)
def test_laws_in_words(draw, words, pattern):
    tensor = weight_of(draw)
    assert law_in_words(tensor) == words
    assert pattern is None or law_in_words(tensor, sizes=False) == pattern


def test_the_law_of_a_bias_uses_the_fan_in_of_its_weight():
    layer = fingerprint(lambda: nn.Linear(512, 400)).tensors[1]
    assert (layer.name, law_in_words(layer)) == ("bias", "U(±1/√512)")


def test_fixed_tensors():
    def build():
        model = nn.Linear(4, 3)
        model.weight.data = torch.arange(12.0).reshape(3, 4)
        model.bias.data.fill_(0.1)
        return model

    weight, bias = fingerprint(build).tensors
    assert (weight.fixed, weight.constant, weight.means) == (True, None, (5.5,) * 5)
    assert (bias.fixed, bias.constant, bias.means) == (True, pytest.approx(0.1), ())


def test_queries_keys_and_values_of_one_weight_are_apart():
    def build():
        attention = nn.MultiheadAttention(16, 2, batch_first=True)
        attention.in_proj_weight.data[16:32] = 0
        return attention

    names = {tensor.name: tensor for tensor in fingerprint(build).tensors}
    assert names["in_proj_weight[key]"].constant == 0
    assert names["in_proj_weight[query]"].shape == names["in_proj_weight[value]"].shape == (16, 16)
    assert names["in_proj_weight[value]"].constant is None
    assert names["in_proj_bias[key]"].shape == (16,)
    assert (names["in_proj_bias[key]"].part, names["out_proj.weight"].part) == ("key", "")


def test_a_function_gets_the_seed_if_it_takes_one():
    seen = []

    def by_position(number):
        seen.append(number)
        return nn.Linear(2, 2)

    def by_name(width=2, *, seed=None):
        seen.append(seed)
        return nn.Linear(width, width)

    fingerprint(by_position, seeds=3)
    fingerprint(by_name, seeds=2)
    assert seen == [0, 1, 2, 0, 1]


def seeded(width=2, seed=0):
    layer = nn.Linear(width, width)
    nn.init.constant_(layer.weight, float(seed))
    return layer


def unseeded(width=2):
    return seeded(width, 5)


def test_a_function_of_a_module_gets_the_seed_unless_it_is_given():
    assert model_source("test_fingerprint:seeded").build(3).weight[0, 0] == 3
    assert model_source("test_fingerprint:seeded", {"seed": 7, "width": 4}).build(3).weight[3, 3] == 7
    assert model_source("test_fingerprint:unseeded").build(3).weight[0, 0] == 5


def test_a_language_model_may_have_other_outputs_than_tokens():
    small = {"depth": 1, "width": 16, "heads": 2, "tied": False}
    assert model_source("gpt", small, outputs=10).build()(torch.zeros(2, 5, dtype=torch.long)).shape == (2, 5, 10)


def test_the_model_and_the_random_state_stay_as_they_are():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.LazyLinear(2))
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    model[0].weight.requires_grad_(False)
    model[1].eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    random, modes = torch.get_rng_state(), [m.training for m in model.modules()]
    assert fingerprint(lambda: model, inputs=Inputs((3, 8, 8))).tensors[0].fixed
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is g or torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))
    assert torch.equal(torch.get_rng_state(), random)
    assert [m.training for m in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()][:2] == [False, True]


def test_a_file_holds_all_of_it(tmp_path):
    whole = fingerprint(Perceptron, name="perceptron")
    write_fingerprint(tmp_path / "law.json", whole)
    assert read_fingerprint(tmp_path / "law.json") == whole
    text = (tmp_path / "law.json").read_text("utf-8")
    assert json.loads(text) == json.loads(json.dumps(whole.to_json()))
    assert sum('"shape"' in line for line in text.splitlines()) == len(whole.tensors) == 6
    assert {"initbench", "torch"} <= whole.versions.keys()


SCALED = """
import sys
import torch
from torch import nn
from initbench.testing import assert_matches_fingerprint

def network(seed):
    generator = torch.Generator().manual_seed(seed)
    layers = nn.Sequential(nn.Conv2d(3, 32, 3, bias=False), nn.Tanh(), nn.Conv2d(32, 64, 3, bias=False))
    x = torch.randn(32, 3, 8, 8, generator=generator)
    with torch.no_grad():
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                layer.weight.normal_(generator=generator)
                layer.weight /= layer(x).std()
            x = layer(x)
    return layers

if __name__ == "__main__":
    assert_matches_fingerprint(network, sys.argv[1], seeds=5)
    print(network(0)[0].weight.detach().numpy().tobytes().hex())
"""
# The kernels of PyTorch, oneDNN and MKL that processors without AVX get.
OLDER = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}


def test_it_passes_where_the_same_random_numbers_have_other_last_bits(tmp_path, monkeypatch):
    (tmp_path / "scaled.py").write_text(SCALED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from scaled import network

    write_fingerprint(tmp_path / "law.json", fingerprint(network))
    command = [sys.executable, "scaled.py", "law.json"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | OLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    here = network(0)[0].weight.detach()
    if done.stdout.strip() == here.numpy().tobytes().hex():
        pytest.skip("this processor has no other kernels than the oldest")
    there = torch.frombuffer(bytearray.fromhex(done.stdout), dtype=torch.float32).view_as(here)
    assert torch.allclose(here, there, rtol=1e-4, atol=1e-5)


def test_it_holds_the_versions_of_the_libraries_that_its_modules_are_from():
    versions = fingerprint(lambda: nn.Sequential(Conv1D(4, 4), nn.Linear(4, 4))).versions
    assert versions.keys() == {"initbench", "torch", "transformers"}
    assert versions["torch"] == torch.__version__


def changed(**fields):
    return lambda data: data | fields


def first_tensor(**fields):
    return lambda data: data | {"tensors": [data["tensors"][0] | fields]}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (changed(format="other 2"), "is no fingerprint: it has 'other 2' instead of"),
        (lambda data: [data], "is no fingerprint: it has no format"),
        (lambda data: {key: data[key] for key in data if key != "seeds"}, "damaged fingerprint: seeds: Field required"),
        (changed(seeds="many"), "damaged fingerprint: seeds: Input should be a valid integer"),
        (changed(seeds=7), "damaged fingerprint: first.weight has lists of wrong lengths"),
        (first_tensor(shape=[64, "x"]), r"damaged fingerprint: tensors.0.shape.1: Input should be a valid integer"),
        (first_tensor(quantiles=[0.0]), "damaged fingerprint: first.weight has lists of wrong lengths"),
        (first_tensor(kurtoses=[]), "damaged fingerprint: first.weight has lists of wrong lengths"),
        (first_tensor(constant=1.0), "damaged fingerprint: first.weight has impossible values"),
        (first_tensor(stds=[float("nan")] * 2), "not JSON: it holds NaN"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(damage, message, tmp_path):
    path = tmp_path / "law.json"
    path.write_text(json.dumps(damage(fingerprint(Perceptron, seeds=2).to_json())), "utf-8")
    with pytest.raises(InitbenchError, match=message) as error:
        read_fingerprint(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), (None, "No such file"), ("\xff", "is not JSON")])
def test_a_file_that_cannot_be_read(text, message, tmp_path):
    path = tmp_path / "law.json"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InitbenchError, match=message):
        read_fingerprint(path)


def holding(value):
    layer = nn.Linear(2, 2)
    layer.weight.data[0, 0] = value
    return layer


def growing(seed):
    return nn.Linear(2, 2 + seed)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: holding(math.nan), "weight holds NaN or infinite entries"),
        (lambda: nn.LazyLinear(3), "weight has no storage yet"),
        (lambda: nn.Linear(2, 2, dtype=torch.complex64), "weight is torch.complex64; fingerprints are of real"),
        (nn.ReLU, "has no parameters"),
        (lambda: "model", "build must return a torch.nn.Module, returned str"),
        (growing, "the models of two seeds have different parameters"),
        (nn.Linear(2, 2), "build must be a function that returns a new model, is Linear"),
    ],
)
def test_what_has_no_fingerprint(build, message):
    with pytest.raises(InitbenchError, match=message):
        fingerprint(build)


def test_a_model_that_does_not_run_has_the_roles_of_its_module_types():
    class Silent(nn.Linear):
        def forward(self, x):
            raise RuntimeError("not today")

    whole = fingerprint(lambda: Silent(4, 4))
    assert "did not run" in whole.note
    assert whole.tensors[0].role == "linear"
    with pytest.raises(InitbenchError, match="not today"):
        fingerprint(lambda: Silent(4, 4), inputs=torch.zeros(1, 4))
