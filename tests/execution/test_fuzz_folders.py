"""Whatever lies in a suite's folder: commands end with an exit code, and touch nothing outside the folder.

``INITBENCH_FUZZ_FOLDERS=500 pytest -m slow tests/execution/test_fuzz_folders.py`` takes as many as that.
"""

import atexit
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from initbench.cli.command_line import main

FOLDERS = int(os.environ.get("INITBENCH_FUZZ_FOLDERS", "60"))
FIRST = int(os.environ.get("INITBENCH_FUZZ_FIRST", "0"))
_MOST_SECONDS = 60
SUITE = """\
name: small
description: Does it run?
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: 2, width: 4}]
initializers: [kaiming, xavier]
recipe: {epochs: 1, lr: 0.1}
probes: [gradient_norm]
checkpoints: {every_epochs: 1}
seeds: 2
"""
COMMANDS = (
    ("status", "{folder}"),
    ("report", "{folder}"),
    ("report", "{folder}", "--format", "md"),
    ("report", "{folder}", "--format", "json"),
    ("report", "{folder}", "--out", "{folder}/../../written"),
    ("retry", "{folder}", "--executor", "in-process"),
    ("run", "{folder}/../../suite.yaml", "--out", "{folder}/..", "--executor", "in-process"),
    ("sync", "{folder}"),
)
# What a run makes and a finished one has not left, beside what is there.
NAMES = (
    *("networks", "networks/.folder", "checkpoints", "checkpoints/.folder", "mlflow.db.part", "progress.json"),
    *("report/figures/a.svg", "report/claims.csv", "trials/x.json", "trials/.hidden.json", ".mlflow_level.json"),
)
OUTSIDE = "/tmp/initbench-owned"  # noqa: S108
# Of a name that is a path, of no encoding, of control characters, and of a formula.
HOSTILE = (
    *(
        "../../../precious/owned",
        f"{OUTSIDE}/by/a/name",
        "..",
        ".",
        "a/b",
        "\0",
        "\x1b]0;owned\x07\x1b[2J",
        "\u202etxt",
    ),
    *(
        "\ud800",
        "=1+1",
        "@SUM(1)",
        "x" * 5000,
        "<script>alert(1)</script>",
        "\n\n# heading",
        "CON",
        "a" + "\u0301" * 50,
    ),
)


def tree(folder, without):
    """Every name below a folder, and what it is, byte for byte."""
    seen = {}
    for path in sorted(folder.rglob("*")):
        if path == without or without in path.parents:
            continue
        state = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        target = os.readlink(path) if path.is_symlink() else ""  # noqa: PTH115
        changed = 0 if path.is_dir() else state.st_mtime_ns  # that of a folder tells of its files, which are seen here
        seen[str(path.relative_to(folder))] = (state.st_mode, content, target, changed)
    return seen


