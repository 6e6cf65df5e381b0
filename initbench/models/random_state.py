"""The global random states of the CPU and of other devices, which dropout uses: read, seeded, restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor


def has_random_state(device: torch.device) -> bool:
    """Return whether a device has generators of its own, as GPUs have; the CPU and ``meta`` have none."""
    return hasattr(getattr(torch, device.type, None), "default_generators")


def device_state(device: torch.device) -> Tensor | None:
    """Return a device's random state; None if it has none of its own."""
    return torch.get_device_module(device).get_rng_state(device) if has_random_state(device) else None


@contextmanager
def forked(*devices: torch.device, seed: int | None = None) -> Iterator[None]:
    """Restore the random states of the CPU and of these devices at the end; set them to `seed` first if given."""
    others = [device for device in dict.fromkeys(devices) if has_random_state(device)]
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        for device in others:
            stack.enter_context(torch.random.fork_rng([device], device_type=device.type))
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            for device in others:
                module = torch.get_device_module(device)
                index = module.current_device() if device.index is None else device.index
                module.default_generators[index].manual_seed(seed)
        yield
