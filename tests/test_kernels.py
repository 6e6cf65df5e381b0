"""The switches for precision and kernels: what they are set to, and that the caller's settings are restored.

It needs nothing but torch, so that it can be run with any version.
"""

import pytest
import torch
from torch import backends

from initbench.models.kernels import float32_products, kernel_choice

OPERATIONS = {
    **{f"cuda {name}": switch for name, switch in (("conv", backends.cudnn.conv), ("rnn", backends.cudnn.rnn))},
    "cuda matmul": backends.cuda.matmul,
    **{f"cpu {name}": getattr(backends.mkldnn, name) for name in ("matmul", "conv", "rnn")},
}
GENERAL = {"all": backends, "cuda": backends.cudnn}


def read(get):
    try:
        return get()
    except RuntimeError:  # the two families of switches contradict each other
        return "contradiction"


def state():
    """Every switch that could matter, as the caller's own code reads it."""
    older = {
        "matmul": read(torch.get_float32_matmul_precision),
        "allow_tf32": read(lambda: backends.cuda.matmul.allow_tf32),
        "cudnn": read(lambda: backends.cudnn.allow_tf32),
    }
    newer = {name: switch.fp32_precision for name, switch in (GENERAL | OPERATIONS).items()}
    kernels = torch.get_deterministic_debug_mode(), backends.cudnn.deterministic, backends.cudnn.benchmark
    return older, newer, kernels


def newer(switch, value):
    return lambda: setattr(switch, "fp32_precision", value)


def tf32_everywhere():
    torch.set_float32_matmul_precision("high")
    backends.cudnn.allow_tf32 = True


def other_kernels():
    torch.use_deterministic_algorithms(True, warn_only=True)
    backends.cudnn.deterministic = backends.cudnn.benchmark = True


CALLERS = {
    "defaults": lambda: None,
    "TF32 everywhere": tf32_everywhere,
    "bf16 on the CPU": lambda: torch.set_float32_matmul_precision("medium"),
    "cudnn exact": lambda: setattr(backends.cudnn, "allow_tf32", False),
    "other kernels": other_kernels,
    "newer: all TF32": newer(backends, "tf32"),
    "newer: all exact": newer(backends, "ieee"),
    "newer: GPUs TF32": newer(backends.cudnn, "tf32"),
    "newer: CPUs bf16": newer(backends.mkldnn, "bf16"),
    "newer: one operation": newer(backends.cudnn.conv, "ieee"),
    "newer: a CPU's convolutions": newer(backends.mkldnn.conv, "bf16"),
}


@pytest.fixture(params=CALLERS)
def caller(request):
    """The state that a caller has set; the defaults are restored after the test, by torch's own means."""
    defaults = [(switch, switch.fp32_precision) for switch in (GENERAL | OPERATIONS).values()]
    CALLERS[request.param]()
    yield state()
    for switch, _ in defaults:
        switch.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = True
    for switch, value in defaults:
        switch.fp32_precision = value
    torch.use_deterministic_algorithms(False)
    backends.cudnn.deterministic = backends.cudnn.benchmark = False


@pytest.mark.parametrize("tf32", [False, True])
def test_every_product_follows_one_precision_and_the_older_switches_still_work(caller, tf32):
    with float32_products(tf32=tf32):
        assert backends.cuda.matmul.allow_tf32 is backends.cudnn.allow_tf32 is tf32
        assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
        for name, switch in OPERATIONS.items():
            assert (switch.fp32_precision == "tf32") is (tf32 and name not in {"cpu conv", "cpu rnn"}), name
            assert switch.fp32_precision != "bf16"
        for flag in (False, True):
            with backends.cudnn.flags(enabled=True, allow_tf32=flag):
                assert backends.cudnn.allow_tf32 is flag
                assert (backends.cudnn.conv.fp32_precision == "tf32") is flag
        assert backends.cudnn.allow_tf32 is tf32
    assert state() == caller


def test_an_inner_precision_gives_back_the_outer_one(caller):
    with float32_products(tf32=True):
        outer = state()
        with float32_products():
            assert not backends.cudnn.allow_tf32
        assert state() == outer
    assert state() == caller


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_choice_of_kernels(caller, deterministic):
    with kernel_choice(deterministic=deterministic, cudnn_benchmark=not deterministic):
        assert torch.get_deterministic_debug_mode() == (2 if deterministic else 0)
        assert backends.cudnn.deterministic is deterministic
        assert backends.cudnn.benchmark is not deterministic
    assert state() == caller


def fail_after_changing_everything():
    with float32_products(), kernel_choice(deterministic=True):
        for change in CALLERS.values():
            change()
        raise KeyError


def test_the_callers_settings_return_after_an_exception_and_whatever_ran_inside(caller):
    with pytest.raises(KeyError):
        fail_after_changing_everything()
    assert state() == caller
