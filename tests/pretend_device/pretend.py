"""The device `pretend`: it computes on the CPU by CUDA's rules on mixing devices, and counts the waits for it.

A tensor on it holds a CPU tensor. Importing this module registers the device, which works once per process. It cannot
show kernels, cuDNN, TF32, memory, streams or failures of the context.
"""

from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

aten = torch.ops.aten
NAME = "pretend"
# CUDA accepts a CPU number in these as well, which have no tag for it, and CPU indices in the last.
NUMBERS = {aten.masked_fill, aten.masked_fill_}
INDEXED = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
READS = {aten._local_scalar_dense, aten.equal, aten.nonzero, aten.masked_select, aten._unique2}
PINS = {aten.pin_memory, aten._pin_memory}

waits: Counter[str] = Counter()
"""How often the host has waited for the device: for a `read`, or a copy `to_host` or `to_device`."""


class MixedDevicesError(RuntimeError):
    """CUDA would refuse this operation."""


class _Module:
    """The device's counterpart of `torch.cuda`; its random stream is a generator of its own."""

    default_generators = (torch.Generator(),)

    def __init__(self):
        stream = self.default_generators[0]
        self.manual_seed = self.manual_seed_all = stream.manual_seed
        self.get_rng_state = lambda device=None: stream.get_state()
        self.set_rng_state = lambda state, device=None: stream.set_state(state)
        self.is_available = self.is_initialized = lambda: True
        self.device_count = lambda: 1
        self.current_device = lambda: 0
        self.get_amp_supported_dtype = lambda: [torch.bfloat16]
        self._is_in_bad_fork = lambda: False


module = _Module()
_setup_privateuseone_for_python_backend(NAME, backend_module=module)
DEVICE = torch.device(NAME, 0)


class Pretend(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held):
        kind = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, device=DEVICE, **kind)

    def __init__(self, held):
        self.held = held

    def __repr__(self):
        return f"Pretend({self.held})"

    def tolist(self):  # torch refuses it for subclasses
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


class OnPretend(TorchDispatchMode):
    """Within it, `device="pretend"` makes tensors on the device."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


def _run(function, args, kwargs):
    leaves, spec = tree_flatten((args, kwargs))
    there = [leaf for leaf in leaves if isinstance(leaf, Pretend)]
    made_there = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == NAME
    if function.overloadpacket in PINS:
        pinned = args[0].clone()
        pinned.pinned = True
        return pinned
    if not there and not made_there:
        return function(*args, **kwargs)
    if function.overloadpacket in {aten._to_copy, aten.copy_}:
        here = not made_there if kwargs.get("device") is not None else not isinstance(args[0], Pretend)
        _count_copy(args[-1], here, kwargs.get("non_blocking", False))
    else:
        here = False
        _check(function, args, kwargs, leaves)
    waits["read"] += function.overloadpacket in READS or _indexes_by_mask(function, args)
    args, kwargs = tree_unflatten([leaf.held if isinstance(leaf, Pretend) else leaf for leaf in leaves], spec)
    if made_there:
        kwargs = kwargs | {"device": "cpu"}
    with _stream_of_the_device() if torch.Tag.nondeterministic_seeded in function.tags else nullcontext():
        result = function(*args, **kwargs)
    outer = {id(leaf.held): leaf for leaf in there}  # in place: the argument itself

    def wrapped(tensor):
        return outer[id(tensor)] if id(tensor) in outer else Pretend(tensor)

    return result if here else tree_map_only(torch.Tensor, wrapped, result)


def _count_copy(source, to_host, non_blocking):
    if to_host and isinstance(source, Pretend):
        waits["to_host"] += 1
    elif not to_host and not isinstance(source, Pretend):
        waits["to_device"] += not (non_blocking and getattr(source, "pinned", False))


def _check(function, args, kwargs, leaves):
    """Refuse what CUDA refuses: a CPU generator, and CPU tensors, except for numbers and indices."""
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise MixedDevicesError(f"{function}: a CPU generator for a tensor on the device")
    others = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and not isinstance(leaf, Pretend)]
    if not others:
        return
    written = {id(leaf) for leaf, a in zip(args, function._schema.arguments, strict=False) if _writes(a)}
    numbers = torch.Tag.pointwise in function.tags or function.overloadpacket in NUMBERS | INDEXED
    indices = {id(index) for index in args[1]} if function.overloadpacket in INDEXED else set()
    for leaf in others:
        if id(leaf) in indices and isinstance(args[0], Pretend):
            waits["to_device"] += 1
        elif leaf.dim() or id(leaf) in written or not numbers:
            raise MixedDevicesError(f"{function}: a CPU tensor, shape {tuple(leaf.shape)}, beside one on the device")


def _writes(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def _indexes_by_mask(function, args):
    return function.overloadpacket in INDEXED and any(i is not None and i.dtype == torch.bool for i in args[1])


@contextmanager
def _stream_of_the_device():
    host, stream = torch.get_rng_state(), module.default_generators[0]
    torch.set_rng_state(stream.get_state())
    try:
        yield
    finally:
        stream.set_state(torch.get_rng_state())
        torch.set_rng_state(host)


# `torch.tensor(..., device="pretend")` and `new_tensor` copy below the modes.
@torch.library.impl("aten::empty_strided", "privateuseone")
def _empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return Pretend(torch.empty_strided(size, stride, dtype=dtype, device="cpu"))


@torch.library.impl("aten::empty.memory_format", "privateuseone")
def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return Pretend(torch.empty(size, dtype=dtype, device="cpu", memory_format=memory_format))


@torch.library.impl("aten::_copy_from", "privateuseone")
def _copy_from(source, target, non_blocking=False):
    _count_copy(source, not isinstance(target, Pretend), non_blocking)
    getattr(target, "held", target).copy_(getattr(source, "held", source))
    return target


# Autocast: bfloat16 in matrix products and convolutions, and nothing else.
_rest = torch.library.Library("_", "IMPL")
_rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
_products = torch.library.Library("aten", "IMPL")
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def _lower(function, *args, **kwargs):
    with torch._C._ExcludeDispatchKeyGuard(_KEYS):
        return function(*tree_map_only(torch.Tensor, _lowered, args), **kwargs)


def _lowered(tensor):
    return tensor.bfloat16() if tensor.dtype == torch.float32 else tensor


for _name in ("conv1d", "conv2d", "linear", "matmul", "mm", "bmm", "addmm", "scaled_dot_product_attention"):
    _products.impl(_name, partial(_lower, getattr(aten, _name)), "AutocastPrivateUse1")
