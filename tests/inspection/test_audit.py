"""`audit`: what it says of models and files, and that it changes nothing."""

import copy
import json
import math
import sys
from functools import partial

import pytest
import torch
from torch import nn

from initbench import InitbenchError, audit, create_model
from initbench.cli.command_line import main
from initbench.inspection.audit import audit_weights
from initbench.inspection.source import ModelSource, model_source
from initbench.inspection.watching import InitializerCalls


class Heads(nn.Module):
    """Several outputs, a tied weight, and one parameter of each kind that has no law."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.body = nn.Linear(16, 16)
        self.first, self.second = nn.Linear(16, 50, bias=False), nn.Linear(16, 1)
        self.first.weight = self.embedding.weight
        nn.init.orthogonal_(self.body.weight)

    def forward(self, tokens):
        features = self.body(self.embedding(tokens))
        return {"tokens": self.first(features), "value": (self.second(features),)}


def rows(result):
    return {(row.role, row.description): row for row in result.roles}


def test_a_model_with_several_outputs():
    result = audit(ModelSource("heads", Heads))
    assert result.findings == ()
    assert result.notes == ()
    described = rows(result)
    assert described["linear", "orthogonal, gain 1"].untouched == 0
    embedding = described["embedding", "N(0, 1), PyTorch's default of embeddings"]
    assert (embedding.tensors, embedding.untouched) == (("embedding.weight",), 1)
    assert result.tensors[0].role.tied == ("first.weight",)
    json.dumps(result.to_json(), allow_nan=False)
    assert str(result).startswith("no findings\n")


def test_the_model_is_as_before():
    model = Heads().train()
    model.second.weight.requires_grad_(False)
    model.body.bias.grad = torch.ones(16)
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    audit(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not model.second.weight.requires_grad
    assert model.body.bias.grad.sum() == 16


def test_a_model_that_does_not_run_is_audited_by_the_types_of_its_modules():
    class Picky(nn.Linear):
        def forward(self, first, second):
            return super().forward(first + second)

    result = audit(nn.Sequential(Picky(20, 30)))
    assert "did not run" in result.notes[0]
    assert [row.role for row in result.roles] == ["linear", "bias"]


def test_what_is_refused():
    with pytest.raises(InitbenchError, match="weight is lazy: run the model once"):
        audit(nn.LazyLinear(3))
    with pytest.raises(InitbenchError, match="weight is lazy: run the model once"):
        audit(ModelSource("lazy", lambda: nn.LazyLinear(3)))
    with pytest.raises(InitbenchError, match="weight is on the meta device"):
        audit(nn.Linear(3, 3, device="meta"))


def test_tensors_without_finite_entries_or_without_any():
    model = nn.Linear(20, 20)
    model.nothing, model.scale = nn.Parameter(torch.zeros(0, 3)), nn.Parameter(torch.tensor(2.0))
    nn.init.constant_(model.weight, math.nan)
    result = audit(model)
    assert [(finding.kind, finding.tensors) for finding in result.findings] == [("not_finite", ("weight",))]
    json.dumps(result.to_json(), allow_nan=False)


def test_complex_parameters_are_said_to_be_left_out():
    model = nn.Linear(20, 20)
    model.phase = nn.Parameter(torch.zeros(3, dtype=torch.complex64))
    assert "not examined, because they are not real floating-point tensors: phase" in audit(model).notes


def test_calls_are_watched_only_while_a_model_is_built():
    def build():
        model = nn.Sequential(nn.Linear(20, 20), nn.Linear(20, 20))
        nn.init.normal_(tensor=model[0].weight)
        model[1].weight.data.mul_(2)
        return model

    by_name = {name: row.untouched for row in audit(ModelSource("built", build)).roles for name in row.tensors}
    assert by_name["0.weight"] == by_name["1.weight"] == 0
    assert {row.untouched for row in audit(build()).roles} == {None}
    watched = audit(ModelSource("default", lambda: nn.Sequential(nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 20))))
    assert all(row.untouched == len(row.tensors) for row in watched.roles)


def test_layers_that_are_copies():
    """`nn.TransformerEncoder` copies one layer, random numbers and all."""
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    result = audit(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), torch.zeros(1, 4, 32))
    assert {finding.kind for finding in result.findings} == {"copied_tensor"}
    copied = {name for finding in result.findings for name in finding.tensors}
    assert {f"layers.{index}.linear1.weight" for index in range(3)} <= copied


def run(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["initbench", "audit", *map(str, options)])
    try:
        main()
    except SystemExit as end:
        return end.code
    return 0


def test_the_command(monkeypatch, capsys, tmp_path):
    model = create_model("mlp")
    nn.init.constant_(model.linear2.weight, 0.5)
    file = tmp_path / "weights.pt"
    torch.save(model.state_dict(), file)
    assert run(monkeypatch, "mlp", "--weights", file, "--fail-on", "low_rank") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 finding"
    assert "constant_weights: linear2.weight: all 65536 entries are 0.5" in lines[1]
    assert run(monkeypatch, file, "--tensors", "--fail-on", "any") == 1
    printed = capsys.readouterr().out
    assert "guessed from names and sizes" in printed
    assert "256×256" in printed
    assert run(monkeypatch, "mlp", "--json") == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give a model"),
        (("mlp", "--fail-on", "low_rnk"), "did you mean 'low_rank'"),
        (("mlp", "--expect", "laws.yaml"), "laws.yaml: cannot be read"),
        (("--weights", "no.pt"), "no.pt: no such file"),
        (("no.pt", "--with", "depth=50"), "no.pt: weights alone take no --with"),
        (("mpl",), "did you mean 'mlp'"),
    ],
)
def test_bad_input_is_one_line(monkeypatch, capsys, options, message):
    assert run(monkeypatch, *options) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1


def test_a_safetensors_file_is_read_tensor_by_tensor(tmp_path):
    save_file = pytest.importorskip("safetensors.torch").save_file
    model = create_model("mlp")
    save_file(dict(model.state_dict()), tmp_path / "weights.safetensors")
    with_model = audit(model)
    alone = audit_weights(tmp_path / "weights.safetensors")
    stds = {one.role.name: one.std for one in with_model.tensors}
    assert {one.role.name: one.std for one in alone.tensors} == stds
    assert alone.notes == ("roles are guessed from names and sizes, because there is no model",)


def test_declared_laws(tmp_path):
    file = tmp_path / "laws.yaml"
    source = model_source("mlp")
    file.write_text("- {role: linear, law: uniform, bound: 1/sqrt(fan_in)}\n- {name: '*.bias', law: zeros}\n")
    findings = audit(source, expect=file).findings
    assert [(one.kind, set(one.tensors)) for one in findings] == [
        ("unexpected_law", {"linear1.bias", "linear2.bias", "classifier.bias"})
    ]
    for text, message in (
        ("- {role: linear, law: norml, std: 1}", "did you mean 'normal'"),
        ("- {role: linear, law: normal}", "normal needs std"),
        ("- {role: lnear, law: zeros}", "did you mean 'linear'"),
        ("- {role: linear, law: normal, std: open('x')}", "must be a number or a formula"),
        ("- {role: linear, law: normal, std: 0.1/block}", "has no value for"),
        ("- {role: linear, law: normal, std: fan_in - fan_in}", "it must be positive"),
        ("- {role: linear, law: normal, std: (1 - fan_in)**0.5}", "has no value for"),
        ("role: linear", "must be a list"),
    ):
        file.write_text(text)
        with pytest.raises(InitbenchError, match=message):
            audit(source, expect=file)


@pytest.mark.slow
def test_a_declared_law_is_held_to_one_percent(tmp_path):
    """300 models of a declared law: more than 9 findings have a probability below 0.2 %."""
    file = tmp_path / "laws.yaml"
    file.write_text("- {role: 'linear', law: normal, std: sqrt(2/fan_in)}")
    wrong = 0
    for seed in range(300):
        torch.manual_seed(seed)
        model = nn.Sequential(*(nn.Linear(30, 30, bias=False) for _ in range(4)))
        for layer in model:
            nn.init.normal_(layer.weight, std=math.sqrt(2 / 30))
        wrong += bool(audit(model, torch.zeros(1, 30), expect=file).findings)
    assert wrong <= 9


def test_a_tensor_at_the_address_of_one_that_was_replaced_is_another():
    def build():
        calls.append(nn.Linear(64, 64))
        calls.pop()  # its memory is free again
        model = nn.Linear(64, 64)
        model.weight = nn.Parameter(torch.eye(64))
        return model

    calls = []
    for _ in range(20):
        with InitializerCalls() as watched:
            model = build()
        assert watched.untouched(model) == {"bias"}


def test_a_copied_layer_is_as_its_original():
    def build():
        nn.init.normal_(layer.linear1.weight)
        return nn.TransformerEncoder(layer, 2)

    with InitializerCalls() as calls:
        layer = nn.TransformerEncoderLayer(16, 2, batch_first=True)
        model = build()
    names = {name for name, _ in model.named_parameters()}
    assert names - calls.untouched(model) == {"layers.0.linear1.weight", "layers.1.linear1.weight"}


class Small(nn.Linear):
    def __init__(self):
        super().__init__(20, 20)


@pytest.mark.parametrize("model", [Small, partial(Small)])
def test_a_class_or_a_function_is_built(model):
    assert {row.untouched for row in audit(model).roles} == {1}
    with pytest.raises(InitbenchError, match=r"^model must be a function that returns a new model, is int$"):
        audit(3)


def test_any_call_of_clone_may_be_watched():
    with InitializerCalls():
        assert torch.equal(torch.clone(input=torch.ones(2)), torch.ones(2))
        assert torch.eye(3).to_sparse().clone().is_sparse


def test_a_class_with_another_argument_than_the_seed_is_refused():
    with pytest.raises(InitbenchError, match=r"^Linear needs in_features: give a function that builds it$"):
        audit(nn.Linear)
