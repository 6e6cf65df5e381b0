"""What measurements without training say of claims: for each law one function, written from the text of the list.

A function takes the raw values of a law in docs/results/laws.json, measured by `tests/claims/laws_of_*.py`. The list is
docs/claims.yaml; a criterion that docs/claims_log.yaml retired gives way to the one that replaced it. Where the list
has draws and names neither a median nor a share of them, the claim is held if every draw meets the criterion, and not
held if the median draw does so. "A ratio" of a claim about medians is a median, and a correlation is over all networks.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from recomputed_statistics import decide, departure, every, slope
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable

Values = dict[str, Any]

EPSILON = 1e-5
"""The damping of gradient quotients, and that of BatchNorm."""


def numbers(value: Any) -> Any:
    """Return values with the numbers that JSON cannot hold, which are stored as text."""
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


def _otherwise(held: bool) -> str:
    return decide(held, not held)


def _keys(v: Values, beginning: str) -> list[Any]:
    """Return the values of all keys with a beginning, of which there must be one."""
    found = [value for key, value in v.items() if key.startswith(beginning)]
    if not found:
        raise LookupError(f"no key begins with {beginning}")
    return found


# ---------------------------------------------------------------- the gradient quotient


def _linear_loss(v: Values) -> str:
    floor = float(np.mean([EPSILON / (abs(c) + EPSILON) for c in v["c"]]))
    known = [(s, q) for s, q in zip(v["s"], v["quotient"], strict=True) if q > 2 * floor]
    factors = [(q - floor) / s for s, q in known]  # the floor is what damping adds
    proportional = max(factors) / min(factors) < 1.1 and all(a >= b for a, b in pairwise(v["quotient"]))
    ends = abs(v["quotient"][-1] / floor - 1) < 1e-5  # six digits are stored
    return decide(proportional and ends and v["s"][0] == 1 and v["s"][-1] <= 1e-12, not ends)


def _vanished_gradient(v: Values) -> str:
    return _otherwise(v["quotient_at_stationary_point_minus_1"] == [0.0] == v["quotient_over_dead_units_minus_1"])


def _step_size(v: Values) -> str:
    nets = ("MLP", "WRN-10-1")
    exact = np.array([v[f"exact_quotient_over_step_of_each_start_on_{net}"] for net in nets])  # net, seed, start, step
    agrees = float((exact.max(-1) / exact.min(-1)).max()) < 1.01
    if v["steps_of_finite_difference"][-1] != 1:
        raise ValueError("the ranking is judged at steps up to 1")
    orders = np.array([v[f"finite_difference_of_each_start_on_{net}"] for net in nets]).argsort(-2)
    changes = (orders != orders[..., :1]).any((-2, -1))  # net, seed
    changed = max(int(count) for count in changes.sum(-1))  # seeds, of the net with most
    return decide(agrees and changed == 0, changed >= 3)


def _hessian_gradient(v: Values) -> str:
    differences = v["relative_difference_on_quadratic"] + v["relative_difference_on_mlp"]
    return _otherwise(len(differences) >= 11 and max(map(abs, differences)) < 1e-8)


def _bounded(v: Values) -> str:
    below = any(b < q * (1 - 1e-5) for q, b in zip(v["quotient"], v["bound"], strict=True))
    correlation = float(stats.spearmanr(v["quotient"], v["bound"]).statistic)
    return decide(not below and correlation >= 0.8, below or correlation < 0.3)


def _quotient_cost(v: Values) -> str:
    pairs = zip(v["seconds_of_quotient"], v["seconds_of_gradient"], strict=True)
    ratios = [median(whole) / median(part) for whole, part in pairs]
    rises = slope(np.log(v["parameters"]).tolist(), np.log(ratios).tolist())
    return decide(max(ratios) < 5 and abs(rises) <= 0.1, max(ratios) > 10 or rises > 0.25)


def _share_of_training(v: Values) -> str:
    tuning = 500 * median(v["seconds_of_3_tuning_steps"]) / 3
    share = tuning / (200 * math.ceil(50_000 / 128) * median(v["seconds_of_a_training_step"]))
    return decide(share <= 0.02, share > 0.05)


def _random_data(v: Values) -> str:
    medians = []
    for net in ("plain", "wrn"):
        pairs = zip(v[f"quotient_on_random_data_of_{net}"], v[f"quotient_on_real_data_of_{net}"], strict=True)
        medians.append(median(float(stats.spearmanr(*pair).statistic) for pair in pairs))
    return decide(min(medians) >= 0.8, min(medians) < 0.5)


def _untuned_is_one(v: Values) -> str:
    outside = [abs(quotient - 1) > 0.005 for found in _keys(v, "quotient_of_plain_28_") for quotient in found]
    return decide(not any(outside), sum(outside) >= 5)


# ---------------------------------------------------------------- spectra


def _along(v: Values, name: str, below: float) -> str:
    rows = [np.array(v[f"{name}_from_{start}"]) for start in ("kaiming", "delta_orthogonal")]
    return decide(
        all(every(row[:, -1] < below * row[:, 0]) for row in rows), any(every(r[:, -1] > r[:, 0], 0.6) for r in rows)
    )


def _shared_spectra(v: Values) -> str:
    factors = []
    for start in ("kaiming", "orthogonal", "metainit"):
        for one, other in combinations(("hessian", "fisher", "kernel"), 2):
            a, b = (np.array(v[f"{matrix}_from_{start}"]) for matrix in (one, other))  # seed, rank
            factors.append(np.where((a > 0) & (b > 0), np.maximum(a / b, b / a), np.inf).max(-1))
    worst = np.max(factors, 0)
    return decide(every(worst <= 1.2), every(worst >= 2, 0.6))


# ---------------------------------------------------------------- MetaInit from bad norms


def _recovery(v: Values) -> str:
    pairs = zip(v["distance_after"], v["gradient_quotient_after"], strict=True)
    close = [distance < 0.3 and quotient < 0.6 for distance, quotient in pairs]
    return decide(every(close, 0.9), every((not distance <= 0.7 for distance in v["distance_after"]), 0.5))


def _residual_recovery(v: Values) -> str:
    starts = [v[f"distance_after_from_{factor}_times"] for factor in ("0.2", "5")]
    close = all(every((distance < 0.3 for distance in start), 0.9) for start in starts)
    return decide(close, any(every((not distance <= 0.7 for distance in start), 0.5) for start in starts))


def _sign_steps(v: Values) -> str:
    def recovered(key: str) -> int:
        found = v[key]
        failures = sum(not quotient < 0.6 for quotient in found)
        if len(found) < 5 and failures < 2:
            raise ValueError(f"{key} ended early")
        return len(found) - failures  # of those left out, the two failures leave at most 3 of 5

    signs = [recovered(f"signsgd_from_{std}") for std in ("0.02", "0.3")]
    rates = {key.split("_from_")[0] for key in v if key.startswith("sgd_of_rate_")}
    plain = [min(recovered(f"{rate}_from_{std}") for std in ("0.02", "0.3")) for rate in rates]
    return decide(len(rates) == 5 and min(signs) == 5 and max(plain) < 5, max(plain) >= 4)


def _nonlinear_norms(v: Values) -> str:
    pairs = [
        (v[f"distance_of_{net}_from_{std}"], v[f"distance_of_linear_from_{std}"])
        for net in ("ReLU", "tanh")
        for std in ("0.02", "0.3")
    ]
    leads = [[a - b for a, b in zip(*pair, strict=True)] for pair in pairs]
    return decide(
        all(every(lead >= 0.1 for lead in one) for one in leads),
        any(every((lead <= 0 for lead in one), 0.8) for one in leads),
    )


def _l1_and_l2(v: Values) -> str:
    steps = [[math.inf if step is None else step for step in v[f"step_of_{norm}"]] for norm in ("l1", "l2")]
    first = [l1 < l2 for l1, l2 in zip(*steps, strict=True)]
    second = [l2 < l1 for l1, l2 in zip(*steps, strict=True)]
    return decide(every(first, 0.9), every(second, 0.5))


# ---------------------------------------------------------------- signals over depth


def _beta_swish(v: Values) -> str:
    norms = (v["log2_of_activation_norm_ratio"], v["log2_of_gradient_norm_ratio"])
    off = [abs(slope(v["depth"], norm) + 1) for norm in norms]
    return decide(max(off) <= 0.05, max(off) > 0.2)


def _residual_downscaling(v: Values) -> str:
    straight = all(min(v[f"r_squared_for_scale_{scale}"]) > 0.99 for scale in ("1", "0.5"))
    rising = all(min(v[f"slope_for_scale_{scale}"]) > 0.1 for scale in ("1", "0.5"))
    scaled = [_keys(v, f"variance_ratio_for_scale_{scale}_at_") for scale in ("1/sqrt(L)", "1/L")]
    return _otherwise(straight and rising and all(median(ratios) < 3 for one in scaled for ratios in one))


def _activation_factors(v: Values) -> str:
    relu, swish = v["ratio_of_relu"], v["ratio_of_swish"]
    return _otherwise(all(abs(r - 0.7071) < 5e-5 for r in relu) and all(abs(s - 0.5) <= 0.1 for s in swish))


def _log_slopes(blocks: list[int], draws: list[list[float]]) -> list[float]:
    return [slope(np.log(blocks).tolist(), logs) for logs in np.log(draws).tolist()]


def _skip_path(v: Values) -> str:
    grows = _log_slopes(v["block_of_skip_path"], v["deviation_of_skip_path"])
    weakens = _log_slopes(v["block_of_gradient"], v["gradient_through_branch_over_skip_path"])
    branch = v["geometric_mean_over_draws_of_branch_deviation_at_each_block"]
    level = max(branch) / min(branch) < 2 and min(v["block_of_gradient"]) > 5
    near = all(abs(one - 0.5) <= 0.05 for one in grows) and all(abs(one + 0.5) <= 0.1 for one in weakens)
    return decide(near and level, abs(median(grows) - 0.5) > 0.15 or median(weakens) > -0.25)


def _equal_paths(v: Values) -> str:
    names = ("bn_before_the_softmax_only", "sqrt(1/2)", "bn_after_the_merge", "bn_on_the_branch")
    *failing, branch = (_log_slopes(v["block"], np.exp(v[f"log_ratio_for_{name}"]).tolist()) for name in names)
    means = [math.exp(log) for name in names[:3] for log in v[f"mean_log_ratio_over_all_blocks_for_{name}"]]
    level = all(abs(one) <= 0.1 for slopes in failing for one in slopes) and all(0.3 <= mean <= 3 for mean in means)
    falls = any(median(slopes) < -0.3 for slopes in failing)
    return decide(level and all(abs(one + 0.5) <= 0.1 for one in branch), falls)


def _fixup_first_step(v: Values) -> str:
    [tensors] = v["tensors"]
    alone = v["names_of_tensors_with_a_gradient_at_first"] == ["classifier.bias", "classifier.weight"]
    opened = v["tensors_with_a_gradient_after_1_to_3_steps"][2] == tensors
    return _otherwise(alone and opened and v["tensors_with_a_gradient_at_first_under_kaiming"] == [tensors])


# ---------------------------------------------------------------- GradInit and BatchNorm


def _parameter_counts(v: Values) -> str:
    pairs = zip(v["parameters"], v["printed_millions"], strict=True)
    return _otherwise(len(v["parameters"]) == 5 and all(f"{count / 1e6:.2f}" == printed for count, printed in pairs))


def _half_an_epoch(v: Values) -> str:
    """By the criterion that replaced the list's: iterations times batch over images."""
    if v["images_of_an_iteration"] != [128, 192]:
        raise ValueError("an iteration reads two half-batches of 64, or three")
    return _otherwise(2000 * 192 / 1_281_167 < 0.5)


