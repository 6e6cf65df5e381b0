"""The libraries that only an extra of initbench installs, and what to say if one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from initbench.errors import UnknownNameError

_OF_SUITE = (
    "PIL",
    "jinja2",
    "mlflow",
    "pandas",
    "ray",
    "sacrebleu",
    "safetensors",
    "sklearn",
    "statsmodels",
    "timm",
    "tokenizers",
    "torchvision",
    "vl_convert",
)
EXTRA_OF = {**dict.fromkeys(_OF_SUITE, "suite"), "transformers": "hf"}
"""Module → the extra that installs it; the library imports no other module that its core does not install."""


def installation(error: BaseException) -> str | None:
    """Return ``pandas: pip install 'initbench[suite]'`` if a library of an extra is missing, else None."""
    # The name is exact: a missing module inside of an installed library is a fault.
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return f"{name}: pip install 'initbench[{EXTRA_OF[name]}]'" if name in EXTRA_OF else None


def require(*modules: str) -> None:
    """Raise the ModuleNotFoundError of the first module that is not installed; import none."""
    for name in modules:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def needed_by(names: str) -> Iterator[None]:
    """Raise an UnknownNameError that says what to install if these names need a library that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        line = installation(error)
        if line is None:
            raise
        raise UnknownNameError(f"{names} need the library {line}") from error
