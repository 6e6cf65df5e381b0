"""Treatments and workloads: what is compared, and within what."""

import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, PLAIN, WRN, make_spec

from initbench.comparing.keys import Component, Key, varying
from initbench.comparing.labels import Labels, architecture_label
from initbench.comparing.treatments import check_compare, factors, standings
from initbench.errors import InitbenchError

NORM = ("initializer", "architecture.norm")
BATCH = {"norm": "batch"}
FIXUP = {"name": "fixup"}


def places(*specs, compare=("initializer",)):
    """Return (treatment, workload) of each standing."""
    found, labels = standings([spec.model_dump(mode="json") for spec in specs], compare), Labels(compare)
    return [(labels.treatment(standing.treatment), labels.workload(standing.workload)) for standing in found]


def test_the_initializer_is_compared_within_all_else():
    assert places(make_spec(KAIMING), make_spec(DELTA_1, WRN, 3), make_spec(DELTA_2, WRN | BATCH)) == [
        ("kaiming", "plain[depth=28, width=1]"),
        ("delta_orthogonal[gain=1]", "wrn[depth=28, width=1, norm=none]"),
        ("delta_orthogonal[gain=2]", "wrn[depth=28, width=1, norm=batch]"),
    ]


def test_keys_have_the_values_of_the_specs():
    specs = [
        make_spec(METAINIT | {"base": DELTA_2, "steps": 3}, PLAIN | {"depth": 16}, recipe={"lr": 0.01}),
        make_spec(METAINIT | {"base": DELTA_1}, WRN, scheme="fixup"),
    ]
    first, second = standings([spec.model_dump(mode="json") for spec in specs])
    base = Component("delta_orthogonal", Key({"gain": 2.0}))
    assert first.treatment == Key({"initializer": "metainit", "initializer.base": base, "initializer.steps": 3})
    assert first.workload == Key(
        {"architecture": "plain", "architecture.depth": 16, "architecture.width": 1, "recipe.lr": 0.01}
    )
    assert second.workload["scheme"] == "fixup"
    assert list(second.workload) == [
        *("architecture", "architecture.depth", "architecture.width", "scheme", "recipe.lr")
    ]


def test_keys_are_values():
    key = Key({"architecture": "wrn", "architecture.depth": 28, "recipe.lr": 0.1})
    same = Key({"recipe.lr": 0.1, "architecture": "wrn", "architecture.depth": 28})
    assert key == same
    assert hash(key) == hash(same)
    assert key != Key({"architecture": "wrn", "architecture.depth": 28.0, "recipe.lr": 0.1})
    assert Key({"x": 1}) != Key({"x": True})
    assert list(key.without("architecture")) == ["recipe.lr"]
    assert list(key.without("architecture.depth")) == ["architecture", "recipe.lr"]
    assert key.below("architecture") == Key({"depth": 28})
    assert (key | {"recipe.lr": 1.0})["recipe.lr"] == 1.0
    assert key["recipe.lr"] == 0.1
    assert varying([key, key | {"recipe.lr": 1.0}, key.without("architecture.depth")]) == {"recipe.lr"}
    with pytest.raises(TypeError):
        key["recipe.lr"] = 1.0


def test_a_factor_leaves_the_workload_for_the_treatment():
    specs = [make_spec(METAINIT, WRN), make_spec(KAIMING, WRN | BATCH), make_spec(KAIMING, PLAIN)]
    assert places(*specs, compare=NORM) == [
        ("metainit(delta_orthogonal), norm=none", "wrn[depth=28, width=1]"),
        ("kaiming, norm=batch", "wrn[depth=28, width=1]"),
        ("kaiming, norm=none", "plain[depth=28, width=1]"),
    ]
    lone = make_spec(KAIMING, {"name": "mlp", "depth": 3})
    assert places(lone, compare=NORM) == [("kaiming", "mlp[depth=3]")]  # it has no such argument


@pytest.mark.parametrize(
    ("compare", "treatments", "workload"),
    [
        (("architecture",), ["plain[depth=28, width=1]", "wrn[depth=28, width=1]"], "kaiming"),
        (("architecture.depth",), ["depth=28", "depth=28"], None),
        (("recipe.lr",), ["lr=0.1", "lr=0.01"], None),
        (("recipe",), ["lr=0.1", "lr=0.01"], None),
        (("scheme",), ["scheme=standard", "scheme=standard"], None),
        (("dataset",), ["digits", "fashion_mnist"], None),
        (("dataset.train_size",), ["train_size=null", "train_size=100"], None),
        (("initializer.gain", "recipe.lr"), ["gain=1, lr=0.1", "gain=1, lr=0.01"], None),
    ],
    ids=str,
)
def test_every_kind_of_factor(compare, treatments, workload):
    first = make_spec(KAIMING)
    second = make_spec(
        KAIMING, WRN, dataset={"name": "fashion_mnist", "train_size": 100, "image_size": None}, recipe={"lr": 0.01}
    )
    found = places(first, second, compare=compare)
    assert [treatment for treatment, _ in found] == treatments
    if workload:
        assert {own for _, own in found} == {"digits · lr=0.1", "fashion_mnist · lr=0.01"}
    # What is compared is no part of the workload.
    assert not any(treatment in own for treatment, own in found)


