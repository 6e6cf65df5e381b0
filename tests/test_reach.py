"""What a change reaches: documents nothing, an initializer its own tests and cases, the registry everything."""

import json
import os
import subprocess
import sys

import pytest
import reach
from bitwise.cases import CASES
from import_graph import ROOT, TESTS, builtins, needs

FAST = [case for case in CASES if not case.slow]
FILES = {
    "tests/docs/test_pages.py::test_a_page_does_what_it_says[tutorial.md]": TESTS / "docs/test_pages.py",
    "tests/docs/test_pages.py::test_a_page_does_what_it_says[how_to/add_a_probe.md]": TESTS / "docs/test_pages.py",
    "tests/initializers/test_metainit_recovery.py::test_a": TESTS / "initializers/test_metainit_recovery.py",
    "tests/execution/test_chaos.py::test_b": TESTS / "execution/test_chaos.py",
    "tests/structure/test_own_families.py::test_c": TESTS / "structure/test_own_families.py",
    "tests/statistics/test_simulated_worlds.py::test_d": TESTS / "statistics/test_simulated_worlds.py",
    "tests/suite/test_shipped_suites.py::test_e[quickstart]": TESTS / "suite/test_shipped_suites.py",
    "tests/suite/test_shipped_suites.py::test_e[papers/mup_transfer]": TESTS / "suite/test_shipped_suites.py",
}
PAGE, OTHER_PAGE, RECOVERY, CHAOS, FAMILIES, WORLDS, QUICKSTART, TRANSFER = FILES


def reached(*changed):
    return reach.nearness(FILES, {ROOT / name for name in changed})


def cases(*changed):
    return {case.name for case in reach.cases_reached({ROOT / name for name in changed}, FAST)}


# --- tests


def test_documents_reach_their_own_pages_alone():
    pages = ("CHANGELOG.md", "README.md", "CONTRIBUTING.md", "docs/design.md", ".ci/run", "mkdocs.yml")
    assert reached(*pages) == {}
    assert set(reached(*pages, "docs/how_to/add_a_probe.md")) == {OTHER_PAGE}


def test_an_initializer_reaches_the_tests_that_name_it_and_its_own_room_first():
    found = reached("initbench/initializers/metainit.py")
    assert min(found, key=found.get) == RECOVERY
    assert WORLDS not in found
    assert RECOVERY not in reached("initbench/initializers/layer_scale.py")


def test_a_statistic_reaches_the_simulations_and_no_network():
    assert WORLDS in reached("initbench/statistics/decisions.py")
    assert FAMILIES not in reached("initbench/statistics/decisions.py")


def test_the_registry_reaches_everything_but_statistics():
    assert set(reached("initbench/registry/__init__.py")) >= {CHAOS, FAMILIES, RECOVERY}


def test_a_suite_reaches_the_test_that_runs_it_first():
    found = reached("suites/papers/mup_transfer.yaml")
    assert min(found, key=found.get) == TRANSFER
    assert found.get(QUICKSTART, (9,)) > found[TRANSFER]


def test_a_test_that_has_changed_is_the_nearest():
    assert reached("tests/execution/test_chaos.py") == {CHAOS: (0, 1)}
    assert CHAOS in reached("tests/conftest.py")


def test_what_a_file_of_the_library_reads_is_of_the_modules_beside_it():
    template = "initbench/cli/plugin_template/suite.yaml.template"
    assert set(reached(template)) == set(reached("initbench/cli/new_plugin.py", "initbench/cli/run.py"))


def test_where_it_is_not_known_what_changed_all_may_have():
    assert set(reach.nearness(FILES, None)) == set(FILES)
    assert reach.changed_since("0" * 40) is None
    assert isinstance(reach.changed_since("HEAD"), set)


# --- cases of the bitwise comparison


@pytest.mark.parametrize(
    "name",
    [
        *["docs/tutorial.md", "initbench/reporting/frame.py", "initbench/tracking/mlflow.py", "initbench/cli/run.py"],
        *["initbench/statistics/ranks.py", "tests/test_layers.py", "suites/quickstart.yaml", "pyproject.toml"],
    ],
)
def test_no_number(name):
    assert (ROOT / name).exists()
    assert cases(name) == set()


@pytest.mark.parametrize("initializer", ["lsuv", "layer_scale", "metainit", "gradinit", "xavier"])
def test_an_initializer_reaches_the_cases_that_name_it(initializer):
    found = cases(f"initbench/initializers/{initializer}.py")
    assert found == {case.name for case in FAST if f'"{initializer}"' in json.dumps(case.suite)}
    assert 0 < len(found) < len(FAST) / 2


def test_a_default_that_no_case_names_is_reached_too():
    """MetaInit starts from delta_orthogonal where nothing else is said, and that draws orthogonal matrices."""
    assert "seeds" in cases("initbench/initializers/delta_orthogonal.py")
    assert "seeds" in cases("initbench/initializers/orthogonal.py")


