"""What the suites of a report tune, and at which values its trials are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.comparing.formatting import listed
from initbench.comparing.labels import tuned_keys
from initbench.reporting.sentence import Sentence, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from initbench.ledger import TrialRecord

RATE = "recipe.lr"


@dataclass(frozen=True)
class Tune:
    """What is tuned.

    Attributes:
        keys: that are tuned in any cell, the learning rate first.
        tries: how many a cell tries at one seed, the most of all.
        is_once: whether some suite does one search for all seeds of a cell.
        protocol: under which the trials of the report are compared: ``own``, ``shared`` or ``recipe``.
        protocols: under which there are trials, in the order ``recipe``, ``shared``, ``own``.
        searches: how many search trials there are.
    """

    keys: tuple[str, ...]
    tries: int
    is_once: bool
    protocol: str
    protocols: tuple[str, ...]
    searches: int

    @property
    def has_rate(self) -> bool:
        """Whether the learning rate is tuned."""
        return RATE in self.keys

    @property
    def noun(self) -> str:
        """What a cell chooses, in one word: ``rate`` if that is the learning rate alone, else ``setting``."""
        return "rate" if self.keys == (RATE,) else "setting"

    def at(self, *protocols: str, one: bool = False) -> str:
        """Return at which values trials of some protocols ran: ``at the shared rate and at their own rates``.

        Args:
            *protocols: `protocols`, or some of them.
            one: whether that is said of one treatment.
        """
        several = "s" * (self.noun != "rate")
        words = {
            "recipe": f"the recipe’s {self.noun}{several}",
            "shared": "the shared rate",
            "own": f"its own {self.noun}{several}" if one else f"their own {self.noun}s",
        }
        return listed([f"at {words[name]}" for name in protocols])

    def chosen(self, each: str = "each", every: str = "all") -> str:
        """Return at which values a report compares treatments: ``each at the rate that its own search of 7 chose``."""
        several = "s" * (self.noun != "rate")
        return {
            "own": f"{each} at the {self.noun}{several} that its own search of {self.tries} chose",
            "shared": f"{every} at the shared rate that their searches chose",
            "recipe": f"{every} {self.at('recipe')} as written",
        }[self.protocol]

    def caution(self) -> list[Sentence]:
        """Return a warning if one search serves all seeds of a cell.

        Its numbers are those of simulated treatments without any difference (docs/statistics.md).
        """
        if not self.is_once or self.protocol == "recipe":
            return []
        text = (
            "Warning: one search chose for all seeds, so 7 to 20\N{NO-BREAK SPACE}% of such verdicts are false "
            "instead of 5\N{NO-BREAK SPACE}%."
        )
        return [say(text, is_open=True)]


def tune_of(
    records: Sequence[TrialRecord],
    searched: pd.DataFrame,
    protocols: Sequence[str],
    protocol: str,
    said: Sequence[Mapping[str, Any]],
) -> Tune:
    """Return the facts of tuning.

    Args:
        records: of all trials.
        searched: their search trials, as from `trials.searched_trials`.
        protocols: as from `trials.protocols_of`.
        protocol: as from `trials.main_protocol`.
        said: what the suites say of it (`source.Source.tunes`); what only the trials tell is read from them.
    """
    keys = tuned_of(records)
    counts = searched.groupby(["workload", "treatment", "seed"], sort=False).size()
    tries = int(counts.max()) if len(counts) else max((int(entry.get("tries") or 0) for entry in said), default=0)
    is_once = any(entry.get("search") == "once" for entry in said)
    return Tune(keys, tries, is_once, protocol, tuple(protocols), searched["trial_id"].nunique())


def tuned_of(records: Sequence[TrialRecord]) -> tuple[str, ...]:
    """Return the keys that any trial says are tuned, the learning rate first."""
    return tuple(sorted({key for record in records for key in tuned_keys(record.spec)}, key=lambda k: (k != RATE, k)))
