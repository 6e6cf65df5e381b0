"""How large is the signal behind the last convolution, and how much of its loss is due to the borders of the images?

    python docs/scripts/signal_over_depth.py

prints, for networks on scikit-learn's digits and without training, the root mean square of what the classifier gets,
over that of the images: as the networks are, with zeros around each image, and with circular padding, where every tap
of a kernel falls on a pixel. Medians over seeds 0 to 2.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import initbench
from initbench.data.load import load_dataset
from initbench.registry import INITIALIZERS

if TYPE_CHECKING:
    from collections.abc import Mapping

NETWORKS: dict[str, dict[str, Any]] = {
    "plain-16": {"name": "plain", "depth": 16},
    "plain-28": {"name": "plain", "depth": 28},
    "WRN-28": {"name": "wrn", "depth": 28},
}
METHODS: dict[str, dict[str, Any]] = {
    "pytorch_default": {},
    "xavier": {},
    "kaiming": {},
    "delta_orthogonal": {"gain": 1.4142},
    "lsuv": {},
    "weight_norm": {},
    "fixup": {},
    "skipinit": {},
}
SEEDS = range(3)


@torch.no_grad()
def ratio(network: Mapping[str, Any], method: str, images: Tensor, *, circular: bool, seed: int) -> float:
    """Return the root mean square of the classifier's inputs over that of the images."""
    scheme = INITIALIZERS.get(method).traits.scheme or "standard"
    model = initbench.create_model(**network, width=1, norm="none", scheme=scheme, input_shape=(1, 8, 8), seed=seed)
    for module in model.modules():
        if circular and isinstance(module, nn.Conv2d):
            module.padding_mode = "circular"
    targets = torch.zeros(len(images), dtype=torch.long)
    initbench.initialize(model, method, seed=seed, batches=[(images, targets)], **METHODS[method])
    seen: list[Tensor] = []
    model.get_submodule("classifier").register_forward_hook(lambda _module, inputs, _outputs: seen.append(inputs[0]))
    model(images)
    return (seen[0].square().mean().sqrt() / images.square().mean().sqrt()).item()


def main() -> None:
    """Print the table."""
    images = load_dataset("digits", {}).train.inputs[:256]
    print("| network | initializer | zeros | circular |\n|---|---|--:|--:|")
    for network, arguments in NETWORKS.items():
        for method in METHODS:
            if network != "WRN-28" and method in {"fixup", "skipinit"}:
                continue
            values = [
                median(ratio(arguments, method, images, circular=circular, seed=seed) for seed in SEEDS)
                for circular in (False, True)
            ]
            print(f"| {network} | {method} | {values[0]:.2g} | {values[1]:.2g} |")


if __name__ == "__main__":
    main()
