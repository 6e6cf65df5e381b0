"""Operations of PyTorch, and our own, computed in another way while a model runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Replaced(TorchFunctionMode):
    """Within this context some functions are computed by others.

    It sees each function of PyTorch that the model calls, of whatever layer, also where the model is not ours, and our
    own functions that say so by `torch.overrides.handle_torch_function`. What a replacement calls is not replaced.

    Args:
        replacements: function → what is called in its place, with the same arguments.
    """

    def __init__(self, replacements: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        super().__init__()
        self._replacements = replacements

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        """Compute a function by its replacement, and one without as it is."""
        return self._replacements.get(function, function)(*arguments, **(options or {}))
