"""The mark that MLflow is level with a ledger: kept only while nothing of either is another."""

import os
import sqlite3
from pathlib import Path

import pytest
from ledgers import KAIMING, METAINIT, make_record, make_spec
from stores import unread_pipe

from initbench.ledger import Ledger
from initbench.tracking.level import LEVEL_FILE, Level
from initbench.tracking.uri import default_tracking_uri

RECORDS = [make_record(make_spec(initializer)) for initializer in (KAIMING, METAINIT)]
LABELS = {record.id: {"initializer": record.spec["initializer"]["name"]} for record in RECORDS}


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path)
    for record in RECORDS:
        made.write(record)
    sqlite3.connect(tmp_path / "mlflow.db").execute("create table runs (id)")
    return made


@pytest.fixture
def level(ledger):
    made = Level(ledger, default_tracking_uri(ledger.folder))
    assert not made.holds(LABELS)
    made.keep(LABELS)
    assert made.holds(LABELS)
    return made


def record_again(ledger):
    ledger.write(RECORDS[0])  # the same, at another time


def record_more(ledger):
    ledger.write(make_record(make_spec(KAIMING, seed=5)))


def lose_one(ledger):
    ledger.path(RECORDS[0].id).unlink()


def write_to_the_store(ledger):
    with sqlite3.connect(ledger.folder / "mlflow.db") as store:
        store.execute("insert into runs values (1)")


def remove_the_store(ledger):
    (ledger.folder / "mlflow.db").unlink()


def damage_the_mark(ledger):
    (ledger.folder / LEVEL_FILE).write_text('{"store": ')


@pytest.mark.parametrize(
    "change", [record_again, record_more, lose_one, write_to_the_store, remove_the_store, damage_the_mark]
)
def test_any_change_ends_it(ledger, level, change):
    change(ledger)
    assert not level.holds(LABELS)


def test_a_mark_that_is_a_link_is_replaced_and_what_it_leads_to_stays(ledger, tmp_path_factory):
    precious = tmp_path_factory.mktemp("elsewhere") / "precious"
    precious.write_text("precious")
    Path(ledger.folder, LEVEL_FILE).symlink_to(precious)
    level = Level(ledger, default_tracking_uri(ledger.folder))
    assert not level.holds(LABELS)
    level.keep(LABELS)
    assert precious.read_text() == "precious"
    assert level.holds(LABELS)


def test_a_folder_in_the_place_of_the_mark_is_no_mark_and_no_error(ledger):
    Path(ledger.folder, LEVEL_FILE).mkdir()
    level = Level(ledger, default_tracking_uri(ledger.folder))
    level.keep(LABELS)
    assert not level.holds(LABELS)


def test_a_pipe_in_the_place_of_the_mark_is_not_opened(ledger):
    level = Level(ledger, default_tracking_uri(ledger.folder))
    with unread_pipe(ledger.folder / LEVEL_FILE):
        assert not level.holds(LABELS)
    level.keep(LABELS)
    assert level.holds(LABELS)


def test_a_mark_that_is_nested_without_end_is_none(ledger):
    Path(ledger.folder, LEVEL_FILE).write_text("[" * 100_000)
    assert not Level(ledger, default_tracking_uri(ledger.folder)).holds(LABELS)


def test_another_label_or_another_store_ends_it(ledger, level, tmp_path):
    assert not level.holds(LABELS | {RECORDS[0].id: {"initializer": "kaiming[gain=2]"}})
    other = tmp_path / "other.db"
    os.link(tmp_path / "mlflow.db", other)  # the same bytes
    assert not Level(ledger, f"sqlite:///{other}").holds(LABELS)


def test_what_a_server_has_is_not_known_here(ledger):
    server = Level(ledger, "http://127.0.0.1:1")
    server.keep(LABELS)
    assert not server.holds(LABELS)
    assert not Path(ledger.folder, LEVEL_FILE).exists()
