"""Plug-ins: modules outside the library that register components when they are imported.

A package names such a module as an entry point in the group ``initbench.plugins``; a single file is given with
``--plugin path.py``. A file is passed on as text, so that it reaches workers that do not share a disk.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import traceback
from dataclasses import dataclass
from functools import cache
from importlib.abc import SourceLoader
from importlib.metadata import entry_points
from pathlib import Path, PurePath
from typing import Any

from initbench.arguments import read_text
from initbench.errors import InitbenchError

GROUP = "initbench.plugins"


@dataclass(frozen=True)
class PluginFile:
    """A plug-in in a single file: its path, for messages, and its source."""

    path: str
    text: str

    @property
    def module_name(self) -> str:
        """The module name: the file's stem and a hash of its text, so that two versions never mix."""
        stem = re.sub(r"\W", "_", PurePath(self.path).stem)
        return f"initbench_plugin_{stem}_{hashlib.sha256(self.text.encode()).hexdigest()[:8]}"


class _TextLoader(SourceLoader):
    """Imports a plug-in from its text; its path, which a worker may lack, is only for tracebacks and `inspect`."""

    def __init__(self, plugin: PluginFile) -> None:
        self.plugin = plugin

    def get_filename(self, fullname: str) -> str:  # the protocol of importlib
        return self.plugin.path

    def get_data(self, path: str | bytes) -> bytes:  # as above
        return self.plugin.text.encode()


def read_file(path: str | Path) -> PluginFile:
    """Read a plug-in file without importing it; an InitbenchError says why it cannot be read."""

    def error(problem: str, line: int | None) -> InitbenchError:
        location = path if line is None else f"{path}:{line}"
        return InitbenchError(f"--plugin {location}: {problem}")

    return PluginFile(str(path), read_text(path, "*.py", error))


def load_file(plugin: PluginFile) -> None:
    """Import a plug-in file, once per process; an InitbenchError shows the error that the import raised."""
    name = plugin.module_name
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_loader(name, _TextLoader(plugin))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InitbenchError(f"--plugin {plugin.path}: {_what_it_raised(error, plugin.path)}") from error


@cache
def load_entry_points() -> None:
    """Import every installed plug-in package, once per process; an InitbenchError names a package that fails."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:
            package = point.dist.name if point.dist else point.value
            raise InitbenchError(f"plug-in {package} ({point.value}): {_what_it_raised(error)}") from error


def first_line(error: BaseException) -> str:
    try:
        return str(error).strip().partition("\n")[0]
    except Exception:  # noqa: BLE001  # an exception's `__str__` may itself fail
        return "its message cannot be shown"


def origin(module_name: str) -> str:
    """Return the origin of a component for display: the path of a plug-in file, or the module's name."""
    loader = getattr(sys.modules.get(module_name), "__loader__", None)
    return loader.plugin.path if isinstance(loader, _TextLoader) else module_name


def source_hash(module_name: str) -> str:
    """Return the SHA-256 of a plug-in's source: its file, or the names and texts of its package's Python files.

    The location of a package does not matter. Everything without a file (a notebook) shares one hash.
    """
    top: Any = sys.modules[module_name.partition(".")[0]]
    folders = [Path(folder) for folder in getattr(top, "__path__", [])]
    files = sorted((file.relative_to(folder).as_posix(), file) for folder in folders for file in folder.rglob("*.py"))
    digest = hashlib.sha256()
    for name, file in files:
        digest.update(f"{name}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    if not files and getattr(top, "__file__", None):
        digest.update(top.__loader__.get_data(top.__file__))
    return digest.hexdigest()


def _what_it_raised(error: BaseException, path: str | None = None) -> str:
    """Return ``importing it raised ValueError on line 3: ...``; our own errors are returned as they are."""
    if isinstance(error, InitbenchError):
        return str(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if path is not None and f.filename == path]
    line = f" on line {frames[-1].lineno}" if frames else ""
    message = first_line(error)
    return f"importing it raised {type(error).__name__}{line}" + (f": {message}" if message else "")