def test_factors_of_one_name_are_told_apart():
    tuned = [METAINIT | {"optimizer": name} for name in ("sgd", "signsgd")]
    found = places(*(make_spec(own) for own in tuned), compare=("initializer.optimizer", "recipe.optimizer"))
    assert [treatment for treatment, _ in found] == [
        "initializer.optimizer=sgd, recipe.optimizer=sgd",
        "initializer.optimizer=signsgd, recipe.optimizer=sgd",
    ]
    assert {workload for _, workload in found} == {"plain[depth=28, width=1]"}


def test_an_initializer_that_is_not_compared_is_the_workloads():
    specs = [make_spec(own, recipe={"lr": lr}) for own in (KAIMING, METAINIT) for lr in (0.1, 0.01)]
    assert places(*specs, compare=("recipe.lr",)) == [
        ("lr=0.1", "plain[depth=28, width=1] · kaiming"),
        ("lr=0.01", "plain[depth=28, width=1] · kaiming"),
        ("lr=0.1", "plain[depth=28, width=1] · metainit(delta_orthogonal)"),
        ("lr=0.01", "plain[depth=28, width=1] · metainit(delta_orthogonal)"),
    ]
    bases = [make_spec(METAINIT | {"base": base}) for base in (DELTA_1, KAIMING)]
    assert places(*bases, compare=("initializer.base",)) == [
        ("base=delta_orthogonal", "plain[depth=28, width=1]"),
        ("base=kaiming", "plain[depth=28, width=1]"),
    ]
    # Beside another initializer the workload has its name, without what is compared.
    assert [w for _, w in places(*bases, make_spec(KAIMING), compare=("initializer.base",))] == [
        "plain[depth=28, width=1] · metainit",
        "plain[depth=28, width=1] · metainit",
        "plain[depth=28, width=1] · kaiming",
    ]


def test_a_scheme_that_an_initializer_brings_is_of_its_treatment():
    brought = make_spec(FIXUP, WRN, scheme="fixup", named_by=("initializer",))
    assert places(make_spec(KAIMING, WRN), brought) == [
        ("kaiming", "wrn[depth=28, width=1]"),
        ("fixup", "wrn[depth=28, width=1]"),
    ]
    # Where initializers are not compared it goes with the initializer, into the workload.
    [(_, workload)] = places(brought, compare=("recipe.lr",))
    assert workload == "wrn[depth=28, width=1] + fixup"


def test_a_scheme_that_the_suite_names_is_of_the_workload_and_a_trial_may_stand_in_both():
    specs = [
        make_spec(KAIMING, WRN),
        make_spec(KAIMING, WRN, scheme="fixup"),
        make_spec(FIXUP, WRN, scheme="fixup", named_by=("initializer", "suite")),
    ]
    assert places(*specs) == [
        ("kaiming", "wrn[depth=28, width=1]"),
        ("kaiming", "wrn[depth=28, width=1] + fixup"),
        ("fixup", "wrn[depth=28, width=1] + fixup"),
        ("fixup", "wrn[depth=28, width=1]"),
    ]
    found = standings([spec.model_dump(mode="json") for spec in specs])
    assert [(place.trial, place.scheme_named_by) for place in found[2:]] == [(2, "suite"), (2, "initializer")]
    # Where the scheme itself is compared the two places are one.
    assert places(*specs, compare=("initializer", "scheme"))[2:] == [("fixup, scheme=fixup", "wrn[depth=28, width=1]")]


def test_what_rules_set_splits_nothing():
    specs = [
        make_spec(KAIMING),
        make_spec(METAINIT, recipe={"lr": 0.01}, rules=("recipe.lr",)),
        make_spec(DELTA_1, PLAIN | BATCH, rules=("architecture.norm",)),
    ]
    assert {workload for _, workload in places(*specs)} == {"plain[depth=28, width=1]"}


def test_a_factor_stays_in_the_treatment_where_a_rule_sets_it():
    specs = [
        make_spec(METAINIT, recipe={"lr": 0.1}),
        make_spec(KAIMING, PLAIN | BATCH, recipe={"lr": 0.01}, rules=("architecture.norm", "recipe.lr")),
    ]
    assert places(*specs, compare=NORM) == [
        ("metainit(delta_orthogonal), norm=none", "plain[depth=28, width=1]"),
        ("kaiming, norm=batch", "plain[depth=28, width=1]"),
    ]
    # What `initializer` covers is told only where the suite itself varies it, as ever, or where it is named.
    short = make_spec(METAINIT | {"steps": 3}, WRN, rules=("initializer.steps",))
    assert [t for t, _ in places(specs[0], short)] == ["metainit(delta_orthogonal)"] * 2
    named = places(specs[0], short, compare=("initializer", "initializer.steps"))
    assert [t for t, _ in named] == [f"metainit[steps={n}](delta_orthogonal)" for n in (100, 3)]


