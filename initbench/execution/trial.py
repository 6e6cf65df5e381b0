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
from initbench.execution.environment import environment, known_environment
from initbench.execution.failure import failed_record
from initbench.execution.process_state import process_state
from initbench.initializers.initialize import initialize
from initbench.ledger import TrialRecord
from initbench.plugins import PluginFile, first_line, load_file
from initbench.probes.context import ProbeContext
from initbench.probes.measure import label, measure
from initbench.randomness import generator
from initbench.tasks import find_task
from initbench.tasks.describe import describe_task
from initbench.training.loop import train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from initbench.batches import Batch
    from initbench.data.dataset import Dataset
    from initbench.initializers.record import InitializationRecord
    from initbench.suite.spec import TrialSpec
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
        DataError: the dataset cannot be read, or is another than the trial was planned with.
        InitbenchError: a probe returns what is no measurement.
    """
    timing: dict[str, float] = {}
    device = torch.device(device)
    evaluated: EvaluatedSplit = "validation" if spec.phase == "search" else "test"
    with process_state(spec.recipe.threads, device), _timed(timing, "total"):
        with _timed(timing, "data"):
            dataset = load_dataset(spec.dataset.name, spec.dataset.all_arguments, device, spec.dataset.content)
        model = _build(spec, dataset).to(device)
        with _timed(timing, "initialization"):
            initialization = _initialize(spec, model, dataset)
        with _timed(timing, "probes"):
            probes = _measure(spec, model, dataset, timing)
        with _timed(timing, "training"):
            training = train(
                model,
                dataset,
                spec.recipe,
                spec.seed,
                parameter_groups=initialization.parameter_groups(spec.recipe.lr),
                on_epoch=None if on_epoch is None else lambda epoch, epochs, _: on_epoch(epoch, epochs),
                evaluate_on=evaluated,
            )
    return TrialRecord(
        id=spec.id,
        spec=spec.model_dump(mode="json"),
        identity=spec.identity,
        status="diverged" if training.diverged else "finished",
        task=describe_task(find_task(dataset.task), dataset, evaluated, training.metrics),
        metrics=training.metrics,
        history=training.history,
        # Seconds stand in `timing`, which need not be reproducible.
        initialization={key: value for key, value in initialization.to_json().items() if key != "seconds"},
        probes=probes,
        environment=environment(device.type) | dict(dataset.facts),
        timing=timing | training.speed | {"ended_at": time.time()},
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
        here = known_environment(torch.device(device).type)
        return failed_record(spec, type(error).__name__, first_line(error), traceback.format_exc(), here)
    return record


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

    return initialize(
        model,
        spec.initializer.name,
        inputs=dataset.inputs,
        num_classes=dataset.outputs,
        task=dataset.task,
        seed=spec.seed,
        real_batches=real_batches,
        training_optimizer=(spec.recipe.optimizer, spec.recipe.lr),
        **spec.initializer.arguments,
    )


def _measure(spec: TrialSpec, model: nn.Module, dataset: Dataset, timing: dict[str, float]) -> list[dict[str, Any]]:
    context = ProbeContext(
        seed=spec.seed,
        inputs=dataset.inputs,
        outputs=dataset.outputs,
        task=find_task(dataset.task),
        real_batches=partial(endless_batches, dataset.train),
    )
    measured = []
    for probe in spec.probes:
        with _timed(timing, f"{label(probe.name, probe.arguments)}_probe"):
            measured += measure(probe.name, probe.arguments, model, context)
    return measured


@contextmanager
def _timed(timing: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        timing[f"{stage}_seconds"] = time.perf_counter() - start
