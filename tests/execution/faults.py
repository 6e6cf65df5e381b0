"""A plug-in with faults to inject, and a small architecture to inject them into."""

import ctypes
import math
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

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


def interrupt(_):
    raise KeyboardInterrupt


class UntellableError(Exception):
    """An exception that cannot be made text of."""

    def __str__(self):
        raise RuntimeError("no text")


def raise_untellable(_):
    raise UntellableError


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


def crash(_):
    ctypes.string_at(0)


def take_memory(_):
    """Takes 2 GB bit by bit, touching every page, as a model that is too large does."""
    taken = []
    for _ in range(100):
        taken.append(torch.ones(5_000_000))
        time.sleep(0.02)


def let_an_orphan_take_memory(_):
    """As `take_memory`, in a process whose parent has ended, and not more than 500 MB."""
    code = "import time; x = [time.sleep(0.02) or bytearray(b'x') * 10_000_000 for _ in range(50)]; time.sleep(600)"
    subprocess.run(["/bin/sh", "-c", '"$0" -c "$1" &', sys.executable, code], check=True)
    time.sleep(30)


def leave_processes_behind(_):
    """Starts one for each way in which a process can leave its family."""
    subprocess.Popen(["sleep", "600"])
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    subprocess.run(["/bin/sh", "-c", "sleep 600 & setsid sleep 600 &"], check=True)
    Path(os.environ["INITBENCH_TEST_LEFT"]).touch()


def leave_processes_behind_and(what):
    def both(model):
        leave_processes_behind(model)
        what(model)

    return both


def use_a_pool(_):
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        pool.map(abs, [-1])


def run_out_of_memory(_):
    """Asks for more than a limit of the system admits, the way a job's `ulimit -v` does."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 200_000_000, before[1]))
    try:
        torch.ones(1_000_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def fall_into_the_black_hole(_):
    """Fails where the environment says so: on a node whose GPU or installation is broken. Elsewhere it ends later."""
    failures = Path(os.environ.get("INITBENCH_TEST_FAILURES", os.devnull))
    if os.environ.get("INITBENCH_TEST_BLACK_HOLE"):
        with failures.open("a") as file:
            file.write("one\n")
        raise RuntimeError("this node is broken")
    while failures.is_file() and failures.read_text().count("one") < 3:
        time.sleep(0.1)


def meet_a_broken_gpu(_):
    """Fails on the GPU that the environment names, as Ray numbers them."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == os.environ["INITBENCH_TEST_BROKEN_GPU"]:
        with Path(os.environ["INITBENCH_TEST_FAILURES"]).open("a") as file:
            file.write("one\n")
        raise RuntimeError("this GPU is broken")


MOVE = nn.Module.to


def break_context(_):
    """As a failed assertion in a CUDA kernel that nothing waits for: everything fails from the next trial on."""
    if "INITBENCH_TEST_REPAIRED" not in os.environ:
        nn.Module.to = fail_to_move
        functional.conv2d = fail_to_compute


def break_context_and_fail(model):
    break_context(model)
    model.to("cpu")


def fail_to_move(model, device=None, **others):
    if device is not None:
        fail_to_compute()
    return MOVE(model, **others)


def fail_to_compute(*_, **__):
    raise RuntimeError("CUDA error: device-side assert triggered\nCUDA kernel errors might be reported later")


FAULTS = {
    "data_root": tell_data_root,
    "raise": fail,
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "system_exit": leave,
    "diverge": diverge,
    "break_context": break_context,
    "break_context_and_fail": break_context_and_fail,
    "leak": leak,
    "crash": crash,
    "take_memory": take_memory,
    "run_out_of_memory": run_out_of_memory,
    "black_hole": fall_into_the_black_hole,
    "broken_gpu": meet_a_broken_gpu,
    "pause": lambda _: time.sleep(3),
    "sleep": lambda _: time.sleep(600),
    "interrupt": interrupt,
    "untellable": raise_untellable,
    "orphan_takes_memory": let_an_orphan_take_memory,
    "leave_behind": leave_processes_behind,
    "leave_behind_and_crash": leave_processes_behind_and(crash),
    "leave_behind_and_exit": leave_processes_behind_and(lambda _: os._exit(0)),
    "leave_behind_and_sleep": leave_processes_behind_and(lambda _: time.sleep(600)),
    "fork": lambda _: os.fork(),
    "pool": use_a_pool,
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
