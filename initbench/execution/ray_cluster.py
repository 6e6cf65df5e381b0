"""A Ray cluster: joined or started here, quiet, left in order; what its nodes have, and which of them are alive."""

from __future__ import annotations

import gc
import io
import logging
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError
from initbench.execution.executor import Job
from initbench.execution.processes import family
from initbench.plugins import first_line

# Read by Ray when it is imported: no output but ours, no loggers of its own, and Ctrl-C comes to us.
_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # which would answer SIGTERM by a dump, and abort the process
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # a worker stays where the driver is: `./data` means the same to both
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",  # Tune's own snapshots grow with the sweep, and the ledger is ours
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_MAX_PENDING_TRIALS_PG": "16",
}
_SECONDS_TO_ANSWER = 5.0
_SECONDS_OF_A_CONNECTION = 5.0
_SECONDS_TO_COME_BACK = 2.0
_SECONDS_OF_A_HEAD = 30.0  # that is restarted, or cut off for a moment; Ray gives up after 60
_END_AT_ONCE = struct.pack("ii", 1, 0)  # of SO_LINGER: no closed connection waits in the kernel


class Node(NamedTuple):
    """A machine of a cluster, or one of several nodes on it, with the cores and GPUs that it gives to Ray."""

    id: str
    name: str
    address: str
    cpus: float
    gpus: float

    def fits(self, job: Job) -> bool:
        return job.cpus <= self.cpus and job.gpus <= self.gpus


def alive_nodes() -> list[Node]:
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]
    return [
        Node(
            id=node["NodeID"],
            # A name that was given to the node, else the machine's: Ray takes the address where there is none.
            name=node["NodeManagerHostname"] if node["NodeName"] == node["NodeManagerAddress"] else node["NodeName"],
            address=node["NodeManagerAddress"],
            cpus=node["Resources"].get("CPU", 0.0),
            gpus=node["Resources"].get("GPU", 0.0),
        )
        for node in nodes
    ]


def check_resources(job: Job, nodes: Sequence[Node]) -> None:
    """Refuse a trial that would wait for ever: it runs on one node, however many there are."""
    if any(node.fits(job) for node in nodes):
        return
    for key, name, wanted, has in (
        ("cpus", "CPU", job.cpus, [node.cpus for node in nodes]),
        ("gpus", "GPU", job.gpus, [node.gpus for node in nodes]),
    ):
        most = max(has, default=0.0)
        if wanted > most:
            most_of_one = f" on {len(nodes)} nodes, {most:g} at most on one of them" if len(nodes) > 1 else ""
            raise InitbenchError(
                f"resources.{key}: {wanted:g} asked for, but the cluster has {sum(has):g} {name}s{most_of_one}"
            )
    raise InitbenchError(
        f"resources: a trial asks for {job.cpus:g} CPUs and {job.gpus:g} GPUs, and none of the cluster's "
        f"{counted(len(nodes), 'node')} has both"
    )


@contextmanager
def cluster(address: str | None) -> Iterator[None]:
    """Join a cluster, or start a local one if there is no address; leave it in the end. Ray says nothing meanwhile."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    _check_address(address)
    import_in_background("initbench.tracking.mlflow", "initbench.reporting.report")  # the driver needs both soon
    # Ray prints of its own on sys.stdout ("A worker died ..."); what a trial died of is in its record.
    with redirect_stdout(io.StringIO()):
        before = set(family(os.getpid()))
        try:
            with _sigterm_is_ours():
                ray.init(
                    address=address or "local",
                    include_dashboard=False if address is None else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    configure_logging=True,
                )
        except (ConnectionError, ValueError, RuntimeError) as error:
            what = "Ray does not start here" if address is None else f"--address {address}: no Ray cluster answers"
            raise InitbenchError(f"{what}: {first_line(error)}") from error
        started = sorted(set(family(os.getpid())) - before) if address is None else []
        # A trial's error is logged too, with Ray's own frames.
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            _shut_down(ray.shutdown, started, ray.is_initialized)


@contextmanager
def _sigterm_is_ours() -> Iterator[None]:
    """Start Ray so that SIGTERM stays this process's affair.

    SLURM and spot markets send it to every process of a job at once. Ray's own processes would end by it, and this one
    would abort, since its connection to them is lost, before it could write a line. They inherit a mask in which it is
    blocked, as Ray does with Ctrl-C by itself, and end when this process does. Ray also puts a handler of its own in
    the place of the one that is there, which would leave without a word; and other threads, in which SIGTERM is not
    blocked, would take it meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Ray sets no handler then, and Python would refuse one
        return
    set_handler = signal.signal

    def set_other_handler(signalnum: int, handler: Any) -> Any:
        return signal.getsignal(signalnum) if signalnum == signal.SIGTERM else set_handler(signalnum, handler)

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal = set_other_handler
    try:
        yield
    finally:
        signal.signal = set_handler
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _shut_down(
    shutdown: Callable[[], None], started: Sequence[int] = (), connected: Callable[[], bool] = lambda: False
) -> None:
    """Leave Ray while no other thread frees a reference to its objects: Ray would end the process with exit code 1.

    Tune leaves cycles with such references behind, which Python collects in whichever thread comes next, such as the
    one that writes to MLflow. So they go first, and none is looked for while Ray shuts down.

    Ray asks each process of a local cluster by SIGTERM to end, which they do not hear, and waits a second for it. So
    those in `started` are ended as soon as this process has left them.
    """
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    done = threading.Event()
    processes = {member for one in started for member in family(one)}

    def end() -> None:
        while connected() and not done.wait(0.02):
            pass
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    helper = threading.Thread(target=end, name="initbench-leave-ray", daemon=True)
    helper.start()
    try:
        shutdown()
    finally:
        done.set()
        helper.join()
        if was_enabled:
            gc.enable()


