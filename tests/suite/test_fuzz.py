"""Whatever stands in a suite file: a plan, or one line that says what is wrong; never a traceback, never a hang.

``INITBENCH_FUZZ_SUITES=10000 pytest -m slow tests/suite/test_fuzz.py`` runs as many as that.
"""

import os
import random
import signal
from collections import Counter

import pytest
from mutations import Mutations

from initbench.errors import InitbenchError
from initbench.suite.document import parse
from initbench.suite.load import suite_of
from suites import plan_of

SUITES = int(os.environ.get("INITBENCH_FUZZ_SUITES", "800"))
_MOST_SECONDS = 30
_MOST_CHARACTERS = 1500


class TooLongError(BaseException):
    """Is caught by nothing that catches errors."""


def _too_long(*_):
    raise TooLongError


@pytest.fixture
def _limited():
    before = signal.signal(signal.SIGALRM, _too_long)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def outcome_of(text):
    """Plan a suite; return what came of it."""
    signal.alarm(_MOST_SECONDS)
    try:
        plan = plan_of(suite_of(parse(text, "suite.yaml")))
    except InitbenchError as error:
        message = str(error)
        assert message, text
        assert "\n" not in message, text
        assert len(message) <= _MOST_CHARACTERS, text
        return "refused"
    except (Exception, TooLongError) as error:
        raise AssertionError(f"{error!r} of this suite:\n{text}") from error
    finally:
        signal.alarm(0)
    assert plan.trials or plan.incompatible or plan.waiting, text
    return "planned"


@pytest.mark.parametrize(("seed", "count"), [(0, 30), pytest.param(1, SUITES, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("scratch_registry", "_limited")
def test_a_mutated_suite_is_planned_or_refused_in_one_line(seed, count):
    mutations = Mutations(random.Random(seed))  # noqa: S311  # no secret comes of it
    found = Counter(outcome_of(mutations.suite()) for _ in range(count))
    assert found.total() == count
    assert found["planned"] > 0.03 * count  # most that is wrong is found at once: some must get as far as a plan
    assert found["refused"] > 0.3 * count
