"""A Ray cluster: joining or starting it, its output, its nodes, and leaving it in order."""

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
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, NamedTuple

from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError
from initbench.execution.executor import Job
from initbench.execution.processes import family, leave
from initbench.plugins import first_line

# Ray reads these when it is imported: it prints nothing, has no loggers, and leaves Ctrl-C to us.
_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # a fault handler would answer SIGTERM with a dump and abort the process
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # workers keep the driver's working directory, so `./data` means the same for both
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",  # Tune's own snapshots grow with the sweep, and the ledger replaces them
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
# Trials that wait for a worker. They tell a cluster's autoscaler how many nodes are wanted; 200 is Ray's own default.
_PENDING_LOCALLY, _PENDING = "16", "200"
_SECONDS_TO_ANSWER = 5.0
_SECONDS_OF_A_CONNECTION = 5.0
_SECONDS_TO_COME_BACK = 2.0
_SECONDS_OF_A_HEAD = 30.0  # the time for a restart or a short interruption; Ray gives up after 60
_SECONDS_TO_NOTICE = 10.0  # the time after that in which this process, unless it waits for Ray, has noticed
KEPT = "finished trials are kept, and the same command continues"
_END_AT_ONCE = struct.pack("ii", 1, 0)  # for SO_LINGER: no closed connection waits in the kernel


class Node(NamedTuple):
    """A machine of a cluster, or one of several nodes on it, with the cores and GPUs that Ray may use."""

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
            # A name given to the node, else the machine's; Ray uses the address if there is none.
            name=node["NodeManagerHostname"] if node["NodeName"] == node["NodeManagerAddress"] else node["NodeName"],
            address=node["NodeManagerAddress"],
            cpus=node["Resources"].get("CPU", 0.0),
            gpus=node["Resources"].get("GPU", 0.0),
        )
        for node in nodes
    ]


def lack(job: Job, nodes: Sequence[Node]) -> str:
    """Return why no single node can run a trial; an empty text if one can."""
    if any(node.fits(job) for node in nodes):
        return ""
    for key, name, wanted, has in (
        ("cpus", "CPU", job.cpus, [node.cpus for node in nodes]),
        ("gpus", "GPU", job.gpus, [node.gpus for node in nodes]),
    ):
        most = max(has, default=0.0)
        if wanted > most:
            most_of_one = f" on {len(nodes)} nodes, {most:g} at most on one of them" if len(nodes) > 1 else ""
            return f"resources.{key}: {wanted:g} asked for, but the cluster has {sum(has):g} {name}s{most_of_one}"
    return (
        f"resources: a trial asks for {job.cpus:g} CPUs and {job.gpus:g} GPUs, and none of the cluster's "
        f"{counted(len(nodes), 'node')} has both"
    )


def may_grow(job: Job, nodes: Sequence[Node]) -> bool:
    """Return whether no node has any CPU, or any GPU if trials need one: the cluster may still start such nodes."""
    return not any(node.cpus for node in nodes) or (job.gpus > 0 and not any(node.gpus for node in nodes))


@contextmanager
def cluster(address: str | None) -> Iterator[None]:
    """Join a cluster, or start a local one without an address, and leave it at the end. Ray prints nothing."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = _PENDING_LOCALLY if address is None else _PENDING
    import ray

    _check_address(address)
    import_in_background("initbench.tracking.mlflow", "initbench.reporting.report")  # the driver needs both soon
    # Ray itself prints on sys.stdout ("A worker died ..."); the cause of a death is in the trial's record.
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
            what = "Ray does not start here" if address is None else f"{_source(address)}: no Ray cluster answers"
            raise InitbenchError(f"{what}: {first_line(error)}") from error
        started = sorted(set(family(os.getpid())) - before) if address is None else []
        # Ray also logs a trial's error, with its own frames.
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            _shut_down(ray.shutdown, started, ray.is_initialized)


@contextmanager
def _sigterm_is_ours() -> Iterator[None]:
    """Start Ray so that only this process reacts to SIGTERM.

    SLURM and spot markets send it to every process of a job at once. Ray's processes would end, and this one would
    abort before it wrote a line, because its connection to them is lost. So they inherit a mask that blocks SIGTERM, as
    Ray itself does with Ctrl-C, and end when this process ends. Ray also replaces the existing handler by its own,
    which would exit without a word, and other threads, in which SIGTERM is not blocked, would receive it meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # in another thread Ray sets no handler, and Python would refuse one
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

    Tune leaves cycles with such references, which Python may collect in any thread, such as the thread that writes to
    MLflow. So they are collected first, and garbage collection is off while Ray shuts down.

    Ray sends SIGTERM to each process of a local cluster, which they ignore, and waits a second. So the processes in
    `started` are killed as soon as this process has left them.
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


