"""Which parameters an initializer set while a model was built, seen by watching torch's calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

_MODULES = str(Path(nn.__file__).parent / "modules")


class InitializerCalls(TorchFunctionMode):
    """Watches the calls that write into tensors; the last one to each storage counts, and a clone is as its original.

    A call inside `reset_parameters` of a module of torch.nn is PyTorch's default, any other is an initializer's:
    `torch.nn.init`, ``tensor.normal_()``, ``tensor.copy_()``, ``tensor.mul_()``, an assignment to a slice.
    """

    def __init__(self) -> None:
        super().__init__()
        # By weak references, because the address of a tensor that is replaced may be used again.
        self._by_default: dict[StorageWeakRef, bool] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the call; note the storage that it writes into."""
        keywords = kwargs or {}
        result = func(*args, **keywords)
        name = getattr(func, "__name__", "")
        if name == "clone":  # a layer is copied
            original = args[0] if args else keywords["input"]
            if original.layout is torch.strided and original.device.type != "meta":
                self._by_default[_storage(result)] = self._by_default.get(_storage(original), False)
        writes = name == "__setitem__" or (name.endswith("_") and not name.endswith("__") and name != "requires_grad_")
        written = args[0] if args else keywords.get("tensor")  # torch.nn.init passes its tensor by this name
        if writes and torch.is_tensor(written) and written.device.type != "meta" and not is_lazy(written):
            self._by_default[_storage(written)] = _inside_reset_parameters()
        return result

    def untouched(self, model: nn.Module) -> frozenset[str]:
        """Return the names of the parameters that only PyTorch's default has set in a model built meanwhile."""
        return frozenset(
            name
            for name, parameter in model.named_parameters()
            if parameter.device.type != "meta" and self._by_default.get(_storage(parameter), False)
        )


def _storage(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def _inside_reset_parameters() -> bool:
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  # `inspect.stack` reads the source of every frame
    while frame is not None:
        code = frame.f_code
        if code.co_name in {"reset_parameters", "_reset_parameters"} and code.co_filename.startswith(_MODULES):
            return True
        frame = frame.f_back
    return False
