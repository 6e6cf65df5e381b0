"""bf16: what runs in which type, and what becomes of a trial."""

from __future__ import annotations

import pytest
import torch
from cases import evaluate, random_dataset
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.execution.trial import run_trial
from initbench.inputs import Inputs
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec, cell_id
from initbench.tasks import find_task
from initbench.training import precision
from initbench.training.loop import train
from initbench.training.precision import bf16_is_emulated
from initbench.training.recipe import Recipe

SHAPE, CLASSES = (3, 4, 4), 4


def dataset():
    return random_dataset(SHAPE, CLASSES, (24, 12, 16))


def linear():
    return create_model("mlp", depth=1, input_shape=SHAPE, num_classes=CLASSES, seed=0)


def logits_in_bf16(layer, split):
    inputs, weight, bias = (t.detach().bfloat16() for t in (split.inputs.flatten(1), layer.weight, layer.bias))
    return functional.linear(inputs, weight, bias).float()


def test_evaluation_in_bf16_rounds_the_products_and_not_the_loss():
    model, split = linear(), dataset().test
    logits = logits_in_bf16(model.classifier, split)
    expected = functional.cross_entropy(logits.double(), split.targets).item()
    task = find_task("classification")
    values = evaluate(model, split, task, 16, precision="bf16")
    assert values["loss"] == pytest.approx(expected, rel=1e-6)  # float32, where bfloat16 has 3 digits
    assert values["error"] == (logits.argmax(1) != split.targets).double().mean().item()
    assert abs(values["loss"] - evaluate(model, split, task, 16)["loss"]) > 1e-5


def test_a_step_in_bf16_updates_float32_weights_by_the_rounded_gradient():
    model, data = linear(), dataset()
    layer = model.classifier
    before, x = layer.weight.detach().clone(), data.train.inputs.flatten(1)
    recipe = Recipe(epochs=1, batch_size=24, lr=0.5, momentum=0.0, precision="bf16")
    logits = logits_in_bf16(layer, data.train)
    loss = functional.cross_entropy(logits, data.train.targets).item()
    error = ((logits.softmax(1) - torch.eye(CLASSES)[data.train.targets]) / 24).bfloat16()
    result = train(model, data, recipe, 0)
    assert result.history[0]["train_loss"] == pytest.approx(loss, rel=1e-6)
    assert layer.weight.dtype == torch.float32
    step = (before - layer.weight.detach()) / 0.5
    # The product of two bfloat16 matrices, rounded once more: 2⁻⁸ of the largest entry.
    torch.testing.assert_close(step, error.float().T @ x.bfloat16().float(), rtol=2**-8, atol=1e-4)


def test_a_model_runs_in_bf16_in_training_and_in_evaluation():
    model = create_model("wrn", depth=10, width=1, input_shape=SHAPE, num_classes=CLASSES, seed=0)
    seen = set()
    model.stem.register_forward_hook(lambda module, _, output: seen.add((module.training, output.dtype)))
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        train(model, dataset(), Recipe(epochs=1, batch_size=8, precision=name), 0)
        assert seen == {(True, dtype), (False, dtype)}
        seen.clear()
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def spec(**recipe):
    return TrialSpec(
        suite="s",
        architecture=ComponentSpec(name="mlp", arguments={"depth": 3, "width": 16}),
        initializer=ComponentSpec(name="kaiming"),
        dataset=DatasetSpec(name="digits", arguments={"train_size": 200}, inputs=Inputs((1, 8, 8)), outputs=10),
        recipe=Recipe(epochs=3, batch_size=20, **recipe),
        probes=(),
        seed=0,
    )


def test_the_precisions_are_two_trials():
    fp32, bf16 = spec(), spec(precision="bf16")
    assert fp32.id != bf16.id
    assert cell_id(fp32.identity) != cell_id(bf16.identity)
    assert spec(precision="fp32").id == fp32.id
    assert run_trial(fp32).metrics["train_loss"] != run_trial(bf16).metrics["train_loss"]


def test_a_diverging_trial_in_bf16_is_recorded_as_diverged():
    record = run_trial(spec(precision="bf16", lr=1e18))
    assert record.status == "diverged"
    assert record.spec["recipe"]["precision"] == "bf16"
    assert 0 < record.metrics["diverged_at_step"] < 30
    assert record.metrics["test_error"] is None
    assert record.metrics["test_error_reason"] == f"diverged at step {record.metrics['diverged_at_step']}"


@pytest.mark.parametrize(
    ("flags", "emulated"),
    [
        ({"avx2", "avx512f"}, True),
        ({"avx2", "avx512f", "avx512_bf16"}, False),
        ({"avx2", "amx_tile", "amx_bf16"}, False),
        ({"asimd", "i8mm"}, True),
        ({"asimd", "bf16"}, False),
        (set(), False),  # nothing is known
    ],
)
def test_a_processor_without_instructions_for_bf16_emulates_it(flags, emulated):
    assert bf16_is_emulated("cpu", flags) is emulated


def test_this_processor_says_what_it_can_do(tmp_path, monkeypatch):
    known = precision._processor_flags()
    assert bf16_is_emulated() is bf16_is_emulated("cpu", known)
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    monkeypatch.setattr(precision, "_CPUINFO", tmp_path / "cpuinfo")
    assert precision._processor_flags() == set()
    for key in ("flags", "Features"):
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{key}\t\t: fpu avx512_bf16\n\nprocessor\t: 1\n")
        assert precision._processor_flags() == {"fpu", "avx512_bf16"}
