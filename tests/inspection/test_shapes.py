"""Shapes of laws: their functions are of one distribution, and `audit` and `diff` write one law alike."""

import pytest
from torch import nn

from initbench.inspection.audit import audit
from initbench.inspection.fingerprint import fingerprint
from initbench.inspection.law_in_words import law_in_words
from initbench.inspection.shapes import SHAPES, TRUNCATED, UNIFORM, round_to_error, with_number, with_variance
from initbench.inspection.source import ModelSource

STEPS = 10_000


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_moments_of_the_quantiles_are_those_of_the_shape(shape):
    """The integral of q(p)ⁿ over p is the n-th moment; the midpoints miss the tails of N by 0.2 % of the fourth."""
    quantiles = [shape.quantile((step + 0.5) / STEPS) for step in range(STEPS)]
    assert sum(quantiles) / STEPS == pytest.approx(0, abs=1e-9)
    assert sum(q**2 for q in quantiles) / STEPS == pytest.approx(1, rel=1e-3)
    assert sum(q**4 for q in quantiles) / STEPS - 3 == pytest.approx(shape.excess_kurtosis, abs=0.01)
    assert max(quantiles) <= shape.largest
    levels = [shape.distribution(shape.quantile(level)) for level in (0.01, 0.3, 0.5, 0.99)]
    assert levels == pytest.approx([0.01, 0.3, 0.5, 0.99], rel=1e-9)


def test_a_law_of_standard_deviation_one():
    """A normal law that is cut at ±2σ keeps 0.8796 of σ; a uniform one has the bound √3."""
    assert with_number(TRUNCATED, TRUNCATED.unit) == "N(0, 1.137²) cut at ±2σ"
    assert with_number(UNIFORM, UNIFORM.unit, mean=2.0) == "U(2 ± 1.732)"
    assert with_variance(TRUNCATED, 2.0, "fan_in") == "N cut at ±2σ, variance 2/fan_in"


@pytest.mark.parametrize(("value", "error", "rounded"), [(0.0203, 0.02, 0.02), (0.0203, 0.01, 0.0203), (7.0, 0.0, 7.0)])
def test_rounding_keeps_the_digits_that_an_error_leaves(value, error, rounded):
    assert round_to_error(value, error) == rounded


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda w: nn.init.normal_(w, std=0.02), "N(0, 0.02²)"),
        (lambda w: nn.init.uniform_(w, -0.3, 0.3), "U(±0.3)"),
        (lambda w: nn.init.trunc_normal_(w, std=0.05, a=-0.1, b=0.1), "N(0, 0.05²) cut at ±2σ"),
        (nn.init.kaiming_normal_, "N(0, 2/fan_in)"),
    ],
)
def test_audit_and_diff_write_a_law_alike(draw, law):
    def build():
        layer = nn.Linear(256, 192, bias=False)
        draw(layer.weight)
        return layer

    audited = audit(ModelSource("layer", build)).roles[0].description
    in_words = law_in_words(fingerprint(build).tensors[0], sizes=False)
    assert audited.startswith(law)
    assert in_words == law
