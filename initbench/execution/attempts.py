"""Which trial is tried next and on which nodes, and whether a failure is due to the trial or to the node.

A trial that fails on one node is tried on others, on at most `_NODES_PER_TRIAL` nodes. If it succeeds elsewhere, the
failure counts against the first node; if it fails everywhere, it counts against the trial. A node is set aside if
`_FAILURES` different trials in a row failed there while another node finished some of them.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

_NODES_PER_TRIAL = 3
_FAILURES = 3


@dataclass(frozen=True)
class Attempt:
    trial: str
    avoid: frozenset[str] = frozenset()  # nodes on which it must not run


class Attempts:
    """The queue of trials and the state of the nodes; independent of Ray. No trial runs on `unusable` nodes."""

    def __init__(self, trials: Iterable[str], unusable: frozenset[str] = frozenset()) -> None:
        self._waiting = deque(trials)
        self._again: deque[str] = deque()
        self._left = len(self._waiting)
        self._failed_on: dict[str, list[str]] = defaultdict(list)  # trials that are not done
        self._in_a_row: dict[str, set[str]] = defaultdict(set)  # node → trials that failed there since it finished one
        self._good: set[str] = set()  # nodes that have finished a trial
        self._unusable = unusable
        self.set_aside = unusable

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
        return Attempt(trial, self.set_aside.union(self._failed_on.get(trial, ())) - {""})

    def returned(self, trial: str) -> None:
        """Put a trial that could not be started back to the front of the queue."""
        self._again.appendleft(trial)

    def succeeded(self, trial: str, node: str) -> None:
        self._good.add(node)
        self._in_a_row[node].clear()
        self._end(trial)

    def failed(self, trial: str, node: str, nodes: AbstractSet[str], *, own_fault: bool) -> bool:
        """Return whether the failure of a trial on a node is final; otherwise it is tried again.

        An unknown node has an empty name; `nodes` are all nodes that could run the trial. `own_fault` means that the
        trial exceeded a limit, which it would do elsewhere, too.
        """
        tried = self._failed_on[trial]
        tried.append(node)
        elsewhere = nodes - self.set_aside - set(tried)
        ends = own_fault or len(tried) >= _NODES_PER_TRIAL or not elsewhere
        if ends:
            for trials in self._in_a_row.values():
                trials.discard(trial)
            self._end(trial)
        else:
            self._in_a_row[node].add(trial)
            self._again.append(trial)
            self._judge()
        return ends

    def _end(self, trial: str) -> None:
        self._failed_on.pop(trial, None)
        self._left -= 1
        self._judge()

    def _judge(self) -> None:
        """Set nodes aside, but never the last good one, and readmit nodes whose trials failed elsewhere, too."""
        bad = {node for node, trials in self._in_a_row.items() if node and len(trials) >= _FAILURES}
        aside = self.set_aside & bad
        for node in sorted(bad - aside):
            if self._good - aside - {node, ""}:
                aside |= {node}
        self.set_aside = aside | self._unusable
