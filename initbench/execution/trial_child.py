"""The process that runs trials for a worker, one after another; started by `initbench.execution.trial_process`.

``python -m initbench.execution.trial_child CONNECTION LIFELINE DEVICE``, the first two as numbers of file descriptors.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection


def main(connection: Connection, lifeline: int, device: str) -> None:
    """Say ``ready``, then run what comes, and say how far it is and what came of it, until nothing comes any more."""
    # Told on the standard error, which the worker reads: where it was when it crashed, and where it hangs.
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    from initbench.execution.environment import known_environment
    from initbench.execution.trial import attempt_trial

    connection.send(("ready", known_environment(device)))
    while True:
        try:
            spec, options = connection.recv()
        except EOFError:
            return
        options["tell"] = lambda message: connection.send(("note", message))
        record = attempt_trial(spec, lambda done, epochs: connection.send(("progress", (done, epochs))), **options)
        connection.send(("record", json.dumps(record.to_json())))


def _end_with(lifeline: int) -> None:
    """End at once when the worker does, whatever kills it: the other end of the pipe is open as long as it lives."""
    os.read(lifeline, 1)
    os._exit(1)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), int(sys.argv[2]), sys.argv[3])
