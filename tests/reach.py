"""What a change can reach: the tests that need what it touched, nearest first, and cases of the bitwise comparison.

Nearness is the least number of steps from a test to a changed file, each to a file that the one before imports, or
whose component it names. Much may be reached that is not: what a test does not need by any such chain, it cannot be
moved by.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter, defaultdict, deque
from functools import cache
from typing import NamedTuple

from import_graph import LIBRARY, MODULES, ROOT, TESTS, TOOLS, named, needs, scripts, source, test_files, words

DURATIONS, SUITES = ROOT / ".test_durations", ROOT / "suites"
WORKER = TESTS / "bitwise/worker.py"
CASES = {TESTS / "bitwise/case.py", TESTS / "bitwise/cases.py"}
# Seconds of two processes: of the tests within reach of a change, and of these and those of its turn that are not.
BUDGET, ALTOGETHER = 2 * 300, 2 * 480


def changed_since(commit):
    """Return the files that differ from a commit, committed or not; None where this clone does not have it."""
    if git("cat-file", "-e", f"{commit}^{{commit}}").returncode:
        return None
    differ = git("diff", "--name-only", "--no-renames", "-z", commit, "--").stdout
    new = git("ls-files", "--others", "--exclude-standard", "-z").stdout
    return {ROOT / name for name in (differ + new).split("\0") if name}


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)


def cases_reached(changed, cases):
    """Return those of the comparison's cases whose numbers a change can move: all, if it is in what they share.

    Args:
        changed: files.
        cases: of `bitwise.cases`.
    """
    near = distances(changed)
    if WORKER in near or CASES & changed:
        return list(cases)
    return [case for case in cases if near.keys() & named(words(json.dumps(case.suite)))]


def distances(changed):
    """Return how far each file is from the nearest changed one, where it needs one at all."""
    far = dict.fromkeys((file for path in changed for file in stands_for(path)), 0)
    queue = deque(far)
    while queue:
        file = queue.popleft()
        for user in users().get(file, ()):
            if user not in far:
                far[user] = far[file] + 1
                queue.append(user)
    return far


def stands_for(path):
    """Return the files that change with one: data of the library are of the modules beside them."""
    if not path.is_relative_to(LIBRARY) or path.suffix == ".py" or path in users():
        return {path}
    folder = next(folder for folder in path.parents if any(folder.glob("*.py")))
    return {path, *folder.glob("*.py")}


@cache
def users():
    """Return the files that need a file, by that file."""
    found = defaultdict(set)
    for path in (*MODULES.values(), *test_files(), *scripts()):
        for file in needs(path) | (read_by(path) if path in test_files() - TOOLS else set()):
            found[file].add(path)
    return dict(found)


def read_by(path):
    """Return the repository's other files that a test names, by their own name or by that of their folder."""
    said = {token for text in source(path).strings for token in re.findall(r"[\w.-]+", text)}
    return {file for file, names, folder in others() if names & said or (len(folder) > 1 and folder <= said)}


@cache
def others():
    """Return scripts, suites, ledgers and the like, with the names that tests have for them and for their folder.

    Pages are not among them: a test of one has its name for a parameter, and every change touches the changelog.
    """
    files = [ROOT / name for name in git("ls-files", "-z").stdout.split("\0")]
    return [
        (file, {file.name, file.stem if file.suffix == ".py" else file.name}, {*file.relative_to(ROOT).parent.parts})
        for file in files
        if file.suffix not in {"", ".md"}
        and not file.is_relative_to(LIBRARY)
        and not (file.is_relative_to(TESTS) and file.suffix == ".py")
    ]


class Choice(NamedTuple):
    """Which of the slow tests run, by their ids.

    Attributes:
        run: in the order in which they are to run.
        late: those within reach of the change for which there is no time.
        others: those beyond reach whose turn it is not, or for which there is no time.
    """

    run: list[str]
    late: list[str]
    others: list[str]


def chosen(files, changed, turn, turns, seconds=BUDGET, altogether=ALTOGETHER):
    """Choose the tests that a change can reach, in a bounded time, and of all tests a part by turns.

    Args:
        files: the file of each test, by the test's id.
        changed: files; None if it is not known what has changed.
        turn: which part, from 0.
        turns: how many parts there are, each of which takes as long.
        seconds: that the tests within reach may take, one after another.
        altogether: up to which tests of the part that are beyond reach are added.
    """
    took, near = durations(files), nearness(files, changed)
    first = fitting(sorted(near, key=lambda test: (near[test], took[test])), took, seconds)
    part = set(parts(took, turns)[turn]) - first
    spare = altogether - sum(took[test] for test in first | (part & near.keys()))
    part -= part - near.keys() - fitting(sorted(part - near.keys(), key=took.get), took, spare)
    left = [test for test in files if test not in first | part]
    return Choice(
        # In the order of files, whose tests share what is set up for them.
        [*sorted((test for test in files if test in first), key=near.get), *(test for test in files if test in part)],
        [test for test in left if test in near],
        [test for test in left if test not in near],
    )


def fitting(tests, took, seconds):
    """Return the tests for which there is time, of all that come before them."""
    fit = set()
    for test in tests:
        if took[test] <= seconds:
            fit.add(test)
            seconds -= took[test]
    return fit


def told(choice):
    """Return what is left out, by file, as text."""
    why = {"within reach of the change": choice.late, "beyond its reach": choice.others}
    return "\n".join(f"{reason}: {summed(tests)}" for reason, tests in why.items() if tests)


def summed(tests):
    minutes = sum(durations(tests).values()) / 60
    files = Counter(test.partition("::")[0] for test in tests)
    return f"{len(tests)} of {minutes:.0f} min: " + ", ".join(f"{file} ({n})" for file, n in files.items())


def nearness(files, changed):
    """Return how near a change each test is that it can reach: the distance, and 0 if test and change are of one room.

    Args:
        files: the file of each test, by the test's id.
        changed: as for `Choice`.
    """
    if changed is None:
        return dict.fromkeys(files, (0, 0))
    far = distances(changed)
    rooms = {path.relative_to(ROOT).parts[1] for path in changed if path.is_relative_to(LIBRARY)}
    near = {test: far[path] for test, path in files.items() if path in far}
    # Tests of a page or of a suite have its name for a parameter.
    parameters = {path.relative_to(ROOT / "docs").as_posix() for path in changed if path.is_relative_to(ROOT / "docs")}
    parameters |= {
        path.relative_to(SUITES).with_suffix("").as_posix() for path in changed if path.is_relative_to(SUITES)
    }
    near |= {test: 0 for test in files if test.partition("[")[2].removesuffix("]") in parameters}
    return {test: (step, int(files[test].relative_to(TESTS).parts[0] not in rooms)) for test, step in near.items()}


def durations(tests):
    """Return how many seconds each test takes; one that has not been measured, as long as the others on average."""
    known = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}
    mean = sum(known.values()) / len(known) if known else 20
    return {test: known.get(test, mean) for test in tests}


def keep_durations(took):
    """Write how many seconds each test takes, to a tenth.

    Args:
        took: seconds by test.
    """
    lines = json.dumps(
        {test: round(seconds, 1) for test, seconds in sorted(took.items())}, indent=0, ensure_ascii=False
    )
    DURATIONS.write_text(lines + "\n", encoding="utf-8")


def parts(took, count):
    """Return the tests in parts that take as long as one another: the longest first, each to the shortest part."""
    found, sums = [[] for _ in range(count)], [0.0] * count
    for test in sorted(took, key=lambda test: (-took[test], test)):
        least = sums.index(min(sums))
        found[least].append(test)
        sums[least] += took[test]
    return found
