"""Whether the two servers of Ray are there that a driver cannot do without; one line says so when one has ended.

Without them Ray waits a minute, in calls that nothing interrupts, and then ends the process of the driver with exit
code 1. So they are looked at before Tune calls them next.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from initbench.errors import InitbenchError

_SECONDS_TO_ANSWER = 5.0
_SECONDS_OF_A_CONNECTION = 5.0
_SECONDS_TO_COME_BACK = 2.0
_SECONDS_OF_A_HEAD = 30.0  # that is restarted, or cut off for a moment; Ray gives up after 60
_END_AT_ONCE = struct.pack("ii", 1, 0)  # of SO_LINGER: no closed connection waits in the kernel


class RayEndedError(BaseException):
    """Ray has ended. It is no `Exception`: Tune would catch it and call Ray to clear up, which waits for a minute."""


@dataclass
class Server:
    """A server of Ray, which may be away for `patience` seconds."""

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
