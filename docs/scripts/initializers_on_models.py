"""Run every initializer on models that others wrote, at the smallest images they take, and print a table.

    python docs/scripts/initializers_on_models.py --write

writes it into docs/initializers_on_models.md. A cell says how many of the model's parameter tensors were set, or refers
to the reason why there are none. The exit code is 1 where an initializer ends in anything but success or a reason.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import initbench
from initbench.errors import InitbenchError
from initbench.initializers.events import changes
from initbench.registry import INITIALIZERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

PAGE = Path(__file__).parents[1] / "initializers_on_models.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
BATCH, CLASSES = 4, 10
SIZES = [2**exponent for exponent in range(9)]


def _timm(name: str) -> Callable[[int], nn.Module]:
    return lambda size: initbench.create_model(f"timm/{name}", input_shape=(3, size, size), num_classes=CLASSES)


def _densenet121(_: int) -> nn.Module:
    from torchvision.models import densenet121

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return densenet121(num_classes=CLASSES)


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "resnet18": _timm("resnet18"),
    "resnet50": _timm("resnet50"),
    "vit_tiny_patch16_224": _timm("vit_tiny_patch16_224"),
    "convnext_atto": _timm("convnext_atto"),
    "mobilenetv3_small_050": _timm("mobilenetv3_small_050"),
    "vgg11": _timm("vgg11"),
    "densenet121 (torchvision)": _densenet121,
}


@dataclass
class Table:
    """The cells, by initializer and model, and the reasons that they refer to.

    Attributes:
        sizes: side of the smallest images that each model takes.
        cells: rows by initializer.
        reasons: in the order of their numbers.
        mistakes: what should not have happened.
    """

    sizes: dict[str, int] = field(default_factory=dict)
    cells: dict[str, list[str]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    def reason(self, text: str) -> str:
        """Return the cell that refers to a reason."""
        if text not in self.reasons:
            self.reasons.append(text)
        return f"– ({self.reasons.index(text) + 1})"

    def to_markdown(self) -> str:
        """Return the table and the list of reasons."""
        heads = [f"{model}, {size}×{size}" for model, size in self.sizes.items()]
        lines = [f"| initializer | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
        lines += [f"| `{name}` | {' | '.join(cells)} |" for name, cells in self.cells.items()]
        reasons = [f"{number}. {reason}" for number, reason in enumerate(self.reasons, start=1)]
        return "\n".join([*lines, "", *reasons])


def smallest_size(make: Callable[[int], nn.Module]) -> int:
    """Return the least power of two that is a side of images which the model takes in training mode.

    Raises:
        ValueError: there is none up to 256.
    """
    for size in SIZES:
        try:
            output = make(size).train()(torch.zeros(BATCH, 3, size, size))
        except (InitbenchError, RuntimeError, ValueError, AssertionError, ZeroDivisionError):
            continue  # what a model raises for images that are too small is its own affair
        if output.shape == (BATCH, CLASSES) and torch.isfinite(output).all():
            return size
    raise ValueError("no size up to 256 is taken")


def outcome(name: str, model: nn.Module, size: int) -> tuple[bool, str]:
    """Return whether the initializer ran, and how many tensors it set or why it did not run.

    Raises:
        AssertionError: a parameter or an output is not finite afterwards.
    """
    component = INITIALIZERS.get(name)
    arguments = dict(component.traits.smoke)
    if any(argument.name == "data" for argument in component.arguments):
        arguments["data"] = "random"
    scheme = component.traits.scheme
    shape = (BATCH, 3, size, size)
    try:
        if scheme is not None:
            model = initbench.rewrite(model, scheme, inputs=torch.zeros(shape))
        record = initbench.initialize(model, name, input_shape=shape, num_classes=CLASSES, **arguments)
    except (InitbenchError, ValueError) as error:
        return False, str(error)
    generator = torch.Generator().manual_seed(0)
    output = model(torch.randn(shape, generator=generator))
    assert all(torch.isfinite(tensor).all() for tensor in (*model.parameters(), output)), "not finite"
    number = sum(any(map(changes, events)) for events in record.tensors.values())
    return True, f"{number} of {len(record.tensors)}"


def rows(table: Table, names: list[str]) -> Iterator[tuple[str, str]]:
    """Fill the table, and yield each initializer and model before it is tried."""
    for model, make in MODELS.items():
        table.sizes[model] = smallest_size(make)
    for name in names:
        table.cells[name] = []
        for model, make in MODELS.items():
            yield name, model
            size = table.sizes[model]
            try:
                ran, text = outcome(name, make(size), size)
            except Exception as error:  # noqa: BLE001  # it is what the table is to show
                table.mistakes.append(f"{name} on {model}: {type(error).__name__}: {error}")
                ran, text = True, "**fails**"
            table.cells[name].append(text if ran else table.reason(text))


def main() -> None:
    """Parse the command line, fill the table and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=INITIALIZERS.names(), help="initializers; all by default")
    parser.add_argument("--write", action="store_true", help="put the table into the documentation")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # what an initializer warns of on four samples is not what is asked here
    table = Table()
    for name, model in rows(table, list(options.names)):
        print(f"\r{name} on {model}".ljust(70), end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(table.to_markdown())
    for mistake in table.mistakes:
        print(mistake, file=sys.stderr)
    if options.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        page = f"{before}{BEGIN}\n\n{table.to_markdown()}\n\n{END}{rest.split(END)[1]}"
        PAGE.write_text(page, encoding="utf-8")
    sys.exit(bool(table.mistakes))


if __name__ == "__main__":
    main()
