"""The executor for many cores, GPUs or machines: Ray Tune. Ray runs the trials and stores nothing.

A trial of Tune is one attempt at one of our trials. A searcher supplies the attempts one by one, `Attempts` decides
what to try next and on which nodes, and `Sweep` handles the results. Workers are reused from trial to trial, because
starting one takes seconds; each runs the trials in a process that it watches, see `TrialProcess`.
"""

import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from initbench.data.load import data_root
from initbench.errors import InitbenchError
from initbench.execution.attempts import Attempts
from initbench.execution.executor import Job, Observer
from initbench.execution.failure import MEMORY_LIMIT, TIME_LIMIT, WORKER_LOST, failed_record
from initbench.execution.ray_cluster import Node, alive_nodes, check_resources, cluster, end_with_ray
from initbench.execution.trial_process import TrialProcess
from initbench.ledger import TrialRecord
from initbench.suite.spec import TrialSpec

_SECONDS_BETWEEN_LOOKS = 5.0  # between two looks at the cluster's nodes
_SECONDS_WITHOUT_A_NODE = 600.0
_SECONDS_BETWEEN_REPORTS = 2.0
_process: TrialProcess | None = None  # the process of this worker, which runs many trials


@dataclass(frozen=True)
class TrialConfig:
    """The configuration of a trial for Tune. Its text is short, because Tune writes it in several places."""

    spec: TrialSpec
    avoid: frozenset[str]

    def __repr__(self) -> str:
        return self.spec.id[:12]

    def __deepcopy__(self, _: Any) -> Self:
        return self  # it is immutable, and Tune would copy it several times for each trial