def _gradient_ratio(v: Values) -> str:
    ratios = [[row[0] / row[15] for row in v[f"deviations_{kind}"]] for kind in ("with_batch_norm", "without")]
    leads = [a - b for a, b in zip(*ratios, strict=True)]
    return decide(every(lead > 0 for lead in leads), every((lead < 0 for lead in leads), 0.8))


def _greedy(v: Values) -> str:
    same, fresh = ([max(row) > 0.5 for row in v[f"fall_on_{which}_batch"]] for which in ("same", "fresh"))
    return decide(every(same, 0.8) and not any(fresh), not any(same))


def _learned_scales(v: Values) -> str:
    rows = list(zip(*(v[f"scales_of_{name}"] for name in ("convolutions", "batch_norms", "classifier")), strict=True))
    ups = [sum(scale > 1 for scale in convolutions) for convolutions, *_ in rows]
    as_claimed = [
        up >= 15 and sum(scale > 1 for scale in norms) >= 9 and max(*norms[-2:], classifier) < 0.5
        for up, (_, norms, classifier) in zip(ups, rows, strict=True)
    ]
    return decide(every(as_claimed, 0.8), every((up < 8 for up in ups), 0.8))


def _inverse_to_scale(v: Values) -> str:
    """By the criterion that replaced the list's, with an epsilon of 1e-15 and fresh seeds."""
    outputs = [moved for found in _keys(v, "output_departure_") for moved in found]
    products = [error for found in _keys(v, "gradient_times_scale_departure_") for row in found for error in row]
    return _otherwise(max(outputs) < 1e-8 and max(products) < 1e-6)


