"""Activation checkpointing: the same numbers for less memory, and the model as it was."""

from __future__ import annotations

import pytest
import torch
from cases import random_dataset
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import InitbenchError
from initbench.training.checkpointing import checkpointed_blocks, find_blocks
from initbench.training.loop import train
from initbench.training.recipe import Recipe

SHAPE, CLASSES = (3, 32, 32), 4
RECIPE = Recipe(epochs=2, batch_size=8, lr=0.05, crop=2, flip=True, cutout=4, mixup=1.0, label_smoothing=0.1)
MODELS = [
    ("wrn", {"depth": 16, "width": 1, "dropout": 0.3}),
    ("plain", {"depth": 16, "width": 1, "norm": "none", "dropout": 0.3}),
    ("timm/resnet10t", {"drop_path_rate": 0.3}),
    ("timm/convnext_atto", {"drop_path_rate": 0.3}),
]


pytestmark = pytest.mark.usefixtures("one_thread")


def model(name="wrn", **arguments):
    return create_model(name, input_shape=SHAPE, num_classes=CLASSES, seed=0, **arguments)


def dataset():
    return random_dataset(SHAPE, CLASSES, (16, 4, 8))


def trained(network, **changes):
    result = train(network, dataset(), RECIPE.model_copy(update=changes), 7)
    assert not result.diverged
    return result, network.state_dict()


def assert_same(ours, theirs):
    assert ours[0] == theirs[0]
    assert ours[1].keys() == theirs[1].keys()
    assert all(torch.equal(ours[1][key], theirs[1][key]) for key in ours[1])


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("name", "arguments"), MODELS)
def test_training_is_bitwise_the_same(name, arguments, precision):
    """With dropout, stochastic depth, running statistics and autocast."""
    results = [
        trained(model(name, **arguments), activation_checkpointing=on, precision=precision) for on in (False, True)
    ]
    assert_same(*results)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics_are_updated_once_per_step(momentum):
    """Also as cumulative averages, whose weight is one over the count of batches."""
    results = []
    for on in (False, True):
        network = model(depth=10, width=1)
        norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = momentum
        results.append(trained(network, activation_checkpointing=on))
        assert [norm.num_batches_tracked.item() for norm in norms] == [4] * len(norms)
        assert {norm.momentum for norm in norms} == {momentum}
    assert_same(*results)


def test_what_a_pass_changes_is_changed_once():
    """Spectral normalization iterates for its vectors, in buffers, in every forward pass of training."""
    results = []
    for on in (False, True):
        torch.manual_seed(0)
        layer = torch.nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 3, 3, padding=1))
        network = nn.Sequential(nn.Sequential(layer, nn.ReLU()), nn.Sequential(nn.Flatten(), nn.Linear(3072, CLASSES)))
        assert layer in find_blocks(network)[0].modules()
        results.append(trained(network, activation_checkpointing=on))
    assert_same(*results)


def saved_bytes(network, inputs):
    """Bytes of the activations that the graph of one forward pass holds, each storage once."""
    own = {p.untyped_storage().data_ptr() for p in [*network.parameters(), *network.buffers()]}
    held = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = network(inputs).sum()
    size = sum(storage.nbytes() for storage in held.values())
    loss.backward()
    return size


def test_of_a_block_its_input_alone_is_stored():
    network = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh()) for _ in range(5)))
    inputs, activation = torch.ones(8, 6), 8 * 6 * 4
    assert saved_bytes(network, inputs) == 11 * activation  # the input, and the output of each of 10 Tanh
    with checkpointed_blocks(network):
        assert saved_bytes(network, inputs) == 5 * activation
    assert saved_bytes(network, inputs) == 11 * activation


@pytest.mark.parametrize(("name", "arguments"), [case for case in MODELS if case[0] != "timm/resnet10t"])
def test_fewer_activations_are_stored(name, arguments):
    """Of these models; half of what the ResNet of one block per stage stores is its stem's."""
    network = model(name, **arguments).train()
    inputs = torch.randn(8, *SHAPE, generator=torch.Generator().manual_seed(0))
    plain = saved_bytes(network, inputs)
    with checkpointed_blocks(network):
        assert saved_bytes(network, inputs) < 0.5 * plain


@pytest.mark.parametrize(
    ("name", "count"),
    [("wrn", 6), ("plain", 6), ("timm/resnet18", 8), ("timm/vit_tiny_patch16_224", 12), ("timm/convnext_atto", 12)],
)
def test_the_blocks_of_known_models(name, count):
    arguments = {"depth": 16, "width": 1} if name in ("wrn", "plain") else {}
    blocks = find_blocks(model(name, **arguments))
    assert len(blocks) == count
    assert len({type(block) for block in blocks}) == 1


def test_a_weight_normalized_layer_is_a_layer():
    def layer():
        return nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

    block = nn.Sequential(layer(), nn.ReLU(), layer())
    assert find_blocks(nn.Sequential(layer(), nn.ReLU(), layer())) == []
    assert find_blocks(nn.Sequential(block, block, nn.Linear(4, 2))) == [block]


def test_a_model_without_blocks_is_refused():
    vgg = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(CLASSES))
    vgg(torch.zeros(2, *SHAPE))
    for network in (model("mlp"), vgg):
        with pytest.raises(InitbenchError, match=r"^activation_checkpointing "):
            trained(network, activation_checkpointing=True)


def test_the_model_is_left_as_it_was():
    network = model(depth=10, width=1)
    names, modules = list(network.state_dict()), list(network.modules())
    block = find_blocks(network)[1]
    own = block.forward
    vars(block)["forward"] = own  # somebody else's, on the instance

    def fail_within():
        with checkpointed_blocks(network):
            assert list(network.state_dict()) == names
            assert list(network.modules()) == modules
            assert all("forward" in vars(b) for b in find_blocks(network))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_within()
    assert vars(block)["forward"] is own
    assert not any("forward" in vars(m) for m in network.modules() if m is not block)


def test_evaluation_computes_nothing_twice():
    network, calls = model(depth=10, width=1), []
    find_blocks(network)[0].conv1.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    trained(network, activation_checkpointing=True, epochs=1)
    assert calls.count(True) == 2 * 2  # two steps, each with the recomputation
    assert calls.count(False) == 2  # test and validation
