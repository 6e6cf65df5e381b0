"""What the packed ledgers say of claims: for each claim one function, written from the text of the list.

The list is docs/claims.yaml. It is read as follows where it leaves room:

- What a ledger's `differs` names as not run (rates, epochs, depths) is left out of the criterion; `conditions` then say
  in which direction that errs. "k of 5" is the same share of the seeds that there are.
- "At chance" is 90 ± 4.1 points on digits and 90 ± 0.8 on the other test sets, both ends included.
- A network fails or trains "while" another one does the opposite if both are so at every seed.
- The interval of a correlation that is "averaged over workloads" is that over seeds.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from recomputed_gradinit import GRADINIT
from recomputed_statistics import decide, every, interval
from recomputed_trials import (
    ahead_by,
    all_at_chance,
    all_lower,
    all_train,
    best_trials,
    by_value,
    differ_beyond,
    equal_within,
    fail_at_every_rate,
    is_at_chance,
    leads_by,
    paired_differences,
    train_at_some_rate,
    trials_of,
    tuned_trials,
)
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from recomputed_trials import Trials

HALF = math.sqrt(0.5)
TRADITIONAL = ("kaiming", "xavier", "orthogonal", "delta_orthogonal")


def _final_at_recipe_rate(t: Trials) -> Trials:
    return trials_of(t, phase="final", lr=0.1)


def _tuned_beside_recipe_rate(t: Trials) -> Trials:
    return tuned_trials(t, recipe_rate=0.1)


def _traditional_starts(t: Trials) -> str:
    plain = trials_of(t, net="plain", depth=28, norm="none", activation="beta_swish")
    starts = [trials_of(plain, start=name) for name in TRADITIONAL]
    # "At own best rates and at 0.1".
    protocols = [choose(start) for choose in (_tuned_beside_recipe_rate, _final_at_recipe_rate) for start in starts]
    metainit = _tuned_beside_recipe_rate(trials_of(plain, start="metainit"))
    return decide(
        all(map(all_at_chance, protocols)) and all_train(metainit), any(all_train(start, 0.8) for start in protocols)
    )


def _quotient_and_error(t: Trials) -> str:
    # "Within a network and then averaged over the workloads": the interval is that of the average over workloads.
    correlations = []
    images = by_value(trials_of(t, norm="none"), "images")
    for net in [one for data in images for name in by_value(data, "net") for one in by_value(name, "depth")]:
        starts = [best_trials(start) for start in by_value(net, "treatment")]
        quotients = [float(np.median([trial["probes"]["gradient_quotient"] for trial in start])) for start in starts]
        errors = [float(np.median([trial["error"] for trial in start])) for start in starts]
        correlations.append(float(stats.spearmanr(quotients, errors).statistic))
    low, high = interval(correlations)
    return decide(low > 0.5, high < 0.5)


def _plain_beats_batch_norm(t: Trials) -> str:
    # The paper does not say how its networks with BatchNorm start: MetaInit has to be ahead of both starts.
    plain = trials_of(t, net="plain", depth=28)
    starts = [trials_of(plain, norm="none", start="metainit")]
    starts += [trials_of(plain, norm="batch", start=name) for name in ("kaiming", "delta_orthogonal")]
    recipe, own = ([choose(start) for start in starts] for choose in (_final_at_recipe_rate, _tuned_beside_recipe_rate))
    lower = [all_lower(metainit, other) for metainit, *others in (recipe, own) for other in others]
    return decide(all(lower), any(all_lower(other, own[0], 0.8) for other in own[1:]))


def _wrn_and_batch_norm(t: Trials) -> str:
    pairs = [
        (best_trials(trials_of(net, norm="batch")), trials_of(net, norm="none", start="metainit"))
        for net in by_value(trials_of(t, net="wrn"), "depth")
    ]
    return decide(all(equal_within(*pair, 0.01) for pair in pairs), any(leads_by(*pair, 0.01) for pair in pairs))


def _plain_and_residual(t: Trials) -> str:
    deep = trials_of(t, depth=28)
    tuned, residual = trials_of(deep, norm="none", start="metainit"), trials_of(deep, net="wrn")
    others = [trials_of(residual, norm="none", start="metainit"), best_trials(trials_of(residual, norm="batch"))]
    plain = trials_of(tuned, net="plain")
    return decide(all(equal_within(plain, o, 0.02) for o in others), any(differ_beyond(plain, o, 0.02) for o in others))


def _batch_norm_and_metainit(t: Trials) -> str:
    base, modes = trials_of(t, start="delta_orthogonal"), by_value(trials_of(t, start="metainit"), "mode")
    if len(modes) != 2:
        raise ValueError("the list has two modes")
    return decide(
        all(equal_within(mode, base, 0.007) for mode in modes), any(differ_beyond(mode, base, 0.007) for mode in modes)
    )


def _norm_distances(trials: Trials, reference: Trials) -> list[float]:
    """Return for each seed the mean over weights of |log(norm / reference norm)|."""
    distances = []
    for one, known in zip(trials, reference, strict=True):
        norms, others = (trial["probes"]["parameter_norm.per_layer"] for trial in (one, known))
        logs = [abs(math.log(norms[name] / others[name])) for name in norms if name.endswith(".weight")]
        distances.append(float(np.mean(logs)))
    return distances


def _recovers(std: float) -> Callable[[Trials], str]:
    def judge(t: Trials) -> str:
        plain = trials_of(t, net="plain")
        tuned = trials_of(plain, start="metainit", tuning_momentum=0.5, base_std=std)
        distances = _norm_distances(tuned, trials_of(plain, start="xavier"))
        quotients = [trial["probes"]["gradient_quotient[batch_size=128]"] for trial in tuned]
        close = [d < 0.3 and q < 0.6 for d, q in zip(distances, quotients, strict=True)]
        return decide(every(close, 0.9), every((not d <= 0.7 for d in distances), 0.5))

    return judge


def _residual_recovers(t: Trials) -> str:
    net = trials_of(t, net="wrn")
    starts = [trials_of(net, start="metainit", tuning_momentum=0.5, base_std=std) for std in (0.02, 0.15)]
    distances = [_norm_distances(start, trials_of(net, start="fixup", nonzero=True)) for start in starts]
    return decide(
        all(every((d < 0.3 for d in start), 0.9) for start in distances),
        any(every((not d <= 0.7 for d in start), 0.5) for start in distances),
    )


def _real_batches(t: Trials) -> str:
    pairs = [(trials_of(net, data="random"), trials_of(net, data="real")) for net in by_value(t, "net")]
    trained = all(all_train(trials) for pair in pairs for trials in pair)
    equal = all(equal_within(*pair, 0.015) for pair in pairs)
    return decide(trained and equal, any(differ_beyond(*pair, 0.015) for pair in pairs))


def _table_1(t: Trials, **net: Any) -> tuple[Trials, Trials]:
    of_net = trials_of(t, **net)
    return trials_of(of_net, start="delta_orthogonal", gain=1.0), trials_of(of_net, start="metainit")


def _plain_fails(t: Trials) -> str:
    untuned, tuned = _table_1(t, net="plain", images="digits")
    return decide(all_at_chance(untuned) and all_train(tuned), any(trial["error"] <= 0.45 for trial in untuned))


def _plain_recovers(t: Trials) -> str:
    digits, (untuned, tuned) = (_table_1(t, net="plain", images=images) for images in ("digits", "image_folder"))
    return decide(
        all_train(digits[1]) and every(ahead_by(tuned, untuned, 0.15)),
        all_at_chance(digits[1], 0.6) or all_at_chance(tuned, 0.6),
    )


def _sixty_points(t: Trials) -> str:
    untuned, tuned = _table_1(t, net="plain", images="digits")
    gains = ahead_by(tuned, untuned, 0.6)
    return decide(every(gains), every((not gain for gain in gains), 0.8))


def _wrn_gains(t: Trials) -> str:
    shallow, deep = (_table_1(t, net="wrn", depth=depth, images="image_folder") for depth in (28, 100))
    leads = [paired_differences(tuned, untuned) for untuned, tuned in (shallow, deep)]
    larger = interval([b - a for a, b in zip(*leads, strict=True)])[0] > 0
    untuned, tuned = deep
    return decide(all_lower(tuned, untuned) and larger, all_lower(untuned, tuned, 0.8))


def _loses_with_depth(t: Trials) -> str:
    starts = ("delta_orthogonal", "metainit")
    untuned, tuned = ([trials_of(t, start=start, depth=depth) for depth in (28, 202)] for start in starts)
    rises = [paired_differences(*pair) for pair in (untuned, tuned)]
    more = interval([a - b for a, b in zip(*rises, strict=True)])[0] > 0
    return decide(all_train(untuned[0]) and all_lower(*untuned) and more, every((rise <= 0 for rise in rises[0]), 0.8))


def _quotient_falls(t: Trials) -> str:
    nets = [("plain", 28), ("wrn", 28), ("wrn", 100)]
    quotients = []
    for net, depth in nets:
        pair = _table_1(t, net=net, depth=depth, images="image_folder")
        untuned, tuned = ([trial["probes"]["gradient_quotient"] for trial in trials] for trials in pair)
        quotients.append(list(zip(untuned, tuned, strict=True)))
    return decide(
        all(every(b < a and b < 0.7 for a, b in pairs) for pairs in quotients),
        any(every((b >= a for a, b in pairs), 0.6) for pairs in quotients),
    )


def _swish_fails(t: Trials) -> str:
    swish, relu = (trials_of(t, start="delta_orthogonal", activation=name) for name in ("swish", "relu"))
    return decide(
        all_at_chance(swish) and not any(map(is_at_chance, relu)), every((trial["error"] < 0.8 for trial in swish), 0.8)
    )


def _swish_trains(t: Trials) -> str:
    tuned = trials_of(t, start="metainit")
    swish, relu = (best_trials(trials_of(tuned, activation=name)) for name in ("swish", "relu"))
    ahead = every(ahead_by(swish, trials_of(t, start="delta_orthogonal", activation="swish"), 0.1))
    return decide(ahead and equal_within(swish, relu, 0.03), all_at_chance(swish, 0.6))


def _branch_norm(t: Trials) -> Trials:
    """Return the trials of 1,000 layers with BatchNorm on the branch and no factor, which are to train."""
    return trials_of(t, depth=1000, norm="batch", norm_placement="branch", sum_factor=1.0)


def _branch_norm_trains(t: Trials) -> str:
    best = best_trials(_branch_norm(t))
    return decide(all_train(best), all_at_chance(best, 0.6))


def _stable_signal(t: Trials) -> str:
    deep = trials_of(t, depth=1000, norm="none", epochs=3)
    failing = trials_of(deep, start="kaiming", sum_factor=HALF)
    trains = all_train(best_trials(trials_of(deep, start="skipinit", alpha=0.0)))
    signals = [trial["probes"]["signal_by_depth.skip_deviation"].values() for trial in trials_of(t, epochs=0)]
    stable = all(max(signal) ** 2 <= 10 * min(signal) ** 2 for signal in signals)
    return decide(fail_at_every_rate(failing) and trains and stable, train_at_some_rate(failing, 0.6))


def _by_scalar(trials: Trials) -> list[Trials]:
    return [trials_of(trials, start="skipinit", alpha=alpha) for alpha in (0.0, "1/sqrt(d)")]


def _fails_at_1000(**net: Any) -> Callable[[Trials], str]:
    def judge(t: Trials) -> str:
        failing = trials_of(t, depth=1000, norm="batch", epochs=5, **net)
        return decide(
            fail_at_every_rate(failing) and all_train(best_trials(_branch_norm(t))), train_at_some_rate(failing, 0.6)
        )

    return judge


def _factors_fail(t: Trials) -> str:
    # "The mean error does not fall with smaller alpha": at each rate.
    options = {"norm": "batch", "norm_placement": "branch", "epochs": 5}
    half, smaller = (trials_of(t, depth=1000, sum_factor=factor, **options) for factor in (HALF, 0.5))
    rising = True
    for rate in by_value(trials_of(t, depth=100, **options), "lr"):
        means = [
            np.mean([trial["error"] for trial in trials_of(rate, sum_factor=factor)]) for factor in (1.0, HALF, 0.5)
        ]
        rising = rising and all(small >= large for large, small in pairwise(means))
    held = (
        fail_at_every_rate(half) and fail_at_every_rate(smaller) and all_train(best_trials(_branch_norm(t))) and rising
    )
    return decide(held, train_at_some_rate(half, 0.6))


def _downscaling(t: Trials) -> str:
    deep = trials_of(t, depth=1000, norm="none")
    scalars = [best_trials(alpha) for alpha in _by_scalar(deep)]
    one = best_trials(trials_of(deep, start="kaiming", multiplier=False, sum_factor=1.0, epochs=5))
    untrained = every(trial["error"] > 0.45 for trial in one)
    return decide(all(map(all_train, scalars)) and untrained, any(all_at_chance(scalar, 0.6) for scalar in scalars))


def _variants_at_100(choose: Callable[[Trials], Trials]) -> Callable[[Trials], str]:
    def judge(t: Trials) -> str:
        nets = trials_of(t, depth=100, norm="batch")
        final = choose(trials_of(nets, norm_placement="final"))
        half, branch = (choose(trials_of(nets, norm_placement="branch", sum_factor=factor)) for factor in (HALF, 1.0))
        equal = all(all_train(variant) and equal_within(variant, branch, 0.03) for variant in (final, half))
        return decide(equal, any(all_at_chance(variant, 0.6) for variant in (final, half)))

    return judge


def _best_of_five_epochs(t: Trials) -> Trials:
    return best_trials(trials_of(t, epochs=5))


def _skipinit_and_fixup(choose: Callable[[Trials], Trials]) -> Callable[[Trials], str]:
    def judge(t: Trials) -> str:
        depths = by_value(trials_of(t, norm="none"), "depth")
        pairs = [[choose(trials_of(net, start=start)) for start in ("skipinit", "fixup")] for net in depths]
        return decide(
            all(equal_within(*pair, 0.015) for pair in pairs), any(differ_beyond(*pair, 0.015) for pair in pairs)
        )

    return judge


def _default_fails(t: Trials) -> str:
    runs = [of_length for net in by_value(t, "depth") for of_length in by_value(net, "epochs")]
    if sorted((run[0]["depth"], run[0]["epochs"]) for run in runs) != [(602, 1), (602, 5), (1802, 1), (1802, 5)]:
        raise ValueError("the list has one and five epochs, and 300 blocks per stage beside 100")
    fails = all(fail_at_every_rate(trials_of(run, start="pytorch_default")) for run in runs)
    proposed = [best_trials(trials_of(run, start="weight_norm")) for run in runs]
    works = all(every(not is_at_chance(trial) for trial in best) for best in proposed)
    deepest = trials_of(t, depth=1802, start="pytorch_default")
    below = [every((trial["error"] < 0.8 for trial in of_rate), 0.6) for of_rate in by_value(deepest, "lr")]
    return decide(fails and works, any(below))


def _proposed_trains(t: Trials) -> str:
    nets = [trials_of(t, net="mlp", depth=depth) for depth in (2, 20, 100, 200)]
    nets += [trials_of(t, net="resnet", depth=depth) for depth in (8, 62, 602)]
    starts = ("weight_norm", "pytorch_default", "data_dependent_weight_norm")
    best = [[best_trials(trials_of(net, start=start)) for start in starts] for net in nets]
    others = [all_train(default) or all_train(measured) for _, default, measured in best]
    held = all(all_train(proposed) for proposed, *_ in best) and not all(others)
    return decide(held, any(all_at_chance(one[0], 0.6) and other for one, other in zip(best, others, strict=True)))


def _warm_up(t: Trials, start: str, epochs: float) -> Trials:
    return tuned_trials(trials_of(t, start=start, warmup_epochs=epochs))


def _gain_without_warm_up(t: Trials) -> str:
    proposed, default, warmed = (
        _warm_up(t, *which) for which in (("weight_norm", 0.0), ("pytorch_default", 0.0), ("pytorch_default", 1.0))
    )
    return decide(
        all_lower(proposed, default) and leads_by(proposed, warmed, 0.0), equal_within(proposed, warmed, 0.01)
    )


def _gap_closes(t: Trials) -> str:
    proposed, default = (_warm_up(t, start, 0.0) for start in ("weight_norm", "pytorch_default"))
    return decide(equal_within(proposed, default, 0.01), leads_by(proposed, default, 0.01))


def _lsuv_and_metainit(t: Trials) -> str:
    lsuv, metainit = trials_of(t, start="lsuv"), trials_of(t, start="metainit")
    fails = any(every(map(is_at_chance, trials), 0.5) for trials in (lsuv, metainit))
    held = all_train(lsuv) and all_train(metainit) and equal_within(lsuv, metainit, 0.015)
    return decide(held, fails or differ_beyond(lsuv, metainit, 0.015))


def _bases(t: Trials) -> str:
    trained, equal, at_chance = True, True, False
    for net in by_value(t, "net"):
        names = sorted({trial["base"]["name"] for trial in net})
        by_base = [trials_of([trial for trial in net if trial["base"]["name"] == name]) for name in names]
        trained &= all(map(all_train, by_base))
        equal &= all(equal_within(one, other, 0.03) for one, other in combinations(by_base, 2))
        at_chance |= any(all_at_chance(trials, 0.6) for trials in by_base)
    return decide(trained and equal, at_chance)


def _rate_shares(trials: Trials) -> list[float]:
    """Return for each seed's search the best rate divided by the largest stable one, judged on validation data."""
    shares = []
    for of_seed, best in zip(by_value(trials, "seed"), best_trials(trials), strict=True):
        learned = [t for t in of_seed if t["validation"] < math.inf and abs(t["validation"] - 0.9) > 0.041 + 1e-9]
        shares.append(best["lr"] / max(trial["lr"] for trial in learned))
    return shares


