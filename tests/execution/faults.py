"""A plug-in with faults to inject, and a small architecture to inject them into."""

import math
import os
import signal
import time

import torch
from torch import nn

import initbench
from initbench.data.load import data_root
from initbench.inputs import Inputs


@initbench.register_architecture("tiny")
def tiny(width: int = 8, *, inputs: Inputs, outputs: int) -> nn.Module:
    """Two linear layers."""
    features = math.prod(inputs.shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(features, width), nn.ReLU(), nn.Linear(width, outputs))


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


@initbench.register_probe("bare_number")
def bare_number():
    """A probe that returns what is no measurement."""
    return lambda _model, _context: 0.5