class Folders:
    """Suites' folders, each made from a sound one and mutated; beside them lies a tree that nobody may touch."""

    def __init__(self, root):
        self.root, self.folder, self.sound = root / "case", root / "case" / "runs" / "small", root / "sound"
        self.root.mkdir()
        (self.root / "suite.yaml").write_text(SUITE, encoding="utf-8")
        run = ("run", self.root / "suite.yaml", "--out", self.root / "runs", "--executor", "in-process")
        subprocess.run([sys.executable, "-m", "initbench", *map(str, run)], check=True, capture_output=True)
        self.trials = sorted(path.stem for path in (self.folder / "trials").iterdir())
        precious = self.root / "precious"
        (precious / "figures").mkdir(parents=True)
        for name in (
            *("thesis.tex", ".hidden", ".folder", ".lock", "index.html", "claims.csv", "results.csv", "mlflow.db"),
            *("suite.yaml", "progress.json", f"{self.trials[0]}.json", f"{'a' * 64}.{'b' * 16}.pt", "a.1.part"),
            *(f"step-000000001-{'c' * 64}.pt", "7.part", "figures/a.svg"),
        ):
            (precious / name).write_text(f"precious {name}, which is nobody's but mine: é\n", encoding="utf-8")
        shutil.copytree(self.folder / "trials", precious / "trials")
        shutil.copytree(self.root, self.sound, symlinks=True)

    def make(self, chance):
        """Make the next folder, and say what was done to it."""
        shutil.rmtree(self.root)
        shutil.copytree(self.sound, self.root, symlinks=True)
        return [self._mutate(chance) for _ in range(chance.choice((1, 1, 2, 4)))]

    def _mutate(self, chance):
        there = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*")]
        name = chance.choice(
            [
                *there,
                *NAMES,
                *NAMES,
                f"checkpoints/{chance.choice(self.trials)}",
                f"trials/{chance.choice(self.trials)}.json",
            ]
        )
        path = self.folder / name
        if path.parent.resolve() != self.folder.resolve() / path.parent.relative_to(self.folder):
            return f"{name}: lies behind a link already"
        if not os.path.lexists(path.parent):
            path.parent.mkdir(parents=True)
        if not path.parent.is_dir():
            return f"{name}: has no folder"
        change = chance.choice((self._link, self._link, self._special, self._content, self._name, self._record))
        return f"{name}: {change(chance, path)}"

    def _clear(self, path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _link(self, chance, path):
        precious = self.root / "precious"
        targets = [precious, precious / "trials", *precious.iterdir(), self.root, self.folder, path, Path("nowhere")]
        target = chance.choice(targets)
        self._clear(path)
        if chance.random() < 0.5 and target.is_absolute():
            target = Path(os.path.relpath(target, path.parent))
        path.symlink_to(target)
        return f"is a link to {target}"

    def _special(self, chance, path):
        self._clear(path)
        kind = chance.choice(("pipe", "socket", "zero", "full", "null", "folder", "huge", "nothing"))
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            before = Path.cwd()
            os.chdir(path.parent)  # an address has 108 bytes at most
            try:
                with socket.socket(socket.AF_UNIX) as end:
                    end.bind("s")
                os.rename("s", path)  # noqa: PTH104
            finally:
                os.chdir(before)
        elif kind == "folder":
            (path / "below").mkdir(parents=True)
        elif kind == "huge":
            with path.open("wb") as file:
                file.truncate(2**40)
        elif kind != "nothing":
            path.symlink_to(f"/dev/{kind}")
        return kind

    def _content(self, chance, path):
        self._clear(path)
        path.write_bytes(chance.choice((b"", b"{}", b"[]", b"\xff\xfe\0", b"{" * 100_000, chance.randbytes(300))))
        return "holds other bytes"

    def _name(self, chance, path):
        name = chance.choice((b"\xff\xfe", b"\x1b[2J", b"caf\xe9", b"=1+1", b"new\nline", b"-rf", b" ", b"x" * 240))
        suffix = chance.choice((b".json", b".svg", b".pt", b".part", b""))
        other = os.path.join(os.fsencode(path.parent), name + suffix)  # noqa: PTH118
        with open(other, "wb") as file:  # noqa: PTH123
            file.write(chance.choice((b"", b"{}", b"\xff")))
        return f"has {other!r} beside it"

    def _record(self, chance, path):
        """Change a record's text where its identity does not tell; nothing but text can lead anywhere."""
        file = self.folder / "trials" / f"{chance.choice(self.trials)}.json"
        if file.is_symlink() or not file.is_file():
            return "there is no record to change"
        try:
            record = json.loads(file.read_bytes())
        except ValueError:
            return "there is no record to change"
        if not isinstance(record, dict) or "probes" not in record:
            return "there is no record to change"
        text = chance.choice(HOSTILE)
        layers = {"name": text, "kind": "per_layer", "unit": text, "values": {text: 1.0, "b": 2.0}, "conditions": {}}
        change = chance.randrange(6)
        if change == 0:
            record["probes"] = [layers, *record["probes"]]
        elif change == 1:
            record["probes"][0]["name"] = text
        elif change == 2:
            record["task"]["metrics"][record["task"]["primary"]]["label"] = text
        elif change == 3:
            record |= {"status": "failed", "error": {"type": text, "message": text, "traceback": text}}
        elif change == 4:
            record["metrics"][record["task"]["primary"]] = chance.choice((1e308, -1e308, 1e-320))
        else:
            record["environment"] |= {"host": text, "processor": text}
        file.write_text(json.dumps(record), encoding="utf-8")
        return f"a record says {text!r}, {change}"


def ended(*arguments):
    """Run a command in a fork of this process, which has loaded its libraries; return its exit code and output."""
    with tempfile.TemporaryFile("w+b") as output:
        child = os.fork()
        if not child:
            os.setsid()
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            sys.argv = ["initbench", *map(str, arguments)]
            code = 1
            try:
                main()
                code = 0
            except SystemExit as ending:
                code = ending.code or 0
            except BaseException:  # noqa: BLE001  # as Python does with what nothing catches
                traceback.print_exc()
            finally:
                atexit._run_exitfuncs()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        deadline = time.monotonic() + _MOST_SECONDS
        while not (status := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "it takes too long", ""
            time.sleep(0.01)
        output.seek(0)
        return os.waitstatus_to_exitcode(status[1]), output.read().decode(errors="replace")


@pytest.mark.slow
def test_a_mutated_folder_costs_nothing_outside_it_and_no_traceback(tmp_path):
    folders = Folders(tmp_path)
    for module in ("initbench.execution.trial", "initbench.reporting.report", "initbench.tracking.mlflow", "mlflow"):
        importlib.import_module(module)
    for case in range(FIRST, FIRST + FOLDERS):
        chance = random.Random(case)  # noqa: S311
        done = folders.make(chance)
        before = tree(folders.root, folders.folder)
        for command in chance.sample(COMMANDS, 2):
            words = [word.format(folder=folders.folder) for word in command]
            told = (case, words[0], *done)
            code, said = ended(*words)
            assert code in {0, 1, 2}, (*told, code, said[-2000:])
            assert "Traceback" not in said, (*told, said[-2000:])
            assert not set("\x1b\x07\u202e\0") & set(said), (*told, said[-2000:])
            after = tree(folders.root, folders.folder)
            assert {name: state for name, state in after.items() if not name.startswith("written")} == before, told
            assert not Path(OUTSIDE).exists(), told
