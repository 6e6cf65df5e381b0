"""Precision and kernels of a trial, on a device that imitates TF32 and on the switches that a GPU would obey."""

import os
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import initbench
from initbench.errors import ArgumentError, SuiteError
from initbench.execution import environment, preflight, trial_process
from initbench.execution.executor import TRIAL_ENVIRONMENT, Job
from initbench.execution.in_process import run_in_process
from initbench.execution.shared_networks import network_name
from initbench.execution.trial import attempt_trial, run_trial
from initbench.execution.trial_process import TrialProcess
from initbench.suite.load import load_suite
from initbench.training import precision, refusals
from initbench.training.optimizer import make_optimizer
from initbench.training.recipe import Recipe, checked_recipe
from suites import the_trial

TRIAL = {
    "dataset": {"name": "digits", "train_size": 48},
    "architectures": [{"name": "plain", "depth": 10, "width": 1, "norm": "none"}],
    "initializers": [{"name": "metainit", "steps": 2, "batch_size": 4}],
    "probes": [{"name": "gradient_quotient", "batch_size": 4}],
}
CUDNN = torch.backends.cudnn


class Ampere(TorchDispatchMode):
    """Rounds the factors of float32 products to TF32's 10 bits, wherever the switches allow it when they are called."""

    FACTORS: ClassVar = {
        "convolution": (0, 1),
        "convolution_backward": (0, 1, 2),
        "mm": (0, 1),
        "bmm": (0, 1),
        "addmm": (1, 2),
    }

    def __init__(self):
        super().__init__()
        self.rounded = 0

    def __torch_dispatch__(self, operation, _, arguments=(), keywords=None):
        name = operation.overloadpacket.__name__
        factors = self.FACTORS.get(name, ())
        allowed = CUDNN.allow_tf32 if "convolution" in name else torch.backends.cuda.matmul.allow_tf32
        if factors and allowed and arguments[0].dtype == torch.float32:
            self.rounded += 1
            arguments = [to_tf32(a) if index in factors else a for index, a in enumerate(arguments)]
        return operation(*arguments, **(keywords or {}))


def to_tf32(tensor):
    return ((tensor.contiguous().view(torch.int32) + 2**12) & -(2**13)).view(torch.float32)


def spec(**recipe):
    return the_trial(**TRIAL, recipe={"epochs": 1, "batch_size": 16, "lr": 0.05} | recipe)


@pytest.fixture
def tf32(monkeypatch):
    monkeypatch.setattr(refusals, "tf32_is_supported", lambda _: True)


def test_the_imitated_gpu_computes_in_tf32_by_default():
    x, weight = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)
    with Ampere() as ampere:
        rounded = functional.conv2d(x, weight)
    assert ampere.rounded == 1
    error = (rounded - functional.conv2d(x.double(), weight.double())).abs().max().item()
    assert 1e-4 < error < 1e-1


@pytest.mark.usefixtures("tf32")
def test_initializers_and_probes_are_exact_in_every_trial_and_training_as_its_recipe_says():
    exact = run_trial(spec())
    records, rounded = {}, {}
    for name in ("fp32", "bf16", "tf32"):
        trial = spec(precision=name)
        with Ampere() as ampere:
            records[name] = run_trial(trial)
        rounded[name] = ampere.rounded
        assert records[name].initialization == exact.initialization
        assert records[name].probes == exact.probes
    assert rounded["fp32"] == rounded["bf16"] == 0
    assert rounded["tf32"] > 0
    assert (records["fp32"].metrics, records["fp32"].history) == (exact.metrics, exact.history)
    assert records["tf32"].metrics["train_loss"] != exact.metrics["train_loss"]
    assert records["tf32"].metrics["train_loss"] == pytest.approx(exact.metrics["train_loss"], rel=1e-2)


@pytest.mark.filterwarnings("ignore:the gradient quotient is saturated")
def test_initialize_and_measure_alone_are_exact():
    def measured():
        model = initbench.create_model("plain", depth=10, width=1, norm="none", input_shape=(1, 8, 8), seed=0)
        initbench.initialize(model, "metainit", input_shape=(4, 1, 8, 8), num_classes=10, steps=1)
        quotient = initbench.gradient_quotient(model, torch.ones(4, 1, 8, 8), torch.arange(4)).item()
        return quotient, torch.cat([p.detach().flatten() for p in model.parameters()])

    quotient, parameters = measured()
    with Ampere() as ampere:
        other, others = measured()
    assert ampere.rounded == 0
    assert other == quotient
    assert torch.equal(others, parameters)


