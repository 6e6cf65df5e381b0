"""What holds for every initializer: determinism, keyed draws, what is restored, what is recorded and refused."""

from __future__ import annotations

import json
import math

import pytest
import torch
from cases import DISTRIBUTIONS, assert_same_state, batch, small, state
from recorded import FROZEN, ONES, UNTOUCHED, ZEROED, drawn
from recorded import tied as tied_to
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.initializers.record import InitializationRecord
from initbench.registry import INITIALIZERS, register_initializer

RANDOM = {"input_shape": (4, 3, 8, 8), "num_classes": 10}


@pytest.fixture
def register(monkeypatch):
    """Registers ``apply`` as an initializer of no arguments for one test."""

    def add(name, apply, **traits):
        monkeypatch.setattr(INITIALIZERS, "_registered", dict(INITIALIZERS._registered))

        def factory():
            return apply

        register_initializer(name, **traits)(factory)

    return add


def values(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def initialized(name, model=None, **options):
    model = model or small("wrn", norm="batch")
    arguments = {"steps": 3, **RANDOM} if name == "metainit" else {}
    initialize(model, name, **arguments | options)
    return values(model)


def assert_equal(first, second, names=None):
    for name in names or first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize("name", [*DISTRIBUTIONS, "metainit"])
def test_the_result_depends_on_the_seed_alone(name):
    torch.manual_seed(1)
    first = initialized(name, seed=5)
    torch.manual_seed(2)
    torch.rand(10)
    again = initialized(name, seed=5)
    other = initialized(name, seed=6)
    assert_equal(first, again)
    assert not torch.equal(first["stem.weight"], other["stem.weight"])


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_what_is_added_to_a_model_shifts_no_other_draw(name):
    without, with_norm = small("plain"), small("plain", norm="batch")
    shared = set(values(without)) & set(values(with_norm))
    assert_equal(initialized(name, without), initialized(name, with_norm), [n for n in shared if n.endswith("weight")])


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_two_parameters_of_one_shape_have_draws_of_their_own(name):
    drawn = initialized(name)
    assert not torch.equal(
        drawn["groups.2.0.conv2.weight"], drawn["groups.1.0.conv2.weight"][:64, :64].repeat(2, 2, 1, 1)
    )
    assert not torch.equal(drawn["groups.0.0.conv1.weight"], drawn["groups.0.0.conv2.weight"])


@pytest.mark.parametrize("name", ["kaiming", "orthogonal", "delta_orthogonal"])
def test_precisions_and_layouts_have_the_same_draw(name):
    single, half = initialized(name, small("plain")), initialized(name, small("plain").bfloat16())
    for key, value in single.items():
        assert torch.equal(value.bfloat16(), half[key]), key
    assert_equal(single, initialized(name, small("plain").to(memory_format=torch.channels_last)))


@pytest.mark.parametrize("name", [*DISTRIBUTIONS, "metainit"])
def test_all_but_the_values_is_left_as_it_was(name):
    model = small("wrn", norm="batch", dropout=0.2)
    model.groups[1].eval()
    model.stem.weight.requires_grad_(False)
    model.classifier.weight.grad = torch.full_like(model.classifier.weight, 7.0)
    model.norm.running_mean.fill_(0.3)
    before = state(model)
    initialized(name, model)
    assert_same_state(before, state(model), values=False)
    assert torch.equal(model.stem.weight, before["values"]["stem.weight"])


def test_a_tuner_starts_from_exactly_the_draw_of_its_base():
    for base in ("kaiming", {"name": "delta_orthogonal", "gain": 2.0}):
        name, arguments = (base, {}) if isinstance(base, str) else (base["name"], {"gain": base["gain"]})
        start = initialized(name, small("plain").double(), seed=3, **arguments)
        tuned = initialized("metainit", small("plain").double(), seed=3, base=base)
        for key, weight in start.items():
            cosine = (weight * tuned[key]).sum().abs() / (weight.norm() * tuned[key].norm()).clamp(min=1e-300)
            assert weight.norm() == 0 or cosine.item() == pytest.approx(1.0, abs=1e-12), key
        assert not torch.allclose(start["stem.weight"], tuned["stem.weight"])


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["metainit", "gradinit"])
def test_a_caller_that_records_no_gradients_gets_the_same_result(name, without):
    options = {"data": "random", "input_shape": (4, 3, 8, 8), "num_classes": 10}
    options |= {"steps": 2} if name == "metainit" else {"iterations": 2, "gamma": 100.0}
    expected, model = small("plain"), small("plain")
    initialize(expected, name, **options)
    with without():
        initialize(model, name, **options)
    assert all(map(torch.equal, model.parameters(), expected.parameters()))


