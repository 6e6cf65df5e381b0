"""When a sweep in which every trial fails is stopped."""

import pytest

from initbench.execution.breaker import Breaker


def fail(breaker, errors, *, was_fresh=True):
    for i, error in enumerate(errors):
        breaker.failed(f"t{i}", error, was_fresh=was_fresh)
    return bool(breaker.reason)


@pytest.mark.parametrize(
    ("error", "stops"),
    [
        ("RuntimeError: CUDA error: device-side assert triggered", True),
        ("OutOfMemoryError: Process {i} has 12.{i} GiB in use at 0x{i}f", True),
        ("RuntimeError: layer {word} fails", False),
    ],
)
def test_twenty_trials_in_a_row_with_the_same_error(error, stops):
    errors = [error.format(i=i, word="ab"[i % 2]) for i in range(20)]
    assert not fail(Breaker(), errors[:19])
    assert fail(Breaker(), errors) == stops


def test_a_trial_that_was_not_the_first_of_its_process_and_a_success_start_anew():
    breaker = Breaker()
    assert not fail(breaker, ["broken"] * 40, was_fresh=False)
    assert not fail(breaker, ["broken"] * 19)
    breaker.succeeded()
    assert not fail(breaker, ["broken"] * 19)
    assert fail(breaker, ["broken"] * 20)