@pytest.mark.parametrize("kind", ["none", "raise"])
def test_the_callers_settings_return_after_a_trial_and_after_an_exception(kind, monkeypatch):
    seen = []

    def build(*_):
        seen.append((CUDNN.allow_tf32, CUDNN.benchmark, CUDNN.deterministic, torch.get_deterministic_debug_mode()))
        if kind == "raise":
            raise KeyError(kind)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    monkeypatch.setattr("initbench.execution.trial._build", build)
    with CUDNN.flags(enabled=True, benchmark=True, allow_tf32=True):
        before = torch.backends.cudnn.conv.fp32_precision
        record = attempt_trial(the_trial(dataset=TRIAL["dataset"], recipe={"epochs": 1, "deterministic": True}))
        assert (record.status == "failed") is (kind == "raise")
        assert torch.backends.cudnn.conv.fp32_precision == before
        assert (CUDNN.allow_tf32, CUDNN.benchmark, CUDNN.deterministic) == (True, True, False)
        assert torch.get_deterministic_debug_mode() == 0
    assert seen == [(False, False, True, 2)]


# --- deterministic and cudnn_benchmark


class Puts(torch.nn.Module):
    """Writes by `put_`, which has no deterministic form."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 10)

    def forward(self, x):
        torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
        return self.linear(x.flatten(1))


def test_an_operation_without_a_deterministic_form_fails_by_its_name(monkeypatch):
    monkeypatch.setattr("initbench.execution.trial._build", lambda *_: Puts())
    trials = {
        wish: the_trial(dataset=TRIAL["dataset"], recipe={"epochs": 1, "deterministic": wish}) for wish in (True, False)
    }
    assert attempt_trial(trials[False]).status == "finished"
    record = attempt_trial(trials[True])
    assert record.status == "failed"
    assert record.error["message"].startswith("put_ does not have a deterministic implementation")


def test_a_deterministic_trial_is_the_same_on_a_cpu_and_has_its_own_id_and_network():
    plain, wished = spec(), spec(deterministic=True)
    assert plain.id != wished.id
    assert network_name(plain) != network_name(wished)
    assert run_trial(plain).metrics == run_trial(wished).metrics


def test_cudnn_benchmark_contradicts_deterministic():
    with pytest.raises(ArgumentError, match=r"cannot be combined with deterministic") as refused:
        checked_recipe({"deterministic": True, "cudnn_benchmark": True}, lambda key, text: ArgumentError(text, key[0]))
    assert refused.value.argument == "cudnn_benchmark"


def test_cudnn_measures_its_kernels_in_training_alone(monkeypatch):
    monkeypatch.setattr("initbench.execution.trial.check_device", lambda *_: None)
    seen = {"initializer": set(), "training": set()}
    stage = "training"

    def note(_module, _inputs):
        seen[stage].add(CUDNN.benchmark)

    def initialized(_spec, model, *_):
        nonlocal stage
        stage = "initializer"
        model(torch.zeros(2, 1, 8, 8))
        stage = "training"
        return {"learning_rate_multipliers": {}}

    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    model.register_forward_pre_hook(note)
    monkeypatch.setattr("initbench.execution.trial._build", lambda *_: model)
    monkeypatch.setattr("initbench.execution.trial._initialized", initialized)
    run_trial(the_trial(dataset=TRIAL["dataset"], recipe={"epochs": 1, "cudnn_benchmark": True}))
    assert seen == {"initializer": {False}, "training": {True}}


class StartedError(Exception):
    pass


def test_a_trials_process_has_what_cublas_reads_at_its_start(monkeypatch):
    def popen(*_, env, stderr, **__):
        stderr.close()
        raise StartedError(env["CUBLAS_WORKSPACE_CONFIG"])

    monkeypatch.setattr(trial_process.subprocess, "Popen", popen)
    for chosen, expected in ((None, ":4096:8"), (":16:8", ":16:8")):
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
        if chosen:
            monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", chosen)
        with pytest.raises(StartedError, match=expected):
            TrialProcess("cpu").run(spec())


def test_the_executor_in_this_process_has_it_too(monkeypatch):
    for name in TRIAL_ENVIRONMENT:
        monkeypatch.setenv(name, "restored after the test")
        monkeypatch.delenv(name)
    run_in_process(Job(()), SimpleNamespace(ready=lambda: None))
    assert TRIAL_ENVIRONMENT.items() <= os.environ.items()


# --- what the device cannot do


@pytest.mark.parametrize("field", [{"precision": "tf32"}, {"cudnn_benchmark": True}])
def test_a_device_that_cannot_is_refused_in_one_line(field, tmp_path):
    (name,) = field
    path = tmp_path / "suite.yaml"
    text = f"{name}: {str(field[name]).lower()}"
    path.write_text(
        f"name: x\ndataset: digits\narchitectures: [mlp]\ninitializers: [kaiming]\nrecipe:\n  epochs: 1\n  {text}\n"
    )
    suite = load_suite(path)
    trials = (spec(**field),)
    with pytest.raises(SuiteError) as refused:
        list(preflight.notes(suite, None, trials, {}, ()))
    assert (refused.value.key, refused.value.line) == (f"recipe.{name}", 7)
    assert "GPU" in refused.value.problem
    assert "\n" not in str(refused.value)
    record = attempt_trial(trials[0])
    assert (record.status, record.error["type"]) == ("failed", "ArgumentError")


@pytest.mark.parametrize(("major", "supported"), [(7, False), (8, True)])
def test_tf32_needs_ampere(monkeypatch, major, supported):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_tf32_supported", lambda: major >= 8)
    monkeypatch.setattr(torch.cuda, "device", lambda _: pytest.MonkeyPatch.context())
    assert precision.tf32_is_supported("cuda:1") is supported
    assert not precision.tf32_is_supported("cpu")


# --- what is recorded


@pytest.fixture
def card(monkeypatch):
    """Two cards, of which `cuda:1` is not the current one."""
    monkeypatch.setattr(
        torch.cuda, "get_device_name", lambda device=None: f"Card {torch.device(device or 'cuda:0').index}"
    )
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(precision, "bf16_is_emulated", lambda _: False)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91300)
    monkeypatch.setattr(environment, "_driver", lambda: "570.86.15")
    environment.environment.cache_clear()
    yield
    environment.environment.cache_clear()


@pytest.mark.usefixtures("card")
def test_a_gpus_record_says_what_its_numbers_depend_on():
    here = environment.trial_environment(Recipe(cudnn_benchmark=True, precision="tf32"), "cuda:1")
    assert here["device"] == "Card 1"
    assert (here["cuda"], here["cudnn"], here["driver"]) == (torch.version.cuda or "ROCm None", 91300, "570.86.15")
    assert here["compute_capability"] == "9.0"
    assert here["attention_kernels"] == "flash, memory-efficient, cudnn, math"
    assert (here["precision"], here["deterministic"], here["cudnn_benchmark"]) == ("tf32", False, True)
    assert here["equal_bits_for_equal_id"].startswith("not promised: cudnn_benchmark")
    promised = environment.trial_environment(Recipe(deterministic=True), "cuda:1")
    assert promised["equal_bits_for_equal_id"] == "promised: deterministic"
    other = environment.trial_environment(Recipe(), "cuda:0")
    assert environment.differences(here, other) == ["device: Card 1 → Card 0"]


def test_a_cpus_record_has_the_environment_that_it_had():
    assert set(environment.trial_environment(Recipe(), "cpu")) == {
        *("initbench", "python", "torch", "numpy", "torchvision", "timm"),
        *("host", "system", "processor", "device", "bf16"),
    }


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n", "535.104.05"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n", "570.86.15"),
        (None, None),
    ],
)
def test_the_drivers_version(text, version, tmp_path, monkeypatch):
    path = tmp_path / "version"
    if text:
        path.write_text(text)
    monkeypatch.setattr(environment, "Path", lambda _: path)
    assert environment._driver() == version


# --- fused optimizers


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_optimizers_are_fused_on_gpus_alone(name):
    from torch._subclasses.fake_tensor import FakeTensorMode

    recipe = Recipe(optimizer=name)
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = make_optimizer([{"params": [parameter]}], recipe)
    assert (optimizer.defaults["foreach"], optimizer.defaults["fused"]) == (True, None)
    with FakeTensorMode():
        parameter = torch.nn.Parameter(torch.empty(2, device="cuda"))
        optimizer = make_optimizer([{"params": [parameter]}], recipe)
    assert (optimizer.defaults["foreach"], optimizer.defaults["fused"]) == (None, True)
