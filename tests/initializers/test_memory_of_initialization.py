"""What initializing takes beside the model: a copy for the case of an error, and no second one."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import resource
import torch
from torch import nn
import initbench

layers, width = 24, 1000
model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
initbench.initialize(nn.Linear(3, 3), "gaussian")  # what is imported late, and the generators
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
initbench.initialize(model, "gaussian")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / (4 * layers * width**2))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
def test_it_takes_at_most_one_and_a_half_times_the_parameters():
    result = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert float(result.stdout) < 1.5
