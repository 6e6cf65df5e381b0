"""The scripts of analysis/: each answers from a ledger, draws for a paper, and refuses bad input in one line."""

import math
import os
import re
import runpy
import struct
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, make_record, make_spec, quickstart_records, write_ledger
from reports import knowing_chance
from tuned import RATES, curved, tuned_records

FOLDER = Path(__file__).parents[2] / "analysis"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "answering.py")
SVG = "{http://www.w3.org/2000/svg}"
PER_LAYER = {"kind": "per_layer", "unit": "", "conditions": {}}
HESSIAN = "hessian_spectrum[batch_size=16]"
FIVE = (KAIMING, DELTA_1, DELTA_2, {"name": "xavier"}, {"name": "orthogonal"})


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script in this process and return its exit code, and what it printed on both streams."""

    def script(name, *arguments):
        monkeypatch.setattr(sys, "argv", [str(FOLDER / name), *map(str, arguments)])
        monkeypatch.syspath_prepend(str(FOLDER))
        code = 0
        try:
            runpy.run_path(str(FOLDER / name), run_name="__main__")
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return script


@pytest.fixture
def ledger(tmp_path):
    """The quickstart with curves that fall, what MetaInit cost, and a norm for each of two weights."""
    records = []
    for record in knowing_chance(quickstart_records()):
        history = [
            entry | {"step": 21 * entry["epoch"], "test_error": 0.5 / entry["epoch"]} for entry in record.history
        ]
        tuned = "base" in record.spec["initializer"]["arguments"]
        cost = {"forward": 30, "backward": 90} if tuned else {"forward": 0, "backward": 0}
        norms = {"stem.weight": 4.0, "head.weight": 0.5} if tuned else {"stem.weight": 1.0, "head.weight": 1.0}
        probes = [*record.probes, {"name": "gradient_norm.per_layer", "values": norms, **PER_LAYER}]
        initialization = record.initialization | {"cost": cost}
        records.append(replace(record, history=history, initialization=initialization, probes=probes))
    write_ledger(tmp_path / "quickstart", records)
    return tmp_path / "quickstart"


@pytest.fixture
def deep(tmp_path):
    """Five initializers at five depths: the i-th errs by 2 points more than the one before, and has more GQ."""
    records = []
    for depth in (10, 16, 22, 28, 34):
        for i, initializer in enumerate(FIVE):
            for seed in range(3):
                spec = make_spec(initializer, {"name": "plain", "depth": depth, "width": 1}, seed)
                error = 0.1 + 0.02 * i + 0.001 * depth + 0.0001 * seed + 0.0001 * (i * depth % 7)
                record = make_record(spec, error, quotient=0.5 + 0.1 * i)
                gradient = [
                    probe | ({"value": (2.0, 5.0, 1.0, 4.0, 3.0)[i]} if probe["name"] == "gradient_norm" else {})
                    for probe in record.probes
                ]
                records.append(replace(record, probes=gradient))
    write_ledger(tmp_path / "deep", records)
    return tmp_path / "deep"


@pytest.fixture
def looked_at(tmp_path):
    """Kaiming, and MetaInit from it with 50 and 200 steps, measured by the probes of the papers' figures.

    The largest eigenvalue is 64 before tuning, 8 after 50 and 2 after 200 steps, and twice as much at the second seed.
    """
    records = []
    for steps, size in ((None, 64.0), (50, 8.0), (200, 2.0)):
        for seed in range(2):
            own = KAIMING if steps is None else {"name": "metainit", "steps": steps, "base": KAIMING, "batch_size": 32}
            largest = size * (1 + seed)
            layers = {"stem": size, "blocks.0": size / 2, "head": size / 8}
            density = {"x": [-0.75, -0.25], "over": "log10 of the eigenvalue's size", "unit": "", "log": False}
            probes = [
                {
                    "name": f"{HESSIAN}.largest_eigenvalue",
                    "kind": "scalar",
                    "value": largest,
                    "unit": "",
                    "conditions": {},
                },
                {"name": f"{HESSIAN}.gradient_share", "kind": "scalar", "value": 0.5, "unit": "", "conditions": {}},
                {
                    "name": f"{HESSIAN}.positive_density",
                    "kind": "curve",
                    "y": [0.75, None],
                    **density,
                    "conditions": {},
                },
                {
                    "name": "gradient_deviation.per_layer",
                    "values": {f"{n}.weight": v for n, v in layers.items()},
                    **PER_LAYER,
                },
                {"name": "weight_magnitude.per_layer", "values": {"stem.weight": 0.25, "stem.bias": 0.0}, **PER_LAYER},
                {"name": "signal_by_depth.mean_square", "values": layers, **PER_LAYER},
                {"name": "signal_by_depth.skip_deviation", "values": {"blocks.0": 1.5}, **PER_LAYER},
            ]
            records.append(replace(make_record(make_spec(own, seed=seed)), probes=probes))
    write_ledger(tmp_path / "looked-at", records)
    return tmp_path / "looked-at"


def lines(text, *words):
    """Return the lines that have all of the words."""
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_one_for_each_question():
    assert SCRIPTS == [
        "cost_of_initialization.py",
        "depth_curves.py",
        "gq_vs_outcome.py",
        "hessian_spectrum.py",
        "learning_curves.py",
        "norms_by_layer.py",
        "probe_ranking.py",
        "ranking.py",
        "signal_by_depth.py",
        "stable_rates.py",
        "tuning_curves.py",
        "weights_and_gradients_by_layer.py",
    ]
    assert all(len((FOLDER / name).read_text(encoding="utf-8").splitlines()) <= 60 for name in SCRIPTS)


@pytest.mark.parametrize("name", [*SCRIPTS, "answering.py"])
def test_they_take_what_is_public_alone(name):
    imported = re.findall(r"^from (initbench\S*) import", (FOLDER / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(imported) <= {"initbench.reporting", "initbench.errors"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_folder_without_trials_is_one_line_and_exit_code_2(run, tmp_path, name):
    code, out, error = run(name, tmp_path)
    assert (code, out) == (2, "")
    assert error.startswith(f"{name}: {tmp_path}: no trial records")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["gq_vs_outcome.py", "--probe", "gradient_qoutient"],
            "no probe 'gradient_qoutient' in these results (did you",
        ),
        (
            ["gq_vs_outcome.py", "--workload", "plan-28"],
            "no workload 'plan-28' in these results (did you mean 'plain-28'",
        ),
        (["learning_curves.py", "--workload", "wrn-82"], "(did you mean 'wrn-28'?)"),
        (["norms_by_layer.py", "--probe", "gradient_norm"], "(did you mean 'gradient_norm.per_layer'?)"),
        (["cost_of_initialization.py", "--workload", "nothing"], "(valid: plain-28, wrn-28)"),
        (["cost_of_initialization.py", "--target", "30"], "target must be a fraction from 0 to 1, got 30"),
        (["cost_of_initialization.py", "--target", "nan"], "target must be finite, got nan"),
        (["ranking.py", "--reference", "kaimin"], "no initializer 'kaimin' in these results (did you mean 'kaiming'?)"),
        (["ranking.py", "--out", "map.jpg"], "map.jpg: --out takes a file that ends in .svg, .pdf, .png"),
        (["ranking.py", "--out", "map.pdf", "--width", "0"], "map.pdf: width must be from 1 to 100 inches, got 0"),
        (["ranking.py", "--out", "no/such/map.pdf"], "no/such/map.pdf: No such file or directory"),
        (
            ["ranking.py", "--out", "r.pdf", "--figure", "ranks"],
            "2 workloads; a critical difference is given from 5 on.",
        ),
        (
            ["probe_ranking.py", "--out", "p.pdf"],
            "no two probes have a mean ρ. Whether the gradient quotient and the gradient norm predict",
        ),
        (["depth_curves.py"], "no two networks differ in depth alone"),
        (
            ["hessian_spectrum.py"],
            "no probe 'hessian_spectrum.largest_eigenvalue' in these results (valid: gradient_norm, gradient_quotient)",
        ),
        (["stable_rates.py"], "no search over learning rates trained"),
        (["tuning_curves.py", "--workload", "wrn-82"], "(did you mean 'wrn-28'?)"),
        (["signal_by_depth.py"], "no probe by layer 'signal_by_depth.mean_square' in these results"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(run, ledger, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    name, *options = arguments
    code, out, error = run(name, ledger, *options)
    assert (code, out) == (2, "")
    assert error.startswith(f"{name}: ")
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["quickstart"]


@pytest.mark.parametrize(
    ("name", "subjects", "words"),
    [
        ("gq_vs_outcome.py", ["-plain-28", "-wrn-28"], "gradient quotient (GQ), log scale"),
        ("learning_curves.py", ["-plain-28", "-wrn-28"], "training steps"),
        ("norms_by_layer.py", ["-plain-28", "-wrn-28"], "gradient norm"),
        ("cost_of_initialization.py", ["-plain-28", "-wrn-28"], "compute (training steps)"),
        ("ranking.py", [""], "did not train"),
    ],
)
def test_a_figure_of_each_workload_in_inches(run, ledger, tmp_path, name, subjects, words):
    code, _, error = run(name, ledger, "--out", tmp_path / "figure.svg", "--width", "4", "--height", "3.5")
    assert code == 0
    files = [tmp_path / f"figure{subject}.svg" for subject in subjects]
    assert error.splitlines() == [str(file) for file in files]
    assert sorted(tmp_path.glob("*.svg")) == files
    for file in files:
        root = ET.fromstring(file.read_text(encoding="utf-8"))  # noqa: S314  # the scripts' own
        assert (root.get("width"), root.get("height")) == ("4in", "3.5in")
        assert words in {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}


def test_one_workload_is_drawn_to_the_file_itself(run, ledger, tmp_path):
    whole = "plain[depth=28, width=1]"
    for workload in ("plain-28", whole):
        file = tmp_path / "one.png"
        code, out, error = run("learning_curves.py", ledger, "--workload", workload, "--out", file)
        assert (code, error) == (0, f"{file}\n")
        assert struct.unpack(">II", file.read_bytes()[16:24])[0] == 1500  # 5 inches of 300 dots
        assert lines(out, "plain-28")
        assert not lines(out, "wrn-28")


def test_a_pdf_has_its_size_and_its_fonts(run, ledger, tmp_path):
    file = tmp_path / "norms.pdf"
    assert run("norms_by_layer.py", ledger, "--workload", "wrn-28", "--out", file, "--width", "4")[0] == 0
    assert file.read_bytes().startswith(b"%PDF")
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", file.read_bytes())
    assert [float(side) / 72 for side in box.groups()] == pytest.approx([4, 3.2])
    assert b"LiberationSans" in file.read_bytes()


def test_gq_vs_outcome(run, ledger):
    code, out, _ = run("gq_vs_outcome.py", ledger)
    assert code == 0
    assert "cannot be tested: that takes at least 5 initializers and 3 networks; the report has 4 and 2." in out
    assert "gradient_norm" not in out.split("Every probe")[0].replace("the gradient norm", "")
    # On plain the two whose gradients vanished are saturated, on wrn nothing is.
    [row] = lines(out, "all values", "plain-28")
    assert re.search(r"plain-28\s+4\s+2\s", row)


def test_probe_ranking_draws_the_strongest_first(run, deep, tmp_path):
    code, out, _ = run("probe_ranking.py", deep, "--out", tmp_path / "probes.svg")
    assert code == 0
    assert out.index("gradient_quotient: ") < out.index("gradient_norm: ")
    marks = re.findall(r'aria-label="(gradient_\w+): mean ρ ([-+][\d.]+)', (tmp_path / "probes.svg").read_text("utf-8"))
    # Of ranks 2, 5, 1, 4, 3 the squares of the differences sum up to 1 + 9 + 4 + 0 + 4 = 18: ρ = 1 - 6 · 18 / 120.
    assert [name for name, _ in marks] == ["gradient_quotient", "gradient_norm"]
    assert [float(rho) for _, rho in marks] == pytest.approx([1, 0.1], abs=0.06)


def test_ranking(run, ledger, deep, tmp_path):
    code, out, _ = run("ranking.py", ledger)
    assert code == 0
    assert "No order is found over both networks" in out
    assert "delta_orthogonal (gain 2) diverges on 1 of 2 networks" in out
    assert "Of the variance" in out or "Most of the variance" in out
    [cell] = lines(out, "kaiming", "plain-28", "untrained")
    assert "did not train" in cell
    code, out, _ = run("ranking.py", deep, "--figure", "differences", "--out", tmp_path / "d.svg")
    assert code == 0
    assert "kaiming ranks first over 5 networks" in out
    marks = re.findall(r'aria-label="([^"]+)" role="graphics-symbol"', (tmp_path / "d.svg").read_text("utf-8"))
    sizes = [float(size[1]) for mark in marks if (size := re.search(r"by ([\d.]+) points", mark))]
    assert sizes == pytest.approx([2, 4, 6, 8], abs=0.1)


def test_ranking_against_a_reference(run, deep):
    code, out, _ = run("ranking.py", deep, "--reference", "orthogonal")
    assert code == 0
    assert "Every initializer against orthogonal over the networks" in out
    assert re.search(r"kaiming +1\.00 +−[78]\.\d\d \(", out)  # four steps of two points
    assert re.search(r"orthogonal +5\.00 +– ", out)


def test_depth_curves(run, deep, tmp_path):
    code, out, error = run("depth_curves.py", deep, "--out", tmp_path / "depth.svg")
    assert (code, error) == (0, f"{tmp_path / 'depth.svg'}\n")  # one family has the file itself
    [row] = lines(out, "plain", "kaiming", " 28 ")
    assert re.search(r"12\.81\s% +12\.80\s% +12\.82\s%", row)
    code, _, error = run("depth_curves.py", deep, "--family", "plane")
    assert code == 2
    assert "no family of networks 'plane' in these results (did you mean 'plain'?)" in error


def test_cost_of_initialization(run, ledger, tmp_path):
    file = tmp_path / "cost.svg"
    code, out, _ = run("cost_of_initialization.py", ledger, "--target", "0.25", "--workload", "wrn-28", "--out", file)
    assert code == 0
    # The target is met at epoch 2, step 42; MetaInit used 30 · 3³ / 3 gradients of 32 in place of 64 samples.
    assert re.search(r"metainit.* 135 .* 177 ", *lines(out, "metainit (from"))
    assert re.search(r"kaiming +0 .* 42 ", *lines(out, "wrn-28", "kaiming"))
    assert not lines(out, "plain-28")
    assert lines(out, "kaiming", "25.00\N{NO-BREAK SPACE}%")
    text = file.read_text(encoding="utf-8")
    assert "metainit: 177 steps, including 135 before training" in text
    widths = [float(width) for width in re.findall(r'aria-label="metainit: [^"]*"[^>]* d="M[^h]*h([\d.]+)v', text)]
    assert len(widths) == 2
    assert widths[0] / widths[1] == pytest.approx(135 / 42, rel=0.01)


def test_cost_of_initialization_by_the_workloads_own_targets(run, ledger):
    code, out, _ = run("cost_of_initialization.py", ledger)
    assert code == 0
    assert "metainit costs 135 steps" in out
    assert {"not reached"} <= {cell for line in lines(out, "kaiming") for cell in re.split(r"\s{2,}", line)}


def test_learning_curves_by_compute_begin_with_what_initialization_cost(run, ledger, tmp_path):
    file = tmp_path / "curves.svg"
    arguments = ["--workload", "plain-28", "--by", "compute", "--out", file]
    assert run("learning_curves.py", ledger, *arguments)[0] == 0
    text = file.read_text(encoding="utf-8")
    assert "compute, with initialization (training steps)" in text
    assert "metainit (from delta_orthogonal), compute 156: 50.00" in text.replace("\N{NO-BREAK SPACE}", " ")


def test_norms_by_layer(run, ledger):
    code, out, _ = run("norms_by_layer.py", ledger, "--workload", "plain-28")
    assert code == 0
    [row] = lines(out, "metainit (from", "plain-28")
    assert re.search(r" 2 +2\.25 +0\.500 +4\.00 +8\.00", row)


def test_how_far_the_norms_are_from_those_of_a_reference(run, ledger):
    code, out, _ = run("norms_by_layer.py", ledger, "--workload", "plain-28", "--reference", "kaiming")
    assert code == 0
    [row] = lines(out.split("Distance from kaiming")[1], "metainit (from", "plain-28")
    # Norms of 4 and 1/2 against 1 and 1: (log 4 + log 2) / 2 = 1.04 at all seeds; others equal the reference's.
    assert re.search(r" 3 +1\.04 +1\.04 +1\.04$", row)
    assert all(re.search(r" 3( +0\.00){3}$", row) for row in lines(out.split("Distance")[1], "delta_orthogonal (gain"))
    code, out, error = run("norms_by_layer.py", ledger, "--reference", "kaimin")
    assert (code, out) == (2, "")
    assert "no initializer 'kaimin' in these results (did you mean 'kaiming'?)" in error


def test_hessian_spectrum_by_the_steps_of_a_tuner(run, looked_at, tmp_path):
    code, out, error = run("hessian_spectrum.py", looked_at, "--out", tmp_path / "steps.svg")
    assert (code, error) == (0, f"{tmp_path / 'steps.svg'}\n")
    found = re.findall(r"metainit \(from kaiming\) +(\d+) +2 +(\S+) +(\S+) +(\S+)$", out, re.MULTILINE)
    assert [tuple(map(float, row)) for row in found] == [(0, 96, 64, 128), (50, 12, 8, 16), (200, 3, 2, 4)]
    text = (tmp_path / "steps.svg").read_text(encoding="utf-8")
    assert "metainit (from kaiming), steps 200: 3 (2 to 4)" in text
    assert ">steps of the tuner<" in text
    assert (
        ">largest eigenvalue (hessian spectrum), log scale<" in text
    )  # without the arguments, which tell nothing apart
    code, out, _ = run("hessian_spectrum.py", looked_at, "--of", "gradient_share")
    assert code == 0
    assert lines(out, "gradient share", "0.500 after 0 and 0.500 after 200 steps of metainit")


def test_hessian_spectrum_as_a_density(run, looked_at, tmp_path):
    file = tmp_path / "density.svg"
    code, _, _ = run("hessian_spectrum.py", looked_at, "--of", "positive_density", "--out", file)
    assert code == 0
    text = file.read_text(encoding="utf-8")
    assert "kaiming, place -0.75: 0.75" in text
    assert "place -0.25" not in text  # where there was no node
    code, _, error = run("hessian_spectrum.py", looked_at, "--of", "eigenvalues")
    assert code == 2
    assert "no probe by layer 'hessian_spectrum.eigenvalues' in these results" in error


@pytest.mark.parametrize(
    ("name", "of", "words"),
    [
        ("weights_and_gradients_by_layer.py", "gradients", "gradient deviation"),
        ("weights_and_gradients_by_layer.py", "weights", "weight magnitude"),
        ("signal_by_depth.py", "mean_square", "mean square (signal by depth)"),
        ("signal_by_depth.py", "skip_deviation", "skip deviation (signal by depth)"),
    ],
)
def test_what_was_measured_by_layer(run, looked_at, tmp_path, name, of, words):
    code, out, error = run(name, looked_at, "--of", of, "--out", tmp_path / "figure.svg")
    assert (code, error) == (0, f"{tmp_path / 'figure.svg'}\n")
    drawing = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    texts = ET.fromstring(drawing).iter(f"{SVG}text")  # noqa: S314  # the script's own
    assert {words, f"{words}, log scale"} & {"".join(text.itertext()) for text in texts}
    assert len(lines(out, "metainit (steps ")) >= 2
    if of in {"gradients", "mean_square"}:
        [row] = lines(out, "metainit (steps 50, from kaiming)", " 8.00 ")
        assert re.search(r" 3 +4\.00 +1\.00 +8\.00 +8\.00", row)


def test_several_folders_are_put_together(run, ledger, tmp_path):
    spec = make_spec(METAINIT, {"name": "plain", "depth": 16, "width": 1})
    write_ledger(tmp_path / "other", [make_record(spec, 0.123)])
    code, out, _ = run("ranking.py", ledger, tmp_path / "other")
    assert code == 0
    assert lines(out, "metainit", "plain-16", "12.3")
    assert lines(out, "metainit", "wrn-28")


def test_a_record_that_cannot_be_read_is_named_and_loses_nothing_else(run, ledger):
    (ledger / "trials" / "broken.json").write_text("{")
    code, out, error = run("ranking.py", ledger)
    assert code == 0
    assert "passed over: " in error
    assert "broken.json" in error
    assert lines(out, "kaiming", "wrn-28", "2.5")


def test_a_reader_that_has_read_enough_is_no_error(ledger):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, FOLDER / "ranking.py", ledger]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_stable_rates_by_batch_size(run, tmp_path):
    """At 64 the best rate is √8 times that of 8 and the largest stable one 10 times; rates are half a decade apart."""
    stable = {8: 0.1, 64: 1.0}
    records = []
    for size, limit in stable.items():
        outcome = partial(lambda at, own: curved(0.01 * (own[0] / 8) ** 0.5, limit=own[1])(at.rate), own=(size, limit))
        records += tuned_records(outcome, ["net"], ["kaiming", "xavier"], recipe={"batch_size": size})
    ledger = write_ledger(tmp_path / "rates", records)
    said = {"keys": {"recipe.lr": list(RATES)}, "tries": len(RATES), "points": "grid", "search": "each"}
    ledger.write_suite("name: rates\n", {"schema": 2, "compare": ["initializer"], "tune": said})
    code, out, error = run("stable_rates.py", tmp_path / "rates", "--out", tmp_path / "rates.svg")
    assert (code, error) == (0, f"{tmp_path / 'rates.svg'}\n")
    drawn = (tmp_path / "rates.svg").read_text(encoding="utf-8")
    for size, limit in stable.items():
        best = min(RATES, key=lambda rate: abs(math.log(rate / (0.01 * (size / 8) ** 0.5))))
        assert f"kaiming, best rate, batch size {size}: {best:.3g}" in drawn
        assert f"kaiming, largest stable rate, batch size {size}: {limit:.3g}" in drawn
        [row] = lines(out, "kaiming", f"batch_size {size})")
        assert f" {limit / best:.1f} (" in row


def test_tuning_curves(run, tmp_path):
    """The objective of MetaInit by step, and by what it multiplied each weight."""
    history = [{"step": step, "gradient_quotient": value} for step, value in ((0, 2.0), (1, 1.0), (2, 0.5))]
    factors = {"stem.weight": 4.0, "head.weight": 0.25}
    records = []
    for seed in range(2):
        record = make_record(make_spec({"name": "metainit", "base": KAIMING, "batch_size": 32}, seed=seed))
        events = {n: [{"event": "scaled", "factor": f}] for n, f in factors.items()}
        records.append(replace(record, initialization={"history": history, "tensors": events}))
    write_ledger(tmp_path / "tuned", records)
    code, out, error = run("tuning_curves.py", tmp_path / "tuned", "--out", tmp_path / "steps.svg")
    assert (code, error) == (0, f"{tmp_path / 'steps.svg'}\n")
    assert "step 2: 0.5" in (tmp_path / "steps.svg").read_text(encoding="utf-8")
    assert lines(out, "metainit", "2.00", "0.500")
    code, _, error = run("tuning_curves.py", tmp_path / "tuned", "--of", "factors", "--out", tmp_path / "factors.svg")
    assert (code, error) == (0, f"{tmp_path / 'factors.svg'}\n")
    assert "layer 0 (stem.weight): 4" in (tmp_path / "factors.svg").read_text(encoding="utf-8")