def _magnification(v: Values) -> str:
    keys = ("batch_size", "input_variance", "variance_ratio", "standard_error")
    short, larger = [], []
    for n, variance, ratio, error in zip(*(v[key] for key in keys), strict=True):
        short.append((n * (n - 1) / (n**2 * (variance + EPSILON)) - ratio) / error)
        larger.append(ratio > 1 or variance >= (n - 1) / n)
    return decide(max(short) <= 3 and all(larger), max(short) > 3)


def _gaussian_activation(v: Values) -> str:
    distances = [v["distance_for_gaussian_inputs"], v["distance_for_digits"]]
    fourth = zip(v["batch_size"], v["fourth_moments_for_gaussian_inputs"], strict=True)
    moments = all(departure(moment, 3 * (size - 1) / (size + 1)) <= 3 for size, moment in fourth)
    falls = all(a > b for found in distances for a, b in pairwise(found))
    small = v["batch_size"][-1] == 1024 and all(found[-1] < 0.02 for found in distances)
    return decide(falls and small and moments, any(found[-1] >= found[0] for found in distances))


# ---------------------------------------------------------------- weight normalization


def _norms_kept(v: Values) -> str:
    kept = [median(v[f"{way}_ratio_for_{way}_scale"]) for way in ("forward", "backward")]
    return _otherwise(all(0.1 <= ratio <= 10 for ratio in kept) and median(v["larger_ratio_for_scale_1"]) < 1e-20)


