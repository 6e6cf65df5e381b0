"""The comparison itself, and that it sees one bit that was changed on purpose."""

import re
import shutil
import subprocess

import pytest

from bitwise import compare
from bitwise.case import DIGITS, FOUR_STEPS, MLP, PROBES, case
from bitwise.cases import CASES, EXEMPT, MOVED
from bitwise.trees import UNPLANNED, Comparison, Exempt, compare_trees, compared, differences, flat

ONE = {"outcome": '"finished"', "metrics/test_error": (0.5).hex(), "metrics/steps": "2"}


def lines(reference, changed):
    return [line for _, line in differences(reference, changed)]


def test_equal_numbers_do_not_differ_and_the_changed_tree_may_have_more():
    assert lines(ONE, ONE | {"metrics/new": "1"}) == []


def test_one_bit_of_a_float_differs():
    [line] = lines(ONE, ONE | {"metrics/test_error": (0.5 + 2**-53).hex()})
    assert line == "metrics/test_error: 0x1.0000000000000p-1 → 0x1.0000000000001p-1"


def test_a_number_that_is_missing_differs():
    assert lines(ONE, {k: v for k, v in ONE.items() if k != "metrics/steps"}) == ["metrics/steps: 2 → missing"]


def test_another_outcome_is_told_alone():
    assert lines(ONE, {"outcome": "incompatible"}) == ['outcome: "finished" → incompatible']


@pytest.mark.parametrize(("first", "second"), [(ONE, None), (None, ONE)])
def test_a_trial_of_one_tree_alone_differs(first, second):
    [line] = lines(first, second)
    assert line.endswith('has this: "finished"')


def test_a_case_that_fails_on_both_trees_is_no_equality():
    failed = {"outcome": "failed: TypeError: x"}
    assert len(lines(failed, failed)) == 1


def test_a_case_that_the_changed_tree_cannot_plan_is_told_once():
    failed = {UNPLANNED: {"outcome": "failed: SuiteError: no such field"}}
    result = compared({"a": {"t": ONE, "u": ONE}}, {"a": failed})
    assert result.different == {"a": {UNPLANNED: ["only the changed tree has this: failed: SuiteError: no such field"]}}


def test_paths_hold_every_number_of_nested_data_and_every_bit_of_it():
    found = dict(flat({"a": [0.1, {"b": None}], "c": True, "d": {}, "e": 1}))
    assert found == {"a/length": "2", "a/0": (0.1).hex(), "a/1/b": "null", "c": "true", "e": "1"}
    assert dict(flat({"x": -0.0})) != dict(flat({"x": 0.0}))
    assert dict(flat({"x": 1})) != dict(flat({"x": 1.0}))


def test_an_exempt_number_may_differ_and_no_other():
    changed = ONE | {"metrics/test_error": (0.25).hex()}
    exempt = Exempt("recipe/*", "*", "metrics/test_*", "was divided by the wrong number")
    trees = {"recipe/sgd": {"t": ONE}}, {"recipe/sgd": {"t": changed}}
    assert not compared(*trees).equal
    result = compared(*trees, [exempt])
    assert result.equal
    assert result.exempt == {exempt.reason: 1}
    assert not compared({"seeds": {"t": ONE}}, {"seeds": {"t": changed}}, [exempt]).equal
    assert not compared({"recipe/sgd": {"t": ONE}}, {"recipe/sgd": {"t": ONE | {"metrics/steps": "3"}}}, [exempt]).equal


def test_a_report_names_the_cases_and_the_first_numbers():
    trees = {"a": {"t": ONE}, "b": {"t": ONE}}, {"a": {"t": ONE}, "b": {"t": ONE | {"metrics/steps": "3"}}}
    text = compare.report(compared(*trees), 2, 4.2)
    assert "metrics/steps: 2 → 3" in text
    assert "different: b" in text
    assert "2 cases, 2 trials (2 finished), 6 numbers: 1 cases are different" in text
    assert not Comparison(errors=["a worker was killed"]).equal


def test_every_case_has_a_name_of_its_own():
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["0123456789"], ["HEAD", "--only", "nothing"], [], ["HEAD", "--jobs", "0"], ["HEAD", "--slow"]),
        *(["0123456789", "--reached"], ["--reached"]),
    ],
)
def test_a_wrong_request_is_one_line(arguments, capsys):
    assert compare.main(arguments) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("compare.py: ")


def test_where_a_change_reaches_no_number_nothing_is_compared(monkeypatch, capsys):
    monkeypatch.setattr(compare.reach, "changed_since", lambda _: {compare.ROOT / "docs/tutorial.md"})
    monkeypatch.delattr(compare, "checked_out")
    assert compare.main(["HEAD", "--fast", "--reached"]) == 0
    fast = len([one for one in CASES if not one.slow])
    assert capsys.readouterr().out == f"0 of {fast} cases are within reach of what differs from HEAD\n"


