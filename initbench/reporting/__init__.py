"""Reports: what the trials of suites say. The same objects serve a notebook, a script and the page.

    results = initbench.reporting.read_results("runs/quickstart")
    answer = initbench.reporting.compare(results)       # the object behind the page's first question
    answer.sentences; answer.frame; answer.draw("figure.pdf")

Importing this package loads neither torch nor what draws.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from initbench.reporting.every_question import *  # noqa: F403 - the one list of questions
    from initbench.reporting.report import write_report as write_report
    from initbench.reporting.results import read_results as read_results

_OTHERS = {"read_results": "results", "write_report": "report"}


def __getattr__(name: str) -> Any:
    if name in _OTHERS:
        return getattr(importlib.import_module(f"{__name__}.{_OTHERS[name]}"), name)
    if name != "__all__" and name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    questions = importlib.import_module(f"{__name__}.every_question")
    if name == "__all__":
        return sorted([*questions.__all__, *_OTHERS])
    if name in questions.__all__:
        return getattr(questions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__getattr__("__all__")])
