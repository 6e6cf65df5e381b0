"""Plug-ins: modules outside the library that register components when they are imported.

A package names such a module as an entry point in the group ``initbench.plugins``; a single file is given with
``--plugin path.py``. A file is carried as text, so that it reaches workers that do not share a disk.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from initbench.errors import InitbenchError

GROUP = "initbench.plugins"


@dataclass(frozen=True)
class PluginFile:
    """A plug-in of one file.

    Attributes:
        path: where the user has it, for messages.
        text: its source.
    """

    path: str
    text: str

    @property
    def module_name(self) -> str:
        """The name it is imported under: its stem and a hash of its text, so that two versions never mix."""
        return f"initbench_plugin_{Path(self.path).stem}_{hashlib.sha256(self.text.encode()).hexdigest()[:8]}"


def read_file(path: str | Path) -> PluginFile:
    """Read a plug-in file without importing it.

    Raises:
        InitbenchError: the file cannot be read.
    """
    try:
        return PluginFile(str(path), Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InitbenchError(f"--plugin {path}: cannot be read: {error}") from error


def load_file(plugin: PluginFile) -> None:
    """Import a plug-in file, once per process.

    Raises:
        InitbenchError: importing it raised.
    """
    name = plugin.module_name
    if name in sys.modules:
        return
    # The text is imported from a file of its own: tracebacks and `inspect` need one, and a worker may lack the user's.
    folder = Path(tempfile.mkdtemp(prefix="initbench-plugin-"))
    copy = folder / f"{name}.py"
    copy.write_text(plugin.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InitbenchError(
            f"--plugin {plugin.path}: importing it raised {type(error).__name__}: {first_line(error)}"
        ) from error


@cache
def load_entry_points() -> None:
    """Import every installed plug-in package, once per process.

    Raises:
        InitbenchError: importing one raised; the message names the package.
    """
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:
            package = point.dist.name if point.dist else point.value
            raise InitbenchError(
                f"plug-in {package} ({point.value}): importing it raised {type(error).__name__}: {first_line(error)}"
            ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]


def source_hash(module_name: str) -> str:
    """Return the SHA-256 of a plug-in's source: its file, or all Python files of its top-level package.

    Args:
        module_name: the module that defines the component.
    """
    top = sys.modules[module_name.partition(".")[0]]
    paths = [Path(folder) for folder in getattr(top, "__path__", [])]
    files = sorted(file for folder in paths for file in folder.rglob("*.py"))
    if not files and top.__file__:
        files = [Path(top.__file__)]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
