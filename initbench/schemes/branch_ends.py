"""The ends of residual branches, where most schemes add a part."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import nn

from initbench.architectures.style import BranchEnd
from initbench.errors import ArgumentError
from initbench.schemes.replacing import in_order, replace_modules
from initbench.structure.find import Structure, unused_in_words
from initbench.structure.residual import ResidualBranch


def end_branches(model: nn.Module, structure: Structure, make: Callable[[], nn.Module], name: str = "end") -> None:
    """Put a new module at the end of each residual branch, before the branch is added to its shortcut.

    It replaces a `BranchEnd` if the architecture has one. Otherwise it follows the module that returns the branch's
    result; both are then in an `nn.Sequential` at that place, as ``branch`` and under the given name.

    Args:
        model: is changed.
        structure: the model's structure.
        make: returns the new module.
        name: name of the new module.

    Raises:
        ArgumentError: there are no residual branches, they cannot be determined, or one ends in no module that another
            could follow.
    """
    put_behind: dict[nn.Module, nn.Module] = {}
    for end in branch_ends(model, required_branches(model, structure)):
        put_behind[end] = ended(end, end, make(), name)
    replace_modules(model, put_behind)


def required_branches(model: nn.Module, structure: Structure) -> tuple[ResidualBranch, ...]:
    """Return the model's residual branches; an ArgumentError says why they are unknown, or that there are none."""
    if "branches" in structure.unknown:
        raise ArgumentError(f"the residual branches cannot be determined: {structure.unknown['branches']}")
    if not structure.branches:
        raise ArgumentError(f"no residual branches are found in {type(model).__name__}")
    unused = structure.unused_in_blocks(model)
    if unused is not None:
        raise ArgumentError(unused_in_words(unused))
    return structure.branches


def branch_ends(model: nn.Module, branches: Iterable[ResidualBranch]) -> list[nn.Module]:
    """Return the modules that a part is put after; a `BranchEnd` is replaced by it.

    A branch that ends in no module that another could follow raises an ArgumentError.
    """
    ends = []
    for branch in branches:
        end = _branch_end(model, branch)
        if end is None and branch.output is None:
            block = branch.block or type(model).__name__
            raise ArgumentError(f"a branch of {block} ends in no module that a multiplier could follow")
        ends.append(model.get_submodule(branch.output or "") if end is None else end)
    return ends


def ended(end: nn.Module, now: nn.Module, part: nn.Module, name: str) -> nn.Module:
    """Return the replacement of `end`, a result of `branch_ends`, if another change would put `now` there.

    `name` is the name of the part if it follows another module.
    """
    return part if isinstance(end, BranchEnd) else in_order(branch=now, **{name: part})


def _branch_end(model: nn.Module, branch: ResidualBranch) -> BranchEnd | None:
    """Return the architecture's `BranchEnd` for a branch: the nearest to its last layer, going outwards."""
    within = f"{branch.block}." if branch.block else ""
    inside = branch.ends[0] if branch.ends else branch.block
    while inside != branch.block and inside.startswith(within):
        inside = inside.rpartition(".")[0]
        for child in model.get_submodule(inside).children():
            if isinstance(child, BranchEnd):
                return child
    return None
