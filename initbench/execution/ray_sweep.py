"""The trials of a job while Ray Tune runs them: which attempts are under way, and what follows from their results."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from initbench.errors import InitbenchError
from initbench.execution.attempts import Attempts, Location
from initbench.execution.breaker import Breaker
from initbench.execution.executor import Job, Observer
from initbench.execution.failure import MEMORY_LIMIT, TIME_LIMIT, WORKER_LOST, failed_record, ran_out_of_memory
from initbench.execution.ray_cluster import KEPT, Node, alive_nodes
from initbench.ledger import TrialRecord
from initbench.suite.spec import TrialSpec

_SECONDS_BETWEEN_LOOKS = 5.0  # between two looks at the cluster's nodes
_SECONDS_WITHOUT_A_NODE = 600.0
# A trial would exceed these elsewhere, too. If others had taken a GPU's memory, the trial has already run once more.
_LIMITS = (TIME_LIMIT, MEMORY_LIMIT)


@dataclass(frozen=True)
class TrialConfig:
    """The configuration of a trial for Tune. Its text is short, because Tune writes it in several places."""

    spec: TrialSpec
    avoid: frozenset[Location]

    def __repr__(self) -> str:
        return self.spec.id[:12]

    def __deepcopy__(self, _: Any) -> Self:
        return self  # it is immutable, and Tune would copy it several times for each trial


class Sweep:
    """The trials of a job while they run.

    `check_ray` raises an error that Ray's own code does not catch if Ray has ended. With `named_nodes` records name the
    node of the cluster on which they ran.
    """

    def __init__(
        self,
        job: Job,
        observer: Observer,
        check_ray: Callable[[], None],
        *,
        named_nodes: bool,
        unusable: frozenset[str] = frozenset(),
    ) -> None:
        self.job = job
        self.observer = observer
        self.check_ray = check_ray
        self.named_nodes = named_nodes
        self.specs = {spec.id: spec for spec in job.trials}
        self.attempts = Attempts(self.specs, unusable)
        self.breaker = Breaker()
        self.under_way: dict[str, TrialConfig] = {}  # by Tune's names
        self.running: set[str] = set()
        self.declined: dict[str, tuple[TrialConfig, Location]] = {}  # attempts on a GPU that their trial avoids
        self.placed_again: set[str] = set()  # trials that have got a GPU that they do not avoid
        self.hosts: dict[str, list[str]] = {}  # records of trials that failed and are tried again
        self.reasons: dict[Location, str] = {}  # the last failure there that was tried again
        self.nodes: dict[str, Node] = {}
        self.looked = 0.0
        self.has_fitted = False  # whether there has been a node that can run a trial
        self.stalled_since: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles what has a sweep, for restorations that we do not use; an observer cannot be pickled

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

    def may_leave(self, attempt: str) -> bool:
        """Return whether an attempt that occupies a GPU, so that its trial gets another one, may release it."""
        if attempt not in self.declined:
            return False
        config, location = self.declined[attempt]
        if self.attempts.done:
            return True
        if location in self.attempts.set_aside:
            return False
        # If such attempts occupy every GPU, the next one that is waiting needs a GPU that it does not avoid.
        following = None if self.running else next(iter(self.under_way.values()), None)
        return config.spec.id in self.placed_again or (following is not None and location not in following.avoid)

    def ended(self, attempt: str, record: TrialRecord, location: Location, *, was_fresh: bool = True) -> None:
        """Process an attempt's record: it becomes the trial's record, or the trial is tried again elsewhere.

        `was_fresh` says that the trial was the first of its process.
        """
        if attempt not in self.under_way:
            return
        del self.under_way[attempt]
        self.running.discard(attempt)
        nodes = self._look_at_nodes()
        if len(nodes) == 1:
            [node] = nodes
            location = replace(location, node=node)
        node_name, name = self._name(Location(location.node)), self._name(location)
        if self.named_nodes and node_name:
            record = replace(record, environment={"host": node_name} | record.environment | {"node": node_name})
        before = self.attempts.set_aside
        if record.error is None:
            self.attempts.succeeded(record.id, location)
            self.breaker.succeeded()
            ends = True
        else:
            hosts = [*self.hosts.pop(record.id, []), name or "an unknown node"]
            fitting = {node.id: _gpus_within_reach(node, self.job) for node in nodes.values() if node.fits(self.job)}
            exceeded_limit = record.error["type"] in _LIMITS or ran_out_of_memory(record.error)
            ends = self.attempts.failed(record.id, location, fitting, exceeded_limit=exceeded_limit)
            reason = f"{record.error['type']}: {record.error['message']}"
            if ends:
                self.breaker.failed(record.id, reason, was_fresh=was_fresh)
            else:
                self.hosts[record.id] = hosts
                self.reasons[location] = reason
            if ends and len(hosts) > 1:
                error = record.error | {"message": f"{record.error['message']} (failed on {', '.join(hosts)})"}
                record = replace(record, error=error)
        for aside in sorted(self.attempts.set_aside - before):
            why = self.reasons[aside]
            where = ("" if aside.gpu else "node ") + self._name(aside)
            self.observer.note(f"{where} is set aside, because trials in a row failed there: {why}")
        for back in sorted(before - self.attempts.set_aside):
            where = ("" if back.gpu else "node ") + self._name(back)
            self.observer.note(f"{where} takes trials again: its failures also occurred elsewhere")
        if ends:
            self.observer.finished(record)

    def reported(self, trial: Any, result: dict[str, Any]) -> None:
        if "record" in result:
            record = TrialRecord(**json.loads(result.pop("record")))
            self.ended(trial.trial_id, record, Location(*result["location"]), was_fresh=result["was_fresh"])
        elif "placed" in result:
            self.placed_again.add(trial.config["trial"].spec.id)
        elif "avoided" in result:
            self._declined(trial.trial_id, Location(*result["avoided"]))
        elif "note" in result:
            self.observer.note(result["note"])
        elif "fraction" in result:
            self.observer.progressed(trial.config["trial"].spec, result["fraction"])

    def _declined(self, attempt: str, location: Location) -> None:
        """Put back the trial of an attempt that got a GPU to be avoided, because Ray offers no choice among GPUs."""
        if attempt in self.under_way:
            config = self.under_way.pop(attempt)
            self.running.discard(attempt)
            self.declined[attempt] = config, location
            self.placed_again.discard(config.spec.id)
            self.attempts.returned(config.spec.id)

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
        self.ended(attempt, failed_record(spec, kind, message, trace, where), Location(node))

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
        """Stop if every trial fails. Report if nothing can start, and give up ten minutes after the last node is lost.

        A cluster that has not had a node for the trials yet may still start one, however long that takes.
        """
        if self.breaker.reason:
            raise InitbenchError(f"{self.breaker.reason}; {KEPT}")
        self.check_ray()  # Tune calls this after each step, and calls Ray in the next one
        now = time.monotonic()
        if now - self.looked < _SECONDS_BETWEEN_LOOKS:
            return
        nodes = self._look_at_nodes()
        fitting = {node.id for node in nodes.values() if node.fits(self.job)}
        self.has_fitted |= bool(fitting)
        can_start = any(
            fitting - {location.node for location in trial.avoid if not location.gpu}
            for trial in self.under_way.values()
        )
        if self.running or not self.under_way or can_start or not self.has_fitted:
            self.stalled_since = None
            return
        aside = ", ".join(map(self._name, sorted(self.attempts.set_aside)))
        what = "no node of the cluster can take the remaining trials" + (f" (set aside: {aside})" if aside else "")
        if self.stalled_since is None:
            self.stalled_since = now
            self.observer.note(f"{what}; waiting for one")
        elif now - self.stalled_since > _SECONDS_WITHOUT_A_NODE:
            raise InitbenchError(f"{what}; {KEPT}")

    def _look_at_nodes(self) -> dict[str, Node]:
        """Return the nodes that are alive, checked from time to time; names of nodes that are gone are remembered."""
        self.check_ray()
        now = time.monotonic()
        if not self.nodes or now - self.looked >= _SECONDS_BETWEEN_LOOKS:
            self.looked = now
            self.alive = {node.id: node for node in alive_nodes()}
            self.nodes |= self.alive
        return self.alive

    def _name(self, location: Location) -> str:
        node = self.nodes[location.node].name if location.node in self.nodes else location.node
        return f"GPU {location.gpu} of node {node}" if location.gpu else node


def _gpus_within_reach(node: Node, job: Job) -> int:
    """Return on how many GPUs of a node a trial can be tried; 1 if it needs none.

    Attempts that occupy all shares of the other GPUs also occupy CPUs.
    """
    if not job.gpus:
        return 1
    trials_at_a_time, trials_per_gpu = int(node.cpus // job.cpus), int(1 / job.gpus)
    return max(1, min(int(node.gpus), (trials_at_a_time - 1) // trials_per_gpu + 1))


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
