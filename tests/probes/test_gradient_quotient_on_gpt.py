"""GQ of gpt against dense Hessians in float64."""

from __future__ import annotations

import pytest
import torch
from cases import randomize
from small_gpt import VOCABULARY, gpt, next_token_loss, tokens
from torch.func import functional_call, grad
from torch.nn.attention import SDPBackend, sdpa_kernel

from initbench.probes.gradient_quotient import gradient_quotient

VARIANTS = [
    {"norm": "pre"},
    {"norm": "pre", "tied": False, "norm_type": "rms"},
    {"norm": "post", "activation": "swiglu"},
    {"norm": "none", "positions": "rotary"},
    {"norm": "none", "tied": False, "activation": "relu"},
]


def loss_of(model, inputs, targets):
    """The loss as a function of the parameters by name."""

    def loss(values):
        with sdpa_kernel(SDPBackend.MATH):
            return next_token_loss(functional_call(model, values, (inputs,)), targets)

    return loss


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_quotient_is_that_of_the_dense_hessian(variant):
    """g and H entry by entry over one vector of all parameters, a tied head once."""
    model = randomize(gpt(depth=1, width=4, **variant), 0.3).eval()
    inputs, targets = tokens(2, 4)
    named = {name: p.detach() for name, p in model.named_parameters()}
    sizes = [p.numel() for p in named.values()]
    loss = loss_of(model, inputs, targets)

    def of_vector(theta):
        parts = zip(named.items(), theta.split(sizes), strict=True)
        return loss({name: part.view_as(p) for (name, p), part in parts})

    theta = torch.cat([p.flatten() for p in named.values()])
    assert len(theta) == sum(p.numel() for p in model.parameters())
    hessian = torch.autograd.functional.hessian(of_vector, theta)
    g = grad(of_vector)(theta)
    eps = torch.where(g >= 0, 1e-5, -1e-5).double()
    expected = (((g - hessian @ g) / (g + eps)) - 1).abs().mean()
    found = gradient_quotient(model, inputs, targets, next_token_loss)
    assert found.item() == pytest.approx(expected.item(), rel=1e-8)


def test_finite_differences_are_near_the_exact_method_where_steps_are_small():
    """With a loss of 1e-4 times as much the step is 1e-4 times as long, and both sides of equation (1) meet."""
    model = randomize(gpt(depth=1), 0.3)
    inputs, targets = tokens()

    def loss(logits, targets):
        return 1e-4 * next_token_loss(logits, targets)

    exact, difference = (
        gradient_quotient(model, inputs, targets, loss, eps=1e-9, method=method).item()
        for method in ("exact", "finite_difference")
    )
    assert difference == pytest.approx(exact, rel=1e-3)


def test_tied_and_untied_heads_have_other_quotients():
    """A tied head's gradient is the sum of two, which is one entry for each, not two."""
    inputs, targets = tokens()
    tied = randomize(gpt(), 0.3)
    untied = randomize(gpt(tied=False), 0.3)
    untied.load_state_dict({**tied.state_dict(), "lm_head.weight": tied.wte.weight.detach().clone()})
    torch.testing.assert_close(tied(inputs), untied(inputs))
    values = [gradient_quotient(model, inputs, targets, next_token_loss).item() for model in (tied, untied)]
    assert values[0] != pytest.approx(values[1], rel=1e-3)
    assert tied.wte.num_embeddings == VOCABULARY
