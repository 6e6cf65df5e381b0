"""The arithmetic of the benchmarks, and that each works and has its place in the docs; their figures are no test."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
NAMES = sorted({path.stem for path in FOLDER.glob("*.py")} - {"timing", "run_all", "gpu", "gpu_parts", "gpu_faults"})


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


def rows(text):
    """Return case and bound of each row of the table in a text."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    header, _, *cells = [[cell.strip() for cell in line] for line in lines]
    case, bound = header.index("case"), header.index("bound")
    return [(row[case], row[bound]) for row in cells]


def test_a_ratio_is_the_median_over_pairs_and_not_a_ratio_of_medians():
    import timing

    # Ratios 2, 3 and 0.5; the medians of both sides, 2 and 3, would give 2/3.
    row = timing.Row.of_pairs("x", [(2.0, 1.0), (9.0, 3.0), (2.0, 4.0)], bound=1.9, per=2)
    assert row.values == (2.0, 3.0, 0.5)
    assert (row.seconds, row.reference_seconds) == (1.0, 1.5)
    table = timing.Result((row,), "").to_markdown()
    assert "| x | 1 s | 1.5 s | 2.000 × | 0.500 × | 3.000 × | 3 | ≤ 1.9 × | **no** |" in table


def test_a_bound_holds_up_to_itself_and_not_for_what_is_no_number():
    import timing

    assert timing.Row("x", (1.0, 1.02, 9.0), bound=1.02).within
    assert not timing.Row("x", (1.0, 1.0201, 9.0), bound=1.02).within
    assert not timing.Row("x", (float("nan"),), bound=1.02).within
    assert timing.Row("x", (9.0,)).within


@pytest.mark.slow
def test_pairs_take_turns_and_the_warm_up_is_not_counted():
    import timing

    calls = []
    pairs = timing.paired(lambda: calls.append("A"), lambda: calls.append("B"), 3, warm_up=2)
    assert calls == ["A", "B"] * 5
    assert len(pairs) == 3


def test_a_result_survives_json():
    import timing

    rows = (timing.Row("a", (1.0, 2.0), bound=3.0, seconds=1.0, reference_seconds=2.0), timing.Row("b", (4.0,), "MB"))
    result = timing.Result(rows, "a machine")
    assert timing.Result.from_json(result.to_json()) == result


@pytest.mark.slow
@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (1.1, 1)])
def test_a_missed_bound_is_the_exit_code(tmp_path, value, code):
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"
        "import timing\n"
        f"timing.main(lambda runs, quick: [timing.Row('x', ({value},) * runs, bound=1.05)], None, runs=3, threads=1)\n"
    )
    full, quick = (
        subprocess.run([sys.executable, script, *options], check=False, capture_output=True, text=True)
        for options in ([], ["--quick"])
    )
    assert (full.returncode, quick.returncode) == (code, 0)
    assert rows(full.stdout) == [("x", "≤ 1.05 ×")]
    assert rows(quick.stdout) == [("x", "")], "tiny sizes have no bound to miss"


def test_a_table_replaces_its_own_section_alone():
    import run_all

    page = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n<!-- y -->\nkept\n<!-- end of y -->\n"
    written = run_all.with_table(page, "x", "new")
    assert written == page.replace("\nold\n", "\n\nnew\n\n")
    assert run_all.with_table(written, "x", "new") == written
    with pytest.raises(ValueError, match="lacks <!-- z -->"):
        run_all.with_table(page, "z", "new")


def test_a_benchmark_without_a_result_does_not_keep_the_others_from_running(monkeypatch, capsys):
    import run_all
    import timing

    def run(name, *_):
        if name == "lsuv_package":
            raise RuntimeError("lsuv_package ended with exit code 2")
        return timing.Result((timing.Row(name, (1.0,)),), "")

    monkeypatch.setattr(run_all, "run", run)
    monkeypatch.setattr(sys, "argv", ["run_all.py", "lsuv_package", "training_step"])
    with pytest.raises(SystemExit) as ended:
        run_all.main()
    output, errors = capsys.readouterr()
    assert ended.value.code == 1
    assert "| training_step |" in output
    assert errors == "lsuv_package ended with exit code 2\n\n"


