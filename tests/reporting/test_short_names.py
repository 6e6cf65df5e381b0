"""Short names: what varies, and never one name for two."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, PLAIN, WRN, make_record, make_spec
from planted import LANGUAGE, TEN_CLASSES, planted, results_of

from initbench.reporting.names import Name, short_names

LONG = "an_initializer_of_our_own_with_a_name_that_is_as_long_as_a_line_of_a_narrow_page"


def treatments(*labels):
    names = short_names(labels, ["w"])
    return [names.treatment(label) for label in labels]


def workloads(*labels, architectures=()):
    names = short_names(["a"], labels, architectures)
    return [names.workload(label) for label in labels]


@pytest.mark.parametrize(
    ("label", "short", "detail"),
    [
        ("kaiming", "kaiming", ""),
        ("delta_orthogonal[gain=2]", "delta_orthogonal", "gain 2"),
        ("kaiming[mode=fan_in, gain=1]", "kaiming", "mode fan_in, gain 1"),
        ("metainit(delta_orthogonal)", "metainit", "from delta_orthogonal"),
        ("metainit[steps=100](delta_orthogonal[gain=2])", "metainit", "steps 100, from delta_orthogonal gain 2"),
        ("gradinit(lsuv(orthogonal))", "gradinit", "from lsuv from orthogonal"),
        ("kaiming, norm=batch", "kaiming", "norm batch"),
        ("metainit(kaiming), norm=none, lr=0.1", "metainit", "from kaiming, norm none, lr 0.1"),
        ("kaiming {clip_norm=0.5}", "kaiming", "clip_norm 0.5"),
        (LONG, LONG, ""),
    ],
)
def test_a_treatment_is_its_name_and_what_varies(label, short, detail):
    names = short_names([label], ["w"])
    assert names.treatments[label] == Name(short, detail)
    assert names.treatment(label) == short  # alone it needs no detail


def test_details_are_said_where_names_alone_do_not_tell_apart():
    assert treatments("delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]", "kaiming") == [
        "delta_orthogonal (gain 1)",
        "delta_orthogonal (gain 2)",
        "kaiming",
    ]


def test_labels_that_come_to_one_name_keep_their_labels():
    own = ["metainit[from=kaiming]", "metainit(kaiming)"]
    assert treatments(*own) == own
    own = ["plain[depth=28]", "plain-28"]
    assert workloads(*own) == own


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["plain[depth=28, width=1]", "wrn[depth=28, width=1]"], ["plain-28", "wrn-28"]),
        (["plain[depth=10, width=1]", "plain[depth=16, width=1]"], ["plain-10", "plain-16"]),
        (["mlp[depth=3, width=64]", "mlp[depth=3, width=256]"], ["mlp-3 (width 64)", "mlp-3 (width 256)"]),
        (["wrn[depth=16, width=1, norm=none]", "wrn[depth=16, width=1, norm=batch]"], ["norm none", "norm batch"]),
        (["timm/resnet18", "timm/resnet34"], ["timm/resnet18", "timm/resnet34"]),
        (["wrn[depth=16] + fixup", "wrn[depth=16]"], ["wrn-16 (fixup)", "wrn-16"]),
        # What a rule sets for one network goes with it; what two workloads differ in is said.
        (["plain[depth=28] · clip_norm=1.0", "wrn[depth=28]"], ["plain-28", "wrn-28"]),
        (["mlp[depth=3] · lr=0.1", "mlp[depth=3] · lr=0.01"], ["mlp-3 (lr 0.1)", "mlp-3 (lr 0.01)"]),
        (["mlp[depth=3] · digits", "mlp[depth=3] · cifar10"], ["mlp-3 (digits)", "mlp-3 (cifar10)"]),
        (["mlp[depth=3] · lr=0.1 · digits", "mlp[depth=3] · lr=0.1 · cifar10"], ["mlp-3 (digits)", "mlp-3 (cifar10)"]),
        # Of the networks of one name what all have in common is not said, whatever the others have.
        (
            [
                "gpt[depth=8] · text · steps=400, optimizer=adamw, warmup_steps=0",
                "gpt[depth=8] · text · steps=400, optimizer=adamw, warmup_steps=40",
                "plain[depth=28] · digits · steps=null, optimizer=sgd, warmup_steps=0",
            ],
            ["gpt-8 (text, warmup_steps 0)", "gpt-8 (text, warmup_steps 40)", "plain-28"],
        ),
        (
            ["mlp[depth=3] · text[content=1a, size=2]", "mlp[depth=3] · text[content=2b, size=2]"],
            ["mlp-3 (text, content 1a, size 2)", "mlp-3 (text, content 2b, size 2)"],
        ),
        ([LONG], [LONG]),
    ],
    ids=str,
)
def test_a_workload_is_named_by_what_varies(labels, expected):
    found = workloads(*labels)
    if expected[0].startswith("norm"):
        expected = [f"wrn-16 ({detail})" for detail in expected]
    assert found == expected


def test_a_workload_is_called_a_network_where_nothing_else_tells_it_apart():
    own = ["plain[depth=28]", "wrn[depth=28]"]
    assert short_names(["a"], own, own).workloads_of(2) == "2 networks"
    assert short_names(["a"], own[:1], own[:1]).workloads_of(1) == "1 network"
    data = [f"{own[0]} · digits", f"{own[0]} · cifar10"]
    assert short_names(["a"], data, own).noun == "workload"
    assert short_names(["a"], ["digits"], own).noun == "workload"


def test_where_datasets_differ_each_network_has_its_own_beside_it():
    own = ["plain[depth=28]", "gpt[depth=8]"]
    names = short_names(["a"], [f"{own[0]} · digits · lr=0.1", f"{own[1]} · text · lr=0.01"], own)
    assert [name.text for name in names.workloads.values()] == ["plain-28 (digits)", "gpt-8 (text)"]
    assert [names.workload(label) for label in names.workloads] == ["plain-28", "gpt-8"]
    assert names.noun == "workload"


def test_the_names_of_real_specs():
    specs = [make_spec(own, net) for own in (KAIMING, DELTA_1, DELTA_2, METAINIT) for net in (PLAIN, WRN)]
    names = results_of([make_record(spec) for spec in specs]).names
    texts = {names.treatment(label) for label in names.treatments}
    assert texts == {"kaiming", "delta_orthogonal (gain 1)", "delta_orthogonal (gain 2)", "metainit"}
    assert {names.workload(label) for label in names.workloads} == {"plain-28", "wrn-28"}
    assert names.noun == "network"


def test_the_names_of_several_factors_and_of_several_tasks():
    specs = [make_spec(KAIMING, PLAIN | {"norm": norm}) for norm in ("none", "batch")]
    compare = ("initializer", "architecture.norm")
    names = results_of([make_record(spec) for spec in specs], compare=compare).names
    assert {names.treatment(label) for label in names.treatments} == {"kaiming (norm none)", "kaiming (norm batch)"}
    tasks = {"cnn": TEN_CLASSES, "transformer": LANGUAGE}
    names = results_of(planted({"cnn": {"a": [0.1]}, "transformer": {"a": [2.0]}}, tasks)).names
    assert {names.workload(label) for label in names.workloads} == {"cnn", "transformer"}


label = st.text("ab[]({})=, ·12", max_size=20).map(lambda text: f"a{text}")


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(st.lists(label, unique=True, min_size=1, max_size=6), st.lists(label, unique=True, min_size=1, max_size=6))
def test_no_two_have_one_name_whatever_the_labels_are(own, places):
    names = short_names(own, places, places)
    assert len({names.treatment(one) for one in own}) == len(own)
    assert len({names.workload(one) for one in places}) == len(places)
    assert len(set(names.treatments.values())) == len(own)
    assert len(set(names.workloads.values())) == len(places)
    assert all(name.text for name in names.treatments.values())