class Sweep:
    """The trials of a job while they run.

    `check_ray` raises an error that Ray's own code does not catch if Ray has ended. With `named_nodes` records name the
    node of the cluster on which they ran.
    """

    def __init__(self, job: Job, observer: Observer, check_ray: Callable[[], None], *, named_nodes: bool) -> None:
        self.job = job
        self.observer = observer
        self.check_ray = check_ray
        self.named_nodes = named_nodes
        self.specs = {spec.id: spec for spec in job.trials}
        self.attempts = Attempts(self.specs)
        self.under_way: dict[str, TrialConfig] = {}  # by Tune's names
        self.running: set[str] = set()
        self.hosts: dict[str, list[str]] = {}  # records of trials that failed and are tried again
        self.reasons: dict[str, str] = {}  # node → the last failure there that was tried again
        self.nodes: dict[str, Node] = {}
        self.looked = 0.0
        self.stalled_since: float | None = None

    def next(self, attempt: str) -> TrialConfig | None:
        """Return the next attempt, under this name; None if nothing can start now."""
        if self.job.workers is not None and len(self.under_way) >= self.job.workers:
            return None
        following = self.attempts.next()
        if following is None:
            return None
        self.under_way[attempt] = TrialConfig(self.specs[following.trial], following.avoid)
        return self.under_way[attempt]

    def started(self, attempt: str) -> None:
        self.running.add(attempt)
        self.observer.started(self.under_way[attempt].spec)

    def ended(self, attempt: str, record: TrialRecord, node: str) -> None:
        """Process an attempt's record: it becomes the trial's record, or the trial is tried again elsewhere."""
        if attempt not in self.under_way:
            return
        del self.under_way[attempt]
        self.running.discard(attempt)
        nodes = self._look_at_nodes()
        if len(nodes) == 1:
            [node] = nodes
        name = self._name(node)
        if self.named_nodes and name:
            record = replace(record, environment={"host": name} | record.environment | {"node": name})
        before = self.attempts.set_aside
        if record.error is None:
            self.attempts.succeeded(record.id, node)
            ends = True
        else:
            hosts = [*self.hosts.pop(record.id, []), name or "an unknown node"]
            fitting = {n.id for n in nodes.values() if n.fits(self.job)}
            own_fault = record.error["type"] in (TIME_LIMIT, MEMORY_LIMIT)
            ends = self.attempts.failed(record.id, node, fitting, own_fault=own_fault)
            if not ends:
                self.hosts[record.id] = hosts
                self.reasons[node] = f"{record.error['type']}: {record.error['message']}"
            elif len(hosts) > 1:
                error = record.error | {"message": f"{record.error['message']} (failed on {', '.join(hosts)})"}
                record = replace(record, error=error)
        for aside in sorted(self.attempts.set_aside - before):
            why = self.reasons[aside]
            self.observer.note(f"node {self._name(aside)} is set aside, because trials in a row failed there: {why}")
        for back in sorted(before - self.attempts.set_aside):
            self.observer.note(f"node {self._name(back)} takes trials again: its failures also occurred elsewhere")
        if ends:
            self.observer.finished(record)

    def reported(self, trial: Any, result: dict[str, Any]) -> None:
        if "record" in result:
            record = TrialRecord(**json.loads(result.pop("record")))
            self.ended(trial.trial_id, record, result["node"])
        elif "note" in result:
            self.observer.note(result["note"])
        elif "fraction" in result:
            self.observer.progressed(trial.config["trial"].spec, result["fraction"])

    def lost(self, attempt: str, trace: str) -> None:
        if attempt not in self.under_way:
            return
        spec = self.under_way[attempt].spec
        kind, message = _death(trace)
        address = re.search(r"^\s*ip: (\S+)$", trace, re.MULTILINE) or re.search(r"\(IP: (\S+), ID: ", trace)
        nodes = self._look_at_nodes() | self.nodes
        there = [node for node in nodes.values() if address and node.address == address.group(1)]
        node = there[0].id if len(there) == 1 else ""
        where = {"host": there[0].name} if node else {}
        self.ended(attempt, failed_record(spec, kind, message, trace, where), node)

    def cut_off(self, trace: str) -> None:
        """Process that Ray ended all running trials: they are lost, and those that waited for a worker start again.

        The node that the trace names is taken as the node of all of them.
        """
        for attempt in list(self.under_way):
            if attempt in self.running:
                self.lost(attempt, trace)
            else:
                self.attempts.returned(self.under_way.pop(attempt).spec.id)

    def watch(self) -> None:
        """Report if nothing can start, and give up after ten minutes."""
        self.check_ray()  # Tune calls this after each step, and calls Ray in the next one
        now = time.monotonic()
        if now - self.looked < _SECONDS_BETWEEN_LOOKS:
            return
        nodes = self._look_at_nodes()
        fitting = {node.id for node in nodes.values() if node.fits(self.job)}
        if self.running or not self.under_way or any(fitting - trial.avoid for trial in self.under_way.values()):
            self.stalled_since = None
            return
        aside = ", ".join(self._name(node) for node in sorted(self.attempts.set_aside))
        what = "no node of the cluster can take the remaining trials" + (f" (set aside: {aside})" if aside else "")
        if self.stalled_since is None:
            self.stalled_since = now
            self.observer.note(f"{what}; waiting for one")
        elif now - self.stalled_since > _SECONDS_WITHOUT_A_NODE:
            raise InitbenchError(f"{what}; finished trials are kept, and the same command continues")

    def _look_at_nodes(self) -> dict[str, Node]:
        """Return the nodes that are alive, checked from time to time; names of nodes that are gone are remembered."""
        self.check_ray()
        now = time.monotonic()
        if not self.nodes or now - self.looked >= _SECONDS_BETWEEN_LOOKS:
            self.looked = now
            self.alive = {node.id: node for node in alive_nodes()}
            self.nodes |= self.alive
        return self.alive

    def _name(self, node: str) -> str:
        return self.nodes[node].name if node in self.nodes else node