def test_only_what_a_change_reaches_is_compared(monkeypatch, capsys):
    monkeypatch.setattr(compare.reach, "changed_since", lambda _: {compare.ROOT / "initbench/initializers/lsuv.py"})
    assert compare.main(["HEAD", "--fast", "--reached", "--list"]) == 0
    _, *names = capsys.readouterr().out.splitlines()
    assert "variants/lsuv/mean" in names
    assert "variants/gradinit/step" not in names


def test_components_that_the_commit_does_not_have_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(compare, "_has", lambda _, earlier: earlier != CASES[-1].since)
    assert compare.main(["HEAD", "--only", "language/llama"]) == 0
    assert capsys.readouterr().out.startswith("left out, later than HEAD: language/llama\n")


def test_the_reference_is_a_commit():
    [line] = compare.REFERENCE.read_text().splitlines()
    assert re.fullmatch("[0-9a-f]{40}", line)


def test_what_was_wrong_in_version_0_1_is_no_excuse_from_the_reference_on(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "REFERENCE", tmp_path / "reference")
    compare.REFERENCE.write_text("HEAD\n")
    assert compare.exempt_from("HEAD") == MOVED
    assert compare.exempt_from("d558414") == [*EXEMPT, *MOVED]


def interrupted():
    with compare.checked_out("HEAD") as tree:
        assert (tree / "initbench" / "__init__.py").is_file()
        raise KeyboardInterrupt(tree)


def test_the_worktree_is_removed_even_after_an_interruption():
    with pytest.raises(KeyboardInterrupt) as interruption:
        interrupted()
    [tree] = interruption.value.args
    assert not tree.exists()
    listed = subprocess.run(["git", "worktree", "list"], cwd=compare.ROOT, capture_output=True, text=True, check=True)
    assert str(tree) not in listed.stdout


TINY = case("tiny", MLP, dataset=DIGITS, recipe=FOUR_STEPS, probes=PROBES[1:2])


def changed_copy(folder, part, old, new):
    """Copy the package and change a text that stands in one file of one of its parts."""
    shutil.copytree(compare.ROOT / "initbench", folder / "initbench", ignore=shutil.ignore_patterns("__pycache__"))
    holding = [path for path in (folder / "initbench" / part).rglob("*.py") if old in path.read_text(encoding="utf-8")]
    assert len(holding) == 1, f"{old} is to stand in one file of {part}, to be changed on purpose"
    text = holding[0].read_text(encoding="utf-8")
    holding[0].write_text(text.replace(old, new), encoding="utf-8")
    return folder


# What the losses show of a change in the last bit of the weights depends on the processor.
LOSSES = {"history", "metrics"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "old", "new", "moved", "perhaps"),
    [
        (".", "A request that cannot be met", "Any request that cannot be met", set(), set()),
        # By the last bit of a float32 or of a float64.
        (
            "initializers",
            "/ math.sqrt(fan)",
            "/ math.sqrt(fan) * (1 + 2**-23)",
            {"after initialization", "after training", "probes"},
            LOSSES,
        ),
        ("training", "loss.backward()", "(loss * (1 + 2**-23)).backward()", {"after training"}, LOSSES),
        ("training", "loss.backward()", "(loss * (1 + 2**-10)).backward()", {"after training", *LOSSES}, set()),
        (
            "probes",
            "torch.linalg.vector_norm(layers, dim=1)",
            "(torch.linalg.vector_norm(layers, dim=1) * (1 + 2**-52))",
            {"probes"},
            set(),
        ),
    ],
    ids=["nothing", "initializer", "training by one bit", "training", "probe"],
)
def test_a_change_on_purpose_is_seen(tmp_path, part, old, new, moved, perhaps):
    result = compare_trees(compare.ROOT, changed_copy(tmp_path, part, old, new), [TINY.request()])
    assert result.errors == []
    assert result.outcomes == {"finished": 1}
    lines = [line for trials in result.different.values() for lines in trials.values() for line in lines]
    found = {line.partition("/")[0] for line in lines}
    assert moved <= found <= moved | perhaps
    assert result.equal == (not moved)


@pytest.mark.slow
def test_a_tree_without_the_library_is_an_error_and_no_equality(tmp_path):
    (tmp_path / "initbench").mkdir()
    (tmp_path / "initbench" / "__init__.py").write_text("raise ImportError('not a library')", encoding="utf-8")
    result = compare_trees(tmp_path, tmp_path, [TINY.request()])
    assert not result.equal
    assert "ImportError: not a library" in result.errors[0]
