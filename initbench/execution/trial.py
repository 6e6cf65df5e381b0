"""One trial: build, initialize, measure, train. A plain function without Ray or MLflow; it writes only checkpoints."""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from initbench.architectures.create import create_model
from initbench.data.batches import endless_batches
from initbench.data.dataset import Dataset
from initbench.data.load import load_dataset
from initbench.execution.checkpoints import CheckpointSettings, TrialCheckpoints
from initbench.execution.environment import known_environment, trial_environment
from initbench.execution.failure import failed_record
from initbench.execution.process_state import process_state
from initbench.execution.shared_networks import Initialization, SharedNetworks
from initbench.initializers.initialize import initialize
from initbench.initializers.record import InitializationRecord
from initbench.ledger import TrialRecord, with_visible_text
from initbench.models.batches import Batch
from initbench.plugins import PluginFile, first_line, load_file
from initbench.probes.context import ProbeContext, label, measure
from initbench.randomness import generator
from initbench.suite.spec import TrialSpec
from initbench.tasks import find_task
from initbench.tasks.describe import describe_task
from initbench.training.checkpoint import CheckpointError
from initbench.training.final import final_metrics
from initbench.training.loop import train
from initbench.training.optimizer import Multipliers, make_optimizer, make_parameter_groups
from initbench.training.refusals import check_device
from initbench.training.run import EvaluatedSplit


def run_trial(
    spec: TrialSpec,
    on_epoch: Callable[[int, int], None] | None = None,
    device: str | torch.device = "cpu",
    checkpoints: TrialCheckpoints | None = None,
    networks: SharedNetworks | None = None,
) -> TrialRecord:
    """Run one trial, or the rest of it, and return its record, ``finished`` or ``diverged``.

    `on_epoch` is called with (finished epochs, all epochs) after each epoch. Without `checkpoints` nothing is saved.

    Raises an InitializationError if the initializer does not work on this architecture, a DataError if the dataset
    cannot be read or differs from the planned one, and an InitbenchError if a probe does not return a measurement.
    """
    if checkpoints is not None:
        checkpoints.load()
    try:
        return _run_trial(spec, on_epoch, torch.device(device), checkpoints, networks)
    except CheckpointError as error:
        assert checkpoints is not None
        checkpoints.discard(error)
    return _run_trial(spec, on_epoch, torch.device(device), checkpoints, networks)


def _run_trial(
    spec: TrialSpec,
    on_epoch: Callable[[int, int], None] | None,
    device: torch.device,
    checkpoints: TrialCheckpoints | None,
    networks: SharedNetworks | None,
) -> TrialRecord:
    timing: dict[str, float] = {}
    evaluated: EvaluatedSplit = "validation" if spec.phase == "search" else "test"
    check_device(spec.recipe, device)
    state = process_state(spec.recipe.threads, device, deterministic=spec.recipe.deterministic)
    with state, _timed(timing, "total"):
        with _timed(timing, "data"):
            dataset = load_dataset(spec.dataset.name, spec.dataset.all_arguments, device, spec.dataset.content)
        model = _build(spec, dataset).to(device)
        if checkpoints is not None and checkpoints.state is not None:
            before = checkpoints.before
        else:
            initialization = _initialized(spec, model, dataset, device, networks, timing)
            with _timed(timing, "probes"):
                probes = _measure(spec, model, dataset, initialization, timing)
            before = {"initialization": initialization, "probes": probes, "timing": dict(timing)}
            if checkpoints is not None:
                checkpoints.before = before
        with _timed(timing, "training"):
            training = train(
                model,
                dataset,
                spec.recipe,
                spec.stream_seed,
                declared=Multipliers.of(before["initialization"]),
                on_epoch=on_epoch,
                evaluate_on=evaluated,
                checkpoints=checkpoints,
            )
        metrics = training.metrics
        if find_task(dataset.task).final_metrics:
            with _timed(timing, "final_metrics"):
                metrics = metrics | final_metrics(model, dataset, spec.recipe, evaluated, training)
    if checkpoints is not None:
        timing = checkpoints.whole_timing(timing)
    timing["total_seconds"] += timing.get("initialization_saved_seconds", 0.0)
    return TrialRecord(
        id=spec.id,
        spec=spec.model_dump(mode="json"),
        identity=spec.identity,
        status="diverged" if training.diverged else "finished",
        task=describe_task(find_task(dataset.task), dataset, evaluated, metrics),
        metrics=metrics,
        history=training.history,
        initialization=before["initialization"],
        probes=before["probes"],
        environment=trial_environment(spec.recipe, str(device)) | dict(dataset.facts),
        timing=timing | training.speed | {"ended_at": time.time()},
    )


