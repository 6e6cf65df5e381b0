"""What can be exchanged under the null: whole treatments, or the one part of them that is compared.

Treatments of several factors are no independent observations. Kaiming with and without a norm share what is peculiar to
Kaiming, and all without a norm share what is peculiar to its lack. One part of the treatments, such as the initializer,
is therefore exchanged with all its treatments at once, while the other factors stay where they are. It is also what is
left out at once by the jackknife.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Parts = Mapping[str, tuple[str, str]]
"""Treatment → the part that is exchanged, and the rest: initializer, and norm."""


def units(treatments: Iterable[str], parts: Parts | None) -> tuple[NDArray[np.intp], list[str]]:
    """Return for each treatment the index of the part that is exchanged, (treatments,), and the rest.

    Args:
        treatments: labels.
        parts: of these labels; None where each treatment is exchanged by itself.
    """
    names = [str(name) for name in treatments]
    if parts is None:
        return np.arange(len(names)), [""] * len(names)
    first = {part: i for i, part in enumerate(dict.fromkeys(parts[name][0] for name in names))}
    return np.array([first[parts[name][0]] for name in names], dtype=np.intp), [parts[name][1] for name in names]
