"""Labels: the shortest names by which a suite's components can be told apart."""

import pytest

from initbench.comparing.labels import architecture_labels, component_labels, initializer_labels
from suites import planned


def data(**keys):
    return [trial.model_dump(mode="json") for trial in planned(**keys).trials]


def component(name, **arguments):
    return {"name": name, "arguments": arguments, "version": 1, "source": None}


DELTA = {"name": "delta_orthogonal", "gain": [1, 2]}


@pytest.mark.parametrize(
    ("initializers", "labels"),
    [
        (["kaiming"], ["kaiming"]),
        ([{"name": "kaiming", "gain": 3}], ["kaiming"]),  # nothing to tell it from
        (["kaiming", "xavier"], ["kaiming", "xavier"]),
        ([DELTA], ["delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]"]),
        # A default is shown where another value stands beside it.
        (["kaiming", {"name": "kaiming", "mode": "fan_out"}], ["kaiming[mode=fan_in]", "kaiming[mode=fan_out]"]),
        (
            [{"name": "kaiming", "mode": ["fan_in", "fan_out"], "gain": [1, 2]}],
            [f"kaiming[mode={m}, gain={g}]" for m in ("fan_in", "fan_out") for g in (1, 2)],
        ),
        (["metainit"], ["metainit(delta_orthogonal)"]),
        ([{"name": "metainit", "base": None}], ["metainit"]),
        (
            [{"name": "metainit", "base": ["kaiming", "xavier"], "steps": [1, 2]}],
            [f"metainit[steps={s}]({b})" for b in ("kaiming", "xavier") for s in (1, 2)],
        ),
        ([{"name": "metainit", "base": DELTA}], [f"metainit(delta_orthogonal[gain={g}])" for g in (1, 2)]),
        # The base is told apart from other bases, not from the distribution by itself.
        (
            [{"name": "delta_orthogonal", "gain": 2}, "metainit"],
            ["delta_orthogonal", "metainit(delta_orthogonal)"],
        ),
        (
            [{"name": "metainit", "batch_size": [8, 16]}],
            [f"metainit[batch_size={n}](delta_orthogonal)" for n in (8, 16)],
        ),
        ([{"name": "gaussian", "std": [0.05, 1e-7]}], ["gaussian[std=0.05]", "gaussian[std=1e-07]"]),
        # No two labels are equal, however close the values are.
        ([{"name": "gaussian", "std": [0.1, 0.1000000001]}], ["gaussian[std=0.1]", "gaussian[std=0.1000000001]"]),
    ],
    ids=str,
)
def test_initializers(initializers, labels):
    got = initializer_labels(data(initializers=initializers))
    assert sorted(got) == sorted(labels)
    assert len(set(got)) == len(got)


@pytest.mark.parametrize(
    ("architectures", "labels"),
    [
        (["mlp"], ["mlp[depth=3, width=256]"]),  # depth and width always
        ([{"name": "mlp", "depth": [2, 3], "norm": ["none", "batch"]}], None),
        ([{"name": "mlp", "depth": 2}, "plain"], ["mlp[depth=2, width=256]", "plain[depth=28, width=10]"]),
    ],
    ids=str,
)
def test_architectures(architectures, labels):
    labels = labels or [f"mlp[depth={d}, width=256, norm={n}]" for d in (2, 3) for n in ("none", "batch")]
    assert architecture_labels(data(architectures=architectures)) == labels


def test_a_scheme_other_than_standard_is_shown():
    [spec] = data()
    assert architecture_labels([spec, spec | {"scheme": "fixup"}]) == [
        "mlp[depth=3, width=8]",
        "mlp[depth=3, width=8] + fixup",
    ]


def test_what_a_rule_sets_is_left_out():
    """It varies with the pair: to show it would make one initializer look like two."""
    specs = data(
        architectures=["mlp", "plain"],
        initializers=["metainit"],
        rules=[{"when": {"architecture": "plain"}, "initializer": {"steps": 3}}],
    )
    assert [s["initializer"]["arguments"]["steps"] for s in specs] == [500, 3]
    assert initializer_labels(specs) == ["metainit(delta_orthogonal)"] * 2


def test_seeds_share_a_label():
    labels = initializer_labels(data(initializers=[DELTA], seeds=2))
    assert labels == ["delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]"] * 2


def test_values_of_every_kind():
    values = [None, True, 2, "text", [1, 2.5]]
    labels = component_labels([component("c", x=value) for value in values])
    assert labels == ["c[x=null]", "c[x=true]", "c[x=2]", "c[x=text]", "c[x=[1, 2.5]]"]


def test_an_argument_that_is_a_component_stands_in_parentheses():
    """Whatever the argument is called; what it has itself is shown where it varies, within its own kind alone."""
    weak, strong = (component("delta_orthogonal", gain=gain) for gain in (1.0, 2.0))
    labels = component_labels(
        [
            component("metainit", base=weak, batch_size=32),
            component("metainit", base=strong, batch_size=64),
            component("twice", first=weak, second=component("kaiming", gain=1.0)),
            component("delta_orthogonal", gain=3.0),
        ]
    )
    assert labels == [
        "metainit[batch_size=32](delta_orthogonal[gain=1])",
        "metainit[batch_size=64](delta_orthogonal[gain=2])",
        "twice(delta_orthogonal[gain=1], kaiming)",
        "delta_orthogonal",
    ]


def test_null_in_the_place_of_a_component_is_no_text():
    labels = component_labels([component("metainit", base=None), component("metainit", base=component("kaiming"))])
    assert labels == ["metainit", "metainit(kaiming)"]
    assert component_labels([component("c", x={"name": "a"}), component("c", x=None)]) == [
        "c[x={name: 'a'}]",
        "c[x=null]",
    ]


def test_no_components():
    assert component_labels([]) == []
    assert architecture_labels([]) == []