def _any_width(v: Values) -> str:
    """By the criterion that replaced the list's; widths are stored from the narrowest on."""
    means = zip(v["mean_ratio_of_one_layer"], v["standard_error_of_mean_ratio"], strict=True)
    exact = [abs(mean - 1) / error <= 3 for mean, error in means]
    medians = [median(logs) for logs in v["log_ratio_of_100_layers"]]
    shares = list(zip(medians, v["dead_after_10_layers"], v["dead_after_100_layers"], strict=True))
    away = v["width"] == [2, 4, 16, 64, 256]
    for (narrow, early, dead), (wide, later_early, later_dead) in pairwise(shares):
        away = away and dead >= later_dead
        if math.isfinite(narrow) and math.isfinite(wide):
            away = away and abs(narrow) > abs(wide)
        elif not math.isfinite(wide):
            away = away and early > later_early
    return decide(all(exact) and away, not all(exact))


def _bounded_growth(v: Values) -> str:
    blocks = (10, 100, 1000, 10_000)
    medians = [median(v[f"ratio_of_{b}_blocks"]) for b in blocks]
    near = all(abs(ratio / (1 + 1 / b) ** b - 1) <= 0.3 for ratio, b in zip(medians, blocks, strict=True))
    unscaled = min(v["ratio_of_100_blocks_of_scale_1"]) > 1e6
    return decide(near and unscaled, any(ratio > 5 or ratio < 1 for ratio in medians))


