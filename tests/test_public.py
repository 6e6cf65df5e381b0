"""The public names: all can be had, and the reference has each of them."""

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import initbench
import initbench.reporting

ROOT = Path(initbench.__file__).parents[1]


def test_type_checkers_read_the_modules_that_names_are_loaded_from():
    tree = ast.parse(Path(initbench.__file__).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.asname: node.module for node in imports for name in node.names if name.asname} == initbench._PUBLIC


def test_every_name_can_be_had():
    for name in initbench.__all__:
        assert getattr(initbench, name) is not None
    assert set(initbench.__all__) <= set(dir(initbench))


def test_the_reference_has_each():
    documented = re.findall(r"^::: initbench\.(\w+)$", (ROOT / "docs/reference.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(documented) == sorted(initbench.__all__)


REFERENCE = re.findall(r"^::: (initbench\.[\w.]+)$", (ROOT / "docs/reference.md").read_text("utf-8"), re.MULTILINE)
REFERENCE += [f"initbench.reporting.{name}" for name in initbench.reporting.__all__ if name not in REFERENCE]


def entries(docstring, *titles):
    """The names that the sections of a docstring explain; None where it has no such section."""
    found = re.findall(rf"^(?:{'|'.join(titles)}):\n((?: {{4}}.*\n?|\n)+)", docstring, re.MULTILINE)
    return set(re.findall(r"^ {4}\**(\w+):", "\n".join(found), re.MULTILINE)) if found else None


def parameters(function):
    return set(inspect.signature(function).parameters) - {"self", "cls"}


def missing_of_function(function, *, required):
    """What the docstring of a function does not explain; that of a method may do without `Args` as a whole."""
    docstring = inspect.getdoc(function)
    if not docstring:
        return ["a docstring"]
    explained = entries(docstring, "Args")
    return [] if explained is None and not required else sorted(parameters(function) - (explained or set()))


def missing_of_class(kind):
    docstring = kind.__doc__ and inspect.cleandoc(kind.__doc__)
    if not docstring or docstring.startswith(f"{kind.__name__}("):  # what `dataclass` makes of one without a docstring
        return ["a docstring"]
    if dataclasses.is_dataclass(kind):
        wanted = {field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")}
    else:
        wanted = parameters(kind.__init__) if "__init__" in vars(kind) else set()
    missing = sorted(wanted - (entries(docstring, "Args", "Attributes") or set()))
    for name, member in vars(kind).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            missing += [f"{name}: {what}" for what in missing_of_function(function, required=False)]
    return missing


def has_text_below(name, module):
    """Whether an alias of a type has a text in the line below it, which the reference shows."""
    body = ast.parse(inspect.getsource(module)).body
    line = next(i for i, node in enumerate(body) if isinstance(node, ast.Assign) and ast.unparse(node.targets) == name)
    return isinstance(body[line + 1], ast.Expr) and isinstance(body[line + 1].value, ast.Constant)


@pytest.mark.parametrize("name", REFERENCE)
def test_the_docstring_of_each_explains_every_argument(name):
    module, _, attribute = name.rpartition(".")
    thing = getattr(importlib.import_module(module), attribute)
    if inspect.isclass(thing):
        assert missing_of_class(thing) == []
    elif inspect.isroutine(thing):
        assert missing_of_function(thing, required=True) == []
    else:
        assert has_text_below(attribute, importlib.import_module(initbench._PUBLIC[attribute]))


def test_what_a_docstring_leaves_out_is_noticed():
    def half(first, second):
        """Do something.

        Args:
            first: one of two.
        """

    @dataclasses.dataclass
    class Bare:
        size: int

    class Part:
        """A part.

        Attributes:
            name: of it.
        """

        def __init__(self, name, size):
            self.name, self.size = name, size

        def grow(self):
            pass

    assert missing_of_function(half, required=True) == missing_of_function(half, required=False) == ["second"]
    assert missing_of_class(Bare) == ["a docstring"]
    assert missing_of_class(Part) == ["size", "grow: a docstring"]


@pytest.mark.parametrize("name", ["Inputs", "Metric", "Initializer", "Description", "ArgumentError", "register_task"])
def test_what_needs_no_torch_loads_none(name):
    check = f"import sys\nfrom initbench import {name}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Initialiser'"):
        _ = initbench.Initialiser
