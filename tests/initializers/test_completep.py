"""CompleteP and Depth-µP: the factors of their table, equality with explicit multipliers, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from small_gpt import gpt
from torch import nn
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.registry import INITIALIZERS
from initbench.training.optimizer import EPSILON, Multipliers, make_optimizer, make_parameter_groups
from initbench.training.recipe import Recipe

DEEP = {"depth": 16, "width": 32, "heads": 4, "tied": False}
BASE = {"base_width": 8, "base_depth": 2, "attention_heads": "more"}  # m_N = 4, m_L = 8


def completep(model, inputs=None, optimizer="adamw", **arguments):
    inputs = torch.zeros(1, 6, dtype=torch.int64) if inputs is None else inputs
    return initialize(model, "completep", inputs=inputs, training_optimizer=(optimizer, 1e-3), **BASE | arguments)


def multipliers(record):
    return Multipliers(record.learning_rate_multipliers, record.weight_decay_multipliers, record.epsilon_multipliers)


GOLDEN = {  # Table 1 at m_N = 4, m_L = 8, whose factors here are folded where a weight has the residual factor r
    1.0: {
        "h.3.attn.c_q.weight": (0.25, 4.0, 1 / 32),
        "h.3.attn.c_q.bias": (1.0, 1.0, 1 / 32),
        "h.3.ln_1.weight": (1.0, 1.0, 1 / 32),
        "h.3.mlp.c_proj.weight": (0.25 * 0.125, 4.0 / 0.125, 1 / 32 / 0.125),
        "h.3.mlp.c_proj.bias": (0.125, 8.0, 1 / 32 / 0.125),
        "wte.weight": (1.0, 1.0, 0.25),
        "ln_f.weight": (1.0, 1.0, 0.25),
        "lm_head.weight": (0.25, 4.0, 1.0),
    },
    0.5: {
        "h.3.attn.c_q.weight": (0.0883883, 4.0, 0.353553 / 4),
        "h.3.ln_1.weight": (0.353553, 1.0, 0.353553 / 4),
        "h.3.mlp.c_proj.weight": (0.0883883 * 0.353553, 4.0 / 0.353553, 0.25),
        "wte.weight": (1.0, 1.0, 0.25),
    },
}


@pytest.mark.parametrize("alpha", GOLDEN)
def test_the_factors_of_the_table(alpha):
    record = completep(gpt(**DEEP), alpha=alpha)
    for name, expected in GOLDEN[alpha].items():
        found = [one.get(name, 1.0) for one in vars(multipliers(record)).values()]
        assert found == pytest.approx(expected, rel=1e-5), name
    assert {key: record.conditions[key] for key in ("width_ratio", "depth", "depth_ratio")} == {
        "width_ratio": 4,
        "depth": 16,
        "depth_ratio": 8,
    }


def test_branches_start_smaller_by_the_residual_factor():
    deep, wide = gpt(**DEEP), gpt(**DEEP)
    completep(deep)
    initialize(wide, "mup", base_width=8, attention_heads="more", inputs=torch.zeros(1, 6, dtype=torch.int64))
    for name, p in deep.named_parameters():
        factor = 0.125 if "c_proj.weight" in name else 1.0
        torch.testing.assert_close(p, factor * wide.get_parameter(name))


def test_at_the_base_it_is_the_standard_parametrization_bit_for_bit():
    ours, theirs = gpt(tied=False), gpt(tied=False)
    record = completep(ours)
    initialize(theirs, "lecun")
    assert multipliers(record) == Multipliers()
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))


class Explicit(nn.Module):
    """A residual MLP that multiplies branches by `factor` and what enters the classifier by 1 / `ratio`."""

    def __init__(self, network, factor, ratio):
        super().__init__()
        self.network, self.factor, self.ratio = network, factor, ratio

    def forward(self, images):
        x = self.network.stem(images.flatten(1))
        for block in self.network.blocks:
            x = x + self.factor * block.linear2(block.activation(block.linear1(x)))
        return functional.linear(x / self.ratio, self.network.classifier.weight, self.network.classifier.bias)


def residual_mlp():
    return create_model("residual_mlp", depth=16, width=32, input_shape=(1, 2, 4), num_classes=3).double()


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_folded_it_trains_as_with_the_multipliers_in_the_forward_pass(alpha):
    """50 steps of AdamW in float64, depth 16 of base 2: a branch factor of 1/8 or 1/√8. The sums' order differs."""
    recipe = Recipe(optimizer="adamw", lr=1e-3, weight_decay=0.1)
    folded, network = residual_mlp(), residual_mlp()
    record = completep(folded, torch.zeros(1, 1, 2, 4, dtype=torch.float64), alpha=alpha)
    network.load_state_dict(folded.state_dict())
    factor, rate = 8**-alpha, 8 ** (alpha - 1)
    with torch.no_grad():
        network.classifier.weight *= 4
        for block in network.blocks:
            block.linear2.weight /= factor
    explicit = Explicit(network, factor, 4)
    groups = []
    for name, p in network.named_parameters():
        hidden, within = p.dim() > 1 and name.startswith("blocks"), name.startswith("blocks")
        groups.append(
            {
                "params": [p],
                "lr": recipe.lr * (rate if within else 1) / (4 if hidden else 1),
                "weight_decay": recipe.weight_decay * (4 if hidden else 1),
                "eps": EPSILON / 4 * (factor if within else 1),
            }
        )
    theirs = make_optimizer(groups, recipe)
    ours = make_optimizer(make_parameter_groups(folded, recipe, multipliers(record)), recipe)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        inputs = torch.randn(16, 1, 2, 4, dtype=torch.float64, generator=generator)
        targets = torch.randint(3, (16,), generator=generator)
        losses = []
        for model, optimizer in ((folded, ours), (explicit, theirs)):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], abs=1e-12)


