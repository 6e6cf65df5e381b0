"""Virtual environments in which a test installs a package, without a download."""

import subprocess
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import initbench


def virtual_environment(folder):
    """Make a virtual environment that has what the running one has; return its interpreter."""
    venv.create(folder, with_pip=not _has_pip())  # the running one's installs here too; its own takes seconds
    # The running environment may be a virtual one itself, which `system_site_packages` would not reach: its folders are
    # added, with what their own .pth files add (an editable install), and the folder of this package.
    running = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(Path(initbench.__file__).parents[1])}
    purelib = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    lines = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in sorted(running))
    Path(purelib, "running_environment.pth").write_text(lines, encoding="utf-8")
    return folder / "bin" / "python"


def _has_pip():
    try:
        return bool(version("pip"))  # `find_spec` would let setuptools replace distutils, which torch.compile imports
    except PackageNotFoundError:
        return False


def install(python, package):
    """Install the package of a folder, with the build backend that the environment has."""
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([python, "-m", "pip", "install", *offline, str(package)], check=True, cwd=package.parent)
