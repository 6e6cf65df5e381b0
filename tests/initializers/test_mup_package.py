"""µP against the authors' package, `pip install mup==1.0.0`: equal losses over 20 steps."""

from __future__ import annotations

import pytest
import torch
from small_gpt import gpt, next_token_loss, tokens
from torch import nn
from torch.nn import functional

from initbench.initializers.initialize import initialize
from initbench.training.optimizer import Multipliers, make_optimizer, make_parameter_groups
from initbench.training.recipe import Recipe

mup = pytest.importorskip("mup", reason="needs mup 1.0.0")

FEATURES, CLASSES, BASE, WIDTH = 12, 10, 8, 32


def perceptron(width, head=nn.Linear):
    return nn.Sequential(
        nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), head(width, CLASSES)
    ).double()


def language_model(width, head=nn.Linear):
    model = gpt(tied=False, width=width, heads=width // 4).double()
    model.lm_head = head(width, model.lm_head.out_features, bias=False).double()
    return model


def batch_of_numbers():
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(16, FEATURES, dtype=torch.float64, generator=generator)
    return numbers, torch.randint(CLASSES, (16,), generator=generator)


KINDS = {
    "perceptron": (perceptron, "4", batch_of_numbers, functional.cross_entropy, None),
    "gpt": (language_model, "lm_head", tokens, next_token_loss, "more"),
}
OPTIMIZERS = {
    "sgd": (Recipe(optimizer="sgd", lr=0.1, weight_decay=0.01), mup.MuSGD, {"momentum": 0.9}),
    "adam": (Recipe(optimizer="adam", lr=1e-3, weight_decay=0.1), mup.MuAdam, {}),
    "adamw": (Recipe(optimizer="adamw", lr=1e-3, weight_decay=0.1), mup.MuAdamW, {}),
}


def package_model(make, ours, head):
    """The package's network with the parameters of ours, whose heads have the factor 1/m folded in."""
    theirs = make(WIDTH, mup.MuReadout)
    theirs.load_state_dict(ours.state_dict())
    mup.set_base_shapes(theirs, make(BASE), delta=make(2 * BASE), rescale_params=False)
    with torch.no_grad():
        theirs.get_submodule(head).weight.mul_(WIDTH / BASE)
    return theirs


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_as_the_package(kind, optimizer):
    """In float64, to within 1e-12, because sums are taken in another order over 20 steps."""
    make, head, make_batch, loss_of, heads = KINDS[kind]
    recipe, package_optimizer, arguments = OPTIMIZERS[optimizer]
    inputs, targets = make_batch()
    ours = make(WIDTH)
    record = initialize(
        ours,
        "mup",
        inputs=inputs,
        training_optimizer=(optimizer, recipe.lr),
        base_width=BASE,
        attention_heads=heads,
        embedding_std=0.5,
    )
    theirs = package_model(make, ours, head)
    declared = Multipliers(
        record.learning_rate_multipliers, record.weight_decay_multipliers, record.epsilon_multipliers
    )
    optimizers = (
        make_optimizer(make_parameter_groups(ours, recipe, declared), recipe),
        package_optimizer(theirs.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, **arguments),
    )
    losses = [[], []]
    for _ in range(20):
        for model, trainer, of_model in zip((ours, theirs), optimizers, losses, strict=True):
            trainer.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            trainer.step()
            of_model.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)
    assert losses[0][-1] < losses[0][0]