def test_the_declared_base_is_the_default_and_none_takes_the_model_as_it_is():
    default = initialize(small("plain"), "metainit", steps=1, **RANDOM)
    base = default.arguments["base"]
    assert (base["name"], base["arguments"]["gain"], base["version"]) == ("delta_orthogonal", 1.0, 1)
    model = small("plain").double()
    initialize(model, "gaussian", std=0.1)
    before = values(model)
    record = initialize(model, "metainit", base=None, steps=1, **RANDOM)
    assert record.arguments["base"] is None
    assert [event["event"] for event in record.tensors["stem.weight"]] == ["scaled"]
    for name, value in values(model).items():
        if value.dim() > 1:
            assert value.norm().item() == pytest.approx(before[name].norm().item(), abs=0.1 + 1e-12)
            assert not torch.equal(value, before[name])
        else:
            assert torch.equal(value, before[name])


def test_every_parameter_is_in_the_record():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(6, 4)
            self.norm = nn.LayerNorm(4)
            self.frozen = nn.Linear(4, 4).requires_grad_(requires_grad=False)
            self.gate = nn.Parameter(torch.ones(1))
            self.linear = nn.Linear(4, 4)
            self.head = nn.Linear(4, 6)
            self.head.weight = self.embedding.weight

    model = Model()
    record = initialize(model, "gaussian", std=0.5)
    assert record.tensors == {
        "gate": [UNTOUCHED],
        "embedding.weight": [drawn("normal", std=0.02, part="embedding")],
        "norm.weight": [ONES],
        "norm.bias": [ZEROED],
        "frozen.weight": [FROZEN],
        "frozen.bias": [FROZEN],
        "linear.weight": [drawn("normal", std=0.5)],
        "linear.bias": [ZEROED],
        "head.bias": [ZEROED],
        "head.weight": [tied_to("embedding.weight")],
    }
    assert record.initializer == "gaussian"
    assert record.arguments == {"std": 0.5, "embedding_std": 0.02}
    assert record.seconds > 0


def test_tied_weights_are_drawn_once_by_their_first_name():
    alone = nn.ModuleDict({"a": nn.Linear(4, 4)})
    tied = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
    tied["b"].weight = tied["a"].weight
    record = initialize(tied, "kaiming")
    initialize(alone, "kaiming")
    assert tied["b"].weight is tied["a"].weight
    assert torch.equal(tied["a"].weight, alone["a"].weight)
    assert record.tensors["b.weight"] == [tied_to("a.weight")]


def test_a_parametrized_weight_is_not_touched():
    """But for weight normalization, see test_weight_normalized.py."""
    model = spectral_norm(nn.Linear(4, 4))
    before = values(model)
    with pytest.raises(InitializationError) as refused:
        initialize(model, "kaiming")
    assert str(refused.value) == (
        "kaiming sets none of the model's 1 weights: parametrizations.weight.original (another parametrization than "
        "weight normalization makes the layer's weight of it)"
    )
    assert_equal(before, values(model))


def keep(model, context):
    """Say of every parameter that it is to stay as it is."""
    for name, _ in model.named_parameters():
        context.record.left(name, "kept as it is")


def spoil(model, context):
    """Disturb everything that can be, then fail."""
    model.train()
    model.norm.running_mean.add_(1)
    model.norm.num_batches_tracked = torch.tensor(9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2).add_(1)
            parameter.requires_grad_(not parameter.requires_grad)
            parameter.grad = torch.ones_like(parameter)
    model.classifier.weight = nn.Parameter(torch.zeros(1, 1))
    model.classifier.extra = nn.Parameter(torch.zeros(1))
    torch.manual_seed(0)
    context.record.scaled("stem.weight", 2.0)
    raise ZeroDivisionError


