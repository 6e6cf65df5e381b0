"""The page on suite files lists every key of a suite."""

from __future__ import annotations

import re

from pages import DOCS

from initbench.suite.schema import DEFAULT_PROBES, SuiteFile

PAGE = (DOCS / "suite_files.md").read_text(encoding="utf-8")


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
