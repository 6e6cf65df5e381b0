"""Malformed suites: each is refused with one line that says file, line, key and what would be right."""

import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from initbench.cli.command_line import main
from initbench.suite.document import read
from suites import VALID


def bomb(levels):
    """A small file that stands for 9^levels values."""
    first = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    return first + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, levels))


EMPTY = "suite.yaml: is empty; a suite needs name, dataset, architectures and initializers"
NO_MAPPING = "suite.yaml:1: must be a mapping (name: ..., dataset: ...), got"
NOT_PLAIN = "is not allowed; a suite is plain data"
WHOLE_FILES = {
    "empty": ("", EMPTY),
    "comment": ("# nothing\n", EMPTY),
    "null": ("~\n", EMPTY),
    "list": ("- kaiming\n- xavier\n", f"{NO_MAPPING} ['kaiming', 'xavier']"),
    "scalar": ("hello\n", f"{NO_MAPPING} 'hello'"),
    "open bracket": (
        "name: [a, b\ndataset: digits\n",
        "suite.yaml:2: not YAML: while parsing a flow sequence, expected ',' or ']', but got ':'",
    ),
    "colon in a value": ("name: a: b\n", "suite.yaml:1: not YAML: mapping values are not allowed here"),
    "tab": (
        "name: x\n\tdataset: digits\n",
        "suite.yaml:2: not YAML: while scanning for the next token, found character '\\t' that cannot start any token",
    ),
    "control character": (
        "name: a\x07b\n",
        "suite.yaml: not YAML: unacceptable character #x0007: special characters are not allowed",
    ),
    "two documents": (
        "name: a\n---\nname: b\n",
        "suite.yaml:2: not YAML: expected a single document in the stream, but found another document",
    ),
    "unknown alias": ("name: *nothing\n", "suite.yaml:1: not YAML: found undefined alias 'nothing'"),
    "Python call": (
        "name: !!python/object/apply:os.mkdir ['pwned']\n",
        f"suite.yaml:1: name: the tag 'tag:yaml.org,2002:python/object/apply:os.mkdir' {NOT_PLAIN}",
    ),
    "Python name": (
        "dataset: !!python/name:os.system\n",
        f"suite.yaml:1: dataset: the tag 'tag:yaml.org,2002:python/name:os.system' {NOT_PLAIN}",
    ),
    "tag of its own": ("name: !secret x\n", f"suite.yaml:1: name: the tag '!secret' {NOT_PLAIN}"),
    "tag on a mapping": ("recipe: !secret {lr: 1}\n", f"suite.yaml:1: recipe: the tag '!secret' {NOT_PLAIN}"),
    "binary": ("name: !!binary aGk=\n", f"suite.yaml:1: name: the tag 'tag:yaml.org,2002:binary' {NOT_PLAIN}"),
    "set": ("seeds: !!set {1, 2}\n", f"suite.yaml:1: seeds: the tag 'tag:yaml.org,2002:set' {NOT_PLAIN}"),
    "wrong tag": ("seeds: !!int two\n", "suite.yaml:1: seeds: 'two' is not an integer of at most 64 bits"),
    "wrong boolean": ("seeds: !!bool maybe\n", "suite.yaml:1: seeds: 'maybe' is not true or false"),
    "alias bomb": (bomb(12), "suite.yaml:1: expands to more than 20000 values; use fewer aliases"),
    "list in itself": (
        "architectures: &a [*a]\n",
        "suite.yaml:1: architectures[0]: an alias refers to a value that contains it",
    ),
    "mapping in itself": (
        "recipe: &r {epochs: 1, lr: *r}\n",
        "suite.yaml:1: recipe.lr: an alias refers to a value that contains it",
    ),
    "deep": ("name: " + "[" * 100 + "]" * 100, "suite.yaml:1: nested deeper than 20 levels"),
    "deeper than Python's stack": ("- " * 5000 + "a", "suite.yaml: nested deeper than 20 levels"),
    "integer of 5000 digits": (
        f"seeds: {'9' * 5000}\n",
        f"suite.yaml:1: seeds: '{'9' * 56}... is not an integer of at most 64 bits",
    ),
    "key that is a list": ("? [a, b]\n: 1\n", "suite.yaml:1: a key must be a name"),
    "key of two lines": (
        VALID.replace("seeds: 2", '"see\\nds": 2'),
        "suite.yaml:14: 'see\\nds': is an unknown key (did you mean 'seeds'?)",
    ),
    "too many trials": (
        VALID.replace("depth: [10, 16]", f"width: {[*range(1, 101)]}, depth: {[*range(10, 610, 6)]}")
        .replace(", width: 1,", ",")
        .replace("seeds: 2", "seeds: 6"),
        "suite.yaml:1: gives more than 100000 trials",
    ),
    "too many combinations": (
        VALID.replace("epochs: 1", f"epochs: {[*range(1, 400)]}, batch_size: {[*range(1, 400)]}"),
        "suite.yaml:9: recipe: gives more than 100000 combinations",
    ),
}


