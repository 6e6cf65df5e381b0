"""Registries: names, versions, look-up, families."""

from __future__ import annotations

import subprocess
import sys

import pytest

import initbench
from initbench.errors import InitbenchError, UnknownNameError
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES, TASKS, Registry

pytestmark = pytest.mark.usefixtures("scratch_registry")


def register(factory, name="scratch", **traits):
    initbench.register_initializer(name, **traits)(factory)
    return INITIALIZERS.get(name)


# --- registration


@pytest.mark.parametrize("name", ["", "a b", "a[1]", "a,b", "a=b", "a(b)", "a\n"])
def test_malformed_names(name):
    with pytest.raises(InitbenchError, match="a name must not contain spaces, brackets, commas or '='"):
        initbench.register_initializer(name)


def test_versions_start_at_one():
    with pytest.raises(InitbenchError, match="initializer 'x': version must be at least 1, got 0"):
        initbench.register_initializer("x", version=0)


def test_a_name_is_taken_once():
    def first():
        """First."""

    def second():
        """Second."""

    register(first)
    with pytest.raises(InitbenchError, match=f"^initializer 'scratch' is already registered by {__name__}$"):
        register(second)
    assert INITIALIZERS.get("scratch").summary == "First."


def test_the_same_definition_may_run_again():
    """A module that is reloaded and a notebook's cell that is repeated register the same name again."""

    def define(text):
        def factory():
            return text

        return register(factory)

    define("old")
    assert define("new").build({}) == "new"


@pytest.mark.parametrize(
    ("decorator", "name", "owner"),
    [
        ("register_initializer", "metainit", "initbench.initializers.metainit"),
        ("register_architecture", "wrn", "initbench.architectures.wrn"),
        ("register_architecture", "timm/resnet18", "initbench.architectures.timm"),
        ("register_probe", "gradient_norm", "initbench.probes.gradient_norm"),
    ],
)
def test_names_of_built_ins_are_taken_before_they_are_imported(decorator, name, owner):
    code = (
        "import sys, initbench\n"
        f"try:\n    initbench.{decorator}({name!r})(lambda: None)\n"
        "except initbench.InitbenchError as error:\n    print(error)\n"
        f"print({owner!r} in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kind = decorator.removeprefix("register_")
    assert done.stdout.splitlines() == [f"{kind} {name!r} is already registered by {owner}", "False"]


def test_one_name_in_two_registries():
    """`gaussian` is an initializer and a dataset."""
    assert INITIALIZERS.get("gaussian").kind == "initializer"
    assert DATASETS.get("gaussian").kind == "dataset"


# --- look-up


@pytest.mark.parametrize("components", [INITIALIZERS, ARCHITECTURES, TASKS, DATASETS, PROBES], ids=lambda r: r.kind)
def test_every_built_in_is_registered_by_its_module(components):
    for name, module in components.builtins.items():
        component = components.find(name)
        assert component.name == name
        assert component.module == module
        assert component.source is None  # the library's own sources are not part of an id: versions are
        assert component.summary
        for argument in component.arguments:
            assert not argument.required, f"{name}.{argument.name}"
        component.resolve({})  # every default passes its own check


def test_unknown_names():
    with pytest.raises(UnknownNameError, match=r"^unknown initializer 'metaint' \(did you mean 'metainit'\?\)$"):
        INITIALIZERS.get("metaint")
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown architecture 'qqqq' \(valid: densenet, gpt, hf/\*, imagenet_resnet, mlp, plain, residual_mlp, "
        r"resnet, timm/\*, torchvision/\*, transformer, vgg, wrn\)$",
    ):
        ARCHITECTURES.get("qqqq")


def test_a_long_list_of_valid_names_is_cut():
    registry = Registry("thing", {f"n{i:02}": "none" for i in range(25)})
    with pytest.raises(UnknownNameError, match=r"n18, n19, \.\.\.\)$"):
        registry.get("qqqqqqqq")


# --- families


@pytest.fixture
def family(scratch_registry):  # which must come first
    @initbench.register_architecture("zoo/*", version=4, members=lambda: ["lion", "tiger"])
    def build(member: str, legs: int = 4, *, outputs=10):
        """An animal."""
        return (member, legs, outputs)


@pytest.mark.usefixtures("family")
def test_a_member_of_a_family():
    lion = ARCHITECTURES.get("zoo/lion")
    assert (lion.name, lion.version, lion.summary) == ("zoo/lion", 4, "An animal.")
    assert [a.name for a in lion.arguments] == ["legs"]
    assert lion.build({"legs": 3}, outputs=2) == ("lion", 3, 2)


@pytest.mark.usefixtures("family")
def test_the_family_itself_is_for_lists_alone():
    assert "zoo/*" in ARCHITECTURES.names()
    assert [a.name for a in ARCHITECTURES.find("zoo/*").arguments] == ["legs"]
    for name in ("zoo/*", "zoo/"):
        with pytest.raises(UnknownNameError, match=r"^unknown architecture 'zoo/.?' \(such as zoo/lion\)$"):
            ARCHITECTURES.get(name)


@pytest.mark.usefixtures("family")
def test_the_nearest_member():
    with pytest.raises(UnknownNameError, match=r"^unknown architecture 'zoo/tigre' \(did you mean 'zoo/tiger'\?\)$"):
        ARCHITECTURES.get("zoo/tigre")


def test_the_nearest_timm_model():
    with pytest.raises(
        UnknownNameError, match=r"^unknown architecture 'timm/resnet81' \(did you mean 'timm/resnet18'\?\)$"
    ):
        ARCHITECTURES.get("timm/resnet81")
    assert ARCHITECTURES.get("timm/resnet18").name == "timm/resnet18"
