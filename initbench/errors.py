"""The errors that a user can cause, each with a message of one line that says what would be right."""

from __future__ import annotations


class InitbenchError(Exception):
    """A request that cannot be met. The command line prints the message alone and exits with code 2."""


class ArgumentError(InitbenchError):
    """A component (initializer, architecture, dataset or probe) was given an argument that it refuses.

    Attributes:
        argument: the argument's name, or None where the message is about several.
    """

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class UnknownNameError(InitbenchError):
    """A name that no component, option or model has; the message gives the nearest one."""


class SuiteError(InitbenchError):
    """A suite file that cannot be run; the message begins with ``file:line: key``."""


class InitializationError(InitbenchError):
    """An initializer cannot do its work on this model; the message names the parameter. The model is left as it was."""


class DataError(InitbenchError):
    """Data that is missing, unreadable or does not fit the model."""
