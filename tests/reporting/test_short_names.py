"""Short names: what varies, and never one name for two."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, PLAIN, WRN, make_record, make_spec
from planted import LANGUAGE, TEN_CLASSES, planted, results_of

from initbench.comparing.keys import Component, Key
from initbench.comparing.labels import Labels
from initbench.comparing.names import Name, label_of, short_names
from initbench.errors import UnknownNameError

LONG = "an_initializer_of_our_own_with_a_name_that_is_as_long_as_a_line_of_a_narrow_page"


def of(kind, name, **arguments):
    """Return the factors of a component."""
    return Component(name, Key(arguments)).under(kind)


def base(name, **arguments):
    return Component(name, Key(arguments))


def network(name, scheme=None, **arguments):
    return of("architecture", name, **arguments) | ({} if scheme is None else {"scheme": scheme})


def recipe(**arguments):
    return of("recipe", "", **arguments)


def treatments(*keys, compare=("initializer",)):
    labels = Labels(compare)
    made = [labels.treatment(Key(key)) for key in keys]
    return made, short_names(labels, made, [])


def workloads(*keys):
    labels = Labels()
    made = [labels.workload(Key(key)) for key in keys]
    names = short_names(labels, [], made)
    return [names.workload(label) for label in made]


def test_a_number_has_four_digits_unless_that_makes_two_names_equal():
    labels = Labels()
    gains = (0.1 * 2**0.5, 0.3 * 2**0.5, 0.42426)
    made = [labels.treatment(Key(of("initializer", "kaiming", gain=gain))) for gain in gains]
    names = [name.text for name in short_names(labels, made, []).treatments.values()]
    assert names == ["kaiming (gain 0.1414)", "kaiming[gain=0.4242640687119285]", "kaiming[gain=0.42426]"]


NORM, RATE = ("initializer", "architecture.norm"), ("initializer", "architecture.norm", "recipe.lr")


@pytest.mark.parametrize(
    ("key", "compare", "label", "short", "detail"),
    [
        (of("initializer", "kaiming"), NORM, "kaiming", "kaiming", ""),
        (of("initializer", "delta", gain=2.0), NORM, "delta[gain=2]", "delta", "gain 2"),
        (
            of("initializer", "kaiming", mode="fan_in", gain=1),
            NORM,
            "kaiming[mode=fan_in, gain=1]",
            "kaiming",
            "mode fan_in, gain 1",
        ),
        (of("initializer", "metainit", base=base("delta")), NORM, "metainit(delta)", "metainit", "from delta"),
        (
            of("initializer", "metainit", base=base("delta", gain=2), steps=100),
            NORM,
            "metainit[steps=100](delta[gain=2])",
            "metainit",
            "steps 100, from delta gain 2",
        ),
        (
            of("initializer", "gradinit", base=base("lsuv", base=base("orthogonal"))),
            NORM,
            "gradinit(lsuv(orthogonal))",
            "gradinit",
            "from lsuv from orthogonal",
        ),
        (
            of("initializer", "kaiming") | {"architecture.norm": "batch"},
            NORM,
            "kaiming, norm=batch",
            "kaiming",
            "norm batch",
        ),
        (
            of("initializer", "metainit", base=base("kaiming")) | {"architecture.norm": "none", "recipe.lr": 0.1},
            RATE,
            "metainit(kaiming), norm=none, lr=0.1",
            "metainit",
            "from kaiming, norm none, lr 0.1",
        ),
        (
            of("initializer", "kaiming") | {"cell.recipe.clip_norm": "0.5"},
            NORM,
            "kaiming {clip_norm=0.5}",
            "kaiming",
            "clip_norm 0.5",
        ),
        (of("initializer", "kaiming") | {"cell": "a1b2c3"}, NORM, "kaiming {cell a1b2c3}", "kaiming", "cell a1b2c3"),
        # A value may look like anything: no label is ever taken apart.
        (of("initializer", "mine", x="a, b=[1"), NORM, "mine[x=a, b=[1]", "mine", "x a, b=[1"),
        ({"recipe.milestones": (3, 5)}, ("recipe.milestones",), "milestones=[3, 5]", "milestones=[3, 5]", ""),
        (of("initializer", LONG), NORM, LONG, LONG, ""),
    ],
)
def test_a_treatment_is_its_name_and_what_varies(key, compare, label, short, detail):
    [made], names = treatments(key, compare=compare)
    assert made == label
    assert names.treatments[label] == Name(short, detail)
    assert names.treatment(label) == short  # alone it needs no detail


def test_details_are_said_where_names_alone_do_not_tell_apart():
    made, names = treatments(*(of("initializer", "delta", gain=gain) for gain in (1, 2)), of("initializer", "kaiming"))
    assert [names.treatment(label) for label in made] == ["delta (gain 1)", "delta (gain 2)", "kaiming"]


def test_a_name_of_more_than_three_words_has_a_number_in_sentences():
    keys = [of("initializer", "metainit", base=base("delta"), steps=steps) for steps in (200, 50)]
    made, names = treatments(*keys, of("initializer", "metainit", base=base("kaiming")), of("initializer", "kaiming"))
    assert [names.treatment(label) for label in made] == [
        "metainit #3",
        "metainit #2",
        "metainit (from kaiming)",
        "kaiming",
    ]
    assert names.treatments[made[0]].text == "metainit (steps 200, from delta)"
    assert label_of("metainit #3", names.treatments, "treatment") == made[0]
    assert label_of("metainit (steps 200, from delta)", names.treatments, "treatment") == made[0]
    with pytest.raises(UnknownNameError, match="no treatment 'metainit #1'"):
        label_of("metainit #1", names.treatments, "treatment")


def test_labels_that_come_to_one_name_keep_their_labels():
    keys = of("initializer", "metainit", **{"from": "kaiming"}), of("initializer", "metainit", base=base("kaiming"))
    made, names = treatments(*keys)
    assert [names.treatment(label) for label in made] == made == ["metainit[from=kaiming]", "metainit(kaiming)"]
    assert workloads(network("plain", depth=28), network("plain-28")) == ["plain[depth=28]", "plain-28"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([network("plain", depth=28, width=1), network("wrn", depth=28, width=1)], ["plain-28", "wrn-28"]),
        ([network("plain", depth=depth, width=1) for depth in (10, 16)], ["plain-10", "plain-16"]),
        ([network("mlp", depth=3, width=width) for width in (64, 256)], ["mlp-3 (width 64)", "mlp-3 (width 256)"]),
        ([network("net", depth=depth, width=1) for depth in (2.5, 3.5)], ["net-2.5", "net-3.5"]),
        (
            [network("wrn", depth=16, width=1, norm=norm) for norm in ("none", "batch")],
            ["wrn-16 (norm none)", "wrn-16 (norm batch)"],
        ),
        ([network("timm/resnet18"), network("timm/resnet34")], ["timm/resnet18", "timm/resnet34"]),
        ([network("wrn", "fixup", depth=16), network("wrn", depth=16)], ["wrn-16 (fixup)", "wrn-16"]),
        # What a rule sets for one network goes with it; what two workloads differ in is said.
        (
            [network("plain", depth=28) | recipe(clip_norm=1.0), network("wrn", depth=28)],
            ["plain-28", "wrn-28"],
        ),
        ([network("mlp", depth=3) | recipe(lr=lr) for lr in (0.1, 0.01)], ["mlp-3 (lr 0.1)", "mlp-3 (lr 0.01)"]),
        (
            [network("mlp", depth=3) | of("dataset", name) for name in ("digits", "cifar10")],
            ["mlp-3 (digits)", "mlp-3 (cifar10)"],
        ),
        (
            [network("mlp", depth=3) | recipe(lr=0.1) | of("dataset", name) for name in ("digits", "cifar10")],
            ["mlp-3 (digits)", "mlp-3 (cifar10)"],
        ),
        # Of the networks of one name what all have in common is not said, whatever the others have.
        (
            [
                network("gpt", depth=8) | of("dataset", "text") | recipe(steps=400, optimizer="adamw", warmup_steps=0),
                network("gpt", depth=8) | of("dataset", "text") | recipe(steps=400, optimizer="adamw", warmup_steps=40),
                network("plain", depth=28)
                | of("dataset", "digits")
                | recipe(steps=None, optimizer="sgd", warmup_steps=0),
            ],
            ["gpt-8 #1", "gpt-8 #2", "plain-28"],
        ),
        (
            [network("mlp", depth=3) | of("dataset", "text", content=content, size=2) for content in ("1a", "2b")],
            ["mlp-3 #1", "mlp-3 #2"],
        ),
        ([recipe(batch_size=8) | of("initializer", name) for name in "ab"], ["batch_size=8 (a)", "batch_size=8 (b)"]),
        ([network("mlp", depth=3) | {"metric": name} for name in ("error", "loss")], ["mlp-3 (error)", "mlp-3 (loss)"]),
        ([network(LONG)], [LONG]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_workload_is_named_by_what_varies(keys, expected):
    assert workloads(*keys) == expected


def test_a_workload_is_called_a_network_where_nothing_else_tells_it_apart():
    labels, nets = Labels(), [network("plain", depth=28), network("wrn", depth=28)]

    def names(*keys):
        return short_names(labels, [], [labels.workload(Key(key)) for key in keys])

    assert names(*nets).workloads_of(2) == "2 networks"
    assert names(nets[0]).workloads_of(1) == "1 network"
    assert names(*(nets[0] | of("dataset", name) for name in ("digits", "cifar10"))).noun == "workload"
    assert names(of("dataset", "digits")).noun == "workload"


def test_where_datasets_differ_each_network_has_its_own_beside_it():
    labels = Labels()
    keys = [
        network("plain", depth=28) | of("dataset", "digits") | recipe(lr=0.1),
        network("gpt", depth=8) | of("dataset", "text") | recipe(lr=0.01),
    ]
    names = short_names(labels, [], [labels.workload(Key(key)) for key in keys])
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


text = st.text("ab[]({})=, ·12", max_size=20).map(lambda own: f"a{own}")
arguments = st.dictionaries(st.sampled_from(("depth", "x")), text, max_size=2)
keys = st.builds(lambda kind, name, own: Key(of(kind, name, **own)), st.just("architecture"), text, arguments)
conditions = st.builds(lambda key, own: key | recipe(**own), keys, st.dictionaries(st.just("lr"), text, max_size=1))


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(st.lists(keys, min_size=1, max_size=6), st.lists(conditions, min_size=1, max_size=6))
def test_no_two_have_one_name_whatever_the_labels_are(compared, places):
    labels = Labels(("architecture",))
    compared, places = {*map(labels.treatment, compared)}, {*map(labels.workload, places)}
    names = short_names(labels, compared, places)
    assert len({names.treatment(one) for one in compared}) == len(compared)
    assert len({names.workload(one) for one in places}) == len(places)
    assert len(set(names.treatments.values())) == len(compared)
    assert len(set(names.workloads.values())) == len(places)
    assert all(name.text for name in names.treatments.values())
