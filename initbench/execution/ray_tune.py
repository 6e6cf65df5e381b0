"""The executor for many cores, GPUs or machines: Ray Tune. Ray runs the trials and stores nothing.

A trial of Tune is one attempt at one of our trials. A searcher supplies the attempts one by one, `Attempts` decides
what to try next and on which nodes, and `Sweep` handles the results. Workers are reused from trial to trial, because
starting one takes seconds; each runs the trials in a process that it watches, see `TrialProcess`.
"""

import json
import os
import tempfile
import time
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from initbench.data.load import data_root
from initbench.errors import InitbenchError
from initbench.execution.attempts import Location
from initbench.execution.executor import Job, Observer, device_of
from initbench.execution.ray_check import unusable_nodes
from initbench.execution.ray_cluster import alive_nodes, chosen_address, cluster, end_with_ray, lack, may_grow
from initbench.execution.ray_sweep import Sweep
from initbench.execution.trial_process import TrialProcess

_SECONDS_BETWEEN_REPORTS = 2.0
_process: TrialProcess | None = None  # the process of this worker, which runs many trials


def run_with_ray_tune(job: Job, observer: Observer, address: str | None = None) -> None:
    """Run a job with Ray Tune; see `Executor`. Meanwhile all output on ``sys.stdout`` is discarded.

    The address belongs to a running cluster: ``auto`` or HOST:PORT of its head. Without an address, RAY_ADDRESS is
    used, and if that is not set either, a local cluster is started. An InitbenchError says that no cluster answers,
    that no node has the resources of a trial, that for ten minutes no such node was there, that every trial fails, or
    that Ray has ended.
    """
    address = chosen_address(address)
    with cluster(address), end_with_ray(is_local=address is None) as check_ray:
        from ray import tune
        from ray.exceptions import OutOfMemoryError
        from ray.tune.search import Searcher

        nodes = alive_nodes()
        lacking = lack(job, nodes)
        if lacking and (address is None or not may_grow(job, nodes)):
            raise InitbenchError(lacking)
        if lacking:
            observer.note(f"{lacking}; waiting for a node that has them")
        # The driver has already checked the data on this machine.
        must_check = address is not None or job.gpus
        unusable = unusable_nodes(job, nodes, observer, check_ray) if must_check else frozenset[str]()
        observer.ready()
        sweep = Sweep(job, observer, check_ray, named_nodes=address is not None, unusable=unusable)
        cpus, gpus = job.cpus, job.gpus
        trainable = tune.with_parameters(_trainable, job=replace(job, trials=()), root=str(data_root()))
        trainable = tune.with_resources(trainable, lambda config: _placement(cpus, gpus, config["trial"].avoid))
        while not sweep.attempts.done:  # again if Tune gave up trials that Ray killed for lack of memory
            with tempfile.TemporaryDirectory(prefix="initbench-ray-", ignore_cleanup_errors=True) as storage:
                tuner = tune.Tuner(
                    trainable,
                    tune_config=tune.TuneConfig(
                        search_alg=_searcher(Searcher, sweep),
                        num_samples=-1,  # until the searcher has no more trials
                        reuse_actors=True,  # starting a worker takes seconds
                        trial_dirname_creator=lambda trial: trial.trial_id,  # Tune's default contains the configuration
                    ),
                    run_config=tune.RunConfig(
                        storage_path=storage,
                        verbose=0,
                        callbacks=[_callback(tune.Callback, sweep)],
                        # It ends the attempts that do nothing but occupy a GPU.
                        stop=lambda attempt, result: "avoided" in result and sweep.may_leave(attempt),
                    ),
                )
                try:
                    tuner.fit()
                except RuntimeError as error:
                    # A node ran out of memory. Tune handles two other kinds of worker errors and gives up at this one
                    # (`RayActorManager._actor_task_failed`).
                    if not isinstance(error.__cause__, OutOfMemoryError) or not sweep.running:
                        raise
                    sweep.cut_off(str(error.__cause__))