def _small_batch(t: Trials) -> str:
    small = trials_of(t, batch_size=16)
    nets = [
        trials_of(small, norm="batch"),
        trials_of(small, norm="none", multiplier=False),
        trials_of(small, start="skipinit"),
    ]
    shares = [_rate_shares(trials_of(net, phase="search")) for net in nets]
    far = all(share <= 0.25 for of_net in shares for share in of_net)
    near = any(every((share >= 0.5 for share in of_net), 0.6) for of_net in shares)
    _, highest = interval(paired_differences(tuned_trials(nets[0]), tuned_trials(nets[2])), 0.90)
    return decide(far and highest < 0.03, near)


def _fits_faster(t: Trials) -> str:
    metainit, baselines, at_chance = trials_of(t, start="metainit"), [], True
    for name in ("delta_orthogonal", "gaussian"):
        start = trials_of(t, start=name)
        sign = trials_of(start, optimizer="signsgd")
        baselines += [trials_of(start, optimizer="sgd"), trials_of(sign, lr=0.001), best_trials(sign)]
        at_chance &= all_at_chance(trials_of(sign, lr=0.1))
    lower = [paired_differences(metainit, baseline, "mean_train_loss") for baseline in baselines]
    return decide(
        at_chance and all(every(difference > 0 for difference in one) for one in lower),
        any(every((difference < 0 for difference in one), 0.8) for one in lower),
    )


