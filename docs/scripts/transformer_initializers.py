"""Try the initializers for Transformers on a small network of each of our architectures, and write what came of it.

    python docs/scripts/transformer_initializers.py --write

puts a table into docs/transformer_initializers.md; without --write it is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import nn

import initbench
from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.registry import INITIALIZERS, STANDARD

PAGE = Path(__file__).parents[1] / "transformer_initializers.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
METHODS = (
    "gpt2",
    "small_init",
    "mitchell",
    "llama",
    "fairseq",
    "fairseq_0_9",
    "tfixup",
    "admin",
    "deepnorm",
    "mup",
    "completep",
)
_NORMS = ("pre", "post", "none")
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"`transformer`, norm {norm}": (
            "transformer",
            {"depth": 2, "width": 8, "heads": 2, "norm": norm, "tied": "none"},
        )
        for norm in _NORMS
    },
    **{
        f"`gpt`, norm {norm}": ("gpt", {"depth": 2, "width": 8, "heads": 2, "norm": norm, "tied": False})
        for norm in _NORMS
    },
    "`mlp`": ("mlp", {"depth": 2, "width": 8}),
    "`residual_mlp`": ("residual_mlp", {"depth": 2, "width": 8}),
    "`plain`": ("plain", {"depth": 10, "width": 1}),
    "`vgg`": ("vgg", {"depth": 11, "width": 0.125}),
    "`resnet`": ("resnet", {"depth": 8}),
    "`wrn`": ("wrn", {"depth": 10, "width": 1}),
    "`imagenet_resnet`": ("imagenet_resnet", {"depth": 18, "width": 4}),
    "`densenet`": ("densenet", {"depth": 10}),
}
_INPUTS = {
    "transformer": ("translation", Inputs((2, 6), 12)),
    "gpt": ("language_modelling", Inputs((6,), 12)),
}
_IMAGES = ("classification", Inputs((3, 32, 32)))
_OUTPUTS = 12


def refusal(method: str, network: str) -> str | None:
    """Return why a method refuses a network, without the names of both; None if it works."""
    name, arguments = NETWORKS[network]
    task, inputs = _INPUTS.get(name, _IMAGES)
    scheme = INITIALIZERS.get(method).traits.scheme or STANDARD
    model = None
    try:
        model = initbench.create_model(name, inputs=inputs, num_classes=_OUTPUTS, scheme=scheme, **arguments)
        initbench.initialize(
            model,
            method,
            task=task,
            inputs=inputs,
            num_classes=_OUTPUTS,
            training_optimizer=("adam", 1e-3),
            **_arguments(method, model, has_attention=name in _INPUTS),
        )
    except InitbenchError as error:
        reason = str(error).removeprefix(method).removeprefix(":").strip()
        return reason if model is None else reason.replace(type(model).__name__, "the network")
    return None


def _arguments(method: str, model: nn.Module, *, has_attention: bool) -> dict[str, Any]:
    """Return the arguments without which a method cannot do anything: relative to what, and on which batch."""
    if method == "admin":
        return {"data": "random", "batch_size": 4}
    if method not in {"mup", "completep"}:
        return {}
    width = [module for module in model.modules() if isinstance(module, nn.Linear)][-1].in_features
    base = {"base_width": width // 2 if width % 2 == 0 else width // 3}
    return (
        base
        | ({"attention_heads": "more"} if has_attention else {})
        | ({"base_depth": 1} if method == "completep" else {})
    )


def table() -> str:
    """Return the table and the reasons under it, each with the message on the first network that has it."""
    reasons: list[str] = []
    rows = [["network", *(f"`{method}`" for method in METHODS)], ["---"] + [":-:"] * len(METHODS)]
    for network in NETWORKS:
        row = [network]
        for method in METHODS:
            reason = refusal(method, network)
            if reason is not None and reason not in reasons:
                reasons.append(reason)
            row.append("✓" if reason is None else str(reasons.index(reason) + 1))
        rows.append(row)
    numbered = [f"{number}. {reason}" for number, reason in enumerate(reasons, start=1)]
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", *numbered])


def page() -> str:
    """Return the page with the table made anew."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Parse the command line; write the page, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(table())


if __name__ == "__main__":
    main()
