"""The process of ``initbench`` and of ``python -m initbench``; it sets signal handlers before the slow imports."""

from __future__ import annotations

import signal
import sys
import traceback


def main() -> None:
    """Run the command line; an interrupted process ends with a shell's exit code and without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's default handler prints a traceback
    from initbench.cli import signals
    from initbench.execution.processes import leave

    signals.install()
    try:
        from initbench.cli.command_line import main as run_command_line

        run_command_line()
    except BaseException as error:
        if signals.interrupted():
            leave(signals.exit_code())
        if not isinstance(error, Exception):
            raise
        from initbench.cli.output import say

        say("".join(traceback.format_exception(error)), to_stderr=True, keep="\n\t", end="")
        sys.exit(1)
    finally:
        signals.end_work()


if __name__ == "__main__":
    main()
