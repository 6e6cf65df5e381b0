"""A structure in a few lines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from initbench.structure.find import Structure

_SHOWN = 2


def summary(structure: Structure) -> str:
    """Return the numbers of a structure's parts, the first of each, and what is unknown."""
    kinds = Counter(layer.kind for layer in structure.layers)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    lines = [f"layers: {len(structure.layers)} ({counts}), at most {structure.depth} one after another"]
    branches = [
        f"{branch.block or 'the model'} ({' → '.join(', '.join(part) for part in (branch.inner, branch.ends) if part)}"
        f"{f'; gate {branch.gates[0]}' if branch.gates else ''})"
        for branch in structure.branches
    ]
    lines.append(_line("residual branches", branches))
    lines.append(_line("heads", structure.heads))
    if structure.attention:
        lines.append(_line("attention", [one.module for one in structure.attention]))
    lines.append(_line("norms", structure.norms))
    if structure.positions:
        lines.append(_line("positions", structure.positions))
    if structure.scalar_biases:
        lines.append(_line("scalar biases", structure.scalar_biases))
    lines += [f"tied: {' = '.join(names)}" for names in structure.tied[:_SHOWN]]
    if structure.unused:
        lines.append(_line("not used", structure.unused))
    lines += [f"unknown: {what}: {reason}" for what, reason in structure.unknown.items()]
    return "\n".join(lines)


def _line(what: str, found: Iterable[str]) -> str:
    names = list(found)
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{what}: {len(names)}{f' ({shown})' if names else ''}"
