"""What an exception says, whatever it says, makes a whole record that people can read."""

import os

import pytest
from ledgers import KAIMING, make_spec

import initbench
from initbench.execution.failure import failed_record
from initbench.execution.status import StatusReader
from initbench.execution.trial import attempt_trial
from initbench.ledger import Ledger
from initbench.plugins import first_line
from initbench.probes.measurement import PerLayer
from suites import the_trial


class SilentError(Exception):
    """Fails when it is asked what it says."""

    def __str__(self):
        raise RuntimeError("no words")


def test_the_name_of_a_file_that_is_not_utf_8(tmp_path):
    (tmp_path / "files").mkdir()
    with open(os.fsencode(tmp_path / "files") + b"/caf\xe9.txt", "wb"):  # noqa: PTH123
        pass
    [name] = os.listdir(tmp_path / "files")  # noqa: PTH208
    record = failed_record(make_spec(KAIMING), "ValueError", f"{name}: not a weight file", f"Traceback\n\t{name}\n")
    ledger = Ledger(tmp_path)
    ledger.write(record)
    assert list(ledger.records()) == [record]
    assert record.error == {
        "type": "ValueError",
        "message": "caf\\xe9.txt: not a weight file",
        "traceback": "Traceback\n\tcaf\\xe9.txt\n",
    }
    status = StatusReader(tmp_path).read()
    assert (status.damaged, status.reasons[0].reason) == ((), "ValueError: caf\\xe9.txt: not a weight file")


def test_control_characters_and_turned_text_are_made_visible():
    record = failed_record(make_spec(KAIMING), "RuntimeError", "\x1b]0;owned\x07\x1b[2J \u202eabc\u2066\0")
    assert record.error["message"] == r"\x1b]0;owned\x07\x1b[2J \u202eabc\u2066\x00"


def test_a_message_of_20_million_characters_is_cut(tmp_path):
    record = failed_record(make_spec(KAIMING), "RuntimeError", "a" + "x" * 20_000_000 + "z", "t" * 20_000_000)
    Ledger(tmp_path).write(record)
    assert Ledger(tmp_path).path(record.id).stat().st_size < 100_000
    message = record.error["message"]
    assert message.startswith("axxx")
    assert message.endswith("xxz")
    assert "(20,000,002 characters)" in message


def test_an_exception_whose_message_cannot_be_made():
    assert first_line(SilentError()) == "its message cannot be shown"


@pytest.mark.parametrize("error", [SilentError(), SystemExit(3)])
def test_a_trial_fails_of_any_exception(error, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("initbench.execution.trial.run_trial", fail)
    record = attempt_trial(the_trial())
    assert (record.status, record.error["type"]) == ("failed", type(error).__name__)
    assert "in fail" in record.error["traceback"]


@pytest.mark.usefixtures("scratch_registry")
def test_a_name_that_no_file_can_hold_costs_no_result(tmp_path):
    @initbench.register_probe("half_a_character")
    def half_a_character():
        return lambda *_: PerLayer({"layer\ud800\x1b": 1.0})

    record = attempt_trial(the_trial(probes=["half_a_character"], recipe={"epochs": 1, "lr": 0.1}))
    assert record.status == "finished", record.error
    Ledger(tmp_path).write(record)
    [read] = Ledger(tmp_path).records()
    assert read.probes[0]["values"] == {r"layer\ud800\x1b": 1.0}
