"""What the MetaInit paper says of quotients before training: Table 1 and section 2, task agnosticity."""

from __future__ import annotations

import torch
from law import Finding, judged, law
from measured_nets import conv_net, digits_batch, gradient, random_batch
from scipy.stats import spearmanr
from torch import nn

from initbench import gradient_quotient, initialize
from initbench.probes.gradient_quotient import fraction_below_epsilon


@law("metainit-t1-plain28-deltaorth-gq-one", slow=True)
def untuned_quotient_is_one() -> Finding:
    """Ten seeds of width 1 and three of width 10, each on one batch of 16 random inputs of 3x32x32."""
    quotients: dict[int, list[float]] = {1: [], 10: []}
    fractions = []
    for width, seeds in ((1, 10), (10, 3)):
        for seed in range(seeds):
            model = conv_net("plain", 28, width, side=32, channels=3)
            initialize(model, "delta_orthogonal", seed=seed)
            batch = random_batch((16, 3, 32, 32), seed)
            with torch.no_grad():
                quotients[width].append(gradient_quotient(model, *batch).item())
            fractions.append(fraction_below_epsilon(gradient(model, batch)).item())
    every = quotients[1] + quotients[10]
    outside = sum(abs(value - 1) > 0.005 for value in every)
    measured = "; ".join(f"plain-28-{w}: {min(v):.4f} to {max(v):.4f} at {len(v)} seeds" for w, v in quotients.items())
    note = f"Saturated: {min(fractions):.1%} to {max(fractions):.1%} of the gradient's entries are below eps."
    interval = min(every), max(every)
    return Finding(judged(held=not outside, not_held=outside >= 5), measured, len(every), interval, note)


def median_quotient(model: nn.Module, batches: list) -> float:
    """Return the median GQ over batches."""
    with torch.no_grad():
        return torch.stack([gradient_quotient(model, *batch) for batch in batches]).median().item()


@law("metainit-gq-informative-on-random-data", by_command=True)
def informative_on_random_data() -> Finding:
    """Batches of 32; MetaInit from DeltaOrthogonal of gain 1, by 500 steps on random batches of 32."""
    starts = [
        *[("kaiming", {}), ("xavier", {}), ("orthogonal", {}), ("gaussian", {"std": 0.05}), ("gaussian", {"std": 0.2})],
        *[("delta_orthogonal", {"gain": 1.0}), ("delta_orthogonal", {"gain": 2.0})],
        ("metainit", {"input_shape": (32, 1, 8, 8), "num_classes": 10}),
    ]
    correlations: dict[str, list[float]] = {"plain": [], "wrn": []}
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
    medians = {name: sorted(found)[2] for name, found in correlations.items()}
    measured = "rank correlation over eight starts, median of 5 seeds: " + ", ".join(
        f"{name}-16-1 {medians[name]:.2f} ({min(found):.2f} to {max(found):.2f})"
        for name, found in correlations.items()
    )
    status = judged(held=min(medians.values()) >= 0.8, not_held=min(medians.values()) < 0.5)
    return Finding(status, measured, 5)
