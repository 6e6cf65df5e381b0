"""The errors that a user can cause, each with a message of one line that says what would be right.

Details (the argument; file, line and key) are in the error's fields: messages are only for people.
"""

from __future__ import annotations


class InitbenchError(Exception):
    """A request that cannot be met. The command line prints only the message and exits with code 2."""


class ArgumentError(InitbenchError, ValueError):
    """An argument of a component or function is refused.

    Args:
        problem: the problem in words that follow the argument's name: ``must be at least 1, got 0``.
        argument: the argument's name, dotted for an initializer that is itself an argument, ``base.gain``; None if the
            problem involves several arguments, and `problem` is then a whole sentence.

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
    """A name that no component, option or model has; the message suggests the nearest one."""


class SuiteError(InitbenchError):
    """A suite file or an option that cannot be run.

    `where` is the file as the user gave it, or the option of the command line; `line` counts from 1; `key` is dotted,
    such as ``initializers[0].gain``, and empty if the error is about the whole.
    """

    def __init__(self, problem: str, where: str = "", line: int | None = None, key: str = "") -> None:
        super().__init__(problem, where, line, key)
        self.problem, self.where, self.line, self.key = problem, where, line, key

    def __str__(self) -> str:
        location = self.where if self.line is None else f"{self.where}:{self.line}"
        return ": ".join(part for part in (location, self.key, self.problem) if part)


class InitializationError(InitbenchError):
    """An initializer cannot be applied to this model; the message names the parameter. The model is left unchanged."""


class DataError(InitbenchError):
    """Data that is missing, unreadable, changed since the trials were planned, or does not fit the model."""


class LedgerError(InitbenchError):
    """A suite's folder contains something that this version cannot read."""