def _scales_over_width(t: Trials) -> str:
    constant, differ, equal = True, False, []
    for images in by_value(t, "images"):
        for plan in sorted({tuple(trial["widths"]) for trial in images}):
            of_plan = trials_of(images, widths=list(plan))
            forward, backward = (trials_of(of_plan, gain=gain) for gain in ("forward", "backward"))
            if len(set(plan)) == 1:
                losses = [[trial["probes"]["initial_loss"] for trial in start] for start in (forward, backward)]
                constant &= losses[0] == losses[1] or images[0]["images"] != "digits"  # others have more than 64 inputs
                continue
            best = best_trials(forward), best_trials(backward)
            differ |= differ_beyond(*best, 0.02)
            equal.append(equal_within(*best, 0.02))
    return decide(constant and differ, all(equal))


LEDGERS: dict[tuple[str, str], Callable[[Trials], str]] = {
    **GRADINIT,
    ("cifar_depth", "metainit-response-gq-correlates-with-error"): _quotient_and_error,
    ("cifar_depth", "metainit-t1-wrn-close-to-batchnorm"): _wrn_and_batch_norm,
    ("cifar_depth", "metainit-plain-competitive-with-resnet"): _plain_and_residual,
    ("metainit_batchnorm", "metainit-t1-wrn28-batchnorm-plus-metainit-equals-batchnorm"): _batch_norm_and_metainit,
    ("metainit_bases", "metainit-norms-suffice-gaussian-or-orthogonal"): _bases,
    ("metainit_correlation", "metainit-response-gq-correlates-with-error"): _quotient_and_error,
    ("metainit_depth", "metainit-t1-deltaorth-loses-with-depth"): _loses_with_depth,
    ("metainit_figure3", "metainit-f3-plain-too-small-recovers"): _recovers(0.02),
    ("metainit_figure3", "metainit-f3-plain-too-large-recovers"): _recovers(0.15),
    ("metainit_figure3", "metainit-f3-residual-recovers"): _residual_recovers,
    ("metainit_figure5", "metainit-f5-metainit-converges-faster"): _fits_faster,
    ("metainit_lsuv", "metainit-t1-plain28-lsuv-equals-metainit"): _lsuv_and_metainit,
    ("metainit_plain_batchnorm", "metainit-t1-plain28-metainit-beats-batchnorm"): _plain_beats_batch_norm,
    ("metainit_real_data", "metainit-response-real-data-works-too"): _real_batches,
    ("metainit_table1", "metainit-t1-plain28-deltaorth-fails"): _plain_fails,
    ("metainit_table1", "metainit-t1-plain28-metainit-recovers"): _plain_recovers,
    ("metainit_table1", "metainit-response-gains-up-to-sixty-points"): _sixty_points,
    ("metainit_table1", "metainit-t1-wrn-metainit-beats-untuned"): _wrn_gains,
    ("metainit_table1", "metainit-t1-metainit-lowers-gq-everywhere"): _quotient_falls,
    ("metainit_table2", "metainit-t2-swish-deltaorth-fails"): _swish_fails,
    ("metainit_table2", "metainit-t2-swish-metainit-trains"): _swish_trains,
    ("metainit_swish", "metainit-t2-swish-metainit-trains"): _swish_trains,
    ("metainit_traditional_starts", "metainit-response-vanilla-nets-defeat-traditional-starts"): _traditional_starts,
    ("skipinit_depth", "skipinit-bn-1000-2-trains-by-small-branches"): _branch_norm_trains,
    ("skipinit_depth", "skipinit-stable-forward-signal-not-sufficient"): _stable_signal,
    ("skipinit_failures", "skipinit-bn-before-softmax-fails-at-1000"): _fails_at_1000(norm_placement="final"),
    ("skipinit_failures", "skipinit-bn-after-merge-fails-at-1000"): _fails_at_1000(norm_placement="branch_and_merge"),
    ("skipinit_failures", "skipinit-bn-times-sqrt-half-fails-at-1000"): _factors_fail,
    ("skipinit_failures", "skipinit-downscaling-activations-suffices"): _downscaling,
    ("skipinit_fixup", "skipinit-performs-as-fixup"): _skipinit_and_fixup(_best_of_five_epochs),
    ("skipinit_own_rates", "skipinit-depth-100-variants-train"): _variants_at_100(tuned_trials),
    ("skipinit_depth100", "skipinit-depth-100-variants-train"): _variants_at_100(best_trials),
    ("skipinit_own_rates", "skipinit-performs-as-fixup"): _skipinit_and_fixup(tuned_trials),
    ("skipinit_rates", "skipinit-small-batch-best-rate-far-below-limit"): _small_batch,
    ("weightnorm_default_fails", "weightnorm-default-fails-in-deep-residual-nets"): _default_fails,
    ("weightnorm_depth", "weightnorm-proposed-trains-at-any-depth"): _proposed_trains,
    ("weightnorm_widths", "weightnorm-forward-backward-differ-with-width"): _scales_over_width,
    ("weightnorm_warmup", "weightnorm-gain-remains-without-warmup"): _gain_without_warm_up,
    ("weightnorm_warmup", "weightnorm-tuned-rate-closes-the-gap"): _gap_closes,
}
