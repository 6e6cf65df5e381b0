"""`diff` sees each kind of difference, names it, and matches tensors whose names and layouts differ."""

import math
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from laws import Perceptron, after
from scipy.stats import t as student
from scipy.stats import ttest_ind
from torch import nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from initbench import ArgumentError, InitbenchError, diff, fingerprint
from initbench.inspection.diff import KINDS, _holm, _student
from initbench.inspection.fingerprint import Fingerprint, TensorFingerprint, write_fingerprint


def law(change=lambda model: None, start=0, **names):
    return fingerprint(after(start, lambda: Perceptron(change, **names)))


@pytest.fixture(scope="module")
def plain():
    return law()


def kinds(difference):
    return {tensor.a: tensor.kinds for tensor in difference.tensors if tensor.kinds}


def test_a_model_has_its_own_law(plain):
    difference = diff(plain, law(start=100))
    assert difference.same
    assert difference.kinds == frozenset()
    assert "no difference in law in 6 tensors" in str(difference)


HEAD_STD = 1 / math.sqrt(3 * 64)


def normal(model):
    nn.init.normal_(model.head.weight, std=HEAD_STD)


def orthogonal(model):
    nn.init.orthogonal_(model.head.weight, gain=HEAD_STD * math.sqrt(64))


def shared_rows(model):
    model.head.weight[1::2] = model.head.weight[::2]


def permuted(model):
    """The entries of an orthogonal matrix in another order: the same law of each entry, but independent ones."""
    orthogonal(model)
    entries = model.head.weight.flatten()
    model.head.weight.copy_(entries[torch.randperm(len(entries))].view_as(model.head.weight))


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        # A mean adds a matrix of rank one.
        (lambda m: m.head.weight.add_(0.02), "head.weight", ("location", "dependence")),
        (lambda m: m.first.bias.add_(1.0), "first.bias", ("location",)),
        (lambda m: m.head.weight.mul_(1.2), "head.weight", ("scale",)),
        (lambda m: m.first.bias.mul_(3), "first.bias", ("scale",)),
        (normal, "head.weight", ("distribution",)),
        (shared_rows, "head.weight", ("dependence",)),
        (lambda m: m.norm.weight.zero_(), "norm.weight", ("constant",)),
        (lambda m: m.norm.weight.uniform_(), "norm.weight", ("constant",)),
        (lambda m: m.norm.bias.add_(1e-4), "norm.bias", ("constant",)),
    ],
)
def test_an_injected_difference_is_seen_and_nothing_else(change, name, expected, plain):
    assert kinds(diff(plain, law(change, start=100))) == {name: expected}


def test_dependence_of_entries_with_one_law():
    first, second = law(orthogonal), law(permuted, start=100)
    assert kinds(diff(first, second)) == {"head.weight": ("dependence",)}
    assert "head.weight: orthogonal, " in str(diff(first, second))
    assert "orthogonal against not orthogonal" in str(diff(first, second))


def test_a_small_factor_of_orthogonal_matrices_is_seen():
    """All seeds have the same scale, so 1.02 shows in 3,072 entries; behind independent ones it would not."""
    larger = law(lambda model: (orthogonal(model), model.head.weight.mul_(1.02)), start=100)
    assert kinds(diff(law(orthogonal), larger)) == {"head.weight": ("scale",)}
    independent = law(lambda model: (normal(model), model.head.weight.mul_(1.02)), start=100)
    assert kinds(diff(law(normal), independent)) == {}


def test_a_scale_that_a_tuner_draws_anew_is_no_difference_but_a_larger_one_is():
    def tune(factor):
        return lambda model: model.head.weight.mul_(factor * torch.exp(0.1 * torch.randn(())))

    assert diff(law(tune(1.0)), law(tune(1.0), start=100)).same
    assert kinds(diff(law(tune(1.0)), law(tune(4.0), start=100))) == {"head.weight": ("scale",)}


def test_fixed_values_are_compared_exactly():
    def fixed(factor):
        return lambda model: model.norm.weight.copy_(factor * torch.linspace(1, 2, 64))

    assert diff(law(fixed(1)), law(fixed(1), start=100)).same
    assert kinds(diff(law(fixed(1)), law(fixed(1.001)))) == {"norm.weight": ("location", "scale")}


def test_values_in_an_order_of_every_seed_are_not_fixed():
    shuffled = law(lambda model: model.norm.weight.copy_(torch.linspace(1, 2, 64)[torch.randperm(64)]))
    [weight] = [tensor for tensor in shuffled.tensors if tensor.name == "norm.weight"]
    assert not weight.fixed


class Language(nn.Module):
    def __init__(self, *, tie):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50, bias=False)
        nn.init.normal_(self.embed.weight, std=0.02)
        nn.init.normal_(self.head.weight, std=0.02)
        if tie:
            self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