def _placement(cpus: float, gpus: float, avoid: frozenset[Location]) -> Any:
    from ray import tune

    resources = {"CPU": cpus} | ({"GPU": gpus} if gpus else {})
    nodes = sorted(location.node for location in avoid if not location.gpu)
    if not nodes:
        return tune.PlacementGroupFactory([resources])
    elsewhere = {"ray.io/node-id": f"!in({','.join(nodes)})"}
    return tune.PlacementGroupFactory([resources], bundle_label_selector=[elsewhere])


def _trainable(config: dict[str, Any], job: Job, root: str) -> None:
    """Run one trial in a worker and report its record; `root` is the driver's data root, an absolute path."""
    global _process  # noqa: PLW0603  # Tune calls a function anew for each trial
    import ray
    from ray import tune

    reported = time.monotonic()

    def on_epoch(done: int, epochs: int) -> None:
        nonlocal reported
        if done < epochs and time.monotonic() - reported > _SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            tune.report({"fraction": done / epochs})

    trial = config.pop("trial")  # Tune sends its content back, and keeps it
    context = ray.get_runtime_context()
    location = Location(context.get_node_id(), ",".join(context.get_accelerator_ids().get("GPU", [])))
    while location in trial.avoid:  # occupy the GPU until the trial has another one; then Tune ends this thread
        tune.report({"avoided": astuple(location)})
        time.sleep(_SECONDS_BETWEEN_REPORTS)
    if any(avoided.gpu for avoided in trial.avoid):
        tune.report({"placed": True})
    os.environ["INITBENCH_DATA"] = root
    if _process is None:
        _process = TrialProcess(device_of(job.gpus), job.limits, job.gpus)
    networks = None if job.networks is None else job.networks.of(trial.spec)
    options = {"plugins": job.plugins, "checkpoints": job.checkpoints, "networks": networks}
    record = _process.run(trial.spec, on_epoch, lambda message: tune.report({"note": message}), options)
    tune.report(
        {"record": json.dumps(record.to_json()), "location": astuple(location), "was_fresh": _process.was_fresh}
    )


def _searcher(base: type[Any], sweep: Sweep) -> Any:
    """Return a Tune searcher that supplies one attempt after another; Tune treats the trials of a job as a search."""

    class OneByOne(base):  # type: ignore[misc]  # known only once Ray is imported
        def __init__(self, sweep: Sweep) -> None:
            super().__init__()
            self.sweep = sweep

        def set_search_properties(self, *_: Any, **__: Any) -> bool:
            return True  # there is no metric to optimize

        def suggest(self, trial_id: str) -> Any:
            if self.sweep.attempts.done:
                return self.FINISHED
            trial = self.sweep.next(trial_id)
            return None if trial is None else {"trial": trial}

        def on_trial_complete(self, *_: Any, **__: Any) -> None:
            pass

        def save_to_dir(self, *_: Any) -> None:
            pass

    return OneByOne(sweep)


def _callback(base: type[Any], sweep: Sweep) -> Any:
    """Return a Tune callback that passes events on; Tune calls it in the driver's process."""

    class Callback(base):  # type: ignore[misc]  # known only once Ray is imported
        def __init__(self, sweep: Sweep) -> None:
            self.sweep = sweep

        def on_trial_start(self, *, trial: Any, **_: Any) -> None:
            self.sweep.started(trial.trial_id)

        def on_trial_result(self, *, trial: Any, result: dict[str, Any], **_: Any) -> None:
            self.sweep.reported(trial, result)

        def on_trial_complete(self, *, trial: Any, **_: Any) -> None:
            # Tune keeps every trial, with its reports and statistics of them. Once these are gone, `last_result` is
            # the worker's report about itself, which contains the trial's configuration.
            trial.last_result.clear()
            trial.metric_analysis.clear()
            trial.metric_n_steps.clear()

        def on_trial_error(self, *, trial: Any, **_: Any) -> None:
            file = Path(trial.error_file or "")
            trace = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
            self.sweep.lost(trial.trial_id, trace)

        def on_step_end(self, **_: Any) -> None:
            self.sweep.watch()

    return Callback(sweep)
