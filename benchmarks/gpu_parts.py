"""The parts of `gpu.py`: each is a function that yields lines, and `PARTS` lists them."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

import lsuv_package
import metainit_step
import timing
import torch
import training_step
from scipy.linalg import eigvalsh
from torch import Tensor, nn
from torch.autograd import DeviceType
from torch.nn import functional
from torch.profiler import profile

import initbench
from initbench.data.batches import TrainingBatch
from initbench.execution.checkpoints import CheckpointSettings
from initbench.execution.environment import environment
from initbench.execution.failure import OUT_OF_MEMORY, WORKER_LOST
from initbench.execution.marked_folder import MarkedFolder
from initbench.execution.processes import family
from initbench.execution.trial import run_trial
from initbench.execution.trial_process import TrialProcess
from initbench.ledger import TrialRecord
from initbench.models.kernels import float32_products, kernel_choice
from initbench.plugins import load_file, read_file
from initbench.probes.context import ProbeContext, measure
from initbench.registry import INITIALIZERS
from initbench.suite.document import Document
from initbench.suite.load import describe_datasets, suite_of
from initbench.suite.plan import plan
from initbench.suite.spec import TrialSpec
from initbench.testing import check_initializer
from initbench.testing.models import Case
from initbench.training.precision import tf32_is_supported
from initbench.training.run import TrainingRun

SUITE = {
    "name": "gpu",
    "dataset": {"name": "digits", "train_size": 256},
    "architectures": [{"name": "wrn", "depth": 10, "width": 1}],
    "initializers": ["kaiming"],
    "probes": ["gradient_norm"],
    "recipe": {"epochs": 1, "lr": 0.05},
}
"""The sound trial of all parts; the parts replace some of its keys."""
# Arguments that fit the models of the conformance kit, which are 8 wide and have one block.
_OF_A_BASE = {
    "completep": {"base_width": 4, "base_depth": 1, "attention_heads": "more"},
    "mup": {"base_width": 4, "attention_heads": "more"},
}
AUGMENTED = {"crop": 4, "flip": True, "cutout": 8, "mixup": 0.4, "clip_norm": 1.0}
WATCHED: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16": {"precision": "bf16"},
    "augmented": AUGMENTED | {"accumulate": 2, "batch_norm": "micro_batch"},
}
"""Recipes whose steps must not wait for the GPU."""


class Setup(NamedTuple):
    """Where the parts run, and whether with tiny sizes."""

    device: str
    tiny: bool = False

    @property
    def on_gpu(self) -> bool:
        return torch.device(self.device).type == "cuda"

    @property
    def runs(self) -> int:
        """Repetitions of a duration."""
        return 1 if self.tiny else 5


class Line(NamedTuple):
    """One line of the table; the status is ``pass``, ``fail`` or ``skipped``, the last with a reason."""

    what: str
    status: str
    measured: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Part:
    """A part of the kit.

    Attributes:
        name: its name in the table.
        run: yields its lines.
        seconds: an estimate for a card; the part starts only if the call has so much time left.
        needs_cuda: whether it shows nothing on a CPU.
    """

    name: str
    run: Callable[[Setup], Iterator[Line]]
    seconds: float
    needs_cuda: bool = False


def check(what: str, passed: bool, measured: str = "", reason: str = "") -> Line:
    """Return a line that passes or fails; the reason is shown only in a failure."""
    return Line(what, "pass", measured) if passed else Line(what, "fail", measured, reason)


def below(what: str, value: float, bound: float) -> Line:
    """Return a line that passes if a value is at most the bound; a value that is not a number fails."""
    return check(what, value <= bound, f"{value:.2g}", f"more than {bound:g}")


def figure(row: timing.Row) -> Line:
    """Return the line of a row of a benchmark.

    Ratios have bounds for a CPU only, so here they have none. The benchmark has checked before that both sides compute
    the same.
    """
    if row.seconds is None or row.reference_seconds is None:
        return below(row.case, median(row.values), float("inf") if row.bound is None else row.bound)
    seconds = f"{1000 * row.seconds:.3g} ms against {1000 * row.reference_seconds:.3g} ms"
    return Line(row.case, "pass", f"{median(row.values):.3f} × ({seconds})")


def trial(**keys: Any) -> TrialSpec:
    """Return the trial of `SUITE` with these keys replaced."""
    suite = suite_of(Document("gpu.py", "", SUITE | keys))
    return plan(suite, (), descriptions=describe_datasets(suite)).trials[0]


def ended(what: str, record: TrialRecord, *, detail: str = "") -> Line:
    """Return the line of a trial that should finish."""
    return check(what, record.status == "finished", detail, said(record))


def said(record: TrialRecord) -> str:
    """Return a trial's error in one line, or its status."""
    return record.status if record.error is None else f"{record.error['type']}: {record.error['message']}"


