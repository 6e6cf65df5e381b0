"""The request to `run` or `plan`: plug-ins are loaded, the suite is read with its overrides, the plan is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from initbench.cli.options import load_plugins
from initbench.errors import InitbenchError, SuiteError, UnknownNameError
from initbench.execution.progress_file import Asked
from initbench.plugins import PluginFile
from initbench.suite.load import Suite, describe_datasets, load_suite
from initbench.suite.plan import Plan, plan
from initbench.suite.smoke import smoke as small
from initbench.suite.smoke import smoke_suite
from initbench.suite.tuning import Searched

if TYPE_CHECKING:
    from initbench.execution.driver import Replan

_SMOKE = "a smoke run: a few trials of two steps each on random data; its results mean nothing"


class Request(NamedTuple):
    """A suite, its plan, the plug-in files for workers, the options of the command line, and notes for the user.

    If the suite tunes, `replan` returns the plan that follows from the results of its search trials; else it is None.
    """

    suite: Suite
    plan: Plan
    plugins: tuple[PluginFile, ...]
    asked: Asked
    notes: tuple[str, ...] = ()
    replan: Replan | None = None


def read_request(
    file: str,
    assignments: list[str] | None,
    only: list[str] | None,
    seeds: int | None,
    plugins: list[str] | None,
    *,
    smoke: bool,
) -> Request:
    if smoke and seeds is not None:
        raise InitbenchError("--seeds cannot be combined with --smoke, which runs one seed")
    files = load_plugins(plugins)
    asked = Asked(tuple(assignments or ()), seeds, tuple(only or ()), tuple(plugins or ()), smoke)
    try:
        suite = load_suite(file, assignments or [], seeds)
    except SuiteError as error:
        if files or not isinstance(error.__cause__, UnknownNameError):
            raise
        raise SuiteError(f"{error.problem}; is a --plugin missing?", error.where, error.line, error.key) from error
    descriptions = describe_datasets(suite)

    def replan(results: Mapping[str, Searched]) -> Plan:
        to_plan = replace(suite, search=None) if smoke else suite
        return plan(to_plan, only or [], descriptions=descriptions, results=results)

    planned = replan({})
    if smoke:
        left_out = (
            f"the smoke run leaves out {part.spec.name}, whose inputs and outputs are unknown: {part.absent}"
            for part in planned.waiting
            if part.described is None
        )
        return Request(smoke_suite(suite), small(planned), files, asked, (_SMOKE, *left_out))
    return Request(suite, planned, files, asked, replan=replan if planned.tuned else None)
