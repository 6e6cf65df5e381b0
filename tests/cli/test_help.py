"""The command line without a command."""

import sys

import initbench
from initbench.cli.command_line import app, main


def run(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["initbench", *arguments])
    main()
    return capsys.readouterr().out


def test_without_a_command_the_help(capsys, monkeypatch):
    assert "Commands" in run(capsys, monkeypatch)
    assert run(capsys, monkeypatch, "--version") == f"{initbench.__version__}\n"


def test_the_help_says_of_every_command_a_whole_sentence(capsys, monkeypatch):
    out = run(capsys, monkeypatch, "--help")
    lines = out[out.index("Commands:") :].splitlines()[1:]
    assert len(lines) == len(app.registered_commands)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)
