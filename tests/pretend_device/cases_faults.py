"""Faults planted in the library, each of which the device finds: as an error, or as waits of a training step."""

import importlib
import inspect
import sys
import textwrap

import pytest
from cases_waits import UNITS, waits_of
from components import DEFAULTS, HESSIAN, METAINIT, MLP, STEP
from pretend import NAME
from trials import run, trials_of

from initbench.data import load

UNTRAINED = STEP | {"epochs": 0}
QUOTIENT = {"probes": [{"name": "gradient_quotient", "batch_size": 2, "batches": 1}], "recipe": UNTRAINED}
SPECTRUM = {"probes": [HESSIAN], "recipe": UNTRAINED}
TUNED = {"initializers": METAINIT, "recipe": UNTRAINED}
AUGMENTED = {"recipe": STEP | {"crop": 1, "flip": True, "cutout": 2, "mixup": 1.0}}
BOUND = {"recipe": STEP | {"label_smoothing": 0.1, "clip_norm": 0.1}}
DRAWN = {"initializers": "kaiming", "recipe": UNTRAINED}
# Where, what stands there, what is put in its place, and a suite that runs it.
ERRORS = {
    "batches of tuners stay on the host": (
        "models.batches", "to_device", "tensor.pin_memory().to(device, non_blocking=True)", "tensor", TUNED),
    "a split stays on the host": (
        "data.dataset", "Split.to", "self.inputs.to(device)", "self.inputs", {}),
    "targets stay on the host": (
        "data.dataset", "Split.to", "self.targets.to(device)", "self.targets", {}),
    "windows of crops stay on the host": (
        "data.batches", "TrainingBatches._drawn", "windows.to(device)", "windows", AUGMENTED),
    "mirrored images stay on the host": (
        "data.batches", "TrainingBatches._drawn", "< 0.5).to(device)", "< 0.5)", AUGMENTED),
    "squares of cutout stay on the host": (
        "data.batches", "TrainingBatches._drawn", "(centres, 1).to(device)", "(centres, 1)", AUGMENTED),
    "rows of crops lose their device": (
        "data.augmentation", "crop", "torch.arange(height, device=inputs.device)", "torch.arange(height)", AUGMENTED),
    "columns of cutout lose their device": (
        "data.augmentation", "cutout", "torch.arange(inputs.shape[3], device=inputs.device)",
        "torch.arange(inputs.shape[3])", AUGMENTED),
    "a CPU generator draws on the device": (
        "initializers.distribution", "sample", 'device="cpu"', "device=layer.weight.device", DRAWN),
    "a number of the host among the values of a step": (
        "training.run", "TrainingRun.backward", "torch.stack([loss,", "torch.stack([torch.tensor(0.0),", {}),
    "a batch of noise is made on the device": (
        "tasks.task", "Task.random_inputs", 'dtype=torch.float32, device="cpu"',
        f'dtype=torch.float32, device="{NAME}"', QUOTIENT),
    "the gradient of the Hessian's loss is not fetched": (
        "probes.hessian_spectrum", "_Hessian._to_host", "vector.cpu()", "vector", SPECTRUM),
    "the first vector of Lanczos stays on the host": (
        "probes.hessian_spectrum", "_Hessian._on_device", ".to(self._device)", "", SPECTRUM),
    "the totals of a split meet a number of the host": (
        "training.run", "split_totals", "torch.stack([total.double() for total in totals.values()])",
        "torch.stack([torch.tensor(0.0), *(total.double() for total in totals.values())])", {}),
}  # fmt: skip
A_STEP, BF16 = "a training step", "a training step in bf16"
WAITS = {
    "the loss is read": (
        "training.run", "TrainingRun.step", "self.pending.append(", "values[0].item(); self.pending.append(", A_STEP),
    "the loss is checked": (
        "training.run", "TrainingRun.backward", "loss.backward()", "assert not loss.isnan(); loss.backward()", A_STEP),
    "the values of a step are fetched": (
        "training.run", "TrainingRun.step", "(values, weight)", "(values.cpu(), weight)", A_STEP),
    "a number is copied in a step": (
        "training.run", "TrainingRun.backward", "loss = share * loss", "loss = loss.new_tensor(share) * loss",
        "an augmented training step"),
    "outputs are looked at": (
        "training.precision", "compute_outputs", "return outputs.float()",
        "return outputs.float() if outputs.isfinite().all() else outputs", BF16),
    "batches of MetaInit are not pinned": (
        "models.batches", "to_device", "tensor.pin_memory().to(device, non_blocking=True)", "tensor.to(device)",
        "a step of MetaInit"),
}  # fmt: skip


def plant(monkeypatch, module, name, old, new):
    """Replace a function by one with a part of its source replaced."""
    home = importlib.import_module(f"initbench.{module}")
    *owners, last = name.split(".")
    owner = getattr(home, owners[0]) if owners else home
    source = textwrap.dedent(inspect.getsource(getattr(owner, last)))
    assert source.count(old) == 1, source
    made = {}
    exec(compile("from __future__ import annotations\n" + source.replace(old, new), name, "exec"), home.__dict__, made)  # noqa: S102
    faulty = made[last]
    if not owners:
        for user in [one for key, one in sys.modules.items() if key.startswith("initbench.")]:
            if getattr(user, last, None) is getattr(home, last) and user is not home:
                monkeypatch.setattr(user, last, faulty)
    monkeypatch.setattr(owner, last, faulty)


@pytest.mark.parametrize("fault", ERRORS)
def test_a_planted_fault_is_refused(fault, monkeypatch):
    module, name, old, new, suite = ERRORS[fault]
    plant(monkeypatch, module, name, old, new)
    load._kept.cache_clear()
    [trial] = trials_of(**DEFAULTS | {"architectures": MLP} | suite)
    with pytest.raises(Exception, match=r"a CPU (tensor|generator)|\.numpy\(\) is not supported"):
        run(trial)


@pytest.mark.parametrize("fault", WAITS)
def test_a_planted_wait_is_counted(fault, monkeypatch):
    module, name, old, new, unit = WAITS[fault]
    plant(monkeypatch, module, name, old, new)
    suite, few, many, expected = UNITS[unit]
    more = waits_of(suite(many))
    more.subtract(waits_of(suite(few)))
    assert sum(more.values()) / (many - few) >= sum(expected.values()) + 1
