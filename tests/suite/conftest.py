from __future__ import annotations

import sys

import pytest

from initbench.cli.command_line import main


@pytest.fixture(autouse=True)
def _built_ins_alone(scratch_registry):
    """Messages name all components: those that other tests have registered must not be among them."""


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder (but for the files given) and return its one line on stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(*arguments, **files):
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name.replace("_", ".")).write_bytes(data)
        before = sorted(tmp_path.rglob("*"))
        monkeypatch.setattr(sys, "argv", ["initbench", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert stop.value.code == 2, err
        assert out == ""
        assert err.count("\n") == 1, err
        assert err.startswith("initbench: ")
        assert sorted(tmp_path.rglob("*")) == before
        return err.removeprefix("initbench: ").removesuffix("\n")

    return run
