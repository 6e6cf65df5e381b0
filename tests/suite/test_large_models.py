"""Networks that are too deep or too large to be built for a plan."""

from __future__ import annotations

import pytest
from torch import nn

from initbench.architectures import size
from initbench.errors import SuiteError
from initbench.registry import traits
from initbench.suite import compatible
from suites import ids, planned

DEEP = {"name": "resnet", "depth": 60_002, "norm": "none"}  # 10,000 blocks in each of three groups
SCHEMES = ["kaiming", "fixup", "skipinit", "weight_norm", "data_dependent_weight_norm"]


@pytest.fixture
def built(monkeypatch):
    """Every convolution that is built."""
    convolutions = []
    initialize = nn.Conv2d.__init__

    def counting(self, *arguments, **options):
        convolutions.append(self)
        initialize(self, *arguments, **options)

    monkeypatch.setattr(nn.Conv2d, "__init__", counting)
    return convolutions


def test_ten_thousand_blocks_are_planned_from_a_shallow_network(built):
    result = planned(architectures=[DEEP], initializers=SCHEMES)
    assert [trial.scheme for trial in result.trials] == ["standard", "fixup", "skipinit", *["weight_norm"] * 2]
    assert {trial.architecture.arguments["depth"] for trial in result.trials} == {60_002}
    assert not result.incompatible
    # Two networks of 2 and 3 blocks are counted, and in each of four schemes one of 2 is run.
    assert len(built) == 13 + 19 + 4 * 13


def test_a_plan_is_that_of_the_deep_network_itself(monkeypatch):
    """Ids, schemes and refusals: of networks of 3 blocks, with the declared ones of 2 and without them."""
    suite = {
        "architectures": [
            {"name": "resnet", "depth": 20, "norm": ["none", "batch"]},
            {"name": "wrn", "depth": 22, "width": 1, "norm": ["none", "batch"]},
            {"name": "plain", "depth": 22, "width": 1, "norm": "none"},
            {"name": "mlp", "depth": 6, "norm": ["none", "batch"]},
        ],
        "initializers": SCHEMES,
        "recipe": {"activation_checkpointing": True},
    }
    shallow = planned(**suite)
    monkeypatch.setattr(traits.Shallow, "of_depth", lambda *_: None)
    deep = planned(**suite)
    assert ids(shallow) == ids(deep)
    assert [pair.reason for pair in shallow.incompatible] == [pair.reason for pair in deep.incompatible]
    assert shallow.incompatible


@pytest.mark.parametrize(
    ("depth", "problem"),
    [
        (60_003, "must be 6n + 2 with basic blocks (8, 14, 20, ...), got 60003"),
        (600_002, "must be at most 100000, got"),
    ],
)
def test_a_depth_that_is_refused_is_still_refused(depth, problem):
    with pytest.raises(SuiteError) as refusal:
        planned(architectures=[DEEP | {"depth": depth}])
    assert problem in str(refusal.value)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(size, "available_memory", lambda: 1e8)
    monkeypatch.setattr(nn.Module, "eval", lambda _: pytest.fail("a model was built and run"))
    result = planned(architectures=[{"name": "wrn", "depth": 28, "width": 10}])
    assert not result.trials
    [pair] = result.incompatible
    assert pair.blames is None
    # With three channels it has 36,479,194; the first of its 3 × 3 convolutions, of 16 channels, reads one.
    assert 36_479_194 - 2 * 16 * 9 == 36_478_906
    assert pair.reason == (
        "wrn has 36,478,906 parameters, which take 0.146 GB, and 0.1 GB of memory are free: a smaller one has less "
        "than depth 28, width 10"
    )


WIDE = {"name": "wrn", "depth": 10, "width": 100, "norm": "none"}  # 3 GB


@pytest.fixture
def devices(monkeypatch):
    """The type of device of every model that is run."""
    found = []
    evaluate = nn.Module.eval

    def noting(self):
        found.extend({parameter.device.type for parameter in self.parameters()})
        return evaluate(self)

    monkeypatch.setattr(nn.Module, "eval", noting)
    return found


def test_a_wide_network_is_planned_without_its_memory(devices):
    result = planned(architectures=[WIDE], initializers=SCHEMES)
    assert len(result.trials) == len(SCHEMES)
    assert set(devices) == {"meta"}


def test_a_wide_network_is_refused_for_the_same_reasons(devices):
    """As a narrow one is, whose reasons come from the CPU."""
    suite = {"initializers": SCHEMES, "recipe": {"batch_norm": "whole_batch", "accumulate": 2}}
    narrow = planned(architectures=[WIDE | {"width": 1, "norm": ["none", "batch"]}], **suite)
    assert set(devices) == {"cpu"}
    devices.clear()
    wide = planned(architectures=[WIDE | {"norm": ["none", "batch"]}], **suite)
    assert set(devices) == {"meta"}
    assert len(wide.incompatible) == 5  # four schemes that take BatchNorm's place, and the recipe
    assert [pair.reason for pair in wide.incompatible] == [pair.reason for pair in narrow.incompatible]
    assert [trial.scheme for trial in wide.trials] == [trial.scheme for trial in narrow.trials]


def test_what_has_no_form_without_values_is_tried_on_the_cpu(monkeypatch, devices):
    monkeypatch.setattr(compatible, "_LARGE", 0)
    forward = nn.Linear.forward

    def of_values(self, x):
        if x.device.type == "meta":
            raise NotImplementedError("no kernel")
        return forward(self, x)

    monkeypatch.setattr(nn.Linear, "forward", of_values)
    result = planned(architectures=[WIDE | {"width": 1}])
    assert len(result.trials) == 1
    assert devices == ["meta", "cpu"]
