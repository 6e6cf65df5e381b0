"""Which tensor of one model corresponds to which of another: by name, otherwise by role, shape and order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from initbench.inspection.fingerprint import TensorFingerprint
from initbench.inspection.roles import END

Tensors = list[TensorFingerprint]
Key = Callable[[TensorFingerprint], Hashable]


def match(
    a: Iterable[TensorFingerprint], b: Iterable[TensorFingerprint]
) -> tuple[list[tuple[TensorFingerprint, TensorFingerprint]], Tensors, Tensors]:
    """Return the pairs in the order of A, and the unmatched tensors of both."""
    left_a, left_b = list(a), list(b)
    order = {id(tensor): index for index, tensor in enumerate(left_a)}
    pairs: list[tuple[TensorFingerprint, TensorFingerprint]] = []

    def pair(key_a: Key, key_b: Key | None = None) -> None:
        """Pair unmatched tensors with equal keys, in order; None fits no tensor."""
        waiting: dict[Hashable, Tensors] = {}
        for tensor in left_b:
            waiting.setdefault((key_b or key_a)(tensor), []).append(tensor)
        for tensor in list(left_a):
            key = key_a(tensor)
            if key is not None and waiting.get(key):
                pairs.append((tensor, waiting[key].pop(0)))
                left_a.remove(tensor)
                left_b.remove(pairs[-1][1])

    def pair_all(fits: Callable[[TensorFingerprint], bool]) -> None:
        pair(lambda tensor: (tensor.role, layout(tensor)) if fits(tensor) else None)
        pair(lambda tensor: (tensor.role.removesuffix(END), layout(tensor)) if fits(tensor) else None)
        # Roles from a run and from module types differ, but a vector of the same size may have another meaning.
        pair(lambda tensor: layout(tensor) if fits(tensor) and len(tensor.shape) > 1 else None)
        pair(lambda tensor: tensor.name if fits(tensor) else None)
        counts = [Counter(tensor.role for tensor in left) for left in (left_a, left_b)]
        as_many = {role for role, count in counts[0].items() if count == counts[1][role]}
        pair(lambda tensor: tensor.role if fits(tensor) and tensor.role in as_many else None)

    pair(lambda tensor: (tensor.name, layout(tensor)))
    pair_all(lambda tensor: len(tensor.shape) > 1)
    layers = {_layer(one): _layer(other) for one, other in pairs}
    pair(lambda tensor: (layers.get(_layer(tensor)), tensor.role), lambda tensor: (_layer(tensor), tensor.role))
    pair_all(lambda tensor: True)
    return sorted(pairs, key=lambda two: order[id(two[0])]), left_a, left_b


def _layer(tensor: TensorFingerprint) -> tuple[str, str]:
    """Return the name of a tensor's module, and its part of queries, keys and values."""
    return tensor.name.removesuffix(f"[{tensor.part}]").rpartition(".")[0], tensor.part


def layout(tensor: TensorFingerprint) -> tuple[int, ...]:
    """Return the shape as if a weight were stored (outputs, inputs, *kernel)."""
    shape = tensor.shape
    return (shape[1], shape[0], *shape[2:]) if tensor.transposed else shape