def test_after_an_exception_the_model_is_bitwise_as_it_was(register):
    register("spoil", spoil)
    model = small("wrn", norm="batch")
    model.groups[0].eval()
    model.stem.weight.requires_grad_(False)
    model.stem.weight.grad = None
    model.classifier.bias.grad = torch.ones(10)
    before = state(model)
    with pytest.raises(ZeroDivisionError):
        initialize(model, "spoil")
    assert_same_state(before, state(model))


def test_a_base_that_was_drawn_is_undone_when_the_tuner_fails():
    model = small("plain")
    before = state(model)
    with pytest.raises(InitializationError, match="ended early"):
        initialize(model, "metainit", steps=3, batches=[batch((4, 3, 8, 8))])
    assert_same_state(before, state(model))


def test_an_initializer_that_replaces_a_parameter_is_refused(register):
    def replace(model, _context):
        model.classifier.weight = nn.Parameter(torch.zeros(10, 64))

    register("replace", replace)
    model = small("plain")
    before = state(model)
    with pytest.raises(InitializationError, match="replace added, removed or replaced a parameter"):
        initialize(model, "replace")
    assert_same_state(before, state(model))


def test_the_initializer_of_the_design_works_and_what_it_keeps_to_itself_is_recorded(register):
    def apply(model, context):
        for name, p in model.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0.0, 0.02, generator=context.generator(name))
        model.classifier.bias.data.uniform_()  # from the global state, which is seeded for it

    register("my_init", apply)
    models = [small("plain") for _ in range(2)]
    for seed, model in enumerate(models):
        torch.manual_seed(seed)
        record = initialize(model, "my_init", seed=4)
    assert_equal(values(models[0]), values(models[1]))
    assert models[0].groups[0][0].conv1.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert record.tensors["stem.weight"] == [{"event": "set_by", "initializer": "my_init"}]
    assert record.tensors["classifier.bias"] == [{"event": "set_by", "initializer": "my_init"}]
    assert record.tensors["groups.0.0.multiplier.scale"] == [UNTOUCHED]


def test_a_tuner_is_given_what_it_asks_for(register):
    given = {}

    def apply(model, context):
        given["real"] = next(context.batches("real", 2))
        given["random"] = next(context.batches("random", 4))
        given.update(optimizer=context.optimizer, source=context.record.conditions["data"])
        keep(model, context)

    register("ask", apply, data="random", reads_optimizer=True)
    model = small("plain").double()
    images = torch.full((2, 3, 8, 8), 0.25)
    labels = torch.tensor([1, 2])
    initialize(model, "ask", real_batches=[(images, labels)], training_optimizer=("adam", 0.01), **RANDOM)
    assert given["real"][0].dtype == torch.float64
    assert torch.equal(given["real"][0], images.double())
    assert given["real"][1].dtype == torch.int64
    assert given["random"][0].shape == (4, 3, 8, 8)
    assert (given["optimizer"].name, given["optimizer"].lr, given["source"]) == ("adam", 0.01, "random")
    with pytest.raises(InitializationError, match="ask needs real data: give batches or real_batches"):
        initialize(model, "ask", **RANDOM)
    with pytest.raises(InitializationError, match="ask draws random batches: give inputs or input_shape"):
        initialize(model, "ask", real_batches=[(images, labels)])


def test_an_initializer_that_reads_the_optimizer_says_so_or_is_refused(register):
    """Trials that differ in the optimizer alone share what an initializer makes unless it declares that it reads it."""

    def apply(model, context):
        context.optimizer  # noqa: B018
        keep(model, context)

    register("secretly", apply)
    with pytest.raises(InitializationError, match="secretly reads the optimizer without declaring it: register it"):
        initialize(small("plain"), "secretly")
    with pytest.raises(InitializationError, match="secretly reads the optimizer"):
        initialize(small("plain"), "metainit", base="secretly", steps=1, **RANDOM)
    # One that runs another, which has declared it, reads it too.
    register("inside", lambda model, context: context.run("openly", apply, model))
    register("openly", apply, reads_optimizer=True)
    with pytest.raises(InitializationError, match="inside reads the optimizer"):
        initialize(small("plain"), "inside")
    initialize(small("plain"), "metainit", base="openly", steps=1, **RANDOM)


