"""Learning rates and weight decays by the role of a parameter, against recursions written by hand in float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench import create_model, rewrite
from initbench.architectures.scalars import ScalarBias, ScalarMultiplier
from initbench.data.dataset import Dataset, Split, Splits
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.training.loop import train
from initbench.training.optimizer import Multipliers, make_parameter_groups, roles
from initbench.training.recipe import ByRole, Recipe

N, FEATURES, CLASSES = 12, 4, 3
SHAPE = {"input_shape": (3, 8, 8), "num_classes": 10}


def counted(model):
    found = list(roles(model).values())
    return {role: found.count(role) for role in ByRole.model_fields}


def test_roles_of_a_network_with_batch_norm():
    model = create_model("resnet", depth=8, norm="batch", **SHAPE)
    # A first convolution and three blocks of two, each with a norm of a scale and a shift; the classifier.
    found = roles(model)
    norms = {name for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)}
    assert {name for name, role in found.items() if role == "norm"} == {f"{n}.{p}" for n in norms for p in PARTS}
    assert [name for name, role in found.items() if role == "bias"] == ["classifier.bias"]
    assert "scalar" not in found.values()


PARTS = ("weight", "bias")


def test_roles_of_fixup_and_skipinit_networks():
    plain = counted(create_model("resnet", depth=8, norm="none", **SHAPE))
    # Fixup, three blocks of two convolutions: in each 4 scalar biases and a multiplier; one bias behind the stem and
    # one before the classifier (Zhang et al., 2019, section 3.2, rule 3, and the authors' code).
    fixup = counted(create_model("resnet", depth=8, norm="none", scheme="fixup", **SHAPE))
    assert fixup == {"scalar": 3 * 5 + 2, "norm": 0, "bias": 1, "weight": plain["weight"]}
    skipinit = create_model("resnet", depth=8, norm="none", scheme="skipinit", **SHAPE)
    assert counted(skipinit)["scalar"] == 3  # a gate for each block
    assert all(p.numel() == 1 for name, p in skipinit.named_parameters() if roles(skipinit)[name] == "scalar")


def test_a_bias_in_the_place_of_a_norm_is_a_bias_and_a_weight_norms_length_a_weight():
    model = create_model("resnet", depth=8, norm="batch", **SHAPE)
    norms = counted(model)["norm"] // 2
    assert counted(rewrite(model, "channel_bias", inputs=torch.zeros(2, 3, 8, 8))) == {
        **counted(model),
        "norm": 0,
        "bias": norms + 1,
    }
    normalized = rewrite(nn.Sequential(nn.Flatten(), nn.Linear(192, 1)), "weight_norm", inputs=torch.zeros(2, 3, 8, 8))
    assert set(roles(normalized).values()) == {"weight", "bias"}  # one output: g is (1, 1), the bias (1,)


class Block(nn.Module):
    """Every kind of parameter that is not a layer's."""

    def __init__(self):
        super().__init__()
        self.bias1a = nn.Parameter(torch.zeros(1))  # as in the code of Fixup's authors
        self.gain = nn.Parameter(torch.tensor(0.0))  # as in timm's NFNets
        self.relative_position_bias_table = nn.Parameter(torch.zeros(9, 2))
        self.gamma = nn.Parameter(torch.ones(4))  # LayerScale
        self.attention = nn.MultiheadAttention(4, 1)
        self.norm = nn.LayerNorm(4)
        self.slope = nn.PReLU()


def test_roles_of_single_parameters():
    assert roles(Block()) == {
        "bias1a": "scalar",
        "gain": "scalar",
        "relative_position_bias_table": "weight",
        "gamma": "weight",
        "attention.in_proj_weight": "weight",
        "attention.in_proj_bias": "bias",
        "attention.out_proj.weight": "weight",
        "attention.out_proj.bias": "bias",
        "norm.weight": "norm",
        "norm.bias": "norm",
        "slope.weight": "scalar",
    }


