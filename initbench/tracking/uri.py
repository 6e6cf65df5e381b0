"""The tracking URI: which MLflow store, and whether it answers. Imports no mlflow.

A suite's folder from somebody else may have links or pipes in place of a store's file or artifacts. MLflow would write
through links, and wait for a pipe for ever.
"""

import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import SplitResult, quote, quote_plus, unquote, urlsplit

from initbench.errors import InitbenchError
from initbench.files import check_readable, is_within

TIMEOUT_SECONDS = 5.0
_DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_CREDENTIALS = re.compile(r"([^:/?#]*://)(?:(.*)@)?(.*)\Z", re.DOTALL)
_QUERY_VALUE = re.compile(r"=[^&#]*")
_SQLITE = "sqlite:///"
_SQLITE_MAGIC = b"SQLite format 3\0"
_LARGEST_STORE = 2**60  # SQLite reads only the parts that it needs


def default_tracking_uri(folder: str | Path) -> str:
    return sqlite_uri(Path(folder).resolve() / "mlflow.db")


def sqlite_uri(path: Path) -> str:
    text = str(path)
    # SQLAlchemy decodes ``%41``, and ends the path at ``?``. MLflow decodes nothing when it makes the folder of
    # the path, so the slashes are encoded too: then it sees no folder.
    return _SQLITE + (quote(text, safe="") if {"?", "%"} & set(text) else text)


def resolve_tracking_uri(folder: str | Path, option: str | None = None) -> str:
    """Return the tracking URI: the option, else ``MLFLOW_TRACKING_URI``, else the SQLite store beside the ledger."""
    return option or os.environ.get("MLFLOW_TRACKING_URI") or default_tracking_uri(folder)


def is_server(uri: str) -> bool:
    """Return whether the URI is an MLflow server's, which keeps its own artifacts."""
    return urlsplit(uri).scheme in {"http", "https"}


def sqlite_path(uri: str) -> Path | None:
    """Return the file that SQLAlchemy opens for a SQLite URI; None for any other URI."""
    return Path(unquote(uri.removeprefix(_SQLITE).partition("?")[0])) if uri.startswith(_SQLITE) else None


class StoreUnreachableError(InitbenchError):
    """The store of a tracking URI does not answer now; the URI itself may be right."""


def shown_uri(uri: str) -> str:
    """Return the URI without secrets: without the password, a token in its place, and the values of its query.

    If a password has characters that end the name of a host (``/``, ``?``, ``#``), everything before the last ``@`` is
    left out, which is safe.
    """
    match = _CREDENTIALS.match(uri)
    if match is None or uri.startswith(("sqlite:", "file:")):
        return uri
    scheme, credentials, rest = match.groups()
    if credentials is not None:
        user, colon, _ = credentials.partition(":")
        named = colon and not set(user) & set("/?#")
        # A user without a password may be a token, except for a database, which needs both.
        alone = not colon and scheme.partition("+")[0].removesuffix("://") in _DATABASE_PORTS
        credentials = f"{user}:***@" if named else f"{user}@" if alone else "***@"
    address, mark, query = rest.partition("?")
    return f"{scheme}{credentials or ''}{address}{mark}{_QUERY_VALUE.sub('=***', query)}"


def without_secrets(text: str, uri: str) -> str:
    """Return another library's message without the secrets of a URI, in any quotation."""
    text = text.replace(uri, shown_uri(uri))
    for secret in _secrets(uri):
        for form in {secret, unquote(secret), quote(secret, safe=""), quote_plus(secret)}:
            text = text.replace(form, "***")
    return text


def _secrets(uri: str) -> list[str]:
    """Return the secret parts of a URI, the longest first."""
    match = _CREDENTIALS.match(uri)
    if match is None or uri.startswith(("sqlite:", "file:")):
        return []
    scheme, credentials, rest = match.groups()
    user, _, password = (credentials or "").partition(":")
    # A value of up to three characters is not worth guarding, and may occur anywhere in a message.
    values = [value[1:] for value in _QUERY_VALUE.findall(rest.partition("?")[2]) if len(value) > 4]
    hidden = [] if shown_uri(uri).startswith(f"{scheme}{user}") else [user, credentials or ""]
    return sorted(filter(None, {password, *values, *hidden}), key=len, reverse=True)