def test_parameter_groups_by_multiplier(register):
    def apply(model, context):
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                context.record.learning_rate_multipliers[name] = 0.1
        keep(model, context)

    register("scalars", apply)
    model = small("plain")
    model.stem.weight.requires_grad_(False)
    groups = initialize(model, "scalars").parameter_groups(lr=0.5)
    assert {g["lr"]: {id(p) for p in g["params"]} for g in groups} == {
        0.5: {id(p) for p in model.parameters() if p.dim() > 1 and p is not model.stem.weight},
        0.05: {id(p) for p in model.parameters() if p.dim() == 1},
    }
    torch.optim.SGD(groups, lr=0.5)


def test_the_record_is_json_and_says_why_a_number_is_missing():
    record = InitializationRecord("x", {"gain": 1.0}, history=[{"step": 0, "gradient_quotient": math.inf}])
    record._parameters["w"] = nn.Parameter(torch.ones(1))
    values = json.loads(json.dumps(record.to_json(), allow_nan=False))
    assert values["history"] == [{"step": 0, "gradient_quotient": None, "gradient_quotient_reason": "inf"}]
    assert set(values) == {
        *("initializer", "arguments", "seed", "tensors", "history", "conditions", "coverage", "cost", "seconds"),
        "learning_rate_multipliers",
    }


def test_multipliers_of_decay_and_epsilon_are_in_the_json_if_there_are_any():
    record = InitializationRecord("x", weight_decay_multipliers={"w": 2.0}, epsilon_multipliers={"w": 0.5})
    assert record.to_json()["weight_decay_multipliers"] == {"w": 2.0}
    assert record.to_json()["epsilon_multipliers"] == {"w": 0.5}


def test_targets_are_part_of_the_batches():
    inputs, targets = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    with pytest.raises(ArgumentError, match=r"^targets is an unknown key; give batches=\[\(inputs, targets\)\]$"):
        initialize(nn.Linear(3, 2), "metainit", inputs=inputs, targets=targets)
    with pytest.raises(ArgumentError, match=r"^lr must be a number"):
        initialize(nn.Linear(3, 2), "metainit", lr=inputs)


class Two(nn.Linear):
    """Two outputs."""

    def forward(self, inputs):
        return super().forward(inputs), super().forward(inputs)


def test_outputs_that_are_no_tensor_need_a_loss_fn():
    with pytest.raises(InitializationError, match=r"of type tuple \(give a loss_fn that takes them\), and targets"):
        initialize(Two(3, 2), "metainit", input_shape=(4, 3), num_classes=2)


def test_an_initializer_that_changes_a_frozen_parameter_is_refused(register):
    def apply(model, _):
        for parameter in model.parameters():
            parameter.data.fill_(1.0)

    register("careless", apply)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight.requires_grad_(False)
    before = values(model)
    with pytest.raises(InitializationError, match=r"^careless: 1\.weight is frozen and was changed$"):
        initialize(model, "careless")
    assert all(torch.equal(before[name], value) for name, value in values(model).items())
    assert not model[1].weight.requires_grad


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.complex64, torch.bool, torch.int8, torch.float32])
def test_frozen_parameters_may_have_any_type_and_value(dtype):
    model = nn.Sequential(nn.Linear(2, 2))
    model.kept = nn.Parameter(torch.tensor(math.nan).to(dtype), requires_grad=False)
    model.empty = nn.Parameter(torch.empty(0, 3, dtype=dtype), requires_grad=False)
    initialize(model, "kaiming")


def test_what_is_no_model_is_refused():
    with pytest.raises(ArgumentError, match=r"^model must be a torch\.nn\.Module, is <class "):
        initialize(nn.Linear, "kaiming")


def test_metainit_refuses_to_learn_from_a_loss_that_is_always_0():
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    batches = [(torch.randn(8, 6), torch.randn(8, 1))] * 3
    with pytest.raises(InitializationError, match="the model has one output"):
        initialize(model, "metainit", steps=3, batches=batches)
    record = initialize(model, "metainit", steps=3, batches=batches, loss_fn=nn.functional.mse_loss)
    assert record.history[0]["gradient_quotient"] != 1
