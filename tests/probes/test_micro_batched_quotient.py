"""GQ of a batch in micro-batches is that of the whole batch, and so is its derivative."""

from __future__ import annotations

import itertools

import pytest
import torch
from cases import batch, conv_net, randomize, small
from small_gpt import gpt, next_token_loss, tokens
from torch import nn
from torch.nn.functional import cross_entropy

from initbench.errors import ArgumentError
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext
from initbench.probes.gradient_quotient import gradient_quotient, gradient_quotient_probe
from initbench.tasks import find_task

EXACT = 1e-10


def padded(samples):
    """Blocks of tokens with paddings of different length; one has nothing else."""
    inputs, targets = tokens(samples)
    targets[0, 2:], targets[3], targets[-1, :4] = -100, -100, -100
    return inputs, targets


def image_net(**arguments):
    model = small("wrn", activation="beta_swish", **arguments).double()
    initialize(model, arguments.get("scheme", "kaiming"), input_shape=(2, 3, 8, 8), num_classes=10)
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3, generator=generator)
    with torch.no_grad():  # zeros, such as Fixup's, would hide what depends on them
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
    return model.eval()


CASES = {
    "images": lambda: (image_net(), batch((7, 3, 8, 8)), cross_entropy),
    "batch norm": lambda: (image_net(norm="batch"), batch((7, 3, 8, 8)), cross_entropy),
    "weight norm": lambda: (image_net(scheme="weight_norm"), batch((7, 3, 8, 8)), cross_entropy),
    "fixup": lambda: (image_net(scheme="fixup"), batch((7, 3, 8, 8)), cross_entropy),
    "tied tokens": lambda: (randomize(gpt(), 0.3), tokens(7), next_token_loss),
    "padded tokens": lambda: (randomize(gpt(tied=False), 0.3), padded(7), next_token_loss),
}


def value_and_slopes(model, data, loss_fn, **options):
    parameters = [p for p in model.parameters() if p.requires_grad]
    value = gradient_quotient(model, *data, loss_fn, **options)
    slopes = torch.autograd.grad(value, parameters, allow_unused=True)
    filled = [torch.zeros_like(p) if s is None else s for s, p in zip(slopes, parameters, strict=True)]
    return value.item(), torch.cat([s.flatten() for s in filled])


def check(case, size, **options):
    whole, slopes = value_and_slopes(*case, **options)
    value, found = value_and_slopes(*case, micro_batch_size=size, **options)
    assert value == pytest.approx(whole, rel=EXACT)
    assert slopes.norm() > 0
    assert (found - slopes).norm() < EXACT * slopes.norm()


FINITE_DIFFERENCES = [
    pytest.param(name, "finite_difference", marks=pytest.mark.slow if "norm" in name or name == "fixup" else ())
    for name in CASES
]


@pytest.mark.parametrize(("name", "method"), [*((name, "exact") for name in CASES), *FINITE_DIFFERENCES])
def test_value_and_derivative_are_those_of_the_whole_batch(name, method):
    check(CASES[name](), 3, method=method)  # 7 samples: the last micro-batch has one


@pytest.mark.parametrize("method", ["exact", "finite_difference"])
@pytest.mark.parametrize(("norm", "size"), [("l1", 1), ("l2", 1), ("l2", 2)])
def test_norms_and_sizes(norm, size, method):
    check(
        (randomize(conv_net()), batch((4, 2, 5, 5), 3), lambda output, _: (output**3).mean()),
        size,
        norm=norm,
        method=method,
    )


@pytest.mark.parametrize("method", ["exact", "finite_difference"])
def test_over_a_subset_it_has_a_derivative_for_the_other_parameters_too(method):
    model = randomize(conv_net())
    loss_fn = lambda output, _: (output**2).mean()  # noqa: E731
    options = {"parameters": [model[0].weight, model[2].bias], "eps": 0.1, "method": method}
    check((model, batch((4, 2, 5, 5), 3), loss_fn), 3, **options)


def test_a_batch_that_is_not_larger_is_taken_whole_bitwise():
    model, data, loss_fn = CASES["images"]()
    whole, slopes = value_and_slopes(model, data, loss_fn)
    value, found = value_and_slopes(model, data, loss_fn, micro_batch_size=7)
    assert value == whole
    assert torch.equal(found, slopes)


def test_under_no_grad_it_is_the_same_number_without_a_graph():
    model, data, loss_fn = CASES["tied tokens"]()
    with torch.no_grad():
        value = gradient_quotient(model, *data, loss_fn, micro_batch_size=3)
        whole = gradient_quotient(model, *data, loss_fn)
    assert not value.requires_grad
    assert value.item() == pytest.approx(whole.item(), rel=EXACT)


def test_a_loss_that_is_linear_in_the_parameters_has_no_derivative():
    model = nn.Linear(4, 1).double()
    unused = nn.Parameter(torch.ones(2, dtype=torch.float64))
    model.register_parameter("unused", unused)
    inputs, targets = batch((5, 4))
    values = [
        gradient_quotient(model, inputs, targets, lambda output, _: output.mean(), micro_batch_size=size)
        for size in (None, 2)
    ]
    assert values[1].item() == pytest.approx(values[0].item(), rel=EXACT)
    assert torch.autograd.grad(values[1], [model.weight, unused], allow_unused=True) == (None, None)


