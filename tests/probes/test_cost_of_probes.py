"""What probes cost, counted: samples that pass through the model, forwards and back."""

from dataclasses import replace

import pytest
import torch
from cases import small
from torch import nn

from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext
from initbench.registry import PROBES
from initbench.suite.schema import DEFAULT_PROBES

CHEAP = ("weight_magnitude", "gradient_deviation", "signal_by_depth", "batch_norm_magnification")
IMAGES = ProbeContext(seed=3, inputs=Inputs((3, 8, 8)), outputs=10)


class _Forward(torch.autograd.Function):
    """The identity, which counts the samples that pass, and again in every derivative."""

    @staticmethod
    def forward(ctx, signal, counts):
        counts["forward"] += len(signal)
        ctx.counts = counts
        return signal.clone()

    @staticmethod
    def backward(ctx, gradient):
        return _Backward.apply(gradient, ctx.counts), None


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gradient, counts):
        counts["backward"] += len(gradient)
        ctx.counts = counts
        return gradient.clone()

    @staticmethod
    def backward(ctx, vector):
        ctx.counts["backward"] += len(vector)
        return vector.clone(), None


class Counting(nn.Module):
    """An activation that counts."""

    def __init__(self, counts):
        super().__init__()
        self.counts = counts

    def forward(self, x):
        return torch.relu(_Forward.apply(x, self.counts))


def cost(probe, **arguments):
    """The samples that passed the first layer's activation, forwards and back."""
    counts = {"forward": 0, "backward": 0}
    model = small("wrn", norm="batch", activation="relu")
    model.groups[0][0].activation2 = Counting(counts)  # in the branch of the first block
    real = replace(IMAGES, real_batches=lambda size, _: iter(IMAGES.batches("random", size, 100)))
    PROBES.get(probe).build(arguments)(model, real)
    return counts


@pytest.mark.parametrize(
    ("probe", "forward", "backward"),
    [
        ("weight_magnitude", 0, 0),
        ("gradient_norm", 8 * 32, 8 * 32),
        # The gradient, and its derivative, which passes back through the backward and the forward pass.
        ("gradient_quotient", 8 * 32, 3 * 8 * 32),
        ("gradient_deviation", 16 * 128, 16 * 128),
        # The branch is differentiated again. The one sample that `find_structure` runs is undone in the counts, too.
        ("signal_by_depth", 128, 2 * 128),
        ("batch_norm_magnification", 128, 128),
    ],
)
def test_in_samples(probe, forward, backward):
    assert cost(probe) == {"forward": forward, "backward": backward}


@pytest.mark.slow
def test_a_product_with_the_hessian_is_two_gradients_of_a_batch():
    few, more = (cost("hessian_spectrum", batch_size=4, eigenvalues=1, lanczos_steps=steps) for steps in (2, 5))
    assert more["forward"] - few["forward"] == 3 * 4
    assert more["backward"] - few["backward"] == 3 * 3 * 4


def test_the_default_and_the_cheap_probes_together_cost_less_than_30_gradients_of_a_batch_of_128():
    # A backward pass takes about twice as long as a forward pass, which counts here in favour of neither.
    totals = [cost(probe) for probe in (*DEFAULT_PROBES, *CHEAP)]
    gradients = [sum(count[way] for count in totals) / 128 for way in ("forward", "backward")]
    assert gradients == [22, 27]
    assert max(gradients) <= 30