def describe(setup: Setup) -> Iterator[Line]:
    """Yield the card, or the processor, and the versions that numbers depend on."""
    here = environment(setup.device)
    card = [here["device"] if setup.on_gpu else here["processor"]]
    names = ("compute_capability", "driver", "cuda", "cudnn", "initbench", "python", "torch")
    yield Line("; ".join([*card, *(f"{name} {here[name]}" for name in names if name in here)]), "pass")


def tf32(setup: Setup) -> Iterator[Line]:
    """Float32 products against float64: exact as in probes, and in TF32, to show that the difference is seen."""
    torch.manual_seed(0)
    size = 8 if setup.tiny else 64
    products: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, Tensor]]] = {
        "convolution": (functional.conv2d, (torch.randn(size, size, 16, 16), torch.randn(size, size, 3, 3))),
        "matrix product": (torch.matmul, (torch.randn(512, 512), torch.randn(512, 512))),
    }
    for name, (product, factors) in products.items():
        exact = product(*(factor.double() for factor in factors))
        for allowed in (False, True):
            what = f"{name} against float64, TF32 {'on' if allowed else 'off'}"
            if allowed and not tf32_is_supported(setup.device):
                yield Line(what, "skipped", reason="the device has no TF32")
                continue
            with float32_products(tf32=allowed):
                computed = product(*(factor.to(setup.device) for factor in factors)).cpu().double()
            error = ((computed - exact).abs().max() / exact.abs().max()).item()
            yield check(what, error > 1e-5, f"{error:.2g}", "not seen") if allowed else below(what, error, 1e-5)
    model = initbench.create_model("plain", depth=10 if setup.tiny else 28, width=1, norm="none").eval()
    initbench.initialize(model, "kaiming")
    batch = torch.randn(8, 3, 32, 32), torch.randint(10, (8,))
    values = []
    for device, dtype in (("cpu", torch.float64), (setup.device, torch.float32)):
        inputs, targets = batch[0].to(device, dtype), batch[1].to(device)
        values.append(initbench.gradient_quotient(model.to(device, dtype), inputs, targets).item())
    yield below("gradient quotient against float64, PyTorch's own switches", abs(values[1] / values[0] - 1), 1e-3)


def waits(setup: Setup) -> Iterator[Line]:
    """Training with ``torch.cuda.set_sync_debug_mode("error")`` after the first step and until the last has ended."""
    steps = 20  # the loop checks the losses every 50
    images, labels = _images(steps * training_step.BATCH, setup)
    take = TrainingRun.step

    def step(run: TrainingRun, batch: TrainingBatch) -> None:
        take(run, batch)
        torch.cuda.set_sync_debug_mode("error" if run.steps < steps else "default")

    with mock.patch.object(TrainingRun, "step", step):
        for name, recipe in WATCHED.items():
            model = initbench.create_model("wrn", depth=10, width=1).to(setup.device)
            try:
                training_step.initbench_loop(model, images, labels, **recipe)()
            except RuntimeError as error:
                torch.cuda.set_sync_debug_mode("default")
                yield Line(f"{steps} steps, {name}", "fail", reason=str(error))
            else:
                yield Line(f"{steps} steps, {name}", "pass", "no wait for the GPU")


def launches(setup: Setup) -> Iterator[Line]:
    """Kernels that a training step starts, and for which share of its time the GPU computes.

    CUDA graphs start all kernels of a step at once, so they can save at most the time in which the GPU has none.
    """
    steps = 2 if setup.tiny else 20
    images, labels = _images(steps * training_step.BATCH, setup)
    device = DeviceType.CUDA if setup.on_gpu else DeviceType.CPU
    for depth, width in ((10, 1),) if setup.tiny else ((16, 1), (16, 4), (28, 10)):
        model = initbench.create_model("wrn", depth=depth, width=width).to(setup.device)
        epoch = training_step.initbench_loop(model, images, labels)
        epoch()
        begun = time.perf_counter()
        with profile() as watched:
            epoch()  # it ends with the losses on the host
        seconds = time.perf_counter() - begun
        kernels = [event for event in watched.events() if event.device_type == device]
        busy = sum(event.time_range.elapsed_us() for event in kernels) / 1e6 / seconds
        measured = f"{len(kernels) / steps:.0f} kernels, the GPU computes {busy:.0%} of the time"
        yield check(f"a step of WRN-{depth}-{width}", bool(kernels), measured, "no kernel was seen")


