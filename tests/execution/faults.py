"""A plug-in with faults to inject, and a small architecture to inject them into."""

import os
import signal
import time

import torch
from torch import nn

import initbench
from initbench.data.load import data_root


@initbench.register_architecture("tiny")
def tiny(width: int = 8, *, input_shape: tuple[int, int, int] = (1, 8, 8), num_classes: int = 10) -> nn.Module:
    """Two linear layers."""
    inputs = input_shape[0] * input_shape[1] * input_shape[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, num_classes))


def fail(_):
    raise RuntimeError("the first line\nthe second line")


def leave(_):
    raise SystemExit(3)


def diverge(model):
    with torch.no_grad():
        next(model.parameters()).fill_(float("inf"))


def leak(_):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(2)
    torch.manual_seed(12345)
    torch.use_deterministic_algorithms(True)


def tell_data_root(_):
    raise RuntimeError(str(data_root()))


FAULTS = {
    "data_root": tell_data_root,
    "raise": fail,
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "system_exit": leave,
    "diverge": diverge,
    "leak": leak,
    "sleep": lambda _: time.sleep(600),
}


@initbench.register_initializer("fault")
def fault(kind: str):
    """Draws N(0, 0.1²), then does something that an initializer should not."""

    def apply(model, context):
        for name, parameter in model.named_parameters():
            nn.init.normal_(parameter, 0.0, 0.1, generator=context.generator(name))
        FAULTS[kind](model)

    return apply
