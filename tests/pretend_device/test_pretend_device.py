"""The device `pretend` needs a process of its own, because a backend is registered once: each file of cases has one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this version of torch cannot register a device from Python",
)


def run_cases(name, **variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(HERE / name)], capture_output=True, text=True, check=False, env=os.environ | variables
    )
    assert done.returncode == 0, done.stdout + done.stderr


CASES = sorted(path.name for path in HERE.glob("cases_*.py"))


@pytest.mark.parametrize("name", CASES)
def test_on_the_pretend_device(name):
    run_cases(name)


@pytest.mark.slow
def test_all_smoke_trials():
    run_cases("cases_smoke.py", INITBENCH_TEST_ALL_SMOKE_TRIALS="1")
