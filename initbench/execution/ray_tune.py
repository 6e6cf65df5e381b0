"""The executor for many cores, GPUs or machines: Ray Tune. Ray runs the trials and stores nothing of ours.

What Tune calls a trial is one attempt at one of ours, which a searcher gives it one by one: what to try next, and on
which nodes not, is known to `Attempts`. Workers are reused from trial to trial (starting one takes seconds), and run
each in a process that they watch, see `TrialProcess`. What becomes of the trials is decided in `ray_sweep`.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import replace
from typing import Any

from initbench.data.load import data_root
from initbench.execution.executor import Job, Observer
from initbench.execution.ray_cluster import alive_nodes, check_resources, cluster
from initbench.execution.ray_servers import end_with_ray
from initbench.execution.ray_sweep import Sweep
from initbench.execution.trial_process import TrialProcess

_SECONDS_BETWEEN_REPORTS = 2.0


def run_with_ray_tune(job: Job, observer: Observer, address: str | None = None) -> None:
    """Run a job with Ray Tune; see `Executor`. Meanwhile nothing that prints on ``sys.stdout`` is seen.

    Args:
        job: what to run.
        observer: who is told.
        address: a running cluster, ``auto`` or HOST:PORT of its head; None starts a local one for the job.

    Raises:
        InitbenchError: no cluster answers at the address, no node of it has what one trial asks for, none that has it
            was there for ten minutes, or Ray has ended.
    """
    with cluster(address), end_with_ray(is_local=address is None) as check_ray:
        from ray import tune
        from ray.tune.search import Searcher

        check_resources(job, alive_nodes())
        observer.ready()
        sweep = Sweep(job, observer, check_ray, named_nodes=address is not None)
        cpus, gpus = job.cpus, job.gpus
        trainable = tune.with_parameters(_trainable, job=replace(job, trials=()), root=str(data_root()))
        placed = tune.with_resources(trainable, lambda config: _placement(cpus, gpus, config["task"].avoid))
        while not sweep.attempts.done:  # again where Tune gave up what Ray ended for want of memory
            with tempfile.TemporaryDirectory(prefix="initbench-ray-", ignore_cleanup_errors=True) as storage:
                tuner = tune.Tuner(
                    placed,
                    tune_config=tune.TuneConfig(
                        search_alg=_searcher(Searcher, sweep),
                        num_samples=-1,  # until the searcher has no more
                        reuse_actors=True,
                        trial_dirname_creator=lambda trial: trial.trial_id,
                    ),
                    run_config=tune.RunConfig(
                        storage_path=storage, verbose=0, callbacks=[_callback(tune.Callback, sweep)]
                    ),
                )
                _fit(tuner, sweep)


def _fit(tuner: Any, sweep: Sweep) -> None:
    """Run what Tune has to run; where a node ran out of memory, what was under way ends with it.

    Tune knows two kinds of errors of a worker, and gives up at the third (`RayActorManager._actor_task_failed`).
    """
    from ray.exceptions import OutOfMemoryError

    try:
        tuner.fit()
    except RuntimeError as error:
        if not isinstance(error.__cause__, OutOfMemoryError) or not sweep.running:
            raise
        sweep.cut_off(str(error.__cause__))


def _placement(cpus: float, gpus: float, avoid: frozenset[str]) -> Any:
    """Return Tune's request for what one trial takes, on a node that is not to be avoided."""
    from ray import tune

    resources = {"CPU": cpus} | ({"GPU": gpus} if gpus else {})
    if not avoid:
        return tune.PlacementGroupFactory([resources])
    elsewhere = {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"}
    return tune.PlacementGroupFactory([resources], bundle_label_selector=[elsewhere])


_process: TrialProcess | None = None  # of this worker, which runs many trials


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

    task = config.pop("task")  # Tune sends back what is in it, and keeps that
    os.environ["INITBENCH_DATA"] = root
    if _process is None:
        _process = TrialProcess("cuda" if job.gpus else "cpu", job.limits)
    networks = None if job.networks is None else job.networks.of(task.spec)
    options = {"plugins": job.plugins, "checkpoints": job.checkpoints, "networks": networks}
    record = _process.run(task.spec, on_epoch, lambda message: tune.report({"note": message}), options)
    node = ray.get_runtime_context().get_node_id()
    tune.report({"record": json.dumps(record.to_json()), "node": node})


def _searcher(base: type[Any], sweep: Sweep) -> Any:
    """Return a Tune searcher that gives one attempt after another."""

    class OneByOne(base):  # type: ignore[misc]  # known only once Ray is imported
        def __init__(self, sweep: Sweep) -> None:
            super().__init__()
            self.sweep = sweep

        def __getstate__(self) -> dict[str, Any]:
            return {}  # see `_callback`

        def set_search_properties(self, *_: Any, **__: Any) -> bool:
            return True  # there is no metric to search by

        def suggest(self, trial_id: str) -> Any:
            if self.sweep.attempts.done:
                return self.FINISHED
            task = self.sweep.next(trial_id)
            return None if task is None else {"task": task}

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

        def __getstate__(self) -> dict[str, Any]:
            return {}  # Tune pickles its callbacks for a restoration that we do not use; an observer cannot be pickled

        def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
            self.sweep.started(trial.trial_id)

        def on_trial_result(
            self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
        ) -> None:
            self.sweep.reported(trial, result)

        def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
            # Tune keeps every trial, with what it reported, and statistics of that. Once that is gone, `last_result` is
            # what the worker said of itself, which has the trial's configuration in it.
            trial.last_result.clear()
            trial.metric_analysis.clear()
            trial.metric_n_steps.clear()

        def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
            self.sweep.lost(trial.trial_id, _read(trial.error_file))

        def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
            self.sweep.watch()

    return Callback(sweep)


def _read(path: str | None) -> str:
    if not path or not os.path.exists(path):  # noqa: PTH110  # Ray's path, as Ray gives it
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # see above
        return file.read()
