"""Which trial is tried next, where not, and whose fault a failure is: the trial's or the node's.

A trial that fails on one node is tried on another, on `_NODES_PER_TRIAL` at most. Where it succeeds there, the failure
stays with the first node; where it fails wherever it is tried, it is to blame itself. A node on which `_FAILURES`
different trials have failed in a row, while another one finishes some, is set aside: it gets no more trials.
"""

from __future__ import annotations

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
    """Keeps account of trials, in the order in which they should start, and of nodes; knows nothing of Ray."""

    def __init__(self, trials: Iterable[str]) -> None:
        self._waiting = deque(trials)
        self._again: deque[str] = deque()
        self._left = len(self._waiting)
        self._failed_on: dict[str, list[str]] = defaultdict(list)  # of trials that are not done
        self._in_a_row: dict[str, set[str]] = defaultdict(set)  # node → trials that failed there since it finished one
        self._good: set[str] = set()  # nodes that have finished a trial
        self.set_aside: frozenset[str] = frozenset()

    @property
    def done(self) -> bool:
        return self._left == 0

    def next(self) -> Attempt | None:
        """Return what should start next; None where nothing is left that is not under way.

        What has failed goes first: the sooner it is known whose fault it was, the better.
        """
        waiting = self._again or self._waiting
        if not waiting:
            return None
        trial = waiting.popleft()
        return Attempt(trial, self.set_aside.union(self._failed_on.get(trial, ())) - {""})

    def returned(self, trial: str) -> None:
        """A trial was to start and did not: it waits again, before all others."""
        self._again.appendleft(trial)

    def succeeded(self, trial: str, node: str) -> None:
        self._good.add(node)
        self._in_a_row[node].clear()
        self._end(trial)

    def failed(self, trial: str, node: str, nodes: AbstractSet[str], *, own_fault: bool) -> bool:
        """Return whether a trial that failed on a node ends with that; else it is tried again.

        The name of a node that is not known is empty; `nodes` are all that could run the trial. With `own_fault` it
        exceeded a limit, which it would do elsewhere, too.
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
        """Set nodes aside, never the last good one, and take back those whose trials failed elsewhere, too."""
        bad = {node for node, trials in self._in_a_row.items() if node and len(trials) >= _FAILURES}
        aside = self.set_aside & bad
        for node in sorted(bad - aside):
            if self._good - aside - {node, ""}:
                aside |= {node}
        self.set_aside = aside