def _images(count: int, setup: Setup) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(count, 3, 32, 32).to(setup.device), torch.randint(10, (count,)).to(setup.device)


def fault(setup: Setup, *, expected: str, index: int = 0, memory: float = 0.0, share: float = 1.0) -> Iterator[Line]:
    """A trial that fails with the expected error, then a sound trial of the same `TrialProcess`.

    Args:
        setup: where.
        expected: a part of the failed trial's error.
        index: above 0 for a failed assertion, see `gpu_faults.py`.
        memory: to request, as a fraction of the card's.
        share: of the GPU, for the process.
    """
    plugin = read_file(Path(__file__).with_name("gpu_faults.py"))
    load_file(plugin)
    total = torch.cuda.get_device_properties(setup.device).total_memory if setup.on_gpu else 2**50
    initializer = {"name": "gpu_fault", "index": index, "gigabytes": memory * total / 1e9}
    options = {"plugins": (plugin,)}
    with closing(TrialProcess(setup.device, share=share)) as process:
        failed = process.run(trial(initializers=[initializer]), options=options)
        error = said(failed)
        first_sentence = error.partition(". ")[0]  # CUDA goes on about fragmentation
        yield check(f"a trial fails with {expected}", expected in error, first_sentence, error)
        sound = process.run(trial(), options=options)
        yield ended("then a sound trial", sound, detail=f"in {'a fresh' if process.was_fresh else 'the same'} process")


def deterministic(setup: Setup) -> Iterator[Line]:
    """Two runs of a deterministic trial, each in a fresh process."""
    spec = trial(
        initializers=[{"name": "metainit", "steps": 2, "batch_size": 8}],
        architectures=[{"name": "wrn", "depth": 10, "width": 1, "norm": "none"}],
        recipe={"epochs": 2, "lr": 0.05, "crop": 1, "mixup": 0.4, "deterministic": True},
    )
    records = []
    for _ in range(2):
        with closing(TrialProcess(setup.device)) as process:
            records.append(process.run(spec))
        yield ended("a deterministic trial", records[-1])
    yield check("both bitwise equal", records[0].numbers() == records[1].numbers(), reason="they differ")


def resume(setup: Setup) -> Iterator[Line]:
    """A trial that is killed in its third epoch and goes on, against the same trial in one piece."""
    spec = trial(recipe={"epochs": 30, "lr": 0.05, "deterministic": True})

    def kill(done: int, _: int) -> None:
        if done == 2:
            for child in set(family(os.getpid())) - {os.getpid()}:
                os.kill(child, signal.SIGKILL)

    with tempfile.TemporaryDirectory() as folder, closing(TrialProcess(setup.device)) as process:
        kept = MarkedFolder.at(Path(folder) / "checkpoints")
        kept.make()
        options = {"checkpoints": CheckpointSettings(str(kept.path), kept.mark, every_epochs=1)}
        whole = process.run(spec)
        yield ended("a trial in one piece", whole)
        killed = process.run(spec, kill, options=options)
        yield check("killed in training", WORKER_LOST in said(killed), said(killed), "it was not killed")
        rest = process.run(spec, options=options)
    step = rest.timing.get("resumed_at_step", 0)
    yield check("goes on from a checkpoint", step > 0, f"at step {step}", said(rest))
    yield check("bitwise equal to the one in one piece", rest.numbers() == whole.numbers(), reason="they differ")


def default_device(setup: Setup) -> Iterator[Line]:
    """A trial under ``torch.set_default_device`` against the same trial without."""
    tuners: dict[str, dict[str, Any]] = {"metainit": {"steps": 2}, "gradinit": {"iterations": 2}, "lsuv": {}}
    for name, arguments in [("lsuv", {})] if setup.tiny else tuners.items():
        spec = trial(
            initializers=[{"name": name, "batch_size": 8} | arguments],
            architectures=[{"name": "wrn", "depth": 10, "width": 1, "norm": "none"}],
            probes=["gradient_norm", {"name": "gradient_quotient", "batch_size": 8}],
            recipe={"epochs": 1, "lr": 0.01, "crop": 1, "cutout": 2, "mixup": 0.4, "deterministic": True},
        )
        without = run_trial(spec, device=setup.device)
        torch.set_default_device(setup.device)
        try:
            with_default = run_trial(spec, device=setup.device)
        finally:
            torch.set_default_device(None)
        equal = without.numbers() == with_default.numbers()
        yield check(f"a trial with {name}, bitwise equal to that without", equal, reason="they differ")