def _widening(v: Values) -> str:
    cosines = {shape: v[f"largest_cosine_{shape}"] for shape in ("32_to_64", "64_to_64", "64_to_32")}
    orthogonal = max(cosines["64_to_64"] + cosines["64_to_32"]) < 1e-10 < min(cosines["32_to_64"])
    return _otherwise(orthogonal and all(departure(v[f"squared_norm_ratio_{shape}"], 1) <= 3 for shape in cosines))


def _weights_follow(v: Values) -> str:
    cases = [f"{plan}_{scale}" for plan in ("constant", "alternating") for scale in ("forward", "backward")]
    pairs = [(v[f"factor_of_weights_{case}"], v[f"factor_of_pre_activations_{case}"]) for case in cases]
    # The typical draw: the list names the draws and not what is taken over them.
    times = [median(a / b for a, b in zip(*pair, strict=True)) for pair in pairs]
    return decide(max(times) <= 2, max(times) > 10)


def _two_scales(v: Values) -> str:
    """Of the starts alone: what the list asks of errors needs training."""
    varying = [flag for plan in ("alternating", "growing", "shrinking") for flag in v[f"equal_at_{plan}_width"]]
    return _otherwise(all(v["equal_at_constant_width"]) and not any(varying))


LAWS: dict[str, Callable[[Values], str]] = {
    "metainit-gq-linear-loss-zero": _linear_loss,
    "metainit-gq-vanished-gradient-one": _vanished_gradient,
    "metainit-gq-step-size-only-scales": _step_size,
    "metainit-gq-equals-mean-relative-hessian-gradient": _hessian_gradient,
    "metainit-gq-cost-same-order-as-gradient": _quotient_cost,
    "metainit-spectrum-eigenvalues-concentrate": lambda v: _along(v, "largest_eigenvalue", 0.5),
    "metainit-spectrum-gradient-turns-to-flat-directions": lambda v: _along(v, "gradient_share", 1.0),
    "metainit-hessian-fisher-ntk-share-eigenvalues": _shared_spectra,
    "metainit-gq-informative-on-random-data": _random_data,
    "metainit-sign-steps-robust-where-gradient-steps-fail": _sign_steps,
    "metainit-resnet50-costs-one-percent": _share_of_training,
    "metainit-f3-plain-too-small-recovers": _recovery,
    "metainit-f3-plain-too-large-recovers": _recovery,
    "metainit-f3-residual-recovers": _residual_recovery,
    "metainit-norms-differ-from-known-ones-when-nonlinear": _nonlinear_norms,
    "metainit-t1-plain28-deltaorth-gq-one": _untuned_is_one,
    "metainit-beta-swish-halves-signal-per-layer": _beta_swish,
    "metainit-residual-needs-downscaling-by-depth": _residual_downscaling,
    "metainit-activation-downscale-factors": _activation_factors,
    "metainit-f4-l1-faster-than-l2": _l1_and_l2,
    "metainit-response-quotient-bounded-by-eigenvalues": _bounded,
    "gradinit-a1-fixup-first-step-moves-classifier-only": _fixup_first_step,
    "gradinit-parameter-counts": _parameter_counts,
    "gradinit-a2-imagenet-under-half-an-epoch": _half_an_epoch,
    "gradinit-b-full-overlap-is-greedy": _greedy,
    "gradinit-c-bn-gradient-inverse-to-weight-scale": _inverse_to_scale,
    "gradinit-c-bn-magnifies-variance-below-threshold": _magnification,
    "gradinit-f4-bn-raises-gradient-ratio-over-depth": _gradient_ratio,
    "gradinit-f4-vgg-bn-scales-convolutions-up-and-end-down": _learned_scales,
    "skipinit-bn-skip-path-grows-as-sqrt-depth": _skip_path,
    "skipinit-failing-schemes-have-equal-paths": _equal_paths,
    "skipinit-normalized-activation-gaussian-for-large-batch": _gaussian_activation,
    "weightnorm-init-keeps-norms-over-depth": _norms_kept,
    "weightnorm-infinite-width-not-needed": _any_width,
    "weightnorm-residual-growth-bounded": _bounded_growth,
    "weightnorm-forward-backward-differ-with-width": _two_scales,
    "weightnorm-widening-layers-cannot-have-orthogonal-rows": _widening,
    "weightnorm-gradients-of-weights-follow": _weights_follow,
}