def chosen_address(option: str | None) -> str | None:
    """Return the address of the cluster to join, from the option or from RAY_ADDRESS; None starts a local cluster."""
    address = option or os.environ.get("RAY_ADDRESS")
    return None if address == "local" else address or None


def _source(address: str) -> str:
    return f"RAY_ADDRESS={address}" if os.environ.get("RAY_ADDRESS") == address else f"--address {address}"


def _check_address(address: str | None) -> None:
    """Refuse an address at which nothing listens; Ray itself would try for minutes."""
    if address is None:
        return
    if "://" in address:
        # Ray Client runs Tune on the head, which does not have our ledger.
        raise InitbenchError(f"{_source(address)}: give HOST:PORT of the head, or auto on a machine of the cluster")
    host, colon, port = address.rpartition(":")
    if not colon:
        return  # no port: a name such as `auto`, which Ray looks up on this machine
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise InitbenchError(f"{_source(address)}: no Ray cluster answers: {first_line(error)}") from error


class RayEndedError(BaseException):
    """Ray has ended. Not an `Exception`, because Tune would catch it and clean up with Ray, waiting for a minute."""


@dataclass
class Server:
    """One of two servers of Ray that a driver needs; it may be away for `patience` seconds.

    Without it Ray waits a minute, in calls that cannot be interrupted, and then ends the driver's process with exit
    code 1. So it is checked before Tune calls it, and in a thread during the call.
    """

    name: str
    host: str
    port: int
    patience: float
    _connection: socket.socket | None = field(default=None, init=False)
    _connected_at: float = field(default=0.0, init=False)

    def check(self) -> None:
        """Wait until it answers. This takes microseconds if a connection of the last seconds is open."""
        if self._is_connected():
            return
        deadline = time.monotonic() + self.patience
        while not self._answers():
            if time.monotonic() >= deadline:
                raise RayEndedError(f"Ray has ended: its {self.name} at {self.host}:{self.port} no longer answers")
            time.sleep(0.2)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_connected(self) -> bool:
        # A disconnected machine closes no connection.
        if self._connection is None or time.monotonic() - self._connected_at > _SECONDS_OF_A_CONNECTION:
            return False
        try:
            while self._connection.recv(4096):  # its greeting to a client
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
    """Report in one line that Ray has ended, instead of the errors that follow; yield a function that checks it.

    A local Ray was started here for one job, so nobody restarts it.
    """
    servers = _servers(is_local=is_local)
    has_left = threading.Event()
    watch = threading.Thread(target=_watch, args=(servers, has_left), name="initbench-watch-ray", daemon=True)
    watch.start()

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
        raise InitbenchError(f"{end}; {KEPT}") from end
    finally:
        has_left.set()
        for server in servers:
            server.close()


def _watch(servers: Sequence[Server], has_left: threading.Event) -> None:
    """End this process with the line and exit code 2 if Ray ends during a call to it, which nothing interrupts."""
    servers = [replace(server, patience=server.patience + _SECONDS_TO_NOTICE) for server in servers]
    while not has_left.wait(_SECONDS_OF_A_CONNECTION):
        try:
            for server in servers:
                server.check()
        except RayEndedError as end:
            if not has_left.is_set():
                os.write(2, f"initbench: {end}; {KEPT}\n".encode())
                leave(2)
    for server in servers:
        server.close()


def _servers(*, is_local: bool) -> Sequence[Server]:
    """Return the raylet of this process's node and the GCS server of the head."""
    import ray

    context = ray.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    here = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    return (
        Server("raylet", here["NodeManagerAddress"], here["NodeManagerPort"], _SECONDS_TO_COME_BACK),
        Server("GCS server", host.strip("[]"), int(port), _SECONDS_TO_COME_BACK if is_local else _SECONDS_OF_A_HEAD),
    )


def import_in_background(*modules: str) -> None:
    """Import modules in a thread: while Ray starts its processes, one core is idle, and each import takes seconds.

    Code that needs a module imports it as usual and gets its errors. Do not use it for modules of a package from which
    the caller imports meanwhile: in a circular import across two threads, Python gives one of them a partial module.
    """

    def work() -> None:
        for module in modules:
            with suppress(Exception):
                import_module(module)

    threading.Thread(target=work, name="initbench-imports", daemon=True).start()