def network():
    """One parameter of each role, or more."""
    layers = [nn.Flatten(), nn.Linear(FEATURES, 5), nn.LayerNorm(5), ScalarBias(), nn.Tanh(), ScalarMultiplier(0.7)]
    torch.manual_seed(0)
    model = nn.Sequential(*layers, nn.Linear(5, CLASSES)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # so that decay has something to act on everywhere
    return model


ROLES = {
    "1.weight": "weight",
    "1.bias": "bias",
    "2.weight": "norm",
    "2.bias": "norm",
    "3.bias": "scalar",
    "5.scale": "scalar",
    "6.weight": "weight",
    "6.bias": "bias",
}


def dataset():
    random = torch.Generator().manual_seed(1)

    def split(n):
        inputs = torch.randn(n, 1, 1, FEATURES, dtype=torch.float64, generator=random)
        return Split(inputs, torch.randint(CLASSES, (n,), generator=random))

    return Dataset("random", "classification", Inputs((1, 1, FEATURES)), CLASSES, Splits(split(N), split(4), split(4)))


def trained(recipe, multipliers=None):
    """The parameters after a training, and how they were before it."""
    model, data = network(), dataset()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert not train(model, data, recipe, 0, declared=Multipliers(multipliers or {})).diverged
    return {name: p.detach() for name, p in model.named_parameters()}, before, data.train


def gradients(parameters, split):
    leaves = {name: p.clone().requires_grad_() for name, p in parameters.items()}
    outputs = torch.func.functional_call(network(), leaves, (split.inputs,))
    loss = nn.functional.cross_entropy(outputs, split.targets)
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


MULTIPLIERS = {"scalar": 0.1, "norm": 2.0, "bias": 0.25}
DECAYS = {"norm": 0.0, "scalar": 0.3, "bias": 0.01}


def test_sgd_takes_each_roles_rate_and_decay():
    assert roles(network()) == ROLES
    recipe = Recipe(
        epochs=6,
        batch_size=N,
        lr=0.4,
        momentum=0.8,
        weight_decay=0.05,
        schedule="constant",
        lr_multipliers=ByRole(**MULTIPLIERS),
        weight_decays=ByRole(**DECAYS),
    )
    after, theta, data = trained(recipe)
    velocity = {name: torch.zeros_like(p) for name, p in theta.items()}
    for _ in range(6):
        for name, g in gradients(theta, data).items():
            role = ROLES[name]
            velocity[name] = 0.8 * velocity[name] + g + DECAYS.get(role, 0.05) * theta[name]
            theta[name] = theta[name] - 0.4 * MULTIPLIERS.get(role, 1.0) * velocity[name]
    torch.testing.assert_close(after, theta, rtol=1e-10, atol=1e-12)


def test_adamw_decays_each_role_by_its_own_rate():
    """θ ← θ(1 − lr·m·λ) − lr·m·m̂ / (√v̂ + ε), with the role's multiplier m and decay λ."""
    recipe = Recipe(
        epochs=4,
        batch_size=N,
        optimizer="adamw",
        lr=0.05,
        weight_decay=0.2,
        schedule="constant",
        lr_multipliers=ByRole(**MULTIPLIERS),
        weight_decays=ByRole(**DECAYS),
    )
    after, theta, data = trained(recipe)
    first, second = ({name: torch.zeros_like(p) for name, p in theta.items()} for _ in range(2))
    for t in range(1, 5):
        for name, g in gradients(theta, data).items():
            lr, decay = 0.05 * MULTIPLIERS.get(ROLES[name], 1.0), DECAYS.get(ROLES[name], 0.2)
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.999 * second[name] + 0.001 * g**2
            step = (first[name] / (1 - 0.9**t)) / ((second[name] / (1 - 0.999**t)).sqrt() + 1e-8)
            theta[name] = theta[name] * (1 - lr * decay) - lr * step
    torch.testing.assert_close(after, theta, rtol=1e-10, atol=1e-12)


def rates(groups, model):
    names = {id(p): name for name, p in model.named_parameters()}
    return {names[id(p)]: group["lr"] for group in groups for p in group["params"]}


def test_the_recipe_comes_before_what_the_initializer_declares_and_leaves_the_rest_to_it():
    model = create_model("resnet", depth=8, norm="none", scheme="fixup", **SHAPE)
    record = initialize(model, "fixup", input_shape=(4, 3, 8, 8), num_classes=10)
    declared, role = record.learning_rate_multipliers, roles(model)
    alone = rates(make_parameter_groups(model, Recipe(lr=0.5), Multipliers(declared)), model)
    assert alone == rates(record.parameter_groups(0.5), model)
    assert {rate for name, rate in alone.items() if role[name] in {"scalar", "bias"}} == {0.05}
    # The rule of the authors, written in the recipe too, is not applied twice.
    again = Recipe(lr=0.5, lr_multipliers=ByRole(scalar=0.1, bias=0.1))
    assert rates(make_parameter_groups(model, again, Multipliers(declared)), model) == alone
    assert rates(make_parameter_groups(model, again), model) == alone  # and any other initializer gets it
    other = Recipe(lr=0.5, lr_multipliers=ByRole(bias=1.0))
    expected = {name: 0.5 if role[name] == "bias" else rate for name, rate in alone.items()}
    assert rates(make_parameter_groups(model, other, Multipliers(declared)), model) == expected


def test_weight_decay_and_epsilon_have_multipliers_by_name():
    """θ ← θ(1 − lr·a·λ·b) − lr·a·m̂ / (√v̂ + ε·c), with factors a, b and c of the initializer."""
    recipe = Recipe(optimizer="adamw", epochs=3, batch_size=N, lr=0.05, weight_decay=0.2, schedule="constant")
    names = [name for name, _ in network().named_parameters()]
    factors = [{name: base**index for index, name in enumerate(names)} for base in (0.7, 1.3, 30.0)]
    model, data = network(), dataset()
    theta = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert not train(model, data, recipe, 0, declared=Multipliers(*factors)).diverged
    first, second = ({name: torch.zeros_like(p) for name, p in theta.items()} for _ in range(2))
    for t in range(1, 4):
        for name, g in gradients(theta, data.train).items():
            a, b, c = (values[name] for values in factors)
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.999 * second[name] + 0.001 * g**2
            step = (first[name] / (1 - 0.9**t)) / ((second[name] / (1 - 0.999**t)).sqrt() + 1e-8 * c)
            theta[name] = theta[name] * (1 - 0.05 * a * 0.2 * b) - 0.05 * a * step
    torch.testing.assert_close({n: p.detach() for n, p in model.named_parameters()}, theta, rtol=1e-10, atol=1e-12)


def test_a_recipe_replaces_the_decay_of_a_role_whatever_the_multiplier():
    model = network()
    declared = Multipliers(weight_decay={"1.weight": 4.0, "1.bias": 4.0})
    recipe = Recipe(weight_decay=0.1, weight_decays=ByRole(bias=0.03))
    names = {id(p): name for name, p in model.named_parameters()}
    groups = make_parameter_groups(model, recipe, declared)
    decays = {names[id(p)]: group["weight_decay"] for group in groups for p in group["params"]}
    assert (decays["1.weight"], decays["1.bias"], decays["6.weight"], decays["6.bias"]) == (0.4, 0.03, 0.1, 0.03)


@pytest.mark.parametrize(("optimizer", "decay"), [("adam", 8.0), ("adamw", 2.0)])  # Adam's is added to the gradient
def test_a_record_gives_groups_to_a_loop_of_ones_own(optimizer, decay):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    record = initialize(model, "mup", base_width=2, input_shape=(1, 8), training_optimizer=(optimizer, 0.1))
    groups = record.parameter_groups(0.1, weight_decay=0.5, epsilon=1e-8)
    assert {(g["lr"], g["weight_decay"], g["eps"]): len(g["params"]) for g in groups} == {
        (0.1, 0.5, 1e-8): 4,
        (0.025, 2.0, 1e-8): 1,
        (0.025, decay, 4e-8): 1,
    }
    assert {tuple(group) for group in record.parameter_groups(0.1)} == {("params", "lr")}


def test_without_roles_there_is_one_group_and_frozen_parameters_are_in_none():
    model = network()
    model[1].weight.requires_grad_(False)
    [group] = make_parameter_groups(model, Recipe(lr=0.3, weight_decay=0.01))
    assert (group["lr"], group["weight_decay"]) == (0.3, 0.01)
    assert [id(p) for p in group["params"]] == [id(p) for n, p in model.named_parameters() if n != "1.weight"]


@pytest.mark.parametrize(
    ("recipe", "field", "words"),
    [
        ({"lr_multipliers": {}}, "lr_multipliers", "must name a role"),
        ({"lr_multipliers": {"scale": 0.1}}, "lr_multipliers", "Extra inputs"),
        ({"weight_decays": {"norm": -1.0}}, "weight_decays", "greater than or equal to 0"),
        ({"weight_decays": {"norm": 0}}, "weight_decays", "repeats weight_decay, 0, for norm; leave it out"),
    ],
)
def test_what_is_refused_names_the_field(recipe, field, words):
    with pytest.raises(ValueError, match=words) as caught:
        Recipe.model_validate(recipe)
    assert field in str(caught.value)


def test_it_is_left_out_of_plain_data_where_no_role_has_it():
    recipe = Recipe(weight_decay=0.1, weight_decays=ByRole(norm=0))
    assert recipe.model_dump(mode="json")["weight_decays"] == {"norm": 0.0}
    assert recipe.plain()["weight_decays"] == {"norm": 0.0}
    assert Recipe.model_validate(recipe.model_dump()) == recipe
    assert Recipe().model_dump()["weight_decays"] is None