def lanczos(setup: Setup) -> Iterator[Line]:
    """The probe ``hessian_spectrum`` against SciPy's eigenvalues of the whole Hessian in float64."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
    inputs, targets = torch.randn(32, 1, 4, 4), torch.randint(4, (32,))
    names = [name for name, _ in model.named_parameters()]
    shapes = [parameter.shape for parameter in model.parameters()]

    def loss(flat: Tensor) -> Tensor:
        parts = flat.split([shape.numel() for shape in shapes])
        values = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        return functional.cross_entropy(torch.func.functional_call(model, values, (inputs.double(),)), targets)

    flat = torch.cat([parameter.detach().double().flatten() for parameter in model.parameters()])
    hessian = torch.autograd.functional.hessian(loss, flat)
    expected = sorted(eigvalsh(hessian.numpy()), key=abs, reverse=True)[:5]
    context = ProbeContext(0, initbench.Inputs((1, 4, 4)), 4, real_batches=lambda *_: iter([(inputs, targets)]))
    arguments = {"batch_size": 32, "eigenvalues": 5, "tolerance": 1e-6}
    entries = measure("hessian_spectrum", arguments, model.to(setup.device), context)
    by_name = {entry["name"].rpartition(".")[2]: entry for entry in entries}
    error = max(abs(a / b - 1) for a, b in zip(by_name["eigenvalues"]["y"], expected, strict=True))
    yield below("the 5 largest eigenvalues against SciPy's, relative", error, 1e-3)
    density = sum(value or 0 for sign in ("positive", "negative") for value in by_name[f"{sign}_density"]["y"])
    yield below("the density's distance from 1 in sum", abs(density - 1), 1e-6)


def against(benchmark: str, setup: Setup) -> Iterator[Line]:
    """The rows of another benchmark with the GPU as the default device, both sides in exact float32."""
    with torch.device(setup.device), float32_products():
        yield from map(figure, importlib.import_module(benchmark).measure(setup.runs, setup.tiny))


def gradient_quotient(setup: Setup) -> Iterator[Line]:
    """The gradient quotient against the published listing in float64, and its time against a gradient's."""
    torch.manual_seed(0)
    model = initbench.create_model("plain", depth=10, width=1, norm="none", activation="beta_swish").eval()
    initbench.initialize(model, "kaiming")
    model.to(setup.device, torch.float64)
    inputs = torch.randn(8, 3, 32, 32, dtype=torch.float64).to(setup.device)
    targets = torch.randint(10, (8,)).to(setup.device)
    loss = functional.cross_entropy(model(inputs), targets)
    listing = metainit_step.listing_gradient_quotient(loss, list(model.parameters())).item()
    error = abs(initbench.gradient_quotient(model, inputs, targets).item() / listing - 1)
    yield below("against the listing in float64, relative", error, 1e-6)
    yield from against("gradient_quotient", setup)


def lsuv(setup: Setup) -> Iterator[Line]:
    """What LSUV reaches, and a comparison with the package ``lsuv`` if it is installed."""
    torch.manual_seed(0)
    with torch.device(setup.device), float32_products():
        start, inputs = lsuv_package.network(6 if setup.tiny else 100, 8), torch.randn(16, 3, 12, 12)
        reached = lsuv_package.farthest(lsuv_package.initbench_lsuv(start, inputs), inputs)
    yield below("farthest standard deviation from 1", reached, lsuv_package.FARTHEST)
    if find_spec("lsuv") is None:
        yield Line("against the package lsuv", "skipped", reason="it is not installed: pip install lsuv==0.3.0")
    else:
        yield from against("lsuv_package", setup)


def wide_resnet(setup: Setup) -> Iterator[Line]:
    """A step of WRN-28-10 in bf16 and channels_last against timm's loop, eager and compiled."""
    depth, width, steps = (10, 1, 1) if setup.tiny else (28, 10, 100)
    images, labels = _images(8 if setup.tiny else steps * training_step.BATCH, setup)
    model = initbench.create_model("wrn", depth=depth, width=width)
    initbench.initialize(model, "kaiming")
    reference = training_step.ReferenceNetwork(depth, width)
    training_step.same_network(model, reference)
    recipe = {"precision": "bf16", "cudnn_benchmark": setup.on_gpu, "nesterov": True}
    ours = training_step.initbench_loop(model.to(setup.device), images, labels, **recipe)
    reference.to(setup.device, memory_format=torch.channels_last)
    for name in ("eager", "compiled"):
        case = f"step of WRN-{depth}-{width}, bf16 channels_last, against timm's loop, {name}"
        if setup.tiny and name == "compiled":
            yield Line(case, "skipped", reason="compilation takes longer than a tiny size")
            continue
        called = torch.compile(reference) if name == "compiled" else reference
        with kernel_choice(deterministic=False, cudnn_benchmark=setup.on_gpu):  # as timm's train.py has it
            pairs = timing.paired(ours, timm_loop(called, images, labels), setup.runs, warm_up=0 if setup.tiny else 2)
        yield figure(timing.Row.of_pairs(case, pairs, None, per=steps))


