"""Which dimensions of a weight count its inputs, by the function that uses it: in ``x @ w`` the last but one."""

from __future__ import annotations

from initbench.structure.functions import MATRIX_PRODUCTS, ArgumentKey
from initbench.structure.run_graph import Node, WeightAxes

OUTPUTS_FIRST = WeightAxes((), (0,), (1,))
"""Of ``linear(x, w)``."""
_SWAPS = {"t", "transpose", "swapaxes", "swapdims", "T", "mT", "H", "mH", "adjoint"}


def axes_of_factor(function: str, key: ArgumentKey, factor: Node, equation: str | None) -> WeightAxes | None:
    """Return the dimensions of a factor with two or more in a product with the signal; None if unknown.

    Args:
        function: a key of `MATRIX_PRODUCTS`.
        key: the factor's place among the arguments.
        factor: the weight, or a tensor computed from it.
        equation: the first argument of ``einsum``.
    """
    if function == "einsum":
        return _axes_in_equation(equation, key[-1] if isinstance(key, tuple) else int(key) - 1)
    if function == "tensordot":
        return None
    *blocks, rows, columns = range(len(factor.dims))
    if key in {MATRIX_PRODUCTS[function][0], "mat1", "batch1"}:
        return WeightAxes(tuple(blocks), (rows,), (columns,))
    return WeightAxes(tuple(blocks), (columns,), (rows,))


def _axes_in_equation(equation: str | None, factor: int | str) -> WeightAxes | None:
    operands, arrow, result = (equation or "").replace(" ", "").partition("->")
    terms = operands.split(",")
    if not arrow or len(terms) != 2 or "." in terms[int(factor)]:
        return None
    weight, signal = terms[int(factor)], terms[1 - int(factor)]
    axes = range(len(weight))
    return WeightAxes(
        tuple(axis for axis in axes if weight[axis] in result and weight[axis] in signal),
        tuple(axis for axis in axes if weight[axis] in result and weight[axis] not in signal),
        tuple(axis for axis in axes if weight[axis] not in result),
    )


def axes_of_weight(weight: str, factor: Node, axes: WeightAxes | None) -> WeightAxes | None:
    """Return the dimensions of a parameter, given the dimensions of a tensor computed from it; None if unknown.

    The parameter may have been transposed, scaled or cast, and matrices may have been chosen from it, as experts are.
    Of several tensors that a tensor was computed from, the first is followed whose sizes leave no doubt.
    """
    pending = [(factor, axes)]
    seen: set[Node] = set()
    while pending:
        node, axes = pending.pop()
        if axes is None or node in seen:
            continue
        if node.function == "parameter":
            return axes
        seen.add(node)
        sources = [source for source in node.sources if weight in source.parameters]
        pending += [(source, _axes_before(node, source, axes)) for source in reversed(sources)]
    return None


def _axes_before(result: Node, source: Node, axes: WeightAxes) -> WeightAxes | None:
    dims = source.dims
    last = len(dims) - 1
    if result.function in MATRIX_PRODUCTS:
        return axes if result.dims == dims else None
    if result.function in _SWAPS and result.dims == (*dims[:-2], *dims[:-3:-1]):
        return axes.moved({last: last - 1, last - 1: last})
    if result.dims == dims[1:]:
        moved = axes.moved({axis: axis + 1 for axis in range(last)})
        return WeightAxes((0, *moved.blocks), moved.outputs, moved.inputs)
    return axes if len(result.dims) == len(dims) and result.dims[1:] == dims[1:] else None