def _check_address(address: str | None) -> None:
    """Refuse an address at which nothing listens; Ray itself would try for minutes."""
    if address is not None and address.startswith("ray://"):
        # Ray Client runs Tune on the head, where our ledger is not.
        raise InitbenchError(f"--address {address}: give HOST:PORT of the head, or auto on a machine of the cluster")
    host, colon, port = (address or "").rpartition(":")
    if not colon:
        return  # none, or a name such as `auto`, which Ray looks up on this machine
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise InitbenchError(f"--address {address}: no Ray cluster answers: {first_line(error)}") from error


class RayEndedError(BaseException):
    """Ray has ended. It is no `Exception`: Tune would catch it and call Ray to clear up, which waits for a minute."""


@dataclass
class Server:
    """One of two servers of Ray that a driver cannot do without; it may be away for `patience` seconds.

    Without it Ray waits a minute, in calls that nothing interrupts, and then ends the process of the driver with exit
    code 1. So it is looked at before Tune calls it next.
    """

    name: str
    host: str
    port: int
    patience: float

    def __post_init__(self) -> None:
        self._connection: socket.socket | None = None
        self._connected_at = 0.0

    def check(self) -> None:
        """Wait until it answers. It takes microseconds as long as a connection of the last seconds is open."""
        if self._is_connected():
            return
        deadline = time.monotonic() + self.patience
        while not self._answers():
            if time.monotonic() >= deadline:
                raise RayEndedError(f"Ray has ended: its {self.name} at {self.host}:{self.port} answers no more")
            time.sleep(0.2)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_connected(self) -> bool:
        # A machine that is cut off closes no connection.
        if self._connection is None or time.monotonic() - self._connected_at > _SECONDS_OF_A_CONNECTION:
            return False
        try:
            while self._connection.recv(4096):  # what it says to whoever connects
                pass
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def _answers(self) -> bool:
        self.close()
        try:
            connection = socket.create_connection((self.host, self.port), timeout=_SECONDS_TO_ANSWER)
        except OSError:
            return False
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _END_AT_ONCE)
        connection.setblocking(False)
        self._connection, self._connected_at = connection, time.monotonic()
        return True


@contextmanager
def end_with_ray(*, is_local: bool) -> Iterator[Callable[[], None]]:
    """Say in one line that Ray has ended, rather than with what fails then; yield a function that looks.

    A local Ray was started here for one job, so that nobody starts it again.
    """
    servers = _servers(is_local=is_local)

    def check() -> None:
        for server in servers:
            server.check()

    try:
        try:
            yield check
        except InitbenchError:
            raise
        except Exception:
            check()
            raise
    except RayEndedError as end:
        raise InitbenchError(f"{end}; what has finished is kept, and the same command goes on from here") from end
    finally:
        for server in servers:
            server.close()


def _servers(*, is_local: bool) -> Sequence[Server]:
    """Return the raylet of this process's node, and the GCS server of the head."""
    import ray

    context = ray.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    here = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    return (
        Server("raylet", here["NodeManagerAddress"], here["NodeManagerPort"], _SECONDS_TO_COME_BACK),
        Server("GCS server", host.strip("[]"), int(port), _SECONDS_TO_COME_BACK if is_local else _SECONDS_OF_A_HEAD),
    )


def import_in_background(*modules: str) -> None:
    """Import modules in a thread: one core is idle while Ray starts its processes, and each of these takes seconds.

    Whoever needs a module imports it as usual, and is told there what is wrong with it. Not for modules of a package
    that the caller imports from meanwhile: of an import that goes in circles through two threads Python gives one of
    them the half of it.
    """

    def work() -> None:
        for module in modules:
            with suppress(Exception):
                import_module(module)

    threading.Thread(target=work, name="initbench-imports", daemon=True).start()