@pytest.mark.parametrize(
    ("factor", "options", "treatments"),
    [
        ("recipe", {"recipe": {"lr": 0.01}, "rules": ("recipe.lr",)}, ["lr=0.1", "lr=0.01"]),
        (
            "architecture",
            {"architecture": PLAIN | BATCH, "rules": ("architecture.norm",)},
            ["plain[depth=28, width=1, norm=none]", "plain[depth=28, width=1, norm=batch]"],
        ),
        (
            "dataset",
            {
                "dataset": {"name": "digits", "train_size": 100, "image_size": None},
                "rules": ("dataset.train_size",),
            },
            ["digits[train_size=null]", "digits[train_size=100]"],
        ),
    ],
    ids=["recipe", "architecture", "dataset"],
)
def test_what_a_rule_sets_of_a_kind_that_is_compared_stays_in_the_treatment(factor, options, treatments):
    found = places(make_spec(KAIMING), make_spec(KAIMING, **options), compare=(factor,))
    assert [treatment for treatment, _ in found] == treatments
    assert len({workload for _, workload in found}) == 1


def test_a_workload_of_a_scheme_and_no_architecture_is_called_by_the_scheme():
    specs = [make_spec(KAIMING, own, scheme=scheme) for own in (PLAIN, WRN) for scheme in ("standard", "fixup")]
    found, labels = standings([spec.model_dump(mode="json") for spec in specs], ("architecture",)), Labels()
    assert [labels.workload(standing.workload) for standing in found] == ["digits", "scheme fixup"] * 2
    assert {architecture_label(standing.workload) for standing in found} == {""}


def test_architectures_that_are_compared_share_their_rules():
    specs = [
        make_spec(KAIMING, PLAIN, recipe={"clip_norm": 1.0}, rules=("recipe.clip_norm",)),
        make_spec(KAIMING, WRN),
    ]
    assert len({workload for _, workload in places(*specs, compare=("architecture",))}) == 1


def test_several_datasets_are_named_even_where_a_rule_reaches_them():
    other = {"name": "fashion_mnist", "train_size": None, "image_size": None}
    specs = [make_spec(KAIMING), make_spec(KAIMING, dataset=other, recipe={"lr": 0.01}, rules=("recipe.lr",))]
    assert [workload for _, workload in places(*specs)] == [
        "plain[depth=28, width=1] · digits",
        "plain[depth=28, width=1] · fashion_mnist",
    ]


def test_a_factor_that_no_trial_has_names_the_nearest():
    specs = [make_spec(METAINIT).model_dump(mode="json")]
    assert {"initializer.base", "architecture.norm", "recipe.lr", "scheme", "dataset.train_size"} <= factors(specs)
    check_compare(("initializer", "architecture.norm"), specs)
    with pytest.raises(
        InitbenchError, match=r"compare: no trial has architecture\.nrm .*'architecture\.norm'"
    ) as caught:
        check_compare(("architecture.nrm",), specs)
    assert "\n" not in str(caught.value)
    with pytest.raises(InitbenchError, match="compare: initializer is given twice"):
        check_compare(("initializer", "recipe.lr", "initializer"), specs)
    with pytest.raises(InitbenchError, match="names no factor"):
        check_compare((), specs)


TUNED = {"tuned": ("recipe.lr", "initializer.steps")}


def test_what_a_search_chooses_splits_nothing():
    specs = [
        make_spec(METAINIT, recipe={"lr": 0.1}, phase="search", **TUNED),
        make_spec(METAINIT | {"steps": 7}, recipe={"lr": 0.02}, protocols=("own",), **TUNED),
        make_spec(KAIMING, recipe={"lr": 0.01}, protocols=("recipe", "shared"), tuned=("recipe.lr",)),
    ]
    assert places(*specs) == [
        ("metainit(delta_orthogonal)", "plain[depth=28, width=1]"),
        ("metainit(delta_orthogonal)", "plain[depth=28, width=1]"),
        ("kaiming", "plain[depth=28, width=1]"),
    ]


def test_a_tuned_suite_is_not_paired_with_one_that_tunes_nothing():
    found = places(make_spec(KAIMING, **TUNED), make_spec(DELTA_1, suite="other"), make_spec(KAIMING, WRN))
    assert [workload for _, workload in found] == [
        "plain[depth=28, width=1] · lr=tuned",
        "plain[depth=28, width=1] · lr=0.1",
        "wrn[depth=28, width=1] · lr=0.1",
    ]


def test_a_key_that_is_tuned_and_that_a_rule_sets_reads_tuned():
    both = make_spec(KAIMING, rules=("recipe.lr",), **TUNED)
    found = places(both, make_spec(METAINIT, rules=("recipe.lr",)), make_spec(DELTA_1, suite="other"))
    assert {workload for _, workload in found[:2]} == {"plain[depth=28, width=1] · lr=tuned"}


def test_a_factor_stays_in_the_treatment_where_it_is_tuned():
    specs = [make_spec(METAINIT | {"steps": steps}, **TUNED) for steps in (7, 8)]
    found = places(*specs, compare=("initializer", "initializer.steps"))
    assert [treatment for treatment, _ in found] == [f"metainit[steps={n}](delta_orthogonal)" for n in (7, 8)]