def timm_loop(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], None]:
    """Return an epoch as timm's ``train.py`` trains one with ``--amp --amp-dtype bfloat16 --channels-last``."""
    from timm.optim import create_optimizer_v2

    optimizer = create_optimizer_v2(model, "sgd", lr=training_step.LR, momentum=training_step.MOMENTUM)  # Nesterov's
    criterion = nn.CrossEntropyLoss()
    model.train()

    def epoch() -> None:
        for chosen in torch.randperm(len(images), device=images.device).split(training_step.BATCH):
            batch = images[chosen].contiguous(memory_format=torch.channels_last)
            with torch.autocast(images.device.type, torch.bfloat16):
                loss = criterion(model(batch), labels[chosen])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return epoch


def packing(setup: Setup) -> Iterator[Line]:
    """Trials in 1, 2, 4 and 8 processes that share the card: how many end in a minute."""
    each, epochs, depth = (1, 1, 10) if setup.tiny else (2, 10, 16)
    architecture = {"name": "wrn", "depth": depth, "width": 1}
    spec = trial(
        dataset="digits", architectures=[architecture], recipe={"epochs": epochs, "lr": 0.05, "batch_size": 64}
    )
    for count in (1,) if setup.tiny else (1, 2, 4, 8):
        processes = [TrialProcess(setup.device, share=1 / count) for _ in range(count)]
        try:
            with ThreadPoolExecutor(count) as threads:
                list(threads.map(lambda process: process.run(spec), processes))  # starts them
                begun = time.perf_counter()
                runs = threads.map(lambda process: [process.run(spec) for _ in range(each)], processes)
                records = list(itertools.chain.from_iterable(runs))
                seconds = time.perf_counter() - begun
        finally:
            for process in processes:
                process.close()
        failed = [said(record) for record in records if record.status != "finished"]
        rate = f"{60 * len(records) / seconds:.3g} trials per minute"
        yield check(f"{count} at a time", not failed, rate, "; ".join(failed))


def conformance(setup: Setup) -> Iterator[Line]:
    """The conformance kit for every initializer, on models that are on the GPU."""
    build = Case.build
    names = ("kaiming", "lsuv") if setup.tiny else INITIALIZERS.names()
    with (
        mock.patch.object(Case, "build", lambda case: build(case).to(setup.device)),
        kernel_choice(deterministic=True),
    ):
        failed = []
        for name in names:
            try:
                check_initializer(name, **_OF_A_BASE.get(name, {}))
            except AssertionError as error:
                failed.append(name)
                yield Line(name, "fail", reason=str(error))
    yield check(f"{len(names)} initializers", not failed, reason=f"{len(failed)} fail")


PARTS = (
    Part("TF32", tf32, 20),
    Part("waits", waits, 20, needs_cuda=True),
    Part("device assert", partial(fault, expected="device-side assert", index=5), 40, needs_cuda=True),
    Part("out of memory", partial(fault, expected=OUT_OF_MEMORY, memory=2.0), 30, needs_cuda=True),
    Part("share", partial(fault, expected=OUT_OF_MEMORY, memory=0.5, share=0.25), 30, needs_cuda=True),
    Part("deterministic", deterministic, 40),
    Part("resume", resume, 60),
    Part("default device", default_device, 30),
    Part("Lanczos", lanczos, 20),
    Part("gradient quotient", gradient_quotient, 30),
    Part("MetaInit", partial(against, "metainit_step"), 40),
    Part("GradInit", partial(against, "gradinit_iteration"), 60),
    Part("LSUV", lsuv, 60),
    Part("launches", launches, 40),
    Part("training step", partial(against, "training_step"), 30),
    Part("WRN-28-10", wide_resnet, 150),
    Part("trials per card", packing, 120),
    Part("conformance", conformance, 120),
)
"""What `gpu.py` runs, in this order."""
