"""Activation checkpointing: less memory for one more forward pass, for any model made of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


@contextmanager
def checkpointed_blocks(model: nn.Module) -> Iterator[None]:
    """Within this context a training step stores only the inputs of the model's blocks, not their activations.

    The backward pass recomputes a block's activations with the same random numbers, autocast and buffers: losses,
    gradients and buffers are the same. The module tree, the parameters' names and evaluation without gradients are
    unchanged.

    Source: Chen, Xu, Zhang & Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016, section 3.
    """
    with ExitStack() as stack:
        for block in find_blocks(model):
            stack.enter_context(_checkpointed(block))
        yield


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the model's blocks in order: the residual blocks of a ResNet, the layers of a Transformer.

    A block is a child of an `nn.Sequential` or `nn.ModuleList` that is itself made of layers and contains no other
    block.
    """
    candidates = [
        child
        for container in model.modules()
        if isinstance(container, nn.Sequential | nn.ModuleList)
        for child in container.children()
        if not _is_layer(child)
    ]
    chosen = set(candidates)
    innermost = [block for block in candidates if not any(m in chosen for m in block.modules() if m is not block)]
    return list(dict.fromkeys(innermost))


def _is_layer(module: nn.Module) -> bool:
    """Return whether no part of the module has parameters: a norm with an activation, or a parametrized layer."""
    return not any(
        next(child.parameters(), None) is not None
        for name, child in module.named_children()
        if name != "parametrizations"
    )


@contextmanager
def _checkpointed(block: nn.Module) -> Iterator[None]:
    """Wrap the block's forward pass in a checkpoint, only on this instance."""
    forward: Callable[..., Any] = block.forward
    on_instance = "forward" in vars(block)

    def checkpointed_forward(*inputs: Any, **options: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **options)
        contexts = partial(_forward_and_recompute_contexts, block)
        return checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts, **options)

    block.forward = checkpointed_forward
    try:
        yield
    finally:
        if on_instance:
            block.forward = forward
        else:
            del block.forward


def _forward_and_recompute_contexts(
    block: nn.Module,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of the first and second pass; the second starts from the same buffers as the first.

    Buffers are running statistics, the vectors of spectral normalization, and anything else that a pass may change.
    """
    before = {name: buffer.clone() for name, buffer in block.named_buffers()}
    return nullcontext(), _with_buffers(block, before)


@contextmanager
def _with_buffers(block: nn.Module, buffers: Mapping[str, Tensor]) -> Iterator[None]:
    current = dict(block.named_buffers())
    _set_buffers(block, buffers)
    try:
        yield
    finally:
        _set_buffers(block, current)


def _set_buffers(block: nn.Module, buffers: Mapping[str, Tensor]) -> None:
    for name, buffer in buffers.items():
        owner, _, last = name.rpartition(".")
        setattr(block.get_submodule(owner), last, buffer)
