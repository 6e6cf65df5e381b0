"""What the packed ledgers say of GradInit's claims; see recomputed_ledgers.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from recomputed_statistics import decide, every
from recomputed_trials import (
    all_lower,
    best_trials,
    by_value,
    equal_within,
    paired_differences,
    trials_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from recomputed_trials import Trial, Trials

_TRANSLATION = "gradient_deviation[batch_size=32, batches=4].per_layer"


def _half_overlap(t: Trials) -> str:
    half, full = (trials_of(t, start="gradinit", overlap=overlap) for overlap in (0.5, 1.0))
    better = [all_lower(trials_of(half, tau=tau), trials_of(full, tau=tau)) for tau in (4e-3, 2e-2)]
    by_step = [float(np.mean([trial["validation"] for trial in of_tau])) for of_tau in by_value(full, "tau")]
    worse = all_lower(trials_of(full, tau=4e-3), trials_of(half, tau=4e-3), 0.8)
    return decide(all(better) and by_step[0] == min(by_step), worse)


def _full_overlap_gradient(t: Trials) -> str:
    norm = "gradient_norm[data=real, batch_size=128, mode=train]"
    networks = by_value(trials_of(t, start="gradinit", tau=4e-3), "depth")
    pairs = [[trials_of(network, overlap=overlap) for overlap in (0.5, 1.0)] for network in networks]
    ratios = [[b["probes"][norm] / a["probes"][norm] for a, b in zip(*pair, strict=True)] for pair in pairs]
    # The list has VGG-19 "for GradInit alone".
    trained = next(pair for pair in pairs if pair[0][0]["depth"] == 11)
    slower = every(difference < 0 for difference in paired_differences(*trained, "accuracy_1"))
    larger = all(every(ratio >= 5 for ratio in of_network) for of_network in ratios)
    return decide(larger and slower, any(every((r < 2 for r in of_network), 0.6) for of_network in ratios))


def _half_overlap_and_kaiming(t: Trials) -> str:
    half, kaiming = trials_of(t, start="gradinit", overlap=0.5, tau=4e-3), trials_of(t, start="kaiming")
    faster = every(difference > 0 for difference in paired_differences(kaiming, half, "accuracy_1"))
    return decide(all_lower(half, kaiming) and faster, all_lower(kaiming, half, 0.8))


def _postnorm(t: Trials, start: str, optimizer: str) -> Trials:
    return trials_of(t, start=start, optimizer=optimizer, warmup_steps=0)


def _sgd_without_warm_up(t: Trials) -> str:
    tuned, default = (
        {name: best_trials(_postnorm(t, start, name)) for name in ("adam", "sgd")} for start in ("gradinit", "fairseq")
    )
    trains = all(trial["error"] <= 1.42 for best in tuned.values() for trial in best)
    worse = all(difference >= 0.57 for difference in paired_differences(tuned["sgd"], default["sgd"]))
    return decide(trains and worse, all(equal_within(tuned[name], default[name], 0.085) for name in tuned))


def _translates_no_better_than_chance(trial: Trial, split: str = "test") -> bool:
    chance, error = trial["chance"][split]
    return bool(trial["error" if split == "test" else "validation"] >= chance - 2.576 * error)


def _admin_at_its_largest_rate(t: Trials) -> str:
    admin, gradinit = _postnorm(t, "admin", "sgd"), _postnorm(t, "gradinit", "sgd")
    near = []
    for of_seed, best in zip(by_value(admin, "seed"), best_trials(admin), strict=True):
        stable = [trial["lr"] for trial in of_seed if not _translates_no_better_than_chance(trial, "validation")]
        near.append(bool(stable) and best["lr"] >= 0.49 * max(stable))
    fails = all(map(_translates_no_better_than_chance, trials_of(admin, lr=0.2)))
    times = [a["lr"] / b["lr"] for a, b in zip(best_trials(gradinit), best_trials(admin), strict=True)]
    return decide(every(near) and fails and min(times) >= 2, every((ratio <= 1 for ratio in times), 0.5))


def _shares(values: list[dict[str, float]], layers: str, meets: Callable[[float], bool]) -> list[float]:
    """Return at each seed the share of the layers of these names whose values meet a bound."""
    chosen = [[value for name, value in of_seed.items() if re.search(layers, name)] for of_seed in values]
    return [sum(map(meets, of_seed)) / len(of_seed) for of_seed in chosen]


def _ratios(tuned: Trials, start: Trials, probe: str) -> list[dict[str, float]]:
    """Return at each seed the measurements after GradInit divided by those before, where these are not 0."""
    pairs = [(a["probes"][probe], b["probes"][probe]) for a, b in zip(tuned, start, strict=True)]
    return [{name: a[name] / b[name] for name in a if b[name]} for a, b in pairs]


def _below_one(value: float) -> bool:
    return value < 1


def _above_one(value: float) -> bool:
    return value > 1


def _lower_with_batch_norm(t: Trials) -> str:
    resnet = trials_of(t, net="resnet", scheme="standard")
    tuned, start = (trials_of(resnet, start=name) for name in ("gradinit", "kaiming"))
    scales, ratios = [trial["scales"] for trial in tuned], _ratios(tuned, start, "gradient_deviation.per_layer")
    seconds = _shares(scales, r"^groups\.[12]\..*\.layers\.1\.norm\.weight$", _below_one)
    others = _shares(scales, r"\.layers\.0\.norm\.weight$|convolution\.weight$", _above_one)
    # "Layers" are all tensors that are trained; "convolutions" are the convolutions of the blocks.
    lower, higher = (_shares(ratios, "", meets) for meets in (_below_one, _above_one))
    held = every((a >= 0.95 and b >= 0.9 and c >= 0.9 for a, b, c in zip(lower, seconds, others, strict=True)), 0.8)
    return decide(held, every((share >= 0.25 for share in higher), 0.6))


def _median_deviations(trials: Trials) -> list[float]:
    return [float(np.median(list(trial["probes"]["gradient_deviation.per_layer"].values()))) for trial in trials]


def _down_without_batch_norm(t: Trials) -> str:
    nets = trials_of(t, scheme="channel_bias")
    vgg, resnet = trials_of(nets, net="vgg", image_size=32), trials_of(nets, net="resnet")
    tuned = [trials_of(net, start="gradinit") for net in (vgg, resnet)]
    down = [_shares([trial["scales"] for trial in net], r"\.weight$", _below_one) for net in tuned]
    shallow, deep = (_median_deviations(trials_of(resnet, start="kaiming", depth=depth)) for depth in (8, 56))
    high = all(b >= 100 * a for a, b in zip(shallow, deep, strict=True))
    up = [_shares([trial["scales"] for trial in net], r"\.weight$", _above_one) for net in tuned]
    held = high and all(share >= 0.95 for net in down for share in net)
    return decide(held, any(every((share > 0.25 for share in net), 0.6) for net in up))


def _at_each_rate(parts: list[tuple[list[float], float]]) -> str:
    """Return whether each share is reached at every seed, or one of them at no seed."""
    held = all(share >= least - 1e-9 for shares, least in parts for share in shares)
    return decide(held, any(every(share < least - 1e-9 for share in shares) for shares, least in parts))


def _scales_for_adam(t: Trials) -> str:
    parts = []
    for tuned, default in zip(
        *(by_value(_postnorm(t, start, "adam"), "lr") for start in ("gradinit", "fairseq")), strict=True
    ):
        ratios = _ratios(tuned, default, _TRANSLATION)
        scales = [trial["scales"] for trial in tuned]
        parts += [
            (_shares(ratios, r"weight$", lambda ratio: ratio <= 1), 0.9),
            (_shares(scales, r"(out_proj|v_proj)\.weight$", lambda scale: scale <= 1), 0.9),
            (_shares(scales, r"^decoder\.layers\.5\..*norm\.weight$", lambda scale: scale <= 1), 1.0),
            (_shares(ratios, r"^decoder.*(q_proj|k_proj)\.weight$", lambda ratio: ratio >= 1), 0.1),
        ]
    return _at_each_rate(parts)


def _scales_for_sgd(t: Trials) -> str:
    parts = []
    for optimizer in ("adam", "sgd"):
        for of_rate in by_value(_postnorm(t, "gradinit", optimizer), "lr"):
            scales = [trial["scales"] for trial in of_rate]
            if optimizer == "sgd":
                last, others = r"^decoder\.layers\.5\..*weight$", r"^(encoder|decoder\.layers\.[0-4]\.).*weight$"
                parts.append((_shares(scales, last, lambda scale: scale <= 0.9), 0.5))
                parts.append((_shares(scales, others, lambda scale: scale >= 0.9), 0.5))
            else:
                every_other = r"^(encoder|decoder)\.layers\.(?!.*(q_proj|k_proj)).*weight$"
                parts.append((_shares(scales, every_other, lambda scale: scale <= 1), 0.9))
    return _at_each_rate(parts)


GRADINIT: dict[tuple[str, str], Callable[[Trials], str]] = {
    ("gradinit_overlap", "gradinit-t8-full-overlap-blows-up-the-gradient"): _full_overlap_gradient,
    ("gradinit_postnorm", "gradinit-a3-postln-sgd-trains-without-long-warmup"): _sgd_without_warm_up,
    ("gradinit_postnorm", "gradinit-a3-admin-diverges-above-its-best-rate"): _admin_at_its_largest_rate,
    ("gradinit_postnorm", "gradinit-f9-postln-adam-scales"): _scales_for_adam,
    ("gradinit_postnorm", "gradinit-f10-postln-sgd-scales-last-decoder-block"): _scales_for_sgd,
    ("gradinit_table8", "gradinit-t8-half-overlap-more-accurate"): _half_overlap,
    ("gradinit_table8", "gradinit-b-half-overlap-needs-no-constraint"): _half_overlap_and_kaiming,
    ("gradinit_figures4to10", "gradinit-f5-resnet110-bn-lowers-all-gradient-variances"): _lower_with_batch_norm,
    ("gradinit_figures4to10", "gradinit-f6-without-bn-all-weights-scaled-down"): _down_without_batch_norm,
}
