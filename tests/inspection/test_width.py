"""Exponents over width, against Tensor Programs V (Yang et al., 2022), tables 3 and 9."""

import pytest

from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.inspection.width import scale_width

WIDTHS = (128, 256, 512, 1024)


def exponents(function, **options):
    found = scale_width(f"width_models:{function}", "width", WIDTHS, inputs=Inputs((32,)), outputs=10, **options)
    return found, [row.activation for row in found.rows], [row.update for row in found.rows]


def test_standard_parametrization_with_adam():
    _, start, update = exponents("perceptron")
    # Four widths and three seeds leave an error of about 0.1; logits are between 1 and 1.5 at the first step.
    assert start == pytest.approx([0, 0, 0], abs=0.15)
    assert update[:2] == pytest.approx([0, 1], abs=0.15)
    assert 0.85 < update[2] < 1.6


def test_standard_parametrization_with_sgd():
    _, _, update = exponents("perceptron", optimizer="sgd")
    assert update[:2] == pytest.approx([-0.5, 0.5], abs=0.2)
    assert 0.6 < update[2] < 1.3


def test_a_zero_head_hides_the_first_step_and_is_said_to():
    found, _, update = exponents("perceptron", arguments={"zero_head": True})
    assert update[:2] == [None, None]
    still = "does not change, because its input or what follows it is still zero; take more steps"
    assert found.rows[0].sentence == still
    assert update[2] == pytest.approx(1, abs=0.15)
    assert None not in exponents("perceptron", arguments={"zero_head": True}, steps=2)[2]


def test_mup_updates_do_not_depend_on_the_width():
    found, _, update = exponents("Scaled", steps=2)
    assert update == pytest.approx([0, 0, 0], abs=0.15)
    assert {row.sentence for row in found.rows} == {"is stable"}


def test_weights_of_a_fixed_size_let_outputs_grow():
    found, start, _ = exponents("fixed_size")
    assert start[:2] == pytest.approx([0, 0.5], abs=0.05)
    assert start[2] == pytest.approx(1, abs=0.25)  # ten outputs and three seeds are few
    assert ", and the outputs at the start grow as width^0.5" in found.rows[1].sentence
    assert "at the start" not in found.rows[0].sentence


def test_an_argument_can_change_along_with_the_width():
    found, _, _ = exponents("heads", along={"num_heads": [8, 16, 32, 64]}, seeds=1)
    assert found.widths == WIDTHS
    assert str(found).splitlines()[1].startswith("2: the update grows as width^")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": (64,)}, "needs at least two widths"),
        ({"along": {"num_heads": [4]}}, "num_heads has 1 values for 2 widths"),
        ({"optimizer": "adagrad"}, "optimizer must be adam or sgd, got 'adagrad'"),
        ({"along": {"num_heads": [4, 4]}}, "fails: ValueError: 128 features do not make 4 heads of 16"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options, message):
    widths = options.pop("widths", (64, 128))
    with pytest.raises(InitbenchError, match=message):
        scale_width("width_models:heads", "width", widths, inputs=Inputs((32,)), outputs=10, **options)
