"""What the MetaInit paper says of quotients before training: Table 1 and section 2, task agnosticity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from law import Confirmation, Finding, judged, law
from measured_nets import conv_net, digits_batch, gradient, random_batch
from scipy.stats import spearmanr
from torch import nn

from initbench import gradient_quotient, initialize
from initbench.probes.gradient_quotient import fraction_below_epsilon

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEEDS = {1: range(10), 10: range(3)}
"""Of each width of the plain network in Table 1."""


@law(
    "metainit-t1-plain28-deltaorth-gq-one",
    evidence="at initialization",
    slow=True,
    confirmation=Confirmation(
        "plain-28-2 on images of 3x16x16, seeds 100 to 109", {"seeds": {2: range(100, 110)}, "side": 16}
    ),
)
def untuned_quotient_is_one(seeds: Mapping[int, Sequence[int]] = SEEDS, side: int = 32) -> Finding:
    """`seeds` are those of each width; each sees one batch of 16 random inputs of 3 x side x side."""
    quotients: dict[int, list[float]] = {width: [] for width in seeds}
    fractions = []
    for width, every_seed in seeds.items():
        for seed in every_seed:
            model = conv_net("plain", 28, width, side=side, channels=3)
            initialize(model, "delta_orthogonal", seed=seed)
            batch = random_batch((16, 3, side, side), seed)
            with torch.no_grad():
                quotients[width].append(gradient_quotient(model, *batch).item())
            fractions.append(fraction_below_epsilon(gradient(model, batch)).item())
    every = [value for found in quotients.values() for value in found]
    outside = sum(abs(value - 1) > 0.005 for value in every)
    measured = "; ".join(f"plain-28-{w}: {min(v):.4f} to {max(v):.4f} at {len(v)} seeds" for w, v in quotients.items())
    note = f"Saturated: {min(fractions):.1%} to {max(fractions):.1%} of the gradient's entries are below eps."
    interval = min(every), max(every)
    values = {f"quotient_of_plain_28_{width}": found for width, found in quotients.items()}
    values["fraction_below_epsilon"] = fractions
    status = judged(held=not outside, not_held=outside >= 5)
    return Finding(status, measured, len(every), "seeds", values, interval, note)


def median_quotient(model: nn.Module, batches: list) -> float:
    """Return the median GQ over batches."""
    with torch.no_grad():
        return torch.stack([gradient_quotient(model, *batch) for batch in batches]).median().item()


@law("metainit-gq-informative-on-random-data", evidence="at initialization", by_command=True, digits=9)
def informative_on_random_data() -> Finding:
    """Batches of 32; MetaInit from DeltaOrthogonal of gain 1, by 500 steps on random batches of 32."""
    starts = [
        *[("kaiming", {}), ("xavier", {}), ("orthogonal", {}), ("gaussian", {"std": 0.05}), ("gaussian", {"std": 0.2})],
        *[("delta_orthogonal", {"gain": 1.0}), ("delta_orthogonal", {"gain": 2.0})],
        ("metainit", {"input_shape": (32, 1, 8, 8), "num_classes": 10}),
    ]
    correlations: dict[str, list[float]] = {"plain": [], "wrn": []}
    values: dict[str, list] = {
        "start": [" ".join([name, *map(str, options.values())]) for name, options in starts[:-1]]
    }
    values["start"].append("metainit")
    for name, found in correlations.items():
        for seed in range(5):
            random = [random_batch((32, 1, 8, 8), 100 * seed + i) for i in range(8)]
            real = [digits_batch(32, 100 * seed + i) for i in range(8)]
            pairs = []
            for start, arguments in starts:
                model = conv_net(name, 16)
                initialize(model, start, seed=seed, **arguments)
                pairs.append((median_quotient(model, random), median_quotient(model, real)))
            found.append(float(spearmanr(*zip(*pairs, strict=True)).statistic))
            for kind, quotients in zip(("random", "real"), zip(*pairs, strict=True), strict=True):
                values.setdefault(f"quotient_on_{kind}_data_of_{name}", []).append(list(quotients))
    medians = {name: sorted(found)[2] for name, found in correlations.items()}
    measured = "rank correlation over eight starts, median of 5 seeds: " + ", ".join(
        f"{name}-16-1 {medians[name]:.2f} ({min(found):.2f} to {max(found):.2f})"
        for name, found in correlations.items()
    )
    status = judged(held=min(medians.values()) >= 0.8, not_held=min(medians.values()) < 0.5)
    return Finding(status, measured, 5, "seeds", values)
