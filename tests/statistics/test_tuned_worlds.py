"""False verdicts on tuned treatments that are alike: outcome = curvature · (log rate - optimum)² + noise, for both.

Flat worlds have the curvature 0. With a search for each seed the report's verdicts are right in 95 %; with one search
that serves all seeds, or a choice on the test split, they are not. The slow test prints the table of the documentation:

    pytest -m slow -s tests/statistics/test_tuned_worlds.py
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from seed_worlds import pvalues
from simulations import ALPHA, excludes_zero, limit, percent, show
from tuned import own_choice
from worlds import frame

from initbench.statistics.cells import cells
from initbench.statistics.seed_variance import suite_variances
from initbench.statistics.verdicts import workload_verdicts

WORLDS = 4000
RATES = 7
FLAT, CURVED = 0.0, 2.0


def tuned_worlds(curvature, seeds, number=WORLDS, treatments=2):
    """Return outcomes on the validation and on the test split, (worlds, treatments, seeds, rates) each.

    The optimum lies anywhere within two steps in the middle of the grid, the same for all treatments. Noise has the
    standard deviation 1, and is another on each split.
    """
    generator = np.random.default_rng([seeds, round(10 * curvature)])
    optimum = generator.uniform(2, 4, (number, 1, 1, 1))
    mean = curvature * (np.arange(RATES) - optimum) ** 2
    shape = (number, treatments, seeds, RATES)
    return mean + generator.standard_normal(shape), mean + generator.standard_normal(shape)


def at(test, chosen):
    """Return the outcomes of final trials at what was chosen, (worlds, treatments, seeds)."""
    index = np.broadcast_to(chosen, test.shape[:-1])[..., None]
    return np.take_along_axis(test, index, axis=-1)[..., 0]


def own_search(validation, test):
    return at(test, validation.argmin(axis=-1))


def search_once(validation, test):
    return at(test, validation[:, :, :1].argmin(axis=-1))


def one_seed_on_the_test_split(_, test):
    """The first seed's trials on the test split choose for all seeds, and count."""
    return at(test, test[:, :, :1].argmin(axis=-1))


def one_treatment_on_the_test_split(validation, test):
    """The first treatment is shown at what is best on the test split, the second at what its own search chose."""
    found = own_search(validation, test)
    found[:, 0] = test[:, 0].min(axis=-1)
    return found


def every_seed_on_the_test_split(_, test):
    return test.min(axis=-1)


def told(outcomes):
    """Return in which worlds the report tells the two treatments apart, (worlds, 2, seeds)."""
    return excludes_zero(outcomes[:, 0] - outcomes[:, 1])


def false_verdicts(how, curvature, seeds, number=WORLDS):
    """Return the share of worlds in which the report tells apart what is alike."""
    return told(how(*tuned_worlds(curvature, seeds, number))).mean()


def verdict_of(world):
    """Return whether the report's own code tells the treatments of one world apart, (2, seeds)."""
    trials = frame(world[None])
    judged = cells(trials)
    [verdict] = workload_verdicts(judged, trials, suite_variances(trials, judged))
    assert not verdict.is_of_training
    return verdict.side != 0


@pytest.mark.parametrize("curvature", [FLAT, CURVED])
def test_the_vectorized_choice_and_verdict_are_the_reports(curvature):
    validation, test = tuned_worlds(curvature, 5, number=12)
    by_hand = [[[own_choice(seed) for seed in treatment] for treatment in world] for world in validation]
    assert (np.array(by_hand) == validation.argmin(axis=-1)).all()
    outcomes = own_search(validation, test)
    outcomes[::3, 0] += 3  # some worlds with a difference, too
    assert [verdict_of(world) for world in outcomes] == list(told(outcomes))
    assert any(told(outcomes))


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("curvature", [FLAT, CURVED])
def test_with_a_search_for_each_seed_false_verdicts_stay_within_five_percent(curvature, seeds):
    assert false_verdicts(own_search, curvature, seeds) <= limit(WORLDS)


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("curvature", [FLAT, CURVED])
def test_five_treatments_on_four_workloads_with_a_search_for_each_seed(curvature, seeds):
    """Neither the family of a workload's pairs nor that of the suite's has more than 5 % with any false verdict."""
    outcomes = own_search(*tuned_worlds(curvature, seeds, treatments=5))
    suites, pairs = outcomes.reshape(-1, 4, *outcomes.shape[1:]), math.comb(5, 2)
    least = pairs * pvalues(suites, ALPHA / pairs).min(axis=2)
    assert (least <= ALPHA).mean() <= limit(least.size)
    assert (4 * least.min(axis=1) <= ALPHA).mean() <= limit(len(suites))


@pytest.mark.parametrize("how", [search_once, one_seed_on_the_test_split, one_treatment_on_the_test_split])
def test_a_choice_that_seeds_share_or_that_the_test_split_made_fails_in_the_curved_world(how):
    assert false_verdicts(how, CURVED, 5) > limit(WORLDS)
    assert false_verdicts(how, CURVED, 10) > 2 * limit(WORLDS)


def test_the_flat_world_does_not_show_what_one_search_does():
    """Where all rates are alike it does not matter which was chosen: a flat world alone would prove nothing."""
    assert false_verdicts(search_once, FLAT, 10) <= limit(WORLDS)


def test_a_choice_on_the_test_split_by_every_seed_of_both_flatters_both_alike():
    """No verdict on a pair shows it, and every value is too good: that is why the test split is opened once."""
    validation, test = tuned_worlds(CURVED, 5)
    assert told(every_seed_on_the_test_split(validation, test)).mean() <= limit(WORLDS)
    flattered = every_seed_on_the_test_split(validation, test).mean()
    assert flattered < own_search(validation, test).mean() - 0.3


@pytest.mark.slow
def test_the_table_of_tuned_treatments():
    number, rows = 20_000, []
    kinds = [own_search, search_once, one_seed_on_the_test_split, one_treatment_on_the_test_split]
    shares = {
        (how, curvature, seeds): false_verdicts(how, curvature, seeds, number)
        for how in kinds
        for curvature in (0.0, 1.0, 2.0, 4.0)
        for seeds in (3, 5, 10)
    }
    for curvature in (0.0, 1.0, 2.0, 4.0):
        row = [" / ".join(percent(shares[how, curvature, seeds]) for seeds in (3, 5, 10)) for how in kinds]
        rows.append([f"{curvature:g}", *row])
    show("False verdicts on tuned treatments, in %", ["curvature", *(how.__name__ for how in kinds)], rows)
    assert max(share for (how, _, _), share in shares.items() if how is own_search) <= limit(number)
    curved = [share for (how, curvature, _), share in shares.items() if how is search_once and curvature > 0]
    # What the report's warning says: 7 to 20 %.
    assert min(curved) > 0.06
    assert 0.15 < max(curved) < 0.22
