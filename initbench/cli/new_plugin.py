"""`initbench new-plugin NAME`: write a plug-in package to start from."""

import importlib.metadata
import importlib.util
import keyword
import re
import shlex
import sys
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

import initbench
from initbench.cli.options import Debug, Json, print_json
from initbench.cli.output import say
from initbench.errors import InitbenchError
from initbench.registry import INITIALIZERS

# File → template. The templates have a suffix of their own, so that no tool takes them for sources or configuration
# of this project.
_FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    ".gitignore": "gitignore",
    "src/$package/__init__.py": "package.py",
    "src/$package/initializer.py": "initializer.py",
    "src/$package/py.typed": "py.typed",
    "tests/test_$package.py": "test_initializer.py",
    "suites/$package.yaml": "suite.yaml",
}
_LONGEST = 100  # the longest name of a suite


def new_plugin(
    name: Annotated[str, typer.Argument(help="The package's name, such as my_methods.", metavar="NAME")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; default: NAME with hyphens.", metavar="DIR")
    ] = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Write a plug-in package: an initializer, its tests, and a suite that compares it with kaiming."""
    package = _package_name(name)
    folder = Path(package.replace("_", "-")) if out is None else out
    written = _write(package, folder)
    commands = [
        f"cd {shlex.quote(str(folder))}",
        "pip install -e '.[test]'",
        "pytest",
        f"initbench run suites/{package}.yaml",
    ]
    if json:
        print_json({"package": package, "files": [str(path) for path in written], "next": commands})
        return
    for path in written:
        say(str(path))
    say("\nNext:", keep="\n")
    for command in commands:
        say(f"  {command}")


def _package_name(name: str) -> str:
    package = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", package):
        raise InitbenchError(
            "NAME must be lower-case letters, digits and single underscores or hyphens, beginning with a letter, "
            f"such as my_methods, got {name!r}"
        )
    if len(package) > _LONGEST:
        raise InitbenchError(f"NAME must have at most {_LONGEST} characters, got {len(package)}")
    taken = _taken_by(package)
    if taken:
        raise InitbenchError(f"NAME must be free, got {name!r}: {taken}")
    return package


def _taken_by(package: str) -> str | None:
    if keyword.iskeyword(package):
        return "it is a Python keyword"
    if package in {"true", "false", "null"}:
        return "YAML does not read it as text"
    if package in sys.stdlib_module_names:
        return "it is a module of Python's standard library"
    if package in INITIALIZERS.builtins:
        return "it is an initializer of initbench"
    # A partly removed distribution has no name.
    distributions = {re.sub(r"[-_.]+", "_", d.name or "").lower() for d in importlib.metadata.distributions()}
    if package in distributions or _importable(package):
        return "a package of this name is installed"
    return None


def _importable(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    if spec is None:
        return False
    # A folder of the working directory is not a module, although Python would import it as an empty one.
    folders = [Path(folder).resolve() for folder in spec.submodule_search_locations or []]
    return spec.origin is not None or any(Path.cwd() not in folder.parents for folder in folders)


def _write(package: str, folder: Path) -> list[Path]:
    names = {"package": package, "distribution": package.replace("_", "-"), "version": initbench.__version__}
    templates = files("initbench.cli").joinpath("plugin_template")
    written = []
    try:
        if folder.exists() and not folder.is_dir():
            raise InitbenchError(f"{folder}: is a file; choose another folder with --out")
        if folder.is_dir() and any(folder.iterdir()):
            raise InitbenchError(f"{folder}: is not empty; choose another folder with --out")
        for target, template in _FILES.items():
            path = folder / Template(target).substitute(names)
            text = Template(templates.joinpath(f"{template}.template").read_text(encoding="utf-8")).substitute(names)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise InitbenchError(f"{error.filename or folder}: {error.strerror}") from error
    return written
