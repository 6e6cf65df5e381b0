"""Networks in several sizes: workloads that differ in one number of their architecture, and in what follows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from numbers import Real
from typing import NamedTuple

from initbench.comparing.keys import Key, varying
from initbench.comparing.labels import ALWAYS
from initbench.reporting.results import Results, once

_START = "architecture."


class SizedNetwork(NamedTuple):
    """A network in several sizes.

    Attributes:
        label: the label of its workloads, without the size.
        argument: of the architecture that is the size, such as ``width``; others may follow it, such as heads.
        sizes: workload → its size, in ascending order.
    """

    label: str
    argument: str
    sizes: Mapping[str, float]


@once
def sized_networks(results: Results) -> list[SizedNetwork]:
    """Return the networks that the trials have in several sizes; one may be sized by width, and by depth too."""
    keys = {workload: results.labels.workloads[workload] for workload in results.metric_of}
    numbers = {
        factor
        for key in keys.values()
        for factor, value in key.items()
        if factor.startswith(_START) and isinstance(value, Real) and not isinstance(value, bool)
    }
    alike: dict[Key, list[str]] = defaultdict(list)
    for workload, key in keys.items():
        alike[key.without(*numbers)].append(workload)
    return [
        SizedNetwork(results.labels.workload(rest), factor.removeprefix(_START), sizes)
        for workloads in alike.values()
        for factor, rest, sizes in _sizes({workload: keys[workload] for workload in workloads}, numbers)
    ]


def _sizes(keys: Mapping[str, Key], numbers: AbstractSet[str]) -> Iterator[tuple[str, Key, dict[str, float]]]:
    """Yield each factor that is a size, the keys without it and what follows it, and the sizes of their workloads."""
    several = [factor for factor in _in_order(keys) if factor in numbers & varying(keys.values())]
    equal: set[str] = set()  # to a size before
    for factor in several:
        if factor in equal:
            continue
        followers = [other for other in several if other != factor and _follows(other, factor, keys)]
        equal |= {other for other in followers if _follows(factor, other, keys)}
        families: dict[Key, dict[str, float]] = defaultdict(dict)
        for workload, key in keys.items():
            if factor in key:
                families[key.without(factor, *followers)][workload] = float(key[factor])
        for rest, sizes in families.items():
            if len(set(sizes.values())) == len(sizes) > 1:
                yield factor, rest, dict(sorted(sizes.items(), key=lambda item: item[1]))


def _in_order(keys: Mapping[str, Key]) -> Sequence[str]:
    """Return the factors: width and depth first, because others follow them."""
    first = [f"{_START}{name}" for name in sorted(ALWAYS, reverse=True)]
    return list(dict.fromkeys([*first, *(factor for key in keys.values() for factor in key)]))


def _follows(factor: str, size: str, keys: Mapping[str, Key]) -> bool:
    """Return whether each value of a size has one value of the factor."""
    values: dict[str, set[str]] = defaultdict(set)
    for key in keys.values():
        values[repr(key.get(size))].add(repr(key.get(factor)))
    return all(len(levels) == 1 for levels in values.values())
