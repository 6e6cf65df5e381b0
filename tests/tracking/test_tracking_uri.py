from __future__ import annotations

import http.server
import os
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from initbench.errors import InitbenchError
from initbench.tracking.uri import (
    StoreUnreachableError,
    check_tracking_uri,
    default_tracking_uri,
    resolve_tracking_uri,
    shown_uri,
    sqlite_path,
    without_secrets,
)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_the_option_goes_before_the_environment_and_both_before_the_default(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    default = f"sqlite:///{tmp_path}/mlflow.db"
    assert resolve_tracking_uri(tmp_path, None) == default
    assert resolve_tracking_uri(tmp_path, "http://option") == "http://option"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://environment")
    assert resolve_tracking_uri(tmp_path, None) == "http://environment"
    assert resolve_tracking_uri(tmp_path, "http://option") == "http://option"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    assert resolve_tracking_uri(tmp_path) == default


def test_the_default_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert default_tracking_uri("runs/depth") == f"sqlite:///{tmp_path}/runs/depth/mlflow.db"


@pytest.mark.parametrize("name", ["a b", "what?", "?mode=ro", "a%41b", "feature%2Fx", "50%", "a#b", "me:pa@host"])
def test_the_default_store_of_every_folder_is_opened_in_it(name, tmp_path):
    uri = default_tracking_uri(tmp_path / name)
    assert sqlite_path(uri) == Path(make_url(uri).database) == tmp_path / name / "mlflow.db"
    assert shown_uri(uri) == uri
    check_tracking_uri(uri)
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_uri_is_the_one_that_is_opened(tmp_path):
    uri = f"sqlite:///{tmp_path}/a%41b?timeout=5"
    assert sqlite_path(uri) == Path(make_url(uri).database) == tmp_path / "aAb"


def test_a_default_store_that_does_not_exist_yet_passes_and_is_not_created(tmp_path):
    check_tracking_uri(default_tracking_uri(tmp_path / "runs" / "depth"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("./mlruns", "MLflow no longer keeps runs in a folder of files; use sqlite:///{cwd}/mlruns/mlflow.db"),
        (
            "file:///data/mlruns",
            "MLflow no longer keeps runs in a folder of files; use sqlite:////data/mlruns/mlflow.db",
        ),
        ("ftp://host/mlflow", "unknown scheme 'ftp'; use sqlite:///PATH, http://HOST:PORT, or a database"),
        ("databricks://profile", "unknown scheme 'databricks'"),
        ("http://", "has no host; use http://HOST:PORT"),
        ("http://host:port", "Port could not be cast to integer"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("sqlite://", "name a file"),
        ("sqlite:///", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///{tmp}", "{tmp} is a folder; name a file in it"),
        ("sqlite:///{tmp}/text", "{tmp}/text is not a SQLite database"),
        ("sqlite:///{tmp}/text/mlflow.db", "{tmp}/text"),
    ],
)
def test_a_uri_that_cannot_be_right_is_refused_in_one_line(uri, message, tmp_path):
    (tmp_path / "text").write_text("not a database")
    uri = uri.format(tmp=tmp_path)
    with pytest.raises(InitbenchError) as caught:
        check_tracking_uri(uri)
    told = str(caught.value)
    assert told.startswith(f"tracking URI {uri}: ")
    assert message.format(tmp=tmp_path, cwd=Path.cwd()) in told
    assert "\n" not in told


def test_an_unwritable_folder_is_refused(tmp_path, monkeypatch):
    # The superuser may write everywhere, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path)
    with pytest.raises(InitbenchError, match=f"{tmp_path} is not writable"):
        check_tracking_uri(default_tracking_uri(tmp_path / "depth"))


@contextmanager
def _server(status):
    requested = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", requested
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [200, 401, 403])
def test_a_server_that_answers_passes_even_where_it_wants_credentials(status):
    with _server(status) as (host, requested):
        check_tracking_uri(f"http://user:secret@{host}/prefix/")
    assert requested == ["/prefix/health"]


@pytest.mark.parametrize("status", [404, 500, 503])
def test_a_server_that_is_no_mlflow_is_refused(status):
    with _server(status) as (host, _), pytest.raises(InitbenchError, match=f"answers {status} at /health"):
        check_tracking_uri(f"http://{host}")


@pytest.mark.parametrize("scheme", ["http", "https", "postgresql", "mysql+pymysql"])
def test_nobody_listening_is_told_at_once_and_without_the_password(scheme):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(InitbenchError, match=r"does not answer .*refused") as caught:
        check_tracking_uri(f"{scheme}://user:secret@127.0.0.1:{port}/mlflow")
    assert time.monotonic() - begun < 5
    assert "secret" not in str(caught.value)
    assert "user:***@127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("host", ["my..host", f"{'a' * 64}.example"], ids=["empty label", "long label"])
@pytest.mark.parametrize("scheme", ["postgresql", "mysql+pymysql"])
def test_a_name_that_no_host_can_have_does_not_answer(scheme, host):
    with pytest.raises(StoreUnreachableError, match=r"does not answer \(.*label") as caught:
        check_tracking_uri(f"{scheme}://user:secret@{host}/mlflow")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_accepts_and_says_nothing_is_given_up_within_ten_seconds():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begun = time.monotonic()
        with pytest.raises(InitbenchError, match=r"does not answer .*timed out"):
            check_tracking_uri(f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:pa55@db:5432/x", "postgresql://me:***@db:5432/x"),
        ("postgresql+psycopg://me@db/x?sslpassword=hidden", "postgresql+psycopg://me@db/x?sslpassword=***"),
        ("https://me:pa%2F55@host/prefix", "https://me:***@host/prefix"),
        ("https://ghp_token@host", "https://***@host"),
        ("https://host/?token=hidden&api_key=also", "https://host/?token=***&api_key=***"),
        ("https://me:pa/55@host", "https://me:***@host"),
        ("https://me:pa?55#@host", "https://me:***@host"),
        ("http://me:pa55@[::1", "http://me:***@[::1"),
        ("http://localhost:5000", "http://localhost:5000"),
        ("sqlite:////tmp/a:b@c/mlflow.db", "sqlite:////tmp/a:b@c/mlflow.db"),
    ],
)
def test_no_secret_is_shown(uri, shown):
    assert shown_uri(uri) == shown
    assert without_secrets(f"API request to {uri} failed", uri) == f"API request to {shown} failed"


def test_no_secret_of_a_message_is_shown_however_it_is_quoted():
    uri = "https://me:pa%2F55@host/?token=hid/den"
    message = "no login for me with pa/55 or pa%2F55, token=hid%2Fden, hid/den at host"
    assert without_secrets(message, uri) == "no login for me with *** or ***, token=***, *** at host"


@pytest.mark.parametrize("uri", ["http://me:hush/hush@host:1", "https://me:hush@[::1", "ftp://me:hush@host"])
def test_no_secret_of_a_uri_that_cannot_be_right_is_told(uri):
    with pytest.raises(InitbenchError) as caught:
        check_tracking_uri(uri)
    assert "hush" not in str(caught.value)
