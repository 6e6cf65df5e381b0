"""The ledger: a folder of trial records, the source of truth. It loads no torch, so that reports can read it."""

from initbench.ledger.folder import RESOLVED_FILE, SUITE_FILE, Ledger
from initbench.ledger.record import Status, TrialRecord, record_of, with_visible_text

__all__ = [
    "RESOLVED_FILE",
    "SUITE_FILE",
    "Ledger",
    "Status",
    "TrialRecord",
    "record_of",
    "with_visible_text",
]
