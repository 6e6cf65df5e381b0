"""Values and texts that a record or a suite may hold and that no page can: the report comes, and shows them."""

import json
import os
import re
import sys
from dataclasses import replace

import pytest
from drawings import parsed
from ledgers import DELTA_1, KAIMING, make_record, make_spec, write_ledger

from initbench.cli.command_line import main
from initbench.ledger import Ledger
from initbench.reporting.questions.overview import overview
from initbench.reporting.report import write_report
from initbench.reporting.results import read_results
from initbench.reporting.text_report import FORMATS, text_of, write_markdown
from initbench.suite.spec import SCHEMA
from initbench.visible_text import visible

INVISIBLE = "\x00\x1bc\x7f\u202e"
SHOWN = r"\x00\x1bc\x7f\u202e"


def texts(folder, **options):
    """Every text of a report, by its form."""
    results = read_results(folder)
    page = write_report(results, folder / "report", **options).page
    found = {form: text_of(results, form) for form in FORMATS}
    written = write_markdown(results, folder / "page.md").read_text(encoding="utf-8")
    return found | {"html": page.read_text(encoding="utf-8"), "file": written}


def records_of(**changed):
    records = [
        make_record(make_spec(initializer, seed=seed), 0.1 * place)
        for place, initializer in enumerate((KAIMING, DELTA_1), start=1)
        for seed in range(2)
    ]
    return [replace(records[0], **changed), *records[1:]]


@pytest.mark.parametrize("value", [1e308, -1.7e308])
def test_a_number_at_the_end_of_what_a_float_holds_costs_no_report(tmp_path, value):
    [first, *others] = records_of()
    write_ledger(tmp_path, [replace(first, metrics=first.metrics | {"test_error": value}), *others])
    found = texts(tmp_path)
    assert "could not be drawn" not in found["html"]
    json.loads(found["json"], parse_constant=pytest.fail)
    for path in (tmp_path / "report" / "figures").glob("*.svg"):
        assert not re.search(r"NaN|Infinity", path.read_text(encoding="utf-8"))


def test_a_measurement_at_the_end_costs_no_report(tmp_path):
    history = [{"step": 21 * k, "epoch": k, "test_error": 1e308 if k == 3 else 0.5} for k in range(1, 9)]
    probes = [
        {
            "name": name,
            "kind": "per_layer",
            "values": {"a.weight": 1e308, "b.weight": other},
            "unit": "",
            "conditions": {},
        }
        for name, other in (("norms", -1e308), ("sizes", 5e-324))
    ]
    [first, *others] = records_of(history=history)
    quotient = first.probes[0] | {"value": 1e308}
    first = replace(first, probes=[quotient, *probes])
    write_ledger(tmp_path, [first, *others])
    assert "could not be drawn" not in texts(tmp_path)["html"]


@pytest.mark.parametrize(("text", "shown"), [(r"\ud800", r"\ud800"), (r"\0\ec\x7f\u202e", SHOWN)])
def test_the_description_of_a_suite_from_anywhere_is_shown(tmp_path, text, shown):
    ledger = write_ledger(tmp_path, records_of())
    (ledger.folder / "suite.yaml").write_text(f'name: made-up\ndescription: "a{text}b"\n', encoding="utf-8")
    found = texts(tmp_path)
    assert f'<p class="question">a{shown}b</p>' in found["html"]
    assert f"a{shown}b" in json.loads(found["json"])["question"]
    for form in ("md", "file"):
        assert f"a{shown}b" in re.sub(r"\\([\\\[\]])", r"\1", found[form])


def test_half_a_character_in_the_resolved_suite_costs_no_report(tmp_path):
    ledger = write_ledger(tmp_path, records_of())
    claim = {"id": "one", "claim": "It \ud800 does.", "source": "\ud800", "criteria": []}
    claim["criteria"] = [{"judge": "trains", "of": {"initializer": "kaiming"}}]
    resolved = {"schema": SCHEMA, "name": "made-up", "compare": ["initializer"], "seeds": 2, "claims": [claim]}
    ledger.write_suite("name: made-up\n", resolved)
    for form, text in texts(tmp_path).items():
        assert form == "latex" or r"\ud800" in text.replace(r"\\", "\\")


def test_invisible_text_of_records_is_shown_everywhere(tmp_path):
    hostile = {"name": f"kaiming{INVISIBLE}", "argument": INVISIBLE}
    error = {"type": "ValueError", "message": INVISIBLE, "traceback": f"line 1\n\tline 2{INVISIBLE}"}
    records = [make_record(make_spec(hostile, seed=seed), 0.2) for seed in range(2)]
    records += [make_record(make_spec(hostile, seed=2), status="failed", error=error), *records_of()]
    records[0].environment["device"] = INVISIBLE
    write_ledger(tmp_path, records)
    found = texts(tmp_path, title=f"A{INVISIBLE}\ud800")
    for form, text in found.items():
        assert visible(text, "\n\t") == text, form
    assert f"<h1>A{SHOWN}\\ud800</h1>" in found["html"]
    assert f"line 1\n\tline 2{SHOWN}" in found["html"]
    assert "could not be drawn" not in found["html"]
    [data] = re.findall(r'<script type="application/json" id="trials-data">(.*?)</script>', found["html"])
    assert SHOWN in json.dumps(json.loads(data)).replace("\\\\", "\\")
    files = [path for path in (tmp_path / "report").rglob("*") if path.is_file()]
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert visible(text, "\n\t") == text, path
        if path.suffix == ".svg":
            parsed(text)
    assert r"\textbackslash{}x1b" in found["latex"]
    assert SHOWN in overview(read_results(tmp_path)).draw(tmp_path / "map.svg").svg


def test_a_file_whose_name_is_no_utf_8_is_named(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "small"
    write_ledger(folder, records_of())
    with open(os.fsencode(folder / "trials") + b"/\xff\xfe.json", "w") as file:  # noqa: PTH123  # no text names it
        file.write("{")
    for form, text in texts(folder).items():
        if form != "latex":
            assert r"small/trials/\xff\xfe.json: " in text.replace(r"\\", "\\"), form
    monkeypatch.setattr(sys, "argv", ["initbench", "report", str(folder)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert r"skipped small/trials/\xff\xfe.json: " in capsys.readouterr().err


def test_a_folder_with_such_a_file_alone_is_refused_in_one_line(tmp_path):
    (tmp_path / "trials").mkdir()
    with open(os.fsencode(tmp_path / "trials") + b"/\xff.json", "w") as file:  # noqa: PTH123
        file.write("{")
    with pytest.raises(Exception, match=r"trials/\\xff\.json: not a trial record") as error:
        read_results(tmp_path)
    assert str(error.value).isascii()
    assert not list(Ledger(tmp_path).trials.glob("*.part"))


def test_no_printable_character_is_invisible():
    """`visible` returns a printable text without a search; the newline here makes it search every one."""
    characters = map(chr, range(sys.maxunicode + 1))
    escaped = [character for character in characters if visible(f"{character}\n") != f"{character}\\n"]
    assert {"\x1b", "\u202e", "\ufeff"} <= set(escaped)
    assert not any(character.isprintable() for character in escaped)
