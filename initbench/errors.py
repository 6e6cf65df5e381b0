"""The errors that a user can cause, each with a message of one line that says what would be right.

What an error is about stands in its fields (the argument; file, line and key): nothing reads the message but people.
"""

from __future__ import annotations


class InitbenchError(Exception):
    """A request that cannot be met. The command line prints the message alone and exits with code 2."""


class ArgumentError(InitbenchError, ValueError):
    """A component or a function was given an argument that it refuses.

    Args:
        problem: what is wrong, in words that follow the argument's name: ``must be at least 1, got 0``.
        argument: the argument's name; of an initializer that is itself an argument dotted, ``base.gain``; None where
            the problem is about several, and `problem` then a whole sentence.

    Attributes:
        problem: as given.
        argument: as given.
    """

    def __init__(self, problem: str, argument: str | None = None) -> None:
        super().__init__(problem, argument)
        self.problem = problem
        self.argument = argument

    def __str__(self) -> str:
        return self.problem if self.argument is None else f"{self.argument} {self.problem}"


class UnknownNameError(InitbenchError):
    """A name that no component, option or model has; the message gives the nearest one."""


class SuiteError(InitbenchError):
    """A suite file or an option that cannot be run.

    Args:
        problem: what is wrong.
        where: the file as the user gave it, or the option of the command line.
        line: in the file, from 1.
        key: dotted, such as ``initializers[0].gain``; empty if it is about the whole.
    """

    def __init__(self, problem: str, where: str = "", line: int | None = None, key: str = "") -> None:
        super().__init__(problem, where, line, key)
        self.problem, self.where, self.line, self.key = problem, where, line, key

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        return ": ".join(part for part in (place, self.key, self.problem) if part)


class InitializationError(InitbenchError):
    """An initializer cannot do its work on this model; the message names the parameter. The model is left as it was."""


class DataError(InitbenchError):
    """Data that is missing, unreadable, other than it was when the trials were planned, or does not fit the model."""


class LedgerError(InitbenchError):
    """A suite's folder that holds what this version cannot read."""
