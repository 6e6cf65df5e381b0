"""`initbench new-plugin`: what it writes and what it refuses."""

import json
import sys
import tomllib

import pytest

import initbench
from initbench.cli.command_line import main

FILES = {
    ".gitignore",
    "README.md",
    "pyproject.toml",
    "src/zoo_methods/__init__.py",
    "src/zoo_methods/initializer.py",
    "src/zoo_methods/py.typed",
    "suites/zoo_methods.yaml",
    "tests/test_zoo_methods.py",
}


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def new_plugin(tmp_path, monkeypatch, capsys):
    """Run `initbench new-plugin` in a folder of its own; return what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["initbench", "new-plugin", *arguments])
        main()
        return capsys.readouterr().out

    return run


@pytest.fixture
def refusal(new_plugin, capsys):
    """Run `initbench new-plugin` with a wrong request; return the one line that it prints."""

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            new_plugin(*arguments)
        assert stop.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return err.removeprefix("initbench: ").rstrip("\n")

    return run


# --- what is written


@pytest.mark.parametrize("name", ["zoo_methods", "zoo-methods"])
def test_files(new_plugin, tmp_path, name):
    out = new_plugin(name)
    assert set(contents(tmp_path)) == {f"zoo-methods/{file}" for file in FILES}
    written, _, commands = out.partition("\n\nNext:\n")
    assert set(written.splitlines()) == {f"zoo-methods/{file}" for file in FILES}
    assert [line.strip() for line in commands.splitlines()] == [
        "cd zoo-methods",
        "pip install -e '.[test]'",
        "pytest",
        "initbench run suites/zoo_methods.yaml",
    ]


def test_the_name_stands_everywhere_and_no_placeholder_is_left(new_plugin, tmp_path):
    new_plugin("aaa_aaa", "--out", "first")
    new_plugin("bbb_bbb", "--out", "second")
    first, second = contents(tmp_path / "first"), contents(tmp_path / "second")
    renamed = {
        name.replace("aaa_aaa", "bbb_bbb"): text.replace("aaa_aaa", "bbb_bbb").replace("aaa-aaa", "bbb-bbb")
        for name, text in first.items()
    }
    assert renamed == second
    assert not any("$" in name + text for name, text in first.items())


def test_json(new_plugin, tmp_path):
    data = json.loads(new_plugin("zoo_methods", "--out", "some where", "--json"))
    assert data["package"] == "zoo_methods"
    assert {tmp_path / file for file in data["files"]} == {tmp_path / "some where" / file for file in FILES}
    assert data["next"][0] == "cd 'some where'"


def test_pyproject(new_plugin, tmp_path):
    new_plugin("zoo_methods")
    data = tomllib.loads((tmp_path / "zoo-methods" / "pyproject.toml").read_text(encoding="utf-8"))
    project = data["project"]
    assert project["name"] == "zoo-methods"
    assert project["dependencies"][0] == f"initbench>={initbench.__version__}"
    assert project["entry-points"] == {"initbench.plugins": {"zoo_methods": "zoo_methods"}}
    assert set(project["optional-dependencies"]) == {"test"}
    assert data["build-system"]["build-backend"] == "hatchling.build"


def test_an_empty_folder_is_filled(new_plugin, tmp_path):
    (tmp_path / "zoo-methods").mkdir()
    new_plugin("zoo_methods")
    assert set(contents(tmp_path / "zoo-methods")) == FILES


# --- what is refused


@pytest.mark.parametrize(
    "name", ["2fast", "_private", "tail_", "two__underscores", "Upper", "a.b", "a b", "../up", "", "zoö", "-"]
)
def test_a_name_that_is_no_package_name(refusal, tmp_path, name):
    expected = (
        "NAME must be lower-case letters, digits and single underscores or hyphens, beginning with a letter, such as "
        f"my_methods, got {name!r}"
    )
    # After "--" a name that begins with a hyphen is no option.
    assert refusal("--out", "folder", "--", name) == expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("class", "it is a Python keyword"),
        ("json", "it is a module of Python's standard library"),
        ("kaiming", "it is an initializer of initbench"),
        ("null", "YAML does not read it as text"),
        ("initbench", "a package of this name is installed"),
        ("torch", "a package of this name is installed"),
        ("scikit-learn", "a package of this name is installed"),  # whose module has another name
        ("sklearn", "a package of this name is installed"),
    ],
)
def test_a_name_that_is_taken(refusal, tmp_path, name, reason):
    assert refusal(name) == f"NAME must be free, got {name!r}: {reason}"
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_too_long(refusal, tmp_path):
    assert refusal("a" * 101, "--out", "folder") == "NAME must have at most 100 characters, got 101"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_working_directory_is_no_package(new_plugin, refusal, tmp_path, monkeypatch):
    """Python would import ./zoo as an empty module; that is no reason to refuse the name."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "zoo").mkdir()
    new_plugin("zoo")
    assert refusal("zoo") == "zoo: is not empty; choose another folder with --out"


def test_a_namespace_package_elsewhere_is_one(refusal, tmp_path, monkeypatch):
    (tmp_path / "elsewhere" / "zoo_space").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "here")
    assert refusal("zoo_space").endswith("a package of this name is installed")


def test_nothing_is_overwritten(refusal, tmp_path):
    mine = {"README.md": "mine", "taken": "a file"}
    (tmp_path / "zoo-methods").mkdir()
    (tmp_path / "zoo-methods" / "README.md").write_text("mine", encoding="utf-8")
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    assert refusal("zoo_methods") == "zoo-methods: is not empty; choose another folder with --out"
    assert refusal("zoo_methods", "--out", "taken") == "taken: is a file; choose another folder with --out"
    assert refusal("zoo_methods", "--out", "taken/below").endswith("taken/below: Not a directory")
    assert contents(tmp_path) == {"zoo-methods/README.md": mine["README.md"], "taken": mine["taken"]}
