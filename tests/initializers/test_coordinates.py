"""Coordinate check: with µP, what training changes in each layer does not depend on the width; as standard, it grows.

The change is the RMS of Δ = h(t) − h(0) on the training batch, which is the same at each step. Heads and queries start
at 0, so hidden layers first move in step 2 (Yang et al., Tensor Programs V, 2022, appendix D).
"""

from __future__ import annotations

from functools import cache

import pytest
import timm
import torch
from small_gpt import gpt
from torch import nn

from initbench.errors import InitbenchError
from initbench.initializers.initialize import initialize
from initbench.statistics.exponents import exponent
from initbench.training.optimizer import Multipliers, make_optimizer, make_parameter_groups
from initbench.training.recipe import Recipe

WIDTHS, SEEDS, STEPS, HEAD = [32, 64, 128, 256], range(3), 2, 16
VOCABULARY, CONTEXT, CLASSES = 64, 16, 10
RATES = {"adam": 2e-3, "sgd": 0.1}
SMALL_RATES = {"adam": 1e-4, "sgd": 0.005}  # large ones end the growth of the standard parametrization


def language_model(width):
    return gpt(width=width, heads=width // HEAD, depth=2, vocabulary=VOCABULARY, context=CONTEXT, tied=False)


def vision_transformer(width):
    return timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=4, num_classes=CLASSES, embed_dim=width, depth=2, num_heads=width // HEAD
    )


def batch_of(kind, seed):
    generator = torch.Generator().manual_seed(seed)
    if kind == "gpt":
        return torch.randint(VOCABULARY, (2, 8, CONTEXT), generator=generator).unbind()
    images = torch.randn(8, 3, 32, 32, dtype=torch.float64, generator=generator)
    return images, torch.randint(CLASSES, (8,), generator=generator)


KINDS = {
    "gpt": (language_model, ["h.0", "h.0.attn", "h.0.mlp", "h.1", "h.1.attn", "h.1.mlp", "lm_head"]),
    "vit": (vision_transformer, ["blocks.0.mlp", "blocks.0", "blocks.1.attn", "blocks.1.mlp", "blocks.1", "head"]),
}


def outputs_of(model, layers, inputs):
    """The outputs of the model, and those of named layers."""
    found = {}
    hooks = [
        model.get_submodule(name).register_forward_hook(lambda *call, name=name: found.update({name: call[2]}))
        for name in layers
    ]
    outputs = model(inputs)
    for hook in hooks:
        hook.remove()
    return outputs, found


def changes(kind, initializer, width, seed, optimizer, lr, arguments):
    make, layers = KINDS[kind]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make(width).double().eval()
    inputs, targets = batch_of(kind, seed)
    record = initialize(
        model,
        initializer,
        inputs=inputs[:1],
        seed=seed,
        training_optimizer=(optimizer, lr),
        embedding_std=0.5,
        **arguments,
    )
    recipe = Recipe(optimizer=optimizer, lr=lr)
    declared = Multipliers(
        record.learning_rate_multipliers, record.weight_decay_multipliers, record.epsilon_multipliers
    )
    stepper = make_optimizer(make_parameter_groups(model, recipe, declared), recipe)
    _, before = outputs_of(model, layers, inputs)
    for _ in range(STEPS):
        stepper.zero_grad()
        outputs = model(inputs)
        nn.functional.cross_entropy(outputs.flatten(0, -2), targets.flatten()).backward()
        stepper.step()
    _, after = outputs_of(model, layers, inputs)
    return {name: (after[name] - before[name]).square().mean().sqrt().item() for name in layers}


@cache
def exponents(kind, initializer, optimizer, lr, **arguments):
    found = [[changes(kind, initializer, width, seed, optimizer, lr, arguments) for seed in SEEDS] for width in WIDTHS]
    return {name: exponent(WIDTHS, [[one[name] for one in of_width] for of_width in found]) for name in KINDS[kind][1]}


ARGUMENTS = {"base_width": 32, "attention_heads": "more", "zero_readout": True}


def of_mup(kind, optimizer):
    zero_query = {"zero_query": True} if kind == "gpt" else {}  # queries of timm's share a layer with keys and values
    return exponents(kind, "mup", optimizer, RATES[optimizer], **ARGUMENTS, **zero_query)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("kind", KINDS)
def test_with_mup_the_changes_do_not_depend_on_the_width(kind, optimizer):
    """Limits for widths of 32 to 256, where finite-width corrections remain: .1, and .15 for logits.

    With SGD also .15 for the vision transformer, whose queries are not 0: scores shrink with the width at first.
    """
    *hidden, head = KINDS[kind][1]
    found = of_mup(kind, optimizer)
    limit = 0.15 if (kind, optimizer) == ("vit", "sgd") else 0.1
    assert {name: found[name].value for name in hidden} == pytest.approx(dict.fromkeys(hidden, 0.0), abs=limit)
    assert found[head].value == pytest.approx(0.0, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "optimizer"), [("gpt", "adam"), ("gpt", "sgd"), ("vit", "adam")])
def test_in_the_standard_parametrization_they_grow(kind, optimizer):
    """For each hidden layer behind the first, the intervals of ± 2 standard errors are apart.

    The vision transformer with SGD is left out, because its changes do not grow up to width 256: slopes of -.08 to 0.
    """
    standard = exponents(kind, "lecun", optimizer, SMALL_RATES[optimizer])
    ours = of_mup(kind, optimizer)
    for name in KINDS[kind][1][:-1]:
        assert (
            standard[name].value - 2 * standard[name].standard_error > ours[name].value + 2 * ours[name].standard_error
        )


def test_a_layer_that_nothing_has_moved_has_no_exponent(monkeypatch):
    """After one step from heads of 0, hidden layers have not moved at all."""
    monkeypatch.setitem(globals(), "STEPS", 1)
    found = changes("gpt", "mup", 32, 0, "adam", 1e-3, ARGUMENTS)
    assert found["h.1"] == 0
    assert found["lm_head"] > 0
    with pytest.raises(InitbenchError, match="a layer that has not moved has none"):
        exponent([32, 64, 128], [found["h.1"]] * 3)