def test_a_derivative_after_the_parameters_were_changed_is_refused():
    model, data, loss_fn = CASES["images"]()
    value = gradient_quotient(model, *data, loss_fn, micro_batch_size=3)
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_it_goes_through_a_function_of_the_parameters_as_that_of_the_whole_batch_does():
    """As where the weights are a norm times a direction."""
    model, (inputs, targets) = randomize(conv_net()), batch((4, 2, 5, 5), 3)
    weight, found = model[0].weight.detach().clone(), []
    del model[0].weight
    for size in (None, 3):
        scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
        model[0].weight = scale * weight
        over = [model[0].weight, *model.parameters()]
        loss_fn = lambda output, _: (output**3).mean()  # noqa: E731
        value = gradient_quotient(model, inputs, targets, loss_fn, parameters=over, micro_batch_size=size)
        found.append(torch.autograd.grad(value, scale)[0].item())
    assert found[1] == pytest.approx(found[0], rel=EXACT)


class Keeper(nn.Linear):
    """Keeps in eval mode what it has computed from its weight, until `train` is called, as timm's LeViT does."""

    kept = None

    def train(self, mode=True):
        self.kept = None
        return super().train(mode)

    def forward(self, x):
        if self.training or self.kept is None:
            self.kept = self.weight.tanh()
        return nn.functional.linear(x, self.kept, self.bias)


def test_what_a_module_keeps_of_its_parameters_is_not_that_of_another_pass():
    model = randomize(nn.Sequential(Keeper(4, 5), nn.Tanh(), nn.Linear(5, 3))).eval()
    whole, slopes = value_and_slopes(model, batch((5, 4), 3), cross_entropy)
    model.train().eval()
    value, found = value_and_slopes(model, batch((5, 4), 3), cross_entropy, micro_batch_size=2)
    assert value == pytest.approx(whole, rel=EXACT)
    assert (found - slopes).norm() < EXACT * slopes.norm()


class Live:
    """The bytes that graphs hold, now and at most."""

    def __init__(self):
        self.now = self.most = 0

    def pack(self, tensor):
        held = Held(self, tensor)
        self.now += held.bytes
        self.most = max(self.most, self.now)
        return held


class Held:
    def __init__(self, live, tensor):
        self.live, self.tensor, self.bytes = live, tensor, tensor.numel() * tensor.element_size()

    def __del__(self):
        self.live.now -= self.bytes


@pytest.mark.parametrize("method", ["exact", pytest.param("finite_difference", marks=pytest.mark.slow)])
def test_only_the_graph_of_one_micro_batch_is_in_memory(method):
    """Of 8 micro-batches: an eighth of the whole batch's graph, and what has the size of the parameters."""
    model, most = image_net(), []
    inputs, targets = batch((24, 3, 8, 8))
    for size in (None, 3):
        live = Live()
        with torch.autograd.graph.saved_tensors_hooks(live.pack, lambda held: held.tensor):
            value = gradient_quotient(model, inputs, targets, method=method, micro_batch_size=size)
            value.backward()
        del value
        most.append(live.most)
    size_of_parameters = sum(p.numel() for p in model.parameters()) * 8
    assert most[1] < most[0] / 8 + 10 * size_of_parameters  # a layer's weights are counted as often as they are saved
    assert most[1] < most[0] / 4


@pytest.mark.parametrize("data", ["random", "real"])
def test_the_probe_is_the_same_and_says_how_it_was_taken(data):
    model = image_net(norm="batch")
    draw = lambda size, _: (batch((size, 3, 8, 8), seed=i) for i in itertools.count())  # noqa: E731
    context = ProbeContext(seed=0, inputs=Inputs((3, 8, 8)), outputs=10, real_batches=draw)
    arguments = {"data": data, "batch_size": 7, "batches": 3}
    whole = gradient_quotient_probe(**arguments)(model, context)
    parts = gradient_quotient_probe(**arguments, micro_batch_size=3)(model, context)
    assert parts.conditions.pop("micro_batch_size") == 3
    assert parts.conditions.keys() == whole.conditions.keys()
    assert parts.value == pytest.approx(whole.value, rel=EXACT)
    for name in ("per_batch", "fraction_below_epsilon", "epsilon_floor"):
        assert parts.conditions[name] == pytest.approx(whole.conditions[name], rel=EXACT)
    with pytest.raises(ArgumentError, match=r"^micro_batch_size cannot be met: BatchNorm \(.*\) takes the statistics"):
        gradient_quotient_probe(**arguments, mode="train", micro_batch_size=3)(model, context)


def test_the_probe_on_tokens():
    model = randomize(gpt(depth=1), 0.3)
    context = ProbeContext(seed=0, inputs=Inputs((6,), 11), outputs=11, task=find_task("language_modelling"))
    whole, parts = (
        gradient_quotient_probe(batch_size=5, batches=2, micro_batch_size=size)(model, context).value
        for size in (None, 2)
    )
    assert parts == pytest.approx(whole, rel=EXACT)


def test_what_it_refuses():
    model, (inputs, targets), loss_fn = CASES["images"]()
    with pytest.raises(ArgumentError, match=r"^micro_batch_size gives no derivative for inputs, which require one"):
        gradient_quotient(model, inputs.clone().requires_grad_(), targets, loss_fn, micro_batch_size=3)
    with pytest.raises(ArgumentError, match=r"^micro_batch_size must be at least 1, got 0"):
        gradient_quotient(model, inputs, targets, loss_fn, micro_batch_size=0)
    with pytest.raises(ArgumentError, match=r"^micro_batch_size must be at least 1, got -1"):
        gradient_quotient_probe(micro_batch_size=-1)
    foreign = [torch.ones(2, dtype=torch.float64, requires_grad=True)]
    with pytest.raises(ArgumentError, match=r"^parameters must belong to the model"):
        gradient_quotient(
            model, inputs, targets, loss_fn, parameters=foreign, method="finite_difference", micro_batch_size=3
        )
