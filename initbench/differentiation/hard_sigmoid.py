"""The hard sigmoid, of operations that have all derivatives.

It is ReLU6(x + 3) / 6. PyTorch has one derivative of it, and all of ReLU6: they are 0 from the second on, as those of
every activation that is made of straight lines.

Needed while `test_what_pytorch_gets_wrong_or_lacks` passes for ``hardsigmoid``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.nn.functional as F  # noqa: N812 - the field's name for it

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _hard_sigmoid(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002 - the name that callers may use
    result = F.relu6(input + 3) / 6
    return input.copy_(result) if inplace else result


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {F.hardsigmoid: _hard_sigmoid}