def read_table():
    """(text of the suite, message) by NEW."""
    cases = {}
    table = (Path(__file__).parent / "malformed.txt").read_text(encoding="utf-8")
    for block in table.split("\n\n")[1:]:
        edit, message = block.strip("\n").split("\n")
        old, new = (part.replace("⏎", "\n") for part in edit.split(" => "))
        assert old in VALID, edit
        assert edit not in cases, edit
        cases[edit] = (VALID.replace(old, new, 1), f"suite.yaml:{message.strip()}")
    return cases


CASES = WHOLE_FILES | read_table()


def test_the_valid_suite_is_valid(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("suite.yaml").write_text(VALID, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["initbench", "plan", "suite.yaml"])
    main()
    # (2 plain × 2 initializers + 1 mlp × 2 - 1 excluded) × 2 seeds
    assert "10 trials in 5 cells: 10 to run, 0 have a result, 2 excluded" in capsys.readouterr().out


@pytest.mark.parametrize("case", CASES)
def test_message(case, refused):
    text, message = CASES[case]
    assert refused("plan", "suite.yaml", suite_yaml=text) == message


def test_with_a_plugin_none_is_missing(refused, tmp_path):
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    message = refused("plan", "suite.yaml", "--plugin", "empty.py", suite_yaml=VALID.replace("- kaiming", "- kaimng"))
    assert message == "suite.yaml:7: initializers[0]: unknown initializer 'kaimng' (did you mean 'kaiming'?)"


def test_there_are_many():
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", ["Python call", "epochs: 1 => epochs: -1", "cpus: 1 => cpus: -1"])
def test_run_refuses_as_plan_does(case, refused):
    text, message = CASES[case]
    assert refused("run", "suite.yaml", suite_yaml=text) == message


def test_a_bomb_takes_neither_time_nor_memory(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(bomb(30), encoding="utf-8")
    tracemalloc.start()
    begun = time.monotonic()
    with pytest.raises(Exception, match="more than 20000 values"):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 30 lines; the expansion would be 9^30 values. Far from both limits in practice (0.1 s, 2 MB).
    assert time.monotonic() - begun < 10
    assert peak < 50e6


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name: café\n".encode("latin-1"), "suite.yaml:1: is not UTF-8 text (byte 0xe9)"),
        (b"name: a\n\xff\xfe\x00", "suite.yaml:2: is not UTF-8 text (byte 0xff)"),
        (b"#" * 1_000_001, "suite.yaml: is larger than 1 MB"),
    ],
    ids=["latin-1", "binary", "large"],
)
def test_not_a_text(content, message, refused):
    assert refused("plan", "suite.yaml", suite_yaml=content) == message


def test_no_such_file(refused):
    assert refused("plan", "suit.yaml", suite_yaml=VALID) == "suit.yaml: no such file (did you mean 'suite.yaml'?)"
    assert refused("plan", "elsewhere/suite.yaml") == "elsewhere/suite.yaml: no such file"


def test_a_folder_in_place_of_a_file(refused, tmp_path):
    assert refused("plan", ".", suite_yaml=VALID) == ".: is a folder; did you mean suite.yaml?"
    (tmp_path / "empty").mkdir()
    assert refused("plan", "empty") == "empty: is a folder"


def test_debug_shows_the_traceback(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["initbench", "plan", "missing.yaml", "--debug"])
    with pytest.raises(SystemExit) as stop:
        main()
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.startswith("Traceback (most recent call last)")
    assert error.endswith("initbench.errors.SuiteError: missing.yaml: no such file\n")


def test_the_program_itself(tmp_path):
    (tmp_path / "suite.yaml").write_text(VALID.replace("seeds: 2", "seeds: 0"), encoding="utf-8")
    command = [sys.executable, "-m", "initbench", "run", "suite.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "initbench: suite.yaml:14: seeds: must be at least 1 and at most 10000, got 0\n"
    assert [path.name for path in tmp_path.iterdir()] == ["suite.yaml"]
