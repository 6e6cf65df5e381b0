"""The public names: all can be had, and the reference has each of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import initbench

ROOT = Path(initbench.__file__).parents[1]


def test_every_name_can_be_had():
    assert set(initbench.__all__) == set(initbench._PUBLIC)
    for name in initbench.__all__:
        assert getattr(initbench, name) is not None
    assert set(initbench.__all__) <= set(dir(initbench))


def test_the_reference_has_each():
    documented = re.findall(r"^::: initbench\.(\w+)$", (ROOT / "docs/reference.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(documented) == sorted(initbench.__all__)


@pytest.mark.parametrize("name", ["Inputs", "Metric", "Initializer", "Description", "ArgumentError", "register_task"])
def test_what_needs_no_torch_loads_none(name):
    check = f"import sys\nfrom initbench import {name}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Initialiser'"):
        _ = initbench.Initialiser
