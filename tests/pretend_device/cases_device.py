"""The device itself: what it refuses, what it allows, and what it counts."""

import pytest
import torch
from pretend import DEVICE, NAME, MixedDevicesError, module, waits
from torch import nn
from trials import on_pretend


@pytest.fixture(autouse=True)
def _on_the_device():
    with on_pretend():
        yield


@pytest.fixture
def there():
    return torch.tensor([1.0, 2.0, 3.0, 4.0], device=NAME)


REFUSED = {
    "a sum": lambda there: there + torch.ones(4),
    "a sum in place": lambda there: torch.ones(4).add_(there),
    "a number in place": lambda there: torch.tensor(1.0).add_(there.sum()),
    "stack": lambda there: torch.stack([there.sum(), torch.tensor(1.0)]),
    "where": lambda there: torch.where(there > 2, there, torch.zeros(4)),
    "a matrix product": lambda there: torch.ones(4) @ there,
    "indices on the device": lambda there: torch.ones(5)[there.long()],
    "a CPU generator": lambda there: there.normal_(generator=torch.Generator()),
    "a factory": lambda there: torch.rand(3, generator=torch.Generator(), device=NAME),
    "a foreach": lambda there: torch._foreach_add([there], [torch.ones(4)]),
}
ALLOWED = {
    "a number": (lambda there: there + torch.tensor(2.0), {}),
    "a filling number": (lambda there: there.masked_fill(there > 2, torch.tensor(2.0)), {}),
    "CPU indices": (lambda there: there[torch.tensor([0, 1])], {"to_device": 1}),
    "a mask": (lambda there: there[there > 2], {"read": 1}),
    "item": (lambda there: there.sum().item(), {"read": 1}),
    "bool": (lambda there: bool((there > 0).all()), {"read": 1}),
    "nonzero": (lambda there: there.nonzero(), {"read": 1}),
    "equal": (lambda there: torch.equal(there, there), {"read": 1}),
    "tolist": (lambda there: there.tolist(), {"to_host": 1}),
    "cpu": (lambda there: there.cpu(), {"to_host": 1}),
    "to": (lambda there: torch.ones(4).to(NAME), {"to_device": 1}),
    "copy_": (lambda there: there.copy_(torch.ones(4)), {"to_device": 1}),
    "copy_ to the host": (lambda there: torch.ones(4).copy_(there), {"to_host": 1}),
    "new_tensor": (lambda there: there.new_tensor([1.0]), {"to_device": 1}),
    "pinned": (lambda there: torch.ones(4).pin_memory().to(NAME, non_blocking=True), {}),
    "pageable": (lambda there: torch.ones(4).to(NAME, non_blocking=True), {"to_device": 1}),
    "a factory": (lambda there: torch.zeros(4, device=NAME), {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses(name, there):
    with pytest.raises(MixedDevicesError):
        REFUSED[name](there)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_cuda_allows_and_waits_for(name, there):
    operation, expected = ALLOWED[name]
    waits.clear()
    operation(there)
    assert +waits == expected


def test_it_computes_as_the_cpu():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    images, gradients = torch.randn(2, 3, 8, 8), []
    for device in ("cpu", NAME):
        outputs = model.to(device)(images.to(device))
        first = torch.autograd.grad(outputs.square().mean(), list(model.parameters()), create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), list(model.parameters()))
        gradients.append([g.cpu() for g in second])
    assert all(map(torch.equal, *gradients))


def test_tied_parameters_stay_tied():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model.to(NAME)
    assert model[0].weight.device == DEVICE
    assert model[1].weight is model[0].weight


def test_its_random_numbers_are_its_own():
    host, before = torch.get_rng_state(), module.get_rng_state()
    nn.functional.dropout(torch.ones(8, device=NAME))
    assert torch.equal(torch.get_rng_state(), host)
    assert not torch.equal(module.get_rng_state(), before)


def test_autocast_lowers_products_alone():
    with torch.autocast(NAME, torch.bfloat16):
        product = torch.ones(2, 2, device=NAME) @ torch.ones(2, 2, device=NAME)
        assert product.dtype == torch.bfloat16
        assert (torch.ones(2, device=NAME) * 2).dtype == torch.float32
