"""The pytest plug-in: `--update-fingerprints`, and a line for each fingerprint that it wrote. It loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PROPERTY = "fingerprint written"


@dataclass
class Updates:
    """What the assertions and the plug-in tell each other.

    Attributes:
        requested: whether fingerprints are to be written anew.
        written: the files that the running test has written.
    """

    requested: bool = False
    written: list[Path] = field(default_factory=list)


updates = Updates()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("initbench").addoption(
        "--update-fingerprints",
        action="store_true",
        help="write the files of assert_matches_fingerprint anew instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    updates.requested = config.getoption("update_fingerprints")


def pytest_unconfigure() -> None:
    updates.requested = False


def pytest_runtest_makereport(item: pytest.Item) -> None:
    # Properties reach the process that prints the summary from the workers of pytest-xdist, too.
    item.user_properties += [(PROPERTY, str(path)) for path in updates.written]
    updates.written.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for several in terminalreporter.stats.values() for report in several]
    properties = [pair for report in reports for pair in getattr(report, "user_properties", ())]
    here = terminalreporter.config.invocation_params.dir
    for path in sorted({Path(value) for name, value in properties if name == PROPERTY}):
        terminalreporter.write_line(f"wrote {path.relative_to(here) if path.is_relative_to(here) else path}")
