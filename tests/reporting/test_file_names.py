"""Names of files from names of any characters, such as a plug-in's probe or a record from anywhere."""

from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from drawings import parsed
from ledgers import DELTA_1, KAIMING, PLAIN, WRN, make_record, make_spec, write_ledger
from reports import results_of

from initbench.reporting import tuner_steps
from initbench.reporting.charts.figure import Figure
from initbench.reporting.file_names import file_names, plain_name
from initbench.reporting.report import write_report
from initbench.reporting.results import read_results
from initbench.reporting.text_report import write_markdown

HOSTILE = [
    *(
        "../../../owned",
        "/etc/owned",
        "a/b",
        "..",
        ".",
        "",
        "/",
        "a\\b",
        "C:\\owned",
        "a\0b",
        "a\nb",
        "\x1b[2J",
        "\ud800",
    ),
    *("网", "x" * 300, ".hidden", " ", "con:", 'a?b*c<d>e|f"g'),
]
ORDINARY = [
    *("steps-plain-depth=28-width=1", "gradient_norm.per_layer-wrn-depth=28", "tuning-gradient_quotient[norm=l2]-mlp"),
    *("probe[eps=1e-05, mode=train].per_layer-x", "tuned-a (b)-x"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_every_name_is_one_of_a_file_in_its_folder(name, tmp_path):
    stems = [plain_name(name), Figure(name, "", "", {}).name, *file_names([name, f"{name}!"], prefix=name).values()]
    for stem in stems:
        file = f"{stem}.svg"
        assert PurePosixPath(file).name == PureWindowsPath(file).name == file
        assert file[0] not in ".- "
        (tmp_path / file).write_text("", encoding="ascii")
        assert (tmp_path / file).resolve().parent == tmp_path.resolve()


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_stay(name):
    assert plain_name(name) == name


def with_probe(records, *names):
    """The records with values by layer, and a number that a tuner changes, under these names."""
    found = []
    for record in records:
        probes = list(record.probes)
        for name in names:
            values = {"a.weight": 1.0 + record.spec["seed"], "b.weight": 3.0}
            probes.append({"name": name, "kind": "per_layer", "values": values, "unit": "", "conditions": {}})
        found.append(replace(record, probes=probes))
    return found


def records_of(*names):
    each = [
        make_record(make_spec(initializer, architecture, seed), 0.1 + 0.1 * place)
        for place, initializer in enumerate((KAIMING, DELTA_1))
        for architecture in (PLAIN, WRN)
        for seed in range(2)
    ]
    return with_probe(each, *names)


def test_a_probe_of_any_name_has_its_figures_in_the_reports_folder(tmp_path):
    folder = tmp_path / "home" / "runs" / "small"
    write_ledger(folder, records_of("../../../../../owned", "grad/ratio", "grad-ratio"))
    written = write_report(folder)
    within = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert within == {*written.files, *(folder / "trials").iterdir()}
    names = {path.name for path in written.files}
    # Two probes whose names differ in nothing that a file's name holds have two files.
    assert {"grad-ratio-plain-depth=28-width=1.svg", "grad-ratio-plain-depth=28-width=1-2.svg"} <= names
    page = written.page.read_text(encoding="utf-8")
    assert page.count("<figure") == len([path for path in written.files if path.suffix == ".svg"])


def test_a_probe_that_has_the_name_of_another_figure_has_a_file_of_its_own(tmp_path):
    write_ledger(tmp_path, records_of("steps"))
    names = [path.name for path in write_report(tmp_path).files]
    assert len(set(names)) == len(names)
    figures = tmp_path / "report" / "figures"
    titles = {parsed(path.read_text(encoding="utf-8"))[0].text for path in figures.glob("steps-plain*.svg")}
    assert titles == {"Test error by training step: plain-28", "Steps by layer: plain-28"}


def test_markdown_has_its_charts_in_their_folder(tmp_path):
    folder = tmp_path / "a" / "b" / "small"
    write_ledger(folder, records_of("../../owned"))
    page = write_markdown(read_results(folder), tmp_path / "a" / "page.md")
    images = page.with_suffix("")
    assert set(tmp_path.rglob("*.svg")) == {*images.iterdir()}


def test_a_tuners_steps_have_their_names_likewise():
    records = []
    for steps, value in ((50, 3.0), (100, 2.0)):
        tuner = {"name": "metainit", "steps": steps, "base": KAIMING, "batch_size": 32}
        probe = {"name": "../x", "kind": "scalar", "value": value, "unit": "", "conditions": {}}
        records.append(replace(make_record(make_spec(tuner, PLAIN)), probes=[probe]))
    [figure] = tuner_steps(results_of(records)).figures
    assert figure.name == "steps-..-x-plain-depth=28-width=1"
