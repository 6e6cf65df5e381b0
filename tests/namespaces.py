"""A shell command in namespaces of its own: whatever it starts ends with it, and `ray stop` stops no other Ray."""

import shutil
import subprocess

import pytest

NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def are_available():
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run([*NAMESPACES, "ip", "netns", "list"], capture_output=True, check=False).returncode == 0


NEEDS_NAMESPACES = pytest.mark.skipif(
    not are_available(), reason="needs network namespaces: root, util-linux and iproute2"
)