def _death(trace: str) -> tuple[str, str]:
    """Return why a worker's trial died, as a kind and one line, from Ray's report."""
    memory = re.search(r"running low on memory.* was (\S+) used / (\S+) limit", trace)
    if memory:
        return WORKER_LOST, (
            f"its machine ran low on memory ({memory.group(1)} of {memory.group(2)} were taken), so Ray killed it; "
            "with --workers fewer trials run at the same time"
        )
    detail = re.search(r"Worker exit detail: (.*?)(?: Some common causes|$)", trace, re.MULTILINE)
    if detail:
        return WORKER_LOST, f"the worker process died (killed, out of memory, or exited): {detail.group(1)}"
    return "WorkerError", trace.strip().rpartition("\n")[2] or "Ray killed the trial without giving a reason"


def run_with_ray_tune(job: Job, observer: Observer, address: str | None = None) -> None:
    """Run a job with Ray Tune; see `Executor`. Meanwhile all output on ``sys.stdout`` is discarded.

    The address belongs to a running cluster: ``auto`` or HOST:PORT of its head; without an address a local cluster is
    started. An InitbenchError says that no cluster answers, that no node has the resources of a trial, that for ten
    minutes no such node was there, or that Ray has ended.
    """
    with cluster(address), end_with_ray(is_local=address is None) as check_ray:
        from ray import tune
        from ray.exceptions import OutOfMemoryError
        from ray.tune.search import Searcher

        check_resources(job, alive_nodes())
        observer.ready()
        sweep = Sweep(job, observer, check_ray, named_nodes=address is not None)
        cpus, gpus = job.cpus, job.gpus
        trainable = tune.with_parameters(_trainable, job=replace(job, trials=()), root=str(data_root()))
        placed = tune.with_resources(trainable, lambda config: _placement(cpus, gpus, config["trial"].avoid))
        while not sweep.attempts.done:  # again if Tune gave up trials that Ray killed for lack of memory
            with tempfile.TemporaryDirectory(prefix="initbench-ray-", ignore_cleanup_errors=True) as storage:
                tuner = tune.Tuner(
                    placed,
                    tune_config=tune.TuneConfig(
                        search_alg=_searcher(Searcher, sweep),
                        num_samples=-1,  # until the searcher has no more trials
                        reuse_actors=True,  # starting a worker takes seconds
                        trial_dirname_creator=lambda trial: trial.trial_id,  # Tune's default contains the configuration
                    ),
                    run_config=tune.RunConfig(
                        storage_path=storage, verbose=0, callbacks=[_callback(tune.Callback, sweep)]
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


def _placement(cpus: float, gpus: float, avoid: frozenset[str]) -> Any:
    from ray import tune

    resources = {"CPU": cpus} | ({"GPU": gpus} if gpus else {})
    if not avoid:
        return tune.PlacementGroupFactory([resources])
    elsewhere = {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"}
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
    os.environ["INITBENCH_DATA"] = root
    if _process is None:
        _process = TrialProcess("cuda" if job.gpus else "cpu", job.limits)
    networks = None if job.networks is None else job.networks.of(trial.spec)
    options = {"plugins": job.plugins, "checkpoints": job.checkpoints, "networks": networks}
    record = _process.run(trial.spec, on_epoch, lambda message: tune.report({"note": message}), options)
    node = ray.get_runtime_context().get_node_id()
    tune.report({"record": json.dumps(record.to_json()), "node": node})


def _searcher(base: type[Any], sweep: Sweep) -> Any:
    """Return a Tune searcher that supplies one attempt after another; Tune treats the trials of a job as a search."""

    class OneByOne(base):  # type: ignore[misc]  # known only once Ray is imported
        def __init__(self, sweep: Sweep) -> None:
            super().__init__()
            self.sweep = sweep

        def __getstate__(self) -> dict[str, Any]:
            return {}  # see `_callback`

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

        def __getstate__(self) -> dict[str, Any]:
            return {}  # Tune pickles callbacks for restorations, which we do not use; an observer cannot be pickled

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
