"""Components: what their arguments are, and what they declare."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field

import initbench
from initbench.errors import ArgumentError, InitbenchError
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, TASKS, Initializer

pytestmark = pytest.mark.usefixtures("scratch_registry")


def register(factory, name="scratch", **traits):
    initbench.register_initializer(name, **traits)(factory)
    return INITIALIZERS.get(name)


def typed(
    std: float = 1,
    steps: Annotated[int, Field(ge=1)] = 5,
    flag: bool = False,
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    size: int | None = None,
    scales: tuple[float, ...] = (1.0,),
    names: list[str] | None = None,
    free=7,
):
    """First line.

    More.
    """
    return dict(locals())


# --- what a component is


def test_arguments_with_types_and_defaults():
    def factory(required: float, *, std: float = 0.02, mode: Literal["a", "b"] = "a", size: int | None = None, free=1):
        """What it does.

        More.
        """

    component = register(factory, version=3)
    assert [(a.name, a.type, a.required) for a in component.arguments] == [
        ("required", "float", True),
        ("std", "float", False),
        ("mode", "'a' | 'b'", False),
        ("size", "int | null", False),
        ("free", "any", False),
    ]
    assert [a.default for a in component.arguments[1:]] == [0.02, "a", None, 1]
    assert (component.version, component.summary) == (3, "What it does.")


def test_what_the_library_passes_is_no_argument_of_the_user():
    names = [a.name for a in ARCHITECTURES.get("mlp").arguments]
    assert names == ["depth", "width", "norm", "activation", "dropout", "widths", "bias"]
    with pytest.raises(ArgumentError) as refused:
        ARCHITECTURES.get("mlp").resolve({"outputs": 3})
    assert refused.value.argument == "outputs"


def test_defaults_and_numbers_are_resolved():
    resolved = register(typed).resolve({"std": 2, "scales": [1, 2]})
    assert resolved == {
        "std": 2.0,
        "steps": 5,
        "flag": False,
        "mode": "fan_in",
        "size": None,
        "scales": (1.0, 2.0),
        "names": None,
        "free": 7,
    }
    assert type(resolved["std"]) is float
    # A default that was written as an integer is the same number as the user's.
    assert type(register(typed, "again").resolve({})["std"]) is float


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"std": True}, "must be a number, got true"),
        ({"std": "1"}, "must be a number, got '1'"),
        ({"std": float("nan")}, "must be finite, got .nan"),
        ({"std": float("-inf")}, "must be finite, got -.inf"),
        ({"std": [1.0]}, "must be a number, got [1.0]"),
        ({"std": None}, "must be a number, got null"),
        ({"steps": 0}, "must be at least 1, got 0"),
        ({"steps": 2.0}, "must be an integer, got 2.0"),
        ({"steps": True}, "must be an integer, got true"),
        ({"flag": 1}, "must be true or false, got 1"),
        ({"mode": "fanin"}, "must be one of fan_in, fan_out; got 'fanin' (did you mean 'fan_in'?)"),
        ({"mode": 3}, "must be one of fan_in, fan_out; got 3"),
        ({"size": "x"}, "must be an integer, got 'x'"),
        ({"scales": [1, "x"]}, "must be a number, got 'x'"),
        ({"scales": 1}, "must be a list, got 1"),
        ({"names": [1]}, "must be a text, got 1"),
        ({"stdd": 1}, "is an unknown key (did you mean 'std'?)"),
        ({"qqq": 1}, "is an unknown key (valid: flag, free, mode, names, scales, size, std, steps)"),
    ],
)
def test_refused_arguments(arguments, problem):
    """What is wrong stands in fields; the message is made of them."""
    with pytest.raises(ArgumentError) as caught:
        register(typed).resolve(arguments)
    [argument] = arguments
    assert (caught.value.argument, caught.value.problem) == (argument, problem)
    assert str(caught.value) == f"{argument} {problem}"


def test_a_required_argument():
    def factory(std: float):
        return std

    component = register(factory)
    with pytest.raises(ArgumentError) as refused:
        component.resolve({})
    assert (refused.value.argument, refused.value.problem) == ("std", "is required")
    assert component.build({"std": 2}) == 2.0


def test_names_that_mean_something_to_a_model_class_are_free():
    def factory(copy: int = 1, json: int = 2, model_config: int = 3, schema: int = 4, _private: int = 5):
        return (copy, json, model_config, schema, _private)

    assert register(factory).build({"copy": 7, "_private": 9}) == (7, 2, 3, 4, 9)


def test_values_reach_the_factory_as_they_are():
    value = {"a": [1, {"b": (2,)}]}

    def factory(free=None):
        return free

    assert register(factory).build({"free": value}) is not None
    assert register(factory).build({"free": value}) == value


def test_what_a_factory_refuses():
    def factory(depth: int = 1, width: int = 1):
        if depth == 2:
            raise ArgumentError("must be odd", "depth")
        raise ValueError(f"together {depth} and {width} do not fit,\nsorry")

    component = register(factory)
    with pytest.raises(ArgumentError) as caught:
        component.build({"depth": 2})
    assert (caught.value.argument, caught.value.problem) == ("depth", "must be odd")
    # A plug-in's own words are not read: they name no argument.
    with pytest.raises(ArgumentError) as caught:
        component.build({})
    assert (caught.value.argument, caught.value.problem) == (None, "together 1 and 1 do not fit,")


# --- arguments that are initializers


def tuner(base: Initializer | None = Initializer("kaiming", mode="fan_out"), batch_size: int = 32):
    """Adjust what another one draws."""
    return base, batch_size


@pytest.mark.parametrize(
    ("given", "name", "arguments"),
    [
        ({}, "kaiming", {"mode": "fan_out"}),
        ({"base": "xavier"}, "xavier", {"gain": 1.0}),
        ({"base": {"name": "xavier", "gain": 2}}, "xavier", {"gain": 2.0}),
        ({"base": Initializer("xavier", gain=3)}, "xavier", {"gain": 3.0}),
        ({"base": Initializer("xavier", gain=3).to_json()}, "xavier", {"gain": 3.0}),
    ],
    ids=["default", "name", "mapping", "object", "spec"],
)
def test_an_initializer_as_an_argument(given, name, arguments):
    component = register(tuner)
    base = component.resolve(given)["base"]
    assert (base.name, base.component.name) == (name, name)
    assert base.arguments.items() >= arguments.items()
    assert component.initializer_arguments == ("base",)
    plain = component.spec(component.resolve(given))
    assert plain["arguments"]["base"] == base.to_json()
    # Plain data are arguments again: a rule changes them, a worker reads them.
    assert component.resolve(plain["arguments"]) == component.resolve(given)


def test_none_is_no_initializer():
    component = register(tuner)
    assert component.build({"base": None}) == (None, 32)
    assert component.spec(component.resolve({"base": None}))["arguments"] == {"base": None, "batch_size": 32}


@pytest.mark.parametrize(
    ("base", "argument"),
    [
        ("kaimng", "base"),
        (3, "base"),
        ({"gain": 2}, "base"),
        ("metainit", "base"),  # which starts from another one itself
        ({"name": "kaiming", "gain": -1}, "base.gain"),
        ({"name": "kaiming", "gian": 1}, "base.gian"),
        ({"name": "kaiming", "gain": [1, 2]}, "base.gain"),
        (Initializer("kaiming", gain="x"), "base.gain"),
    ],
    ids=str,
)
def test_refused_initializers(base, argument):
    with pytest.raises(ArgumentError) as caught:
        register(tuner).resolve({"base": base})
    assert caught.value.argument == argument


def test_a_default_is_shown_as_a_user_writes_it():
    [base, size] = register(tuner).arguments
    assert (base.type, base.default) == ("Initializer | null", {"name": "kaiming", "mode": "fan_out"})
    assert (size.type, size.default) == ("int", 32)
    assert Initializer("kaiming").to_user() == "kaiming"


# --- tasks and datasets


def test_a_task_knows_its_name():
    task = TASKS.get("classification").build({})
    assert (task.name, task.primary.name) == ("classification", "error")


def test_a_task_has_one_primary_metric():
    with pytest.raises(InitbenchError, match="task Two: exactly one of its metrics must be primary"):

        class Two(initbench.Task):
            metrics = (initbench.Metric("a", "lower"), initbench.Metric("b", "lower"))


def test_what_a_dataset_asks_is_declared_or_described():
    initbench.register_dataset("fixed", inputs=initbench.Inputs((3,)), outputs=2)(lambda size=1: None)
    traits = DATASETS.get("fixed").traits
    assert traits.describe(size=5) == initbench.Description(initbench.Inputs((3,)), 2)
    assert traits.task == "classification"
    with pytest.raises(InitbenchError, match="dataset 'open': declare inputs and outputs, or describe"):
        initbench.register_dataset("open", inputs=initbench.Inputs((3,)))


def test_an_argument_cannot_be_called_name():
    def factory(name: str = "x"):
        return name

    with pytest.raises(InitbenchError, match="initializer 'scratch': an argument cannot be called 'name'"):
        _ = register(factory).arguments
