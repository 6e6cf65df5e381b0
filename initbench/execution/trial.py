"""One trial: build, initialize, measure, train. A plain function: no Ray, no MLflow, no files."""

from __future__ import annotations

import json
import time
import traceback
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from initbench.architectures.create import create_model
from initbench.data.batches import endless_batches
from initbench.data.load import load_dataset
from initbench.execution.environment import environment
from initbench.execution.memory import keep_freed_memory
from initbench.initializers.initialize import initialize
from initbench.ledger import TrialRecord
from initbench.plugins import PluginFile, first_line, load_file
from initbench.probes.context import ProbeContext
from initbench.probes.measurement import entries
from initbench.randomness import generator
from initbench.registry import PROBES
from initbench.tasks import find_task
from initbench.tasks.describe import describe_task
from initbench.training.loop import train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import nn

    from initbench.batches import Batch
    from initbench.data.dataset import Dataset
    from initbench.initializers.record import InitializationRecord
    from initbench.probes.measurement import Measurement
    from initbench.suite.spec import ComponentSpec, TrialSpec
    from initbench.tasks import Task
    from initbench.training.run import EvaluatedSplit


def run_trial(
    spec: TrialSpec, on_epoch: Callable[[int, int], None] | None = None, device: str | torch.device = "cpu"
) -> TrialRecord:
    """Run one trial and return its record, ``finished`` or ``diverged``.

    Args:
        spec: what to run.
        on_epoch: called with (epochs done, epochs in all) after each epoch.
        device: where the model and the data are.

    Raises:
        InitializationError: the initializer cannot do its work on this architecture.
        DataError: the dataset cannot be read.
    """
    timing: dict[str, float] = {}
    device = torch.device(device)
    with _process_state(spec.recipe.threads, device), _timed(timing, "total_seconds"):
        with _timed(timing, "data_seconds"):
            dataset = load_dataset(spec.dataset.name, spec.dataset.arguments, device, spec.dataset.content)
        task = find_task(dataset.task)
        model = _build(spec, dataset).to(device)
        with _timed(timing, "initialization_seconds"):
            record = _initialize(spec, model, dataset)
        with _timed(timing, "probes_seconds"):
            probes: list[dict[str, Any]] = []
            for probe in spec.probes:
                label = _label(probe)
                with _timed(timing, f"{label}_probe_seconds"):
                    probes += entries(label, _measure(probe, spec, model, dataset, task))
        evaluated: EvaluatedSplit = "validation" if spec.phase == "search" else "test"
        with _timed(timing, "training_seconds"):
            result = train(
                model,
                dataset,
                spec.recipe,
                spec.seed,
                parameter_groups=record.parameter_groups(spec.recipe.lr),
                on_epoch=None if on_epoch is None else lambda epoch, epochs, _: on_epoch(epoch, epochs),
                evaluate_on=evaluated,
            )
    initialization = record.to_json()
    initialization.pop("seconds", None)  # a duration: it stands in `timing`, which need not be reproducible
    return TrialRecord(
        id=spec.id,
        spec=spec.model_dump(mode="json"),
        identity=spec.identity,
        status="diverged" if result.diverged else "finished",
        task=describe_task(task, dataset, evaluated, result.metrics),
        metrics=result.metrics,
        history=result.history,
        initialization=initialization,
        probes=probes,
        environment=environment(device.type),
        timing=timing | result.speed | {"ended_at": time.time()},
    )


def attempt_trial(
    spec: TrialSpec,
    on_epoch: Callable[[int, int], None] | None = None,
    device: str | torch.device = "cpu",
    plugins: tuple[PluginFile, ...] = (),
) -> TrialRecord:
    """Run one trial; an exception becomes a ``failed`` record. Arguments as for `run_trial`, and the plug-in files."""
    try:
        for plugin in plugins:
            load_file(plugin)
        record = run_trial(spec, on_epoch, device)
        json.dumps(record.to_json(), allow_nan=False)  # what a plug-in measured may be no plain data
    except Exception as error:  # noqa: BLE001  # whatever it is, it is this trial's and must not end the sweep
        return failed_record(spec, type(error).__name__, first_line(error), traceback.format_exc())
    return record


