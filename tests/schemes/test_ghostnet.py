"""Fixup and SkipInit on GhostNet, five of whose sixteen shortcuts are projections of two layers."""

from __future__ import annotations

import pytest
import timm
import torch
from torch.nn.functional import cross_entropy

from initbench import InitializationError, find_structure, initialize, rewrite

SHAPE = (4, 3, 64, 64)


def residual_blocks(model):
    """Return them by name; the last of the others is a convolution."""
    named = {f"blocks.{s}.{i}": block for s, stage in enumerate(model.blocks) for i, block in enumerate(stage)}
    return {name: block for name, block in named.items() if hasattr(block, "shortcut")}


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "gate"), [("fixup", 1.0), ("skipinit", 0.0)])
def test_every_block_is_its_shortcut_at_first_and_learns(scheme, gate):
    """The layers of a ghost's ends stand in a row: the second has a gradient once the first one has moved."""
    torch.manual_seed(0)
    model = rewrite(timm.create_model("ghostnet_050", num_classes=10), scheme, inputs=torch.zeros(1, *SHAPE[1:]))
    record = initialize(model, scheme, input_shape=SHAPE, num_classes=10)
    assert record.conditions["residual_branches"] == 16
    gates = [g for branch in find_structure(model, torch.zeros(1, *SHAPE[1:])).branches for g in branch.gates]
    assert gates == [f"{name}.ghost2.multiplier.scale" for name in residual_blocks(model)]
    assert len(gates) == 16
    assert all(model.get_parameter(name).item() == gate for name in gates)

    shortcuts = []

    def compare(block, inputs, output):
        shortcuts.append(torch.equal(output, block.shortcut(inputs[0])))

    inputs = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1))
    hooks = [block.register_forward_hook(compare) for block in residual_blocks(model).values()]
    with torch.no_grad():
        model(inputs)
    assert shortcuts == [True] * 16
    for hook in hooks:
        hook.remove()

    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.SGD(record.parameter_groups(0.05), lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        cross_entropy(model(inputs), torch.arange(4)).backward()
        optimizer.step()
    still = [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])]
    assert still == []


@pytest.mark.parametrize("name", ["fixup", "skipinit"])
def test_without_the_scheme_it_is_refused(name):
    model = timm.create_model("ghostnet_050", num_classes=10)
    with pytest.raises(
        InitializationError, match=rf"^{name}: the residual branch of blocks\.0\.0 ends in no scalar .*$"
    ):
        initialize(model, name, input_shape=SHAPE, num_classes=10)
