"""Which file needs which: by imports, wherever they stand, by lazy tables, and by the names of components."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY, TESTS = ROOT / "initbench", ROOT / "tests"
RECIPES = LIBRARY / "recipes"
TOOLS = {TESTS / "import_graph.py", TESTS / "reach.py"}  # they name what others need and need none of it
DOTTED = re.compile(r"\binitbench(?:\.\w+)+")


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(LIBRARY.rglob("*.py"))}


class Source(ast.NodeVisitor):
    """What a Python file says.

    Attributes:
        imports: pairs of a module and a name in it, or None; but for type checking.
        strings: but for docstrings, and for tables of what is imported when it is asked for.
        builtins: pairs of a component's name and its module, from the tables of registries.
        lazy: the modules of names that a package imports when they are asked for (PEP 562).
        is_about_all: whether it goes through registries.
    """

    def __init__(self, path):
        self.imports, self.strings, self.builtins, self.lazy, self.is_about_all = set(), set(), set(), {}, False
        self.visit(ast.parse(path.read_text(encoding="utf-8")))

    def visit_If(self, node):
        if not is_name(node.test, "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Import(self, node):
        self.imports.update((alias.name, None) for alias in node.names)

    def visit_ImportFrom(self, node):
        assert node.level == 0, f"relative import of {node.module}"
        self.imports.update((node.module, alias.name) for alias in node.names)

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self.strings.add(node.value)

    def visit_Call(self, node):
        if is_name(node.func, "Registry") and isinstance(node.args[1], ast.Dict):
            self.builtins.update(ast.literal_eval(node.args[1]).items())
        else:
            self.generic_visit(node)

    def visit_Assign(self, node):
        if is_name(node.targets[0], "_PUBLIC_BY_MODULE"):
            self.lazy |= {name: module for module, names in ast.literal_eval(node.value).items() for name in names}
        else:
            self.generic_visit(node)

    def visit_Attribute(self, node):
        of = getattr(node.value, "id", getattr(node.value, "attr", ""))
        if is_name(node.value, "initbench"):
            self.imports.add(("initbench", node.attr))
        if node.attr in {"builtins", "REGISTRIES"} or (node.attr == "names" and of.isupper()):
            self.is_about_all = True
        self.generic_visit(node)


def is_name(node, name):
    return isinstance(node, ast.Name) and node.id == name


source = cache(Source)


def imported(path):
    """Return the modules of the library that a file imports, but for type checking and for a package around them."""
    pairs = ((module, f"{module}.{name}") for module, name in source(path).imports)
    return {whole if whole in MODULES else module for module, whole in pairs} & MODULES.keys()


@cache
def builtins():
    """Return the files of what the library brings, by the name under which it is registered.

    A name may be that of several components, such as an initializer and a scheme or dataset.
    """
    files = {path.stem: {path} for path in RECIPES.glob("*.yaml")}
    for path in (LIBRARY / "registry").glob("*.py"):
        for name, module in source(path).builtins:
            files.setdefault(name, set()).add(MODULES[module])
    return files


def named(names):
    return {file for name in names for file in builtins().get(name, ())}


def words(text):
    """Return what may be a name in a text; the first part of ``timm/resnet18`` stands for the family ``timm/*``."""
    return {*re.findall(r"\w+", text), *(f"{prefix}/*" for prefix in re.findall(r"(\w+)/", text))}


@cache
def needs(path):
    """Return the files that take part in what a Python file does."""
    strings, components = (set(), set()) if path in TOOLS else (source(path).strings, builtins_in(path))
    files = named(components)
    for module, name in source(path).imports:
        files |= files_of(module, name) if module.partition(".")[0] == "initbench" else helpers(path, module, name)
    for text in strings:
        files |= {file for module in DOTTED.findall(text) for file in files_of(module)}
    if path.is_relative_to(TESTS):
        if path.name.startswith("test_"):
            files |= {folder / "conftest.py" for folder in path.parents if (folder / "conftest.py").exists()}
        if "initbench" in strings:  # the command, or the module that `python -m` runs
            files.add(LIBRARY / "__main__.py")
    return files - {path}


def builtins_in(path):
    """Return the names of components in a file: those within longer texts of a test, such as suites, too."""
    said = source(path)
    if path.is_relative_to(LIBRARY):
        return said.strings | {text.partition("/")[0] + "/*" for text in said.strings if "/" in text}
    if said.is_about_all and path.name != "conftest.py":
        return set(builtins())
    return {word for text in said.strings for word in words(text)}


@cache
def files_of(module, name=None):
    """Return the files of a module of the library: of itself, of the packages around it, and of a lazy name in it."""
    whole = f"{module}.{name}" if f"{module}.{name}" in MODULES else module
    parts = whole.split(".")
    around = [one for i in range(len(parts)) if (one := ".".join(parts[: i + 1])) in MODULES]
    lazy = source(MODULES[around[-1]]).lazy
    asked = [lazy[one] for one in (name, parts[-1]) if one in lazy]
    return {MODULES[one] for one in around} | {MODULES.get(one) or MODULES[f"{around[-1]}.{one}"] for one in asked}


@cache
def test_files():
    return set(TESTS.rglob("*.py"))


def helpers(path, module, name):
    """Return the file of a module that tests share, beside them or in the folder of all tests."""
    stem = module.replace(".", "/")
    places = {path.parent, TESTS}
    return {place / f"{one}.py" for place in places for one in (f"{stem}/{name}", stem)} & {*test_files(), *scripts()}


@cache
def scripts():
    return {path for folder in ("docs/scripts", "analysis", "benchmarks") for path in (ROOT / folder).rglob("*.py")}
