"""The executor for many cores, GPUs or machines: Ray Tune. Ray runs the trials and stores nothing of ours.

Actors are reused from trial to trial (starting one takes seconds); `run_trial` sets the process state that one trial
could leave to the next. Trials travel as ids: the specs, whose identity is known, lie in Ray's object store.
"""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import re
import socket
import tempfile
import time
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from initbench.data.load import data_root
from initbench.errors import InitbenchError
from initbench.execution.background import import_in_background
from initbench.execution.trial import attempt_trial, failed_record
from initbench.ledger import TrialRecord
from initbench.plugins import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from initbench.execution.executor import Job, Observer
    from initbench.suite.spec import TrialSpec

# Read by Ray when it is imported: no output but ours, no loggers of its own, and Ctrl-C comes to us.
_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # a worker stays where the driver is: `./data` means the same to both
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_MAX_PENDING_TRIALS_PG": "16",
}
_SECONDS_BETWEEN_REPORTS = 2.0


def run_with_ray_tune(job: Job, observer: Observer, address: str | None = None) -> None:
    """Run a job with Ray Tune; see `Executor`. Meanwhile nothing that prints on ``sys.stdout`` is seen.

    Args:
        job: what to run.
        observer: who is told.
        address: a running cluster, ``auto`` or HOST:PORT of its head; None starts a local one for the job.

    Raises:
        InitbenchError: no cluster answers at the address, or it lacks what one trial asks for.
    """
    with _cluster(address) as cluster_resources:
        from ray import tune

        _check_resources(job, cluster_resources)
        observer.ready()
        specs = {spec.id: spec for spec in job.trials}
        trainable = tune.with_parameters(
            _trainable,
            specs=specs,
            job=replace(job, trials=()),
            root=str(data_root()),
        )
        resources = {"cpu": job.cpus} | ({"gpu": job.gpus} if job.gpus else {})
        with tempfile.TemporaryDirectory(prefix="initbench-ray-", ignore_cleanup_errors=True) as storage:
            tune.Tuner(
                tune.with_resources(trainable, resources),
                param_space={"trial": tune.grid_search(list(specs))},
                tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=job.workers),
                run_config=tune.RunConfig(
                    storage_path=storage, verbose=0, callbacks=[_callback(tune.Callback, specs, observer)]
                ),
            ).fit()


@contextmanager
def _cluster(address: str | None) -> Iterator[dict[str, float]]:
    """Connect to a cluster, or start a local one, and yield what it has; Ray says nothing meanwhile."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    _check_address(address)
    import_in_background("initbench.tracking.mlflow", "initbench.reporting.report")  # the driver needs both soon
    # Ray prints of its own on sys.stdout ("A worker died ..."); what a trial died of is in its record.
    with redirect_stdout(io.StringIO()):
        try:
            ray.init(
                address=address or "local",
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            what = "Ray does not start here" if address is None else f"--address {address}: no Ray cluster answers"
            raise InitbenchError(f"{what}: {first_line(error)}") from error
        # A trial's error is logged too, with Ray's own frames.
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        try:
            yield ray.cluster_resources()
        finally:
            _shut_down(ray.shutdown)


def _shut_down(shutdown: Callable[[], None]) -> None:
    """Leave Ray while no other thread frees a reference to its objects: Ray would end the process with exit code 1.

    Tune leaves cycles with such references behind, which Python collects in whichever thread comes next, such as the
    one that writes to MLflow. So they go first, and none is looked for while Ray shuts down.
    """
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        shutdown()
    finally:
        if was_enabled:
            gc.enable()


def _check_address(address: str | None) -> None:
    """Refuse an address at which nothing listens; Ray itself would try for minutes."""
    if address is not None and address.startswith("ray://"):
        # Ray Client runs Tune on the head, where our ledger is not.
        raise InitbenchError(f"--address {address}: give HOST:PORT of the head, or auto on a machine of the cluster")
    host, colon, port = (address or "").rpartition(":")
    if not colon:
        return  # none, or a name such as `auto`, which Ray looks up on this machine
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise InitbenchError(f"--address {address}: no Ray cluster answers: {first_line(error)}") from error


def _trainable(config: dict[str, Any], specs: dict[str, TrialSpec], job: Job, root: str) -> None:
    """Run one trial in a worker and report its record; `root` is the driver's data root, an absolute path."""
    from ray import tune

    reported = time.monotonic()

    def on_epoch(done: int, epochs: int) -> None:
        nonlocal reported
        if done < epochs and time.monotonic() - reported > _SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            tune.report({"fraction": done / epochs})

    os.environ["INITBENCH_DATA"] = root
    device, spec = "cuda" if job.gpus else "cpu", specs[config["trial"]]
    record = attempt_trial(
        spec,
        on_epoch,
        device,
        job.plugins,
        job.checkpoints,
        tell=lambda message: tune.report({"note": message}),
        networks=job.networks,
    )
    tune.report({"record": json.dumps(record.to_json())})


def _callback(base: type[Any], specs: dict[str, TrialSpec], observer: Observer) -> Any:
    """Return a Tune callback that passes events on; Tune calls it in the driver's process."""

    class Callback(base):  # type: ignore[misc]  # known only once Ray is imported
        def __init__(self, specs: dict[str, TrialSpec], observer: Observer) -> None:
            self.specs = specs
            self.observer = observer
            self.ended: set[str] = set()

        def __getstate__(self) -> dict[str, Any]:
            return {}  # Tune pickles its callbacks for a restoration that we do not use; an observer cannot be pickled

        def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
            self.observer.started(self.specs[trial.config["trial"]])

        def on_trial_result(
            self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
        ) -> None:
            spec = self.specs[trial.config["trial"]]
            if "record" in result:
                self.end(TrialRecord.from_json(json.loads(result["record"])))
            else:
                _pass_on(result, spec, self.observer)

        def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
            trace = _read(trial.error_file)
            kind, message = _death(trace)
            self.end(failed_record(self.specs[trial.config["trial"]], kind, message, trace))

        def end(self, record: TrialRecord) -> None:
            if record.id not in self.ended:
                self.ended.add(record.id)
                self.observer.finished(record)

    return Callback(specs, observer)


def _pass_on(result: dict[str, Any], spec: TrialSpec, observer: Observer) -> None:
    """Tell the observer what a trial under way has reported."""
    if "note" in result:
        observer.noted(spec, result["note"])
    elif "fraction" in result:
        observer.progressed(spec, result["fraction"])


def _death(trace: str) -> tuple[str, str]:
    """Return what ended a worker's trial, a kind and one line, from Ray's account of it."""
    detail = re.search(r"Worker exit detail: (.*?)(?: Some common causes|$)", trace, re.MULTILINE)
    if detail:
        return "WorkerLost", f"the worker process died (killed, out of memory, or it left by itself): {detail.group(1)}"
    return "WorkerError", trace.strip().rpartition("\n")[2] or "Ray ended the trial and does not say why"


def _read(path: str | None) -> str:
    if not path or not os.path.exists(path):  # noqa: PTH110  # Ray's path, as Ray gives it
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # see above
        return file.read()


def _check_resources(job: Job, available: dict[str, float]) -> None:
    """Refuse a trial that would wait for ever."""
    for key, name, wanted in (("cpus", "CPU", job.cpus), ("gpus", "GPU", job.gpus)):
        if wanted > available.get(name, 0):
            raise InitbenchError(
                f"resources.{key}: {wanted:g} asked for, but the cluster has {available.get(name, 0):g} {name}s"
            )
