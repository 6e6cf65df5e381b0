"""The page on suite files lists every key of a suite and of a recipe, and its options do something."""

from __future__ import annotations

import re
import runpy

import pytest
from pages import DOCS

from initbench.suite.document import parse
from initbench.suite.overrides import override
from initbench.suite.schema import DEFAULT_PROBES, SuiteFile

PAGE = (DOCS / "suite_files.md").read_text(encoding="utf-8")
SUITE = """
name: example
dataset: digits
architectures: [{name: wrn, depth: 10}, {name: gpt, scheme: {name: deepnorm, alpha: 1.0}}]
initializers: [{name: metainit, base: {name: orthogonal, gain: 1.0}}]
recipe: {epochs: 2, lr: 0.1}
tune: {recipe.lr: [0.1, 1.0]}
"""


def table(heading):
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [re.split(r" *(?<!\\)\| *", row.strip("| ")) for row in section.splitlines() if row.startswith("| `")]


def test_the_table_has_every_key_of_a_suite_in_the_order_of_the_schema():
    rows = {key.strip("`"): default for key, default, _ in table("Keys")}
    assert [*rows] == [*SuiteFile.model_fields]
    required = {key for key, default in rows.items() if default == "required"}
    assert required == {key for key, field in SuiteFile.model_fields.items() if field.is_required()}
    assert rows["probes"] == ", ".join(f"`{probe}`" for probe in DEFAULT_PROBES)
    assert len(SuiteFile.model_fields["seeds"].default) == int(rows["seeds"])


def test_the_table_of_the_recipe_is_made_anew():
    made = runpy.run_path(str(DOCS / "scripts" / "recipe_fields.py"))
    assert PAGE.endswith(made["MARK"] + made["table"]())


def options():
    text = " ".join(" ".join(row) for row in table("Options of the command line"))
    return [
        given.removeprefix("--set ").strip('"') for given in re.findall(r"`([^`]*=[^`]*)`", text) if "only" not in given
    ]


@pytest.mark.parametrize("assignment", options())
def test_each_option_changes_the_suite(assignment):
    document, before = parse(SUITE, "suite.yaml"), parse(SUITE, "suite.yaml")
    override(document, assignment)
    assert document.data != before.data


def test_the_options_are_read_off_the_page():
    assert len(options()) == 6