def test_a_package_that_is_not_installed_is_one_line_and_exit_code_2(monkeypatch, capsys):
    import lsuv_package

    monkeypatch.setitem(sys.modules, "lsuv", None)
    with pytest.raises(SystemExit) as ended:
        lsuv_package.measure(1, quick=True)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "the package to compare with is not installed: pip install lsuv==0.3.0\n"


def test_every_benchmark_is_run_by_all_and_has_its_section_and_command_in_the_docs():
    import run_all

    assert sorted(run_all.BENCHMARKS) == NAMES
    page = run_all.PAGE.read_text(encoding="utf-8")
    for name in NAMES:
        run_all.with_table(page, name, "")
        assert f"`python benchmarks/{name}.py`" in page


# Two runs of a sweep, with Ray and without, take over a minute however small: the executors' tests run as much.
@pytest.mark.slow  # all of them together take a minute
@pytest.mark.parametrize("name", sorted({*NAMES} - {"sweep_overhead"}))
def test_a_benchmark_at_a_tiny_size_gives_rows_with_the_bounds_that_the_docs_show(name, monkeypatch):
    import run_all
    import timing

    if name == "lsuv_package":
        pytest.importorskip("lsuv", reason="the package to compare with is not installed: pip install lsuv==0.3.0")
    benchmark = importlib.import_module(name)
    if name == "training_step":  # bf16 has no bound elsewhere
        monkeypatch.setattr(benchmark, "bf16_is_emulated", lambda: False)
    tiny = rows(timing.Result(tuple(benchmark.measure(1, quick=True)), "").to_markdown())
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    shown = rows(run_all.PAGE.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0])
    assert tiny
    # A tiny size may leave out networks, which all have one bound.
    assert list(dict.fromkeys(bound for _, bound in tiny)) == list(dict.fromkeys(bound for _, bound in shown))


def test_the_references_compute_what_initbench_computes():
    """The benchmarks' own checks, at a small size: they raise where the two sides differ."""
    import gpt_step
    import gradinit_iteration
    import metainit_step
    import torch
    import training_step
    import transformer

    import initbench

    torch.manual_seed(0)
    model = initbench.create_model("wrn", depth=10, width=1)
    training_step.same_network(model, training_step.ReferenceNetwork(10, 1))
    batches = [(torch.randn(4, 3, 8, 8), torch.randint(10, (4,))) for _ in range(2)]
    start = initbench.create_model("wrn", depth=10, width=1, norm="none", activation="beta_swish")
    initbench.initialize(start, "delta_orthogonal")
    metainit_step.same_algorithm(start, batches)
    batches = [(torch.randn(4, 3, 8, 8), torch.randint(10, (4,))) for _ in range(3 * gradinit_iteration.CHECKED)]
    for norm in ("batch", "none"):
        start = initbench.create_model("wrn", depth=10, width=1, norm=norm)
        initbench.initialize(start, "kaiming")
        gradinit_iteration.same_algorithm(start, batches)
    gpt_step.same_training(1, 8, 2, 8, 16)
    transformer.same_training(1, 8, 2, 8, 16)


def test_the_distance_of_standard_deviations_from_1_is_that_of_the_worst_layer():
    import lsuv_package
    import torch

    torch.manual_seed(0)
    start, inputs = lsuv_package.network(6, 8), torch.randn(16, 3, 8, 8)
    # Behind a ReLU orthogonal weights keep √½ of the standard deviation: 1 - 2^(-5/2) = 0.82 after five.
    assert 0.7 < lsuv_package.farthest(start, inputs) < 0.9
    tuned = lsuv_package.initbench_lsuv(start, inputs)
    assert lsuv_package.farthest(tuned, inputs) <= lsuv_package.FARTHEST
    with torch.no_grad():
        tuned[4].weight.mul_(1.25)
    assert lsuv_package.farthest(tuned, inputs) == pytest.approx(0.25, abs=1e-4)