def check_tracking_uri(uri: str) -> None:
    """Check that a store answers, within seconds and without writing anything.

    A StoreUnreachableError says that a server or a database does not answer, another InitbenchError that the URI is
    malformed or that its file cannot be written.
    """
    try:
        parts = urlsplit(uri)
        scheme = parts.scheme.partition("+")[0]
        _ = parts.port
    except ValueError as error:
        # If a password contains a slash, the parser mistakes a part of it for the port, and prints it.
        hint = "in a password %, /, ?, # and @ are written %25, %2F, %3F, %23 and %40" if "@" in uri else str(error)
        raise InitbenchError(f"tracking URI {shown_uri(uri)}: {hint}") from None
    if scheme == "sqlite":
        _check_sqlite(uri)
    elif scheme in {"http", "https"}:
        _check_server(uri)
    elif scheme in _DATABASE_PORTS:
        _check_database(uri, parts, _DATABASE_PORTS[scheme])
    elif scheme in {"", "file"} or len(scheme) == 1:  # a single letter is a Windows drive
        hint = sqlite_uri(Path(uri.removeprefix("file://")).absolute() / "mlflow.db")
        raise InitbenchError(
            f"tracking URI {shown_uri(uri)}: MLflow no longer keeps runs in a folder of files; use {hint}"
        )
    else:
        raise InitbenchError(
            f"tracking URI {shown_uri(uri)}: unknown scheme {scheme!r}; use sqlite:///PATH, http://HOST:PORT, "
            f"or a database ({', '.join(_DATABASE_PORTS)})"
        )


def _check_sqlite(uri: str) -> None:
    path = sqlite_path(uri)
    if path is None or str(path) in {".", ":memory:"}:
        raise InitbenchError(f"tracking URI {uri}: name a file: sqlite:///PATH, with four slashes for an absolute path")
    if path.is_dir():
        raise InitbenchError(f"tracking URI {uri}: {path} is a folder; name a file in it")
    try:
        # The tracker refuses a link out of its folder, and the trials continue.
        if path.exists() and not leads_out(path):
            check_regular(path)
            # SQLite writes its journal beside the file, so the folder must be writable too.
            _require_writable(uri, path)
            with path.open("rb") as file:
                head = file.read(len(_SQLITE_MAGIC))
            if head not in {b"", _SQLITE_MAGIC}:
                raise InitbenchError(f"tracking URI {uri}: {path} is not a SQLite database")
        ancestor = next(p for p in path.absolute().parents if p.exists())
    except OSError as error:
        raise InitbenchError(f"tracking URI {uri}: {error.strerror}: {path}") from None
    if not ancestor.is_dir():
        raise InitbenchError(f"tracking URI {uri}: {ancestor} is not a folder")
    _require_writable(uri, ancestor)


def _require_writable(uri: str, path: Path) -> None:
    if not os.access(path, os.W_OK):
        raise InitbenchError(f"tracking URI {uri}: {path} is not writable")


def _check_server(uri: str) -> None:
    parts = urlsplit(uri)
    if not parts.hostname:
        raise InitbenchError(f"tracking URI {shown_uri(uri)}: has no host; use http://HOST:PORT")
    # Without credentials, which /health does not need; urllib would take them for a part of the host's name.
    host = parts.netloc.rpartition("@")[2]
    health = parts._replace(netloc=host, path=parts.path.rstrip("/") + "/health", query="", fragment="").geturl()
    try:
        with urllib.request.urlopen(health, timeout=TIMEOUT_SECONDS, context=_ssl_context(parts.scheme)):  # noqa: S310  # the scheme is http or https
            return
    except urllib.error.HTTPError as error:
        if error.code in {401, 403}:  # it answers, and needs the credentials that MLflow will send
            return
        reason = f"answers {error.code} at /health, so it is not a working MLflow server"
    except (OSError, ValueError) as error:  # URLError and timeouts are OSErrors; a malformed host raises a ValueError
        cause = getattr(error, "reason", error)
        reason = f"does not answer ({without_secrets(str(getattr(cause, 'strerror', None) or cause), uri)})"
    raise StoreUnreachableError(f"tracking URI {shown_uri(uri)}: {reason}")


def _ssl_context(scheme: str) -> ssl.SSLContext | None:
    """Return the TLS settings of MLflow's own variables."""
    if scheme != "https":
        return None
    context = ssl.create_default_context(cafile=os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH"))
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in {"true", "1"}:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _check_database(uri: str, parts: SplitResult, default_port: int) -> None:
    host, port = parts.hostname or "localhost", parts.port or default_port
    try:
        socket.create_connection((host, port), timeout=TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:  # a malformed host raises a ValueError
        reason = getattr(error, "strerror", None) or error
        raise StoreUnreachableError(
            f"tracking URI {shown_uri(uri)}: {host}:{port} does not answer ({reason})"
        ) from None


def leads_out(path: Path) -> bool:
    """Return whether a path is a link to something outside the path's folder."""
    return not is_within(path, path.parent)


def check_stays(path: Path) -> None:
    if leads_out(path):
        raise InitbenchError(
            f"{path}: is a link that leads out of its folder, and nothing is written through it; remove the link"
        )


def check_regular(path: Path) -> None:
    """Refuse a store that is a pipe, a device or a folder."""
    try:
        check_readable(path, _LARGEST_STORE)
    except OSError as error:
        raise InitbenchError(f"{path}: {error.strerror}") from None