def starting_model(spec: TrialSpec, dataset: Dataset) -> nn.Module:
    """Return the model that a trial trains, initialized.

    Args:
        spec: of the trial.
        dataset: the spec's, loaded.

    Raises:
        InitializationError: the initializer does not work on this architecture.
    """
    model = _build(spec, dataset)
    _initialize(spec, model, dataset)
    return model


def attempt_trial(
    spec: TrialSpec,
    on_epoch: Callable[[int, int], None] | None = None,
    device: str | torch.device = "cpu",
    plugins: tuple[PluginFile, ...] = (),
    checkpoints: CheckpointSettings | None = None,
    tell: Callable[[str], None] | None = None,
    networks: SharedNetworks | None = None,
) -> TrialRecord:
    try:
        for plugin in plugins:
            load_file(plugin)
        kept = None if checkpoints is None else TrialCheckpoints(checkpoints, spec.id, str(device), tell)
        record = run_trial(spec, on_epoch, device, kept, networks)
        # A plug-in may return values that are not plain data, or names of layers that a file cannot hold.
        described = {name: getattr(record, name) for name in ("task", "metrics", "history", "initialization", "probes")}
        record = replace(record, **with_visible_text(described))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it is, it is this trial's and must not end the sweep
        here = known_environment(str(device))
        return failed_record(spec, type(error).__name__, first_line(error), traceback.format_exc(), here)
    return record


def _build(spec: TrialSpec, dataset: Dataset) -> nn.Module:
    return create_model(
        spec.architecture.name,
        scheme=spec.scheme,
        scheme_arguments=spec.scheme_arguments,
        inputs=dataset.inputs,
        num_classes=dataset.outputs,
        seed=spec.stream_seed,
        **spec.architecture.arguments,
    )


def _initialized(
    spec: TrialSpec,
    model: nn.Module,
    dataset: Dataset,
    device: torch.device,
    networks: SharedNetworks | None,
    timing: dict[str, float],
) -> dict[str, Any]:
    """Initialize a model, or load the network that its trial shares; return its record as plain data.

    The trial is charged the seconds of the initialization, whichever trial ran it.
    """
    begun = time.perf_counter()
    shared = None if networks is None else networks.load(spec, model, device)
    if shared is not None:
        timing["initialization_saved_seconds"] = shared.seconds - (time.perf_counter() - begun)
        timing["initialization_seconds"] = shared.seconds
        return shared.record
    with _timed(timing, "initialization"):
        record = _initialize(spec, model, dataset)
    # Seconds are in `timing`, which need not be reproducible.
    plain = {key: value for key, value in record.to_json().items() if key != "seconds"}
    if networks is not None:
        networks.keep(spec, model, device, Initialization(plain, timing["initialization_seconds"]))
    return plain


def _initialize(spec: TrialSpec, model: nn.Module, dataset: Dataset) -> InitializationRecord:
    def real_batches(batch_size: int) -> Iterator[Batch]:
        return endless_batches(dataset.train, batch_size, generator(spec.stream_seed, "tuner_batches", "real"))

    return initialize(
        model,
        spec.initializer.name,
        inputs=dataset.inputs,
        num_classes=dataset.outputs,
        task=dataset.task,
        seed=spec.stream_seed,
        real_batches=real_batches,
        training_optimizer=(spec.recipe.optimizer, spec.recipe.lr),
        **spec.initializer.arguments,
    )


def _measure(
    spec: TrialSpec, model: nn.Module, dataset: Dataset, initialization: dict[str, Any], timing: dict[str, float]
) -> list[dict[str, Any]]:
    def optimizer(trained: nn.Module) -> torch.optim.Optimizer:
        groups = make_parameter_groups(trained, spec.recipe, Multipliers.of(initialization))
        return make_optimizer(groups, spec.recipe)

    context = ProbeContext(
        seed=spec.stream_seed,
        inputs=dataset.inputs,
        outputs=dataset.outputs,
        task=find_task(dataset.task),
        real_batches=partial(endless_batches, dataset.train),
        optimizer=optimizer,
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