@pytest.mark.parametrize(
    "name",
    [
        *["initbench/registry/component.py", "initbench/registry/__init__.py", "initbench/__init__.py"],
        *["initbench/execution/trial.py", "initbench/training/loop.py", "initbench/tasks/classification.py"],
        *["tests/bitwise/cases.py", "tests/bitwise/adapter.py"],
    ],
)
def test_what_all_cases_share_reaches_all(name):
    assert cases(name) == {case.name for case in FAST}


@pytest.mark.slow
def test_all_that_a_case_imports_is_within_its_reach():
    """Otherwise a change of it would be compared with nothing."""
    names = ["initializers/wrn/skipinit", "variants/gradinit/step", "timm/rates", "recipe/all", "probes/schemes"]
    for case in (case for case in FAST if case.name in names):
        code = (
            "import json, sys\nfrom bitwise.worker import outcomes\n"
            "assert len(list(outcomes(json.loads(sys.argv[1])))) > 0\n"
            "files = [module.__file__ for name, module in sys.modules.items() if name.startswith('initbench')]\n"
            "print(json.dumps(files))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, json.dumps(case.request())],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}"},
        )
        loaded = json.loads(done.stdout.splitlines()[-1])
        missed = [file for file in loaded if case.name not in cases(os.path.relpath(file, ROOT))]
        assert loaded
        assert not missed, case.name


# --- the graph


def test_names_of_components_lead_to_their_files():
    assert {path.name for path in builtins()["fixup"]} == {"fixup.py"}
    assert {path.parent.name for path in builtins()["fixup"]} == {"initializers", "schemes"}
    assert {path.parent.name for path in builtins()["gaussian"]} == {"initializers", "data"}
    assert ROOT / "initbench/schemes/fixup.py" in needs(ROOT / "initbench/initializers/fixup.py")
    assert ROOT / "initbench/architectures/wrn.py" in needs(TESTS / "suites.py")


def test_lazy_names_lead_to_their_modules():
    assert ROOT / "initbench/reporting/frame.py" in needs(TESTS / "reporting/test_results_frame.py")
    assert ROOT / "initbench/architectures/create.py" in needs(TESTS / "test_readme.py")


# --- what runs


@pytest.fixture
def took(monkeypatch):
    """Four tests of 600, 300, 200 and 100 seconds."""
    seconds = dict(zip("abcd", (600.0, 300.0, 200.0, 100.0), strict=True))
    monkeypatch.setattr(reach, "durations", lambda tests: {test: seconds[test] for test in tests})
    return seconds


def choose(monkeypatch, near, *, turn=0, seconds=1000, altogether=10_000):
    monkeypatch.setattr(reach, "nearness", lambda *_: near)
    return reach.chosen(dict.fromkeys("abcd"), set(), turn, 2, seconds, altogether)


def test_parts_take_as_long(took):
    assert reach.parts(took, 2) == [["a"], ["b", "c", "d"]]


def test_what_is_within_reach_runs_first_the_nearest_before_others(took, monkeypatch):
    assert choose(monkeypatch, {"d": (1, 0), "c": (0, 0)}) == (["c", "d", "a"], [], ["b"])


def test_none_begins_for_which_there_is_no_time(took, monkeypatch):
    choice = choose(monkeypatch, dict.fromkeys("acd", (0, 0)), turn=1, seconds=350)
    assert choice == (["c", "d", "b"], ["a"], [])
    assert reach.told(choice) == "within reach of the change: 1 of 10 min: a (1)"


def test_what_is_beyond_reach_waits_for_another_change_where_the_time_is_used_up(took, monkeypatch):
    assert choose(monkeypatch, {"a": (0, 0)}, turn=1, altogether=900) == (["a", "c", "d"], [], ["b"])
    everything = dict.fromkeys("abcd", (0, 0))  # within reach
    assert choose(monkeypatch, everything, turn=1, seconds=100, altogether=200).run == ["d", "b", "c"]


def test_nothing_runs_twice_and_over_all_turns_everything_runs(took, monkeypatch):
    turns = [choose(monkeypatch, {"c": (0, 0)}, turn=turn).run for turn in (0, 1)]
    assert [sorted(run) for run in turns] == [["a", "c"], ["b", "c", "d"]]


def test_durations_are_kept_and_an_unknown_one_is_the_mean(tmp_path, monkeypatch):
    monkeypatch.setattr(reach, "DURATIONS", tmp_path / "durations")
    assert reach.durations(["a"]) == {"a": 20}
    reach.keep_durations({"b": 3.14159, "a": 1.04})
    assert reach.durations(["a", "b", "c"]) == pytest.approx({"a": 1.0, "b": 3.1, "c": 2.05})
