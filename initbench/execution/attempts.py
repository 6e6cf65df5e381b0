"""Which trial is tried next and where, and whether a failure is due to the trial or to a node or a GPU.

A trial that fails on one node is tried on others, or on other GPUs if there are no other nodes, in at most
`_LOCATIONS_PER_TRIAL` locations. If it succeeds elsewhere, the failure counts against the first location; if it fails
everywhere, it counts against the trial. A location is set aside if `_FAILURES` different trials in a row failed there
while another location finished some of them.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

_LOCATIONS_PER_TRIAL = 3
_FAILURES = 3


@dataclass(frozen=True, order=True)
class Location:
    """A node, or one of its GPUs. Names that are unknown are empty."""

    node: str
    gpu: str = ""


@dataclass(frozen=True)
class Attempt:
    trial: str
    avoid: frozenset[Location] = frozenset()  # where it must not run


class Attempts:
    """The queue of trials and the state of the locations; independent of Ray. No trial runs on `unusable` nodes."""

    def __init__(self, trials: Iterable[str], unusable: frozenset[str] = frozenset()) -> None:
        self._waiting = deque(trials)
        self._again: deque[str] = deque()
        self._left = len(self._waiting)
        self._failed_on: dict[str, list[Location]] = defaultdict(list)  # trials that are not done
        self._avoid: dict[str, frozenset[Location]] = {}  # likewise
        self._in_a_row: dict[Location, set[str]] = defaultdict(set)  # trials that failed there since it finished one
        self._good: set[Location] = set()  # where a trial has finished
        self._nodes: Mapping[str, int] = {}
        self._unusable = frozenset(map(Location, unusable))
        self.set_aside = self._unusable

    @property
    def done(self) -> bool:
        return self._left == 0

    def next(self) -> Attempt | None:
        """Return the attempt to start next; None if all remaining trials are running.

        Failed trials go first, so that the cause of a failure is known soon.
        """
        waiting = self._again or self._waiting
        if not waiting:
            return None
        trial = waiting.popleft()
        avoid = self.set_aside | self._avoid.get(trial, frozenset())
        if all(_is_avoided(node, gpus, avoid) for node, gpus in self._nodes.items()):
            avoid = self.set_aside  # where the trial has not failed, nothing is left
        whole_nodes = {Location(node) for node, gpus in self._nodes.items() if _is_avoided(node, gpus, avoid)}
        return Attempt(trial, avoid | whole_nodes)

    def returned(self, trial: str) -> None:
        """Put a trial that could not be started back to the front of the queue."""
        self._again.appendleft(trial)

    def succeeded(self, trial: str, location: Location) -> None:
        self._good.add(location)
        self._in_a_row[location].clear()
        self._end(trial)

    def failed(self, trial: str, location: Location, nodes: Mapping[str, int], *, exceeded_limit: bool) -> bool:
        """Return whether the failure of a trial at a location is final; otherwise it is tried again.

        `nodes` are all nodes that could run the trial, each with its number of GPUs, or 1 if the trial needs none.
        `exceeded_limit`: the trial took too long or too much memory, as it would elsewhere.
        """
        self._nodes = nodes
        tried = self._failed_on[trial]
        tried.append(location)
        avoid = self.set_aside.union(tried)
        left = {node for node, gpus in nodes.items() if not _is_avoided(node, gpus, avoid)}
        ends = exceeded_limit or len(tried) >= _LOCATIONS_PER_TRIAL or not left
        if ends:
            for trials in self._in_a_row.values():
                trials.discard(trial)
            self._end(trial)
        else:
            tried_nodes = {there.node for there in tried}
            self._avoid[trial] = frozenset(map(Location, tried_nodes) if left - tried_nodes else tried) - {Location("")}
            self._in_a_row[location].add(trial)
            self._again.append(trial)
            self._judge()
        return ends

    def _end(self, trial: str) -> None:
        self._failed_on.pop(trial, None)
        self._avoid.pop(trial, None)
        self._left -= 1
        self._judge()

    def _judge(self) -> None:
        """Set locations aside, but never the last good one, and readmit those whose trials failed elsewhere, too."""
        bad = {location for location, trials in self._in_a_row.items() if location.node and len(trials) >= _FAILURES}
        aside = self.set_aside & bad
        for location in sorted(bad - aside):
            if self._good - aside - {location, Location("")}:
                aside |= {location}
        self.set_aside = aside | self._unusable


def _is_avoided(node: str, gpus: int, avoid: AbstractSet[Location]) -> bool:
    """Return whether a whole node or each of its GPUs is avoided."""
    there = {location.gpu for location in avoid if location.node == node}
    return "" in there or len(there) >= gpus
