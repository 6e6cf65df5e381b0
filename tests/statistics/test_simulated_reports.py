"""What real reports claim of equally good treatments: worlds of `seed_worlds` written as records and read again.

The slow ones print the table of docs/statistics.md:

    INITBENCH_REPORTS=120 pytest -m slow -s tests/statistics/test_simulated_reports.py
"""

import math
import os
from itertools import cycle, islice

import numpy as np
import pytest
from planted import CHANCE, planted, results_of
from seed_worlds import CHANCE as CHANCE_SCORE
from seed_worlds import WORLDS
from simulations import limit, percent, show

from initbench.reporting.questions.overview import overview

NUMBER = int(os.environ.get("INITBENCH_REPORTS", "24"))
"""Of each kind of world."""
BEST = 0.2
"""The error of score 0: at the score of chance it is that of chance."""
SIZES = [(1, 2, 3), (4, 5, 3), (2, 12, 4), (4, 3, 5), (12, 4, 3), (4, 5, 10)]
"""Workloads, treatments, seeds: the worlds of a kind take them by turns."""


def a_quarter_diverges_and_a_quarter_fails(generator, shape):
    """Return scores of which a quarter diverges and a quarter is near chance."""
    scores = WORLDS["50% of seeds near chance"](generator, shape)
    return np.where((scores > CHANCE_SCORE / 2) & (generator.random(shape) < 0.5), math.inf, scores)


KINDS = {
    kind: WORLDS[kind]
    for kind in (
        "normal",
        "×16 by treatment",
        "×16 by workload",
        "cells' variances inverse χ², 2 d.f.",
        "lognormal, 1",
        "Student's t, 3 d.f.",
        "seeds in common",
        "scaled with the mean",
        "10% of seeds at chance",
        "25% of seeds at chance",
        "50% of seeds at chance",
        "25% of seeds stop halfway",
    )
} | {"25% of seeds diverge, 25% fail": a_quarter_diverges_and_a_quarter_fails}


def report_of(scores):
    """Return the results of one world, (workloads, treatments, seeds), as a report reads them from its records."""
    errors = BEST + (CHANCE - BEST) / CHANCE_SCORE * scores
    outcomes = {
        f"w{workload}": {
            f"i{treatment}": [float(error) if math.isfinite(error) else None for error in seeds]
            for treatment, seeds in enumerate(treatments)
        }
        for workload, treatments in enumerate(errors)
    }
    return results_of(planted(outcomes))


def claims_of(results):
    """Return whether the first screen names a leader, marks one as worse, and says that one fails, not by luck."""
    answer = overview(results)
    known = [str(sentence) for sentence in answer.sentences if not sentence.is_open]
    fails = [sentence for sentence in known if "not train" in sentence or "diverge" in sentence]
    return {
        "a leader": answer.facts.lead is not None,
        "a mark": any(cell.mark == "worse" for cell in answer.facts.map.cells),
        "a failure": any(answer.facts.trained.values()) and any("luck" not in sentence for sentence in fails),
        "a workload's": np.mean([any(v.side for v in own) for own in results.verdicts.values()]),
    }


def false_claims(kind, number, seed=5):
    """Return the shares of reports with false claims, by what claims."""
    generator = np.random.default_rng(seed)
    worlds = (KINDS[kind](generator, (1, *size))[0] for size in islice(cycle(SIZES), number))
    claims = [claims_of(report_of(scores)) for scores in worlds]
    shares = {name: float(np.mean([claim[name] for claim in claims])) for name in claims[0]}
    first_screen = np.mean([claim["a leader"] or claim["a mark"] or claim["a failure"] for claim in claims])
    return {"the first screen": float(first_screen)} | shares


def test_a_first_screen_seldom_claims_a_difference_where_half_of_the_seeds_fail():
    assert false_claims("50% of seeds at chance", len(SIZES))["the first screen"] <= limit(len(SIZES))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_real_reports_on_equal_treatments(kind):
    shares = false_claims(kind, NUMBER)
    show(
        f"{NUMBER} reports of equal treatments, {kind}: % with a claim",
        list(shares),
        [list(map(percent, shares.values()))],
    )
    assert max(shares.values()) <= limit(NUMBER)
