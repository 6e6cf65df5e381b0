"""The old name of `statistics.depth`."""

from initbench.statistics.depth import DEPTH

__all__ = ["DEPTH"]
