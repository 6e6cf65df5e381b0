"""What initbench's requirements install: the distributions, their size, and an environment with the core alone.

`python tests/installation.py` prints the sizes. PyTorch is not counted: it is installed anyway, and its size depends on
its build.
"""

import os
import tomllib
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path
from sysconfig import get_path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE, SUITE = PROJECT["dependencies"], PROJECT["optional-dependencies"]["suite"]


def installed_by(requirements, without=()):
    """Return the distributions that requirements bring, directly or not, by name; those `without` bring nothing."""
    found: dict[str, Distribution] = {}
    waiting, seen = [Requirement(text) for text in requirements], set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if name in without or (name, extra) in seen:
                continue
            seen.add((name, extra))
            found[name] = distribution(name)
            needed = map(Requirement, found[name].requires or ())
            waiting += [one for one in needed if one.marker is None or one.marker.evaluate({"extra": extra})]
    return found


def core_environment(folder):
    """Make a virtual environment with what the core's requirements bring, and this library; return its interpreter.

    Its packages are links to those of the running environment: PyTorch takes gigabytes, so a second one does not fit
    everywhere. Nothing else can be imported or looked up there, as after `pip install initbench`: what `pyproject.toml`
    forgets is missing, too.
    """
    venv.create(folder)
    purelib = Path(get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for one in installed_by(CORE).values():
        for top in {file.parts[0] for file in one.files or ()} - {os.pardir}:
            link = purelib / top
            if not link.exists():  # such as nvidia/, which several distributions share
                link.symlink_to(one.locate_file(top))
    (purelib / "initbench.pth").write_text(f"{ROOT}\n", encoding="utf-8")
    return folder / "bin" / "python"


def megabytes(requirements):
    """Return the disk space that requirements take beside PyTorch."""
    files = {file.locate() for one in installed_by(requirements, {"torch"}).values() for file in one.files or ()}
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file()) / 1e6


if __name__ == "__main__":
    print(f"the core: {megabytes(CORE):.0f} MB beside PyTorch")
    print(f"with the suite: {megabytes([*CORE, *SUITE]):.0f} MB beside PyTorch")