def failed_record(spec: TrialSpec, kind: str, message: str, trace: str = "") -> TrialRecord:
    """Return the record of a trial that did not come to a result.

    Args:
        spec: what was to run.
        kind: the exception's type, or ``WorkerLost``.
        message: its message, one line.
        trace: its traceback.
    """
    error = {"type": kind, "message": message, "traceback": trace}
    return TrialRecord(
        id=spec.id,
        spec=spec.model_dump(mode="json"),
        identity=spec.identity,
        status="failed",
        timing={"ended_at": time.time()},
        error=error,
    )


def _build(spec: TrialSpec, dataset: Dataset) -> nn.Module:
    return create_model(
        spec.architecture.name,
        scheme=spec.scheme,
        inputs=dataset.inputs,
        num_classes=dataset.outputs,
        seed=spec.seed,
        **spec.architecture.arguments,
    )


def _initialize(spec: TrialSpec, model: nn.Module, dataset: Dataset) -> InitializationRecord:
    def real_batches(batch_size: int) -> Iterator[Batch]:
        return endless_batches(dataset.train, batch_size, generator(spec.seed, "tuner_batches", "real"))

    arguments = spec.initializer.arguments
    return initialize(
        model,
        spec.initializer.name,
        input_shape=(arguments.get("batch_size", spec.recipe.batch_size), *dataset.inputs.shape),
        num_classes=dataset.outputs,
        task=dataset.task,
        seed=spec.seed,
        real_batches=real_batches,
        training_optimizer=(spec.recipe.optimizer, spec.recipe.lr),
        **arguments,
    )


def _measure(
    probe: ComponentSpec, spec: TrialSpec, model: nn.Module, dataset: Dataset, task: Task
) -> Measurement | Mapping[str, Measurement]:
    context = ProbeContext(
        seed=spec.seed,
        inputs=dataset.inputs,
        outputs=dataset.outputs,
        task=task,
        real_batches=partial(endless_batches, dataset.train),
    )
    measured: Measurement | Mapping[str, Measurement] = PROBES.get(probe.name).build(probe.arguments)(model, context)
    return measured


def _label(probe: ComponentSpec) -> str:
    """Return a probe's name with the arguments that are not at their defaults: ``gradient_quotient[mode=train]``."""
    component = PROBES.get(probe.name)
    arguments = component.resolve(probe.arguments)
    changed = {a.name: arguments[a.name] for a in component.arguments if arguments[a.name] != a.default}
    return probe.name + (f"[{', '.join(f'{k}={v}' for k, v in changed.items())}]" if changed else "")


@contextmanager
def _process_state(threads: int, device: torch.device) -> Iterator[None]:
    """Set what a trial before this one, in the same process, may have changed; give back what was set at the end.

    But for what is done with freed memory, which changes no number and has no getter.
    """
    keep_freed_memory()
    cudnn = torch.backends.cudnn
    states: tuple[tuple[Callable[[Any], None], Any, Any], ...] = (  # (setter, before, during)
        (torch.set_num_threads, torch.get_num_threads(), threads),
        (torch.set_default_dtype, torch.get_default_dtype(), torch.float32),
        (torch.set_float32_matmul_precision, torch.get_float32_matmul_precision(), "highest"),
        (torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled(), False),
        (partial(setattr, cudnn, "benchmark"), cudnn.benchmark, False),
    )
    for give, _, during in states:
        give(during)
    try:
        # One generator state for all: whatever reads the global stream reads the same, whichever trial ran before.
        with torch.enable_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            yield
    finally:
        for give, before, _ in states:
            give(before)


@contextmanager
def _timed(timing: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        timing[name] = time.perf_counter() - start