def of_resnet(**arguments):
    return create_model("resnet", depth=8, width=4, input_shape=(3, 8, 8), num_classes=4, **arguments)


IMAGES = torch.zeros(1, 3, 8, 8)
REFUSED = {
    "sgd": (lambda: gpt(**DEEP), None, {"optimizer": "sgd"}, "completep is for adam and adamw"),
    "depth": (lambda: gpt(**DEEP), None, {"base_depth": 3}, "base_depth 3 is no divisor of the network's depth, 16"),
    "deeper": (lambda: gpt(tied=False), None, {"base_depth": 4}, "base_depth 4 is larger than the network's depth, 2"),
    "no branch": (
        lambda: create_model("mlp", width=8, input_shape=(3, 8, 8), num_classes=4),
        IMAGES,
        {},
        "no residual branches are found",
    ),
    "norm at the end": (
        of_resnet,
        IMAGES,
        {"base_width": 64},
        "does not end in the weight layer groups.0.0.layers.1.convolution",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_refuses(case):
    make, inputs, arguments, message = REFUSED[case]
    with pytest.raises(InitializationError) as refused:
        completep(make(), inputs, **arguments)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_network_without_norms_whose_branches_end_in_gates():
    """A gate behind the last layer leaves the branch linear in that layer."""
    model = create_model("gpt", inputs=Inputs((6,), 11), num_classes=11, norm="none", scheme="skipinit", **DEEP)
    record = completep(model)
    assert record.learning_rate_multipliers["h.0.attn.c_proj.weight"] == 0.25 * 0.125


@pytest.mark.parametrize("argument", [{"alpha": 1.5}, {"alpha": 0.4}, {"base_depth": 0}, {"base_width": 0}])
def test_the_argument_that_it_refuses(argument):
    with pytest.raises(ArgumentError) as refused:
        completep(gpt(**DEEP), **argument)
    assert refused.value.argument == next(iter(argument))


def test_what_its_registration_says_of_sgd():
    component = INITIALIZERS.get("completep")
    assert "use mup for sgd" in component.traits.refuses(component.resolve({}), "sgd", 0.1)
    assert component.traits.refuses(component.resolve({}), "adamw", 0.1) is None
