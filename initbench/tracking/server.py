"""``initbench ui``: MLflow's user interface for the right store."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn
from urllib.parse import urlencode

from initbench.errors import InitbenchError
from initbench.ledger import Ledger
from initbench.tracking.uri import check_regular, check_stays, is_server, shown_uri, sqlite_path
from initbench.visible_text import visible

# A server on this machine needs no proxy from the environment.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_START_SECONDS = 120.0
_STOP_SECONDS = 5.0
_ENVIRONMENT = {
    # Without these, the server starts seven more processes and takes three times as long to answer.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def serve(uri: str, folder: str | Path, port: int = 5000, host: str = "127.0.0.1") -> None:
    """Serve MLflow's user interface until Ctrl-C or SIGTERM; leave no process behind.

    MLflow answers only to names that it knows (localhost and private addresses); for others see its
    ``MLFLOW_SERVER_ALLOWED_HOSTS``. If the store is a server, its address is printed and nothing is started. If the
    port cannot be used, another one is taken and reported; 0 means any free port.
    """
    if is_server(uri):
        _say(f"MLflow is a server already: {shown_uri(uri)}")
        return
    path = sqlite_path(uri)
    if path is not None:
        if not path.exists():
            raise InitbenchError(f"no runs yet in {folder}: initbench run SUITE first")
        check_stays(path)
        check_regular(path)
    chosen, problem = _free_port(host, port)
    if problem:
        _say(f"port {port}: {problem}; {chosen} is used instead")
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", host, "--port", str(chosen)),
        # Without a destination for artifacts, the server would make a folder in the working directory.
        *("--artifacts-destination", (Path(folder).resolve() / "mlartifacts").as_uri()),
    ]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log, _terminated_cleanly():
        process = subprocess.Popen(  # noqa: S603  # a list of arguments, no shell
            command,
            # The URI may have a password, so it is not an argument, which every user of the machine could read.
            env={**_ENVIRONMENT, **os.environ, "MLFLOW_BACKEND_STORE_URI": uri},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # its own process group, which is ended as a whole
        )
        try:
            address = _address(host, chosen)
            _wait_until_healthy(process, address, shown_uri(uri), log)
            _say(f"MLflow: {_experiment_url(address, _experiment(folder))}  (Ctrl-C ends it)")
            process.wait()
        except KeyboardInterrupt:
            pass
        finally:
            _end(process)
    if process.returncode not in {0, -signal.SIGTERM, -signal.SIGKILL, -signal.SIGINT}:
        raise InitbenchError(f"MLflow's server ended with code {process.returncode}")


def _address(host: str, port: int) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # compared, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _free_port(host: str, wanted: int) -> tuple[int, str]:
    """Return the wanted port and an empty text, or another port and why the wanted one cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem = ""
    for port in (wanted, 0):
        with socket.socket(family) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, port))
            except OSError as error:
                problem = str(error.strerror or error)
                continue
            return int(listener.getsockname()[1]), problem
    raise InitbenchError(f"{host}: cannot listen there: {problem}")


def _wait_until_healthy(process: subprocess.Popen[bytes], address: str, uri: str, log: IO[str]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with _direct.open(f"{address}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    log.seek(0)
    last = [line.strip() for line in log if line.strip()][-1:]
    raise InitbenchError(f"MLflow's server did not start on {uri}: {''.join(last) or 'it printed nothing'}")


def _experiment(folder: str | Path) -> str:
    """Return the suite's name; the folder's, which is the same unless it was renamed, if it has no records."""
    with suppress(InitbenchError):  # the records are of another version
        for record in Ledger(folder).records([]):
            return visible(record.spec["suite"])
    return Path(folder).resolve().name


def _experiment_url(address: str, name: str) -> str:
    """Return the page of the experiment with this name, or the front page if there is none."""
    query = urlencode({"experiment_name": name})
    try:
        with _direct.open(f"{address}/api/2.0/mlflow/experiments/get-by-name?{query}", timeout=5) as answer:
            experiment = json.load(answer)["experiment"]["experiment_id"]
    except (OSError, ValueError, KeyError):
        return address
    # The view for training runs, not the one for language models, with the charts beside the list.
    return f"{address}/#/experiments/{experiment}/runs?workflowType=machine_learning&compareRunsMode=CHART"


@contextmanager
def _terminated_cleanly() -> Iterator[None]:
    """Turn SIGTERM, or a closed terminal, into SystemExit, so that `finally` clauses run."""

    def leave(signal_number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + signal_number)

    handled = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]  # nohup
    before = {number: signal.signal(number, leave) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    process.wait()
