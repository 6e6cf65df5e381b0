"""Counts the way of one suite entry from its file to the ids of its trials.

    python tests/bitwise/walk.py [TREE]

By room of the library: named functions, their files and calls that ``{name: metainit, base: {name: xavier, gain:
1.25}}`` on an MLP and digits passes with one seed; and how often each component's arguments are resolved. The modules
are imported before; what is remembered from one plan to the next is not there yet.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

SUITE = """\
name: walk
dataset: digits
architectures: [mlp]
initializers: [{name: metainit, base: {name: xavier, gain: 1.25}}]
recipe: {epochs: 1}
seeds: 1
"""


def ids() -> list[str]:
    """Return the ids of the suite's trials; to be adapted if the steps between have other names."""
    from initbench.suite.load import describe_datasets, load_suite
    from initbench.suite.plan import plan

    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(SUITE)
        file.flush()
        suite = load_suite(file.name)
        return [trial.id for trial in plan(suite, descriptions=describe_datasets(suite)).trials]


def walk(library: str) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Return how often each function is called, by its file and name, and how often each component is resolved.

    Args:
        library: the folder of the package, with a slash behind it.
    """
    calls: Counter[tuple[str, str]] = Counter()
    resolved: Counter[str] = Counter()

    def see(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<") or not code.co_filename.startswith(library):
            return  # such as a lambda or a comprehension
        calls[code.co_filename.removeprefix(library), code.co_qualname] += 1
        component = frame.f_locals.get("self")
        if code.co_name == "resolve" and hasattr(component, "name"):
            resolved[component.name] += 1

    sys.setprofile(see)
    try:
        ids()
    finally:
        sys.setprofile(None)
    return calls, resolved


def main(tree: str = str(Path(__file__).parents[2]), *, only_import: bool = False) -> None:
    """Print the counts of a tree; or the names of the modules that it takes."""
    path = Path(tree).resolve()
    sys.path[0] = str(path)
    if only_import:
        ids()
        print(*(name for name in sys.modules if name.partition(".")[0] == "initbench"))
        return
    first = subprocess.run([sys.executable, "-P", __file__, tree, "import"], capture_output=True, text=True, check=True)
    for name in first.stdout.split():
        import_module(name)
    calls, resolved = walk(f"{path}/initbench/")
    rooms = Counter(file.partition("/")[0] for file, _ in calls)
    print(f"{'':20}{'functions':>10}{'files':>7}{'calls':>7}")
    for room, functions in [*rooms.most_common(), ("all", len(calls))]:
        own = {key: count for key, count in calls.items() if room in {"all", key[0].partition("/")[0]}}
        print(f"{room:20}{functions:10}{len({file for file, _ in own}):7}{sum(own.values()):7}")
    print(f"resolved {resolved.total()} times: {', '.join(f'{name} {count}' for name, count in resolved.items())}")


if __name__ == "__main__":
    main(*sys.argv[1:2], only_import=len(sys.argv) > 2)
