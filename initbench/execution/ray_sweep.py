"""The trials of a job that runs through Ray: what starts next, on which nodes, and what becomes of each attempt."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from initbench.errors import InitbenchError
from initbench.execution.attempts import Attempts
from initbench.execution.failure import MEMORY_LIMIT, TIME_LIMIT, WORKER_LOST, failed_record
from initbench.execution.ray_cluster import alive_nodes
from initbench.ledger import TrialRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from initbench.execution.executor import Job, Observer
    from initbench.execution.ray_cluster import Node
    from initbench.suite.spec import TrialSpec

_SECONDS_BETWEEN_LOOKS = 5.0  # at the cluster's nodes
_SECONDS_WITHOUT_A_NODE = 600.0


@dataclass(frozen=True)
class Task:
    """What Tune has for the configuration of a trial. Its text is short, since Tune writes it in several places.

    Attributes:
        spec: what to run.
        avoid: ids of the nodes on which it must not run.
    """

    spec: TrialSpec
    avoid: frozenset[str]

    def __repr__(self) -> str:
        return self.spec.id[:12]

    def __deepcopy__(self, _: Any) -> Task:
        return self  # nothing of it changes, and Tune copies it several times for each trial


class Sweep:
    """The trials of a job while they run.

    Args:
        job: what runs.
        observer: who is told.
        check_ray: raises an error that nothing of Ray catches where Ray has ended.
        named_nodes: whether records say on which node of a cluster they ran.
    """

    def __init__(self, job: Job, observer: Observer, check_ray: Callable[[], None], *, named_nodes: bool) -> None:
        self.job = job
        self.observer = observer
        self.check_ray = check_ray
        self.named_nodes = named_nodes
        self.specs = {spec.id: spec for spec in job.trials}
        self.attempts = Attempts(self.specs)
        self.under_way: dict[str, Task] = {}  # by Tune's names of them
        self.running: set[str] = set()
        self.hosts: dict[str, list[str]] = {}  # of trials that failed and are tried again
        self.reasons: dict[str, str] = {}  # node → what last failed there and was tried again
        self.nodes: dict[str, Node] = {}
        self.looked = 0.0
        self.stalled_since: float | None = None

    def next(self, attempt: str) -> Task | None:
        """Return what should start next, under this name; None where nothing should now."""
        if self.job.workers is not None and len(self.under_way) >= self.job.workers:
            return None
        following = self.attempts.next()
        if following is None:
            return None
        self.under_way[attempt] = Task(self.specs[following.trial], following.avoid)
        return self.under_way[attempt]

    def started(self, attempt: str) -> None:
        """Take in that an attempt has a worker."""
        self.running.add(attempt)
        self.observer.started(self.under_way[attempt].spec)

    def ended(self, attempt: str, record: TrialRecord, node: str) -> None:
        """Take an attempt's record: it is the trial's, or the trial is tried again elsewhere."""
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
            self.observer.note(f"node {self._name(aside)} is set aside, since trials fail there in a row: {why}")
        for back in sorted(before - self.attempts.set_aside):
            self.observer.note(f"node {self._name(back)} takes trials again: what failed there fails elsewhere, too")
        if ends:
            self.observer.finished(record)

    def reported(self, trial: Any, result: dict[str, Any]) -> None:
        """Take what a worker says of an attempt: its record, a note, or how far it is."""
        if "record" in result:
            record = TrialRecord(**json.loads(result.pop("record")))
            self.ended(trial.trial_id, record, result["node"])
        elif "note" in result:
            self.observer.note(result["note"])
        elif "fraction" in result:
            self.observer.progressed(trial.config["task"].spec, result["fraction"])

    def lost(self, attempt: str, trace: str) -> None:
        """Take what Ray says of a worker that it lost."""
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
        """Take in that Ray ended all that was under way: what ran is lost, what waited for a worker starts again.

        Args:
            trace: what Ray says of it; the node that it names is taken to be that of all.
        """
        for attempt in list(self.under_way):
            if attempt in self.running:
                self.lost(attempt, trace)
            else:
                self.attempts.returned(self.under_way.pop(attempt).spec.id)

    def watch(self) -> None:
        """Say where nothing can start, and give up where that stays so.

        Raises:
            InitbenchError: no node that a trial could run on was there for ten minutes.
        """
        self.check_ray()  # Tune calls this after each step, and Ray in the next one
        now = time.monotonic()
        if now - self.looked < _SECONDS_BETWEEN_LOOKS:
            return
        nodes = self._look_at_nodes()
        fitting = {node.id for node in nodes.values() if node.fits(self.job)}
        if self.running or not self.under_way or any(fitting - task.avoid for task in self.under_way.values()):
            self.stalled_since = None
            return
        aside = ", ".join(self._name(node) for node in sorted(self.attempts.set_aside))
        what = "no node of the cluster can take the trials that are left" + (f" (set aside: {aside})" if aside else "")
        if self.stalled_since is None:
            self.stalled_since = now
            self.observer.note(f"{what}; waiting for one")
        elif now - self.stalled_since > _SECONDS_WITHOUT_A_NODE:
            raise InitbenchError(f"{what}; what has finished is kept, and the same command goes on from here")

    def _look_at_nodes(self) -> dict[str, Node]:
        """Return the nodes that are alive; seen once in a while, and remembered by name when they are gone."""
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
    """Return what ended a worker's trial, a kind and one line, from Ray's account of it."""
    memory = re.search(r"running low on memory.* was (\S+) used / (\S+) limit", trace)
    if memory:
        return WORKER_LOST, (
            f"its machine ran low on memory ({memory.group(1)} of {memory.group(2)} were taken), so that Ray ended it; "
            "--workers lets fewer trials run at a time"
        )
    detail = re.search(r"Worker exit detail: (.*?)(?: Some common causes|$)", trace, re.MULTILINE)
    if detail:
        return WORKER_LOST, f"the worker process died (killed, out of memory, or it left by itself): {detail.group(1)}"
    return "WorkerError", trace.strip().rpartition("\n")[2] or "Ray ended the trial and does not say why"
