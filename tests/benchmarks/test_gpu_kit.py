"""`benchmarks/gpu.py` on the CPU: its parts at tiny sizes, its table, and that it goes on where it was killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
ON_GPUS = ("waits", "device assert", "out of memory", "share")
TINY = ("--device", "cpu", "--tiny")


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


def kit(folder, *arguments):
    """Run the kit where Ray, MLflow and the packages of reports are not installed."""
    missing = folder / "missing"
    missing.mkdir(exist_ok=True)
    for name in ("ray", "mlflow", "vl_convert"):
        (missing / f"{name}.py").write_text(f"raise ImportError('{name} is not installed')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(missing), str(ROOT)])}
    command = [sys.executable, str(FOLDER / "gpu.py"), *TINY, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_parts_run_without_ray_and_mlflow_and_say_what_only_a_gpu_shows(tmp_path):
    import gpu

    done = kit(tmp_path, "--part", *ON_GPUS, "TF32", "Lanczos", "conformance", "LSUV")
    assert done.returncode == 0, done.stdout + done.stderr
    table = gpu.Table.read(tmp_path / "gpu.md")
    assert "torch" in table.card
    assert set(table.parts) == {*ON_GPUS, "TF32", "Lanczos", "conformance", "LSUV"}
    for name in ON_GPUS:
        assert table.parts[name] == [(name, "skipped", "", "it needs a GPU")]
    for name in set(table.parts) - set(ON_GPUS):
        lines = table.parts[name]
        assert any(line.status == "pass" for line in lines)
        assert all(line.reason for line in lines if line.status == "skipped")


@pytest.mark.slow
def test_every_part_runs_without_ray_and_mlflow(tmp_path):
    import gpu
    from gpu_parts import PARTS

    done = kit(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    table = gpu.Table.read(tmp_path / "gpu.md")
    assert list(table.parts) == [part.name for part in PARTS]
    skipped = [name for name, lines in table.parts.items() if all(line.status == "skipped" for line in lines)]
    assert skipped == list(ON_GPUS)


def test_an_error_and_a_crash_are_failures_and_the_other_parts_run(tmp_path, capsys):
    import gpu
    from gpu_parts import Line, Part

    def raises(_):
        yield Line("before", "pass", "1 | 2")
        raise RuntimeError("CUDA error: device-side assert triggered\nMore is elsewhere")

    parts = [
        Part("raises", raises, 1),
        Part("crashes", lambda _: os.kill(os.getpid(), signal.SIGKILL), 1),
        Part("leaves", lambda _: sys.exit(2), 1),
        Part("last", lambda _: iter([Line("x", "pass")]), 1),
    ]
    out = tmp_path / "gpu.md"
    assert gpu.main(parts, [*TINY, "--out", str(out)]) == 1
    assert gpu.Table.read(out).parts == {
        "raises": [
            ("before", "pass", "1 | 2", ""),
            ("raises", "fail", "", "RuntimeError: CUDA error: device-side assert triggered"),
        ],
        "crashes": [("crashes", "fail", "", "the part's process ended with exit code -9")],
        "leaves": [("leaves", "fail", "", "SystemExit: 2")],
        "last": [("x", "pass", "", "")],
    }
    assert "| last | x | pass |  |  |" in capsys.readouterr().out


def test_a_part_runs_again_only_if_named_and_a_success_clears_its_failure(tmp_path):
    import gpu
    from gpu_parts import Line, Part

    calls = tmp_path / "calls"

    def part(name):
        def run(_):
            with calls.open("a") as file:
                file.write(name)
            yield Line(name, "pass" if calls.read_text().count(name) > 1 else "fail")

        return Part(name, run, 1)

    command = [*TINY, "--out", str(tmp_path / "gpu.md")]
    assert gpu.main([part("a"), part("b")], command) == 1
    assert gpu.main([part("a"), part("b")], command) == 1
    assert gpu.main([part("a"), part("b")], [*command, "--part", "a"]) == 1
    assert gpu.main([part("a"), part("b")], [*command, "--part", "b"]) == 0
    assert calls.read_text() == "abab"


def test_a_part_that_may_not_end_in_time_is_left_and_one_that_does_not_is_a_failure(tmp_path, capsys):
    import gpu
    from gpu_parts import Line, Part

    def slow(_):
        yield Line("first", "pass")
        time.sleep(600)

    out = tmp_path / "gpu.md"
    parts = [Part("slow", slow, 0), Part("long", lambda _: iter([Line("long", "pass")]), 1000)]
    begun = time.monotonic()
    assert gpu.main(parts, ["--device", "cpu", "--minutes", "0.05", "--out", str(out)]) == 1
    assert time.monotonic() - begun < 30
    late = ("slow", "fail", "", "it did not end before the call's limit of minutes")
    assert gpu.Table.read(out).parts == {"slow": [("first", "pass", "", ""), late]}
    assert "No time is left for long: run the same command again." in capsys.readouterr().out


KILLED = f"""
import sys, time
sys.path.insert(0, {str(FOLDER)!r})
import gpu
from gpu_parts import Line, Part

