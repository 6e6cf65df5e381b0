"""The line beside the map on conditions that are not the same for all networks and treatments."""

from __future__ import annotations

import json

import pytest
from ledgers import DELTA_1, KAIMING, METAINIT, PLAIN, WRN, make_record, make_spec, quickstart_records
from reports import results_of
from ruamel.yaml import YAML
from tuned import tuned_records

from initbench.ledger import Ledger
from initbench.reporting.page.unequal_conditions import unequal_conditions
from initbench.reporting.report import contents_of
from initbench.reporting.results import Results
from initbench.reporting.source import Source, join, read_folder
from initbench.reporting.text_report import text_of
from initbench.suite.load import load_suite

GPT = {"name": "gpt", "depth": 4}
CLIPPED = {"clip_norm": 1.0}
DEFAULTS = {"metainit": {"steps": 500}}


def said(*cells, compare=("initializer",), defaults=None):
    """Return the line of cells, each an initializer, an architecture, what its recipe sets, and by rules."""
    records = [
        make_record(
            make_spec(initializer, architecture, recipe=recipe, rules=tuple(f"recipe.{name}" for name in rules))
        )
        for initializer, architecture, recipe, rules in cells
    ]
    return unequal_conditions(Results(Source(records, compare=compare, defaults=defaults or {})))


def test_nothing_is_said_of_equal_conditions():
    assert said((KAIMING, PLAIN, {}, ()), (DELTA_1, WRN, {}, ())) == ""


def test_what_a_rule_sets_on_one_network():
    assert said(
        *((initializer, PLAIN, CLIPPED, CLIPPED) for initializer in (KAIMING, DELTA_1)), (KAIMING, WRN, {}, ())
    ) == ("Conditions differ: gradients clipped at norm 1 on plain-28 only.")


def test_what_has_another_value_is_said_of_the_fewer_networks_and_once_for_all_fields():
    recipe = {"batch_size": 8, "optimizer": "adamw", "lr": 0.001, "warmup_steps": 20}
    found = said((KAIMING, PLAIN, {}, ()), (KAIMING, WRN, {}, ()), (KAIMING, GPT, recipe, recipe))
    assert found == (
        "Conditions differ: batch size 8, AdamW and learning rate 0.001 on gpt-4; warm-up steps 20 on gpt-4 only."
    )


def test_what_a_rule_sets_for_one_treatment_and_in_single_cells():
    short = {"epochs": 2}
    both = [(KAIMING, net, {}, ()) for net in (PLAIN, WRN)]
    assert said(*both, *((DELTA_1, net, short, short) for net in (PLAIN, WRN))) == (
        "Conditions differ: 2 epochs for delta_orthogonal; 8 epochs for kaiming."
    )
    assert said(*both, (DELTA_1, PLAIN, short, short), (DELTA_1, WRN, {}, ())) == (
        "Conditions differ: 2 epochs in 1 of 4 cells."
    )


def test_steps_differ_from_epochs():
    steps = {"steps": 50, "epochs": 10}
    found = said((KAIMING, PLAIN, {}, ()), (DELTA_1, PLAIN, {}, ()), (KAIMING, WRN, steps, steps))
    assert found == "Conditions differ: 50 steps on wrn-28."


def test_what_the_names_say_is_not_repeated():
    crossed = [(KAIMING, PLAIN, {"lr": lr}, ()) for lr in (0.1, 0.01)]
    assert said(*crossed) == ""
    assert said(*crossed, compare=("initializer", "recipe.lr")) == ""


def test_what_a_suite_tunes_is_not_said():
    def outcome(*_):
        return 0.1

    records = tuned_records(outcome, ["net", "other"], ["a", "b"], seeds=1, rates=(0.01, 0.1), written=0.1)
    assert unequal_conditions(results_of(records)) == ""


def test_many_differences_are_cut():
    several = [
        (KAIMING, PLAIN | {"depth": depth}, recipe, recipe)
        for depth, recipe in enumerate(({"epochs": 4}, {"batch_size": 8}, {"lr": 0.2}, {"momentum": 0.5}, CLIPPED), 2)
    ]
    found = said(*((KAIMING, net, {}, ()) for net in (PLAIN, WRN)), *several)
    assert found == (
        "Conditions differ: 4 epochs on plain-2; batch size 8 on plain-3; learning rate 0.2 on plain-4; 2 others (see "
        "Methods)."
    )


def test_an_initializer_that_runs_shorter_than_by_default():
    whole = METAINIT | {"steps": 500}
    assert said((KAIMING, PLAIN, {}, ()), (METAINIT, PLAIN, {}, ()), defaults=DEFAULTS) == (
        "Conditions differ: metainit with 100 steps (default 500)."
    )
    assert said((METAINIT | {"steps": 20}, PLAIN, {}, ()), (METAINIT, WRN, {}, ()), defaults=DEFAULTS) == (
        "Conditions differ: metainit with 20 and 100 steps (default 500)."
    )
    assert said((whole, PLAIN, {}, ()), defaults=DEFAULTS) == ""
    assert said((METAINIT, PLAIN, {}, ())) == ""  # the ledger does not say what the default is


def test_a_suite_states_the_defaults_of_what_may_take_long(tmp_path):
    initializers = [
        {"name": "metainit", "base": "xavier", "steps": 100},
        "xavier",
        {"name": "gradinit", "base": "xavier"},
    ]
    suite = {"name": "s", "architectures": ["mlp"], "initializers": initializers, "dataset": "digits", "seeds": 1}
    with (tmp_path / "suite.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(suite, file)
    assert load_suite(tmp_path / "suite.yaml").defaults == {"metainit": {"steps": 500}, "gradinit": {"iterations": 390}}


def test_defaults_are_read_from_a_folder_and_joined(tmp_path):
    sources = []
    for name, defaults in (("one", DEFAULTS), ("two", {"gradinit": {"iterations": 390}})):
        ledger = Ledger(tmp_path / name)
        ledger.write(make_record(make_spec(METAINIT, suite=name)))
        ledger.write_suite("", {"schema": 2, "compare": ["initializer"], "defaults": defaults})
        sources.append(read_folder(tmp_path / name))
    assert join(sources).defaults == {"metainit": {"steps": 500}, "gradinit": {"iterations": 390}}
    Ledger(tmp_path / "one").write_suite("", {"schema": 2, "defaults": {"metainit": "long"}})
    with pytest.raises(Exception, match="defaults are no numbers by initializer and argument"):
        read_folder(tmp_path / "one")


def test_the_line_is_in_every_format():
    results = results_of(quickstart_records())
    line = "Conditions differ: gradients clipped at norm 1 on plain-28 only."
    assert contents_of(results).unequal == line
    assert f"\n\n{line}\n\n" in text_of(results, "md")
    assert json.loads(text_of(results, "json"))["unequal"] == line
