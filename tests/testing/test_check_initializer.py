"""The conformance kit: the library's initializers pass, and of those that are broken each is found by one check."""

from __future__ import annotations

import random
import warnings

import broken_results  # noqa: F401 - fills the table
import broken_state  # noqa: F401 - as above
import numpy as np
import pytest
import torch
from flaws import FLAWS, draw

from initbench.errors import ArgumentError, InitbenchError, UnknownNameError
from initbench.registry import INITIALIZERS, Initializer, register_initializer
from initbench.testing import check_initializer, checks
from initbench.testing.kit import PROPERTIES

# The models of the kit are 8 wide and have one block.
NARROW = {"base_width": 4, "attention_heads": "more"}
ARGUMENTS = {"mup": NARROW, "completep": NARROW | {"base_depth": 1}}
CHECKS = [check for name in sorted(INITIALIZERS.builtins) for check in checks(name, **ARGUMENTS.get(name, {}))]


def conforming(std: float = 1.0):
    if not std > 0:
        raise ArgumentError(f"must be above 0, got {std}", "std")
    return lambda model, context: draw(model, context, std)


def failures(initializer, **arguments):
    """The checks that fail, with their messages."""
    found = {}
    for check in checks(initializer, **arguments):
        try:
            check()
        except AssertionError as error:
            found[str(check)] = str(error)
    return found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.subject.name}-{check}")
def test_the_initializers_of_the_library_conform(check):
    check()


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.factory.__name__)
def test_a_flaw_is_found_by_one_check_alone(flaw):
    name = flaw.factory.__name__
    message = f"{name}: {flaw.property}: {flaw.message}"
    assert failures(flaw.factory) == {flaw.property: message}
    with pytest.raises(AssertionError) as raised:
        check_initializer(flaw.factory)
    assert str(raised.value) == message


@pytest.mark.parametrize("name", ["xavier", "gpt2"])
def test_on_a_gpu_the_models_are_those_that_the_initializer_accepts(name, monkeypatch):
    """Without a GPU, the CPU stands for one."""
    asked = []
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: asked.append(name) or torch.device("cpu"))
    check_initializer(name)
    assert asked


def test_every_property_has_a_flaw_that_only_it_finds():
    assert {flaw.property for flaw in FLAWS} == {check.__name__ for check in PROPERTIES}


def test_a_factory_that_is_not_registered_and_its_arguments():
    assert check_initializer(conforming) is None
    assert check_initializer(conforming, std=1e-3) is None
    assert "conforming" not in INITIALIZERS.names()
    assert list(failures(conforming, std=1e38)) == ["gives_finite_values"]
    with pytest.raises(ArgumentError, match="std must be above 0"):
        check_initializer(conforming, std=-1.0)
    with pytest.raises(ArgumentError, match="sdt is an unknown key"):
        check_initializer(conforming, sdt=1.0)


@pytest.mark.usefixtures("scratch_registry")
def test_a_registered_factory_is_known_by_itself():
    """With what it declared, and what it starts from has run when it is looked at."""

    def scale(steps: int = 100, base: Initializer | None = Initializer("gaussian")):
        if steps < 1:
            raise ArgumentError(f"must be at least 1, got {steps}", "steps")

        def apply(model, context):
            assert steps == 2
            context.apply(base, model)
            bases.append(model.get_parameter("classifier.weight").detach().clone())

        return apply

    bases = []
    register_initializer("other", data="random", smoke={"steps": 2})(scale)
    assert {check.subject.name for check in checks(scale)} == {"other"}
    [check] = [check for check in checks(scale) if str(check) == "keeps_parameters"]
    check()
    assert all(0 < base.std() < 0.05 for base in bases)


@pytest.mark.usefixtures("scratch_registry")
def test_what_there_is_no_kit_for():
    with pytest.raises(UnknownNameError, match="unknown initializer 'kaimin'"):
        check_initializer("kaimin")

    def kaiming():
        return conforming()

    with pytest.raises(InitbenchError, match="kaiming: this factory is not registered, but another"):
        check_initializer(kaiming)
    register_initializer("schemer", scheme="ponzi")(conforming)
    with pytest.raises(InitbenchError, match="scheme 'ponzi': no registered architecture"):
        check_initializer("schemer")


def test_the_kit_leaves_the_process_as_it_was():
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()  # noqa: NPY002
    with pytest.raises(AssertionError):
        check_initializer(FLAWS[0].factory)
    assert torch.equal(torch.get_rng_state(), before[0])
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()  # noqa: NPY002
    assert after == before[1:]


def test_warnings_of_an_initializer_are_no_errors():
    """In these tests a warning is one."""

    def warns():
        def apply(model, context):
            warnings.warn("mind the gap", stacklevel=2)
            draw(model, context)

        return apply

    check_initializer(warns)