def test_tied_tensors():
    difference = diff(fingerprint(lambda: Language(tie=True)), fingerprint(lambda: Language(tie=False)))
    assert difference.unmatched_b == ("head.weight",)
    assert kinds(difference) == {"embed.weight": ("tied",)}
    assert "tied to head.weight against not tied" in str(difference)
    assert difference.kinds == {"tied", "missing_tensor"} <= set(KINDS)


def test_shapes_and_missing_tensors(plain):
    def other():
        return nn.Sequential(
            OrderedDict(first=nn.Linear(32, 64), norm=nn.LayerNorm(64, bias=False), head=nn.Linear(64, 10))
        )

    difference = diff(plain, fingerprint(other))
    assert kinds(difference) == {"head.weight": ("shape",), "head.bias": ("shape",)}
    assert (difference.unmatched_a, difference.unmatched_b) == (("norm.bias",), ())
    assert "head.weight: U(±1/√64): shape (48, 64) against (10, 64)" in str(difference)


def test_other_names_are_matched_by_role_and_order(plain):
    difference = diff(plain, law(start=100, names=("embed", "ln", "relu", "classifier")))
    assert difference.same
    assert [(one.a, one.b) for one in difference.tensors if "weight" in one.a] == [
        ("first.weight", "embed.weight"),
        ("norm.weight", "ln.weight"),
        ("head.weight", "classifier.weight"),
    ]


WIDTH = 32


class Attention(nn.Module):
    """An attention whose queries, keys and values come from three layers, one layer, or one stored (in, out)."""

    def __init__(self, kind, key_factor=1.0):
        super().__init__()
        if kind == "three":
            self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        else:
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH) if kind == "fused" else Conv1D(3 * WIDTH, WIDTH)
        self.out = Conv1D(WIDTH, WIDTH) if kind == "inputs first" else nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WIDTH)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02) if parameter.dim() == 2 else nn.init.zeros_(parameter)
        with torch.no_grad():
            if kind == "three":
                self.k.weight.mul_(key_factor)
            elif kind == "fused":
                self.qkv.weight[WIDTH : 2 * WIDTH] *= key_factor
            else:
                self.qkv.weight[:, WIDTH : 2 * WIDTH] *= key_factor

    def forward(self, x):
        q, k, v = (self.q(x), self.k(x), self.v(x)) if hasattr(self, "q") else self.qkv(x).chunk(3, -1)
        return self.head(self.out(functional.scaled_dot_product_attention(q, k, v)))


def attention(kind, start, **arguments):
    return fingerprint(after(start, lambda: Attention(kind, **arguments)), inputs=torch.zeros(1, 5, WIDTH))


@pytest.mark.parametrize(("one", "other"), [("three", "fused"), ("three", "inputs first"), ("fused", "inputs first")])
def test_fused_and_transposed_layouts_are_recognized(one, other):
    assert diff(attention(one, 0), attention(other, 100)).same
    difference = diff(attention(one, 0), attention(other, 200, key_factor=1.5))
    assert [(pair.role, pair.kinds) for pair in difference.tensors if pair.kinds] == [("key", ("scale",))]


def test_what_differs_alike_in_a_role_is_one_line():
    def build(first):
        norms = [nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)) for _ in range(4)]
        for norm in norms:
            nn.init.constant_(norm[1].weight, first)
        return nn.Sequential(*norms)

    lines = str(diff(fingerprint(lambda: build(0.0)), fingerprint(lambda: build(1.0)))).splitlines()
    assert lines[1] == "norm weight: constant 0 against constant 1 (4 tensors: 0.1.weight, 1.1.weight, ..., 3.1.weight)"


@pytest.mark.slow
def test_timm_and_torchvision_start_resnet50_alike_but_for_the_ends_of_branches():
    difference = diff("timm/resnet50", "torchvision/resnet50", seeds=2)
    assert len(difference.tensors) == 161
    ends = "16 tensors: layer1.0.bn3.weight, layer1.1.bn3.weight, ..., layer4.2.bn3.weight"
    assert [line for line in str(difference).splitlines()[1:] if "too small" not in line] == [
        f"norm weight, end of a branch: constant 0 against constant 1 ({ends})"
    ]


def test_laws_that_differ_from_layer_to_layer_are_one_line():
    def build(factor):
        layers = [nn.Linear(32, 32, bias=False) for _ in range(4)]
        for number, layer in enumerate(layers, 1):
            nn.init.normal_(layer.weight, std=0.0123 * factor * number)
        return nn.Sequential(*layers, nn.Linear(32, 2, bias=False))

    lines = str(diff(fingerprint(lambda: build(1)), fingerprint(lambda: build(2)))).splitlines()
    assert lines[1].startswith("linear: N(0, 0.012")
    assert lines[1].endswith("in 0.weight, others alike: std × 2 (4 tensors: 0.weight, 1.weight, ..., 3.weight)")


