"""Freed memory stays with the process."""

import ctypes
import subprocess
import sys

import pytest

COUNT = """
import resource
import sys
import torch
from initbench.execution.process_state import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    tensors = [torch.ones(4 * 2**20 // 4) for _ in range(64)]  # 256 MiB in blocks of 4
    del tensors

work()
before = faults()
for _ in range(3):
    work()
print(faults() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt")
def test_memory_is_used_again_without_asking_the_kernel():
    counts = {}
    for mode in ("keep", "leave"):
        command = [sys.executable, "-c", COUNT, mode]
        counts[mode] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    # What is left with "keep" are blocks of the first round that are cut anew.
    assert counts["keep"] < counts["leave"] / 4
