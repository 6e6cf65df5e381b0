"""Downloads: one at a time, with a timeout, and a clear error where the data root cannot be written."""

from __future__ import annotations

import socket
import threading

import pytest

from initbench.data.published import TIMEOUT, download
from initbench.errors import DataError


def test_what_is_there_is_not_fetched_and_nothing_is_made(tmp_path):
    download("name", tmp_path / "data", lambda: True, pytest.fail, "unused")
    assert not (tmp_path / "data").exists()


def test_of_several_at_once_one_fetches(tmp_path):
    root, fetched, barrier = tmp_path / "data", [], threading.Barrier(4)

    def fetch():
        fetched.append(socket.getdefaulttimeout())
        (root / "file").write_text("data")

    def work():
        barrier.wait()
        download("name", root, (root / "file").exists, fetch, "put it there")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == [TIMEOUT]
    assert socket.getdefaulttimeout() is None


def test_a_root_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    root = tmp_path / "file" / "data"
    with pytest.raises(DataError) as refusal:
        download("name", root, lambda: False, pytest.fail, "put it there")
    message = str(refusal.value)
    assert all(part in message for part in ("name", str(root), "INITBENCH_DATA", "put it there"))
    assert "\n" not in message


def test_a_failed_download_leaves_a_root_that_was_there(tmp_path):
    def fetch():
        raise RuntimeError("Error downloading it\nand more")

    with pytest.raises(DataError) as refusal:
        download("name", tmp_path, lambda: False, fetch, "put it there")
    assert all(part in str(refusal.value) for part in ("name", "Error downloading it", "put it there"))
    assert "and more" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []
    assert socket.getdefaulttimeout() is None