def first(_):
    yield Line("first", "pass", str(time.time()))

def second(_):
    yield Line("second", "pass")
    time.sleep(0 if "again" in sys.argv else 600)

arguments = [argument for argument in sys.argv[1:] if argument != "again"]
sys.exit(gpu.main([Part("first", first, 0), Part("second", second, 0)], arguments))
"""


def test_a_killed_kit_goes_on_with_the_part_that_had_not_ended(tmp_path):
    import gpu

    (tmp_path / "killed.py").write_text(KILLED)
    out = tmp_path / "gpu.md"
    command = [sys.executable, "killed.py", *TINY]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        while not out.exists():
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    before = gpu.Table.read(out).parts
    assert list(before) == ["first"]
    assert subprocess.run([*command, "again"], cwd=tmp_path, check=False).returncode == 0
    after = gpu.Table.read(out).parts
    assert after == before | {"second": [("second", "pass", "", "")]}


def test_the_table_of_another_card_is_left_alone(tmp_path, capsys):
    import gpu

    out = tmp_path / "gpu.md"
    gpu.Table("another card").write(out)
    before = out.read_text()
    assert gpu.main([], [*TINY, "--out", str(out)]) == 2
    assert "is of another card: another card" in capsys.readouterr().err
    assert out.read_text() == before


def test_without_a_gpu_the_kit_says_so_in_one_line(tmp_path, capsys):
    import gpu
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    out = tmp_path / "gpu.md"
    assert gpu.main([], ["--out", str(out)]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert not out.exists()


# --- parts that a CPU skips, as far as it can run them


@pytest.mark.slow
def test_a_fault_is_expected_and_the_sound_trial_after_it_finishes():
    from gpu_parts import Setup, fault

    lines = list(fault(Setup("cpu", tiny=True), expected="IndexError", index=5))
    assert [line.status for line in lines] == ["pass", "pass"]
    assert lines[1].measured == "in the same process"


@pytest.fixture
def watched(monkeypatch):
    """The part that watches training steps, without bf16, which most processors emulate slowly."""
    import gpu_parts
    import torch
    import training_step

    monkeypatch.setattr(training_step, "BATCH", 4)
    monkeypatch.delitem(gpu_parts.WATCHED, "bf16")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield lambda: list(gpu_parts.waits(gpu_parts.Setup("cpu", tiny=True)))
    torch.set_num_threads(threads)


def test_training_may_not_wait_from_the_first_step_to_the_last(monkeypatch, watched):
    import torch

    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    assert [line.status for line in watched()] == ["pass"] * 2
    assert modes == (["error"] * 19 + ["default"]) * 2


def test_a_wait_is_a_failure_and_the_next_recipe_runs(monkeypatch, watched):
    import torch

    def refuse_once(mode):
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda _: None)
        raise RuntimeError("called a synchronizing CUDA operation")

    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", refuse_once)
    assert watched() == [
        ("20 steps, fp32", "fail", "", "called a synchronizing CUDA operation"),
        ("20 steps, augmented", "pass", "no wait for the GPU", ""),
    ]


def test_a_line_that_misses_its_bound_or_is_no_number_fails():
    import timing
    from gpu_parts import below, figure

    assert below("x", 1.0, 1.0) == ("x", "pass", "1", "")
    assert below("x", 2.0, 1.0) == ("x", "fail", "2", "more than 1")
    assert below("x", float("nan"), 1.0).status == "fail"
    row = timing.Row.of_pairs("step", [(3.0, 1.0)], bound=2.0)
    assert figure(row) == ("step", "pass", "3.000 × (3e+03 ms against 1e+03 ms)", "")
    assert figure(timing.Row("deviation", (2.0,), "", 1.0)).status == "fail"