def test_the_law_of_a_classifier():
    def build(change):
        model = nn.Sequential(OrderedDict(classifier=nn.Linear(512, 40, bias=False)))
        change(model.classifier.weight)
        return model

    normal, uniform = (
        fingerprint(lambda change=change: build(change))
        for change in (lambda w: nn.init.normal_(w, std=0.01), lambda w: None)
    )
    line = str(diff(normal, uniform)).splitlines()[1]
    assert line.startswith("classifier.weight: N(0, 0.01²) against U(±1/√512): std × 2.5")


def test_holm_by_hand():
    assert _holm([0.01, 0.02, 0.5], 0.05) == 0.02
    assert _holm([0.02, 0.02, 0.5], 0.05) == -1
    assert _holm([], 0.05) == -1


def test_the_test_by_hand():
    """Between seeds the variance is 2.5 each; that of independent entries replaces it if it is larger."""
    a, b = (1.0, 2.0, 3.0, 4.0, 5.0), (3.0, 4.0, 5.0, 6.0, 7.0)
    assert _student("scale", a, b, 0.1, 0.0).p == pytest.approx(2 * student.sf(2 / 1.0, 8))
    assert _student("scale", a, b, 10.0, 0.0).p == pytest.approx(2 * student.sf(2 / math.sqrt(2 * 100 / 5), 8))
    assert _student("scale", a, b, 1000.0, 0.0).p == pytest.approx(2 * student.sf(2, 8))
    assert _student("scale", a, b, 0.1, 2.5).p == 1
    few = (3.0, 4.0)
    assert _student("scale", a, few, 0.1, 0.0).p == pytest.approx(ttest_ind(a, few).pvalue)


def test_the_smallest_factor_that_is_seen(plain):
    """Of the head's bias, 48 entries × 5 seeds, a factor is seen at t(1 - 0.05/tests/2) + t(0.95) standard errors."""
    difference = diff(plain, law(start=100))
    bias = difference.tensors[-1]
    least = math.sqrt(2 * 2 / (4 * 48 * 5))
    t = student.ppf(1 - 0.05 / difference.tests / 2, 8) + student.ppf(0.95, 8)
    assert bias.a == "head.bias"
    assert math.exp(t * least) <= bias.visible_factor <= math.exp(2 * t * least)
    assert "head bias, 1 tensor: too small to detect a change of the std by a factor below" in str(difference)


def test_it_reads_files_and_builds_models(tmp_path, monkeypatch, plain):
    write_fingerprint(tmp_path / "plain.json", plain)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "planted_model.py").write_text("from laws import Perceptron as build", "utf-8")
    assert diff(str(tmp_path / "plain.json"), "planted_model:build").same
    assert diff(tmp_path / "plain.json", plain).same
    assert diff(Perceptron, plain, seeds=3).same
    with pytest.raises(InitbenchError, match="No such file"):
        diff("absent.json", plain)
    with pytest.raises(ArgumentError, match="build must be a function that returns a new model, is Perceptron"):
        diff(Perceptron(), plain)
    with pytest.raises(ArgumentError, match="false_alarms must be below 1"):
        diff(plain, plain, false_alarms=1.5)


def test_a_pinned_law_holds_on_any_processor_and_version():
    """The file was written once, with torch 2.14.1 on an x86-64 processor."""
    pinned = str(Path(__file__).with_name("perceptron.json"))
    assert diff(pinned, law(start=300)).same
    assert kinds(diff(pinned, law(lambda m: m.first.weight.mul_(1.2), start=300))) == {"first.weight": ("scale",)}


def test_json_holds_what_differs(plain):
    data = diff(plain, law(lambda m: m.head.weight.mul_(1.2), start=100)).to_json()
    assert (data["same"], data["kinds"]) == (False, ["scale"])
    (pair,) = [pair for pair in data["tensors"] if pair["kinds"]]
    assert pair["factor"] == pytest.approx(1.2, rel=0.05)
    assert 1 < pair["visible_factor"] < 1.2


def test_versions_that_differ_are_said(plain):
    other = replace(plain, versions=plain.versions | {"torch": "1.0"})
    assert diff(plain, other).notes == (f"torch {plain.versions['torch']} against 1.0",)


def test_notes_say_that_roles_are_uncertain_only_if_they_are_used(plain):
    silent = replace(plain, note="it did not run")
    assert diff(plain, silent).notes == ()
    renamed = replace(silent, tensors=tuple(replace(t, name=f"model.{t.name}") for t in silent.tensors))
    assert diff(plain, renamed).same
    assert diff(plain, renamed).notes == (f"{plain.name}: it did not run",)


def test_scalars_are_compared_over_seeds():
    def scalars(shift):
        means = tuple(shift + 0.1 * seed for seed in range(5))
        return Fingerprint("m", 5, (TensorFingerprint("s", (1,), "other", means=means, stds=(0.0,) * 5),))

    assert diff(scalars(0.0), scalars(0.1)).same
    assert kinds(diff(scalars(0.0), scalars(2.0))) == {"s": ("location",)}
