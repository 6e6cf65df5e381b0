"""The Methods paragraph, which can be pasted into a paper."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from initbench.arguments import show
from initbench.comparing.formatting import capitalized, counted, listed, natural
from initbench.comparing.labels import with_contents
from initbench.ledger import TrialRecord
from initbench.reporting.conditions import OPTIMIZERS, effective
from initbench.reporting.questions.comparison import rank
from initbench.reporting.results import Results
from initbench.reporting.sharing import distinct
from initbench.reporting.terms import Terms
from initbench.reporting.tune import RATE, Tune
from initbench.statistics.intervals import MINIMUM_SEEDS
from initbench.statistics.seed_variance import BLOCK_SEEDS

_LONGEST_LIST = 12


def methods(results: Results, quotients: Mapping[str, str]) -> str:
    """Return the paragraph; `quotients` are the conditions of each form of the gradient quotient, as text."""
    records, trials, metrics, terms = results.records, results.trials, results.metrics, results.terms
    if trials.empty:  # a tuned suite whose searches are not finished
        return "No final trial has a result yet."
    ranked = not math.isnan(rank(results).ranks.pvalue)
    each = trials.drop_duplicates("trial_id")
    statuses = Counter(each["status"])
    ran = len(each) - statuses["failed"]
    names = sorted(set(trials["treatment"]), key=natural)
    architectures = sorted({label for label in trials["architecture_label"] if label}, key=natural)
    seeds = sorted({len(set(cell)) for _, cell in trials.groupby(["workload", "treatment"])["seed"]})
    compared = (
        f"{counted(len(names), terms.treatment)} ({_listed(names)}) {'was' if len(names) == 1 else 'were'} compared"
    )
    networks = [f"{counted(len(architectures), 'architecture')} ({_listed(architectures)})"] if architectures else []
    setting = " and ".join([*networks, _listed(_datasets(records))])
    every = distinct(record.spec["recipe"] for record in records)
    recipes = [recipe for recipe in every if recipe.get("epochs") or recipe.get("steps")]
    ran_with = f"was {'trained' if recipes else 'measured'} with {_span(seeds)} seed{'s' if seeds != [1] else ''}"
    diverged = f"{statuses['diverged']} of {counted(ran, 'trial')} diverged (a non-finite loss)"
    intervals = (
        f"Intervals are 95 % intervals: of means by Student's t, from {MINIMUM_SEEDS} values on; of rates by Wilson; "
        f"of correlations by Fisher's transformation and a jackknife over {terms.treatment}s"
    )
    outcomes = listed([metric.plural for metric in metrics.values()] or ["not known"])
    several = f"{terms.treatment}s"
    sentences = [
        f"{compared} on {setting} with initbench {_versions(records, 'initbench')}.",
        f"Each combination of architecture, dataset, recipe and {terms.treatment} (a cell) {ran_with}.",
        f"At equal seeds all {several} see the same data in the same order, so comparisons are paired by seed.",
        f"Models were trained {_recipe(recipes, has_tuned_rate=results.tune is not None and results.tune.has_rate)}."
        if recipes
        else "Models were not trained, but measured at initialization.",
    ]
    if (tune := results.tune) is not None:
        sentences += _tuned(tune, terms)
    if recipes:  # else there are no outcomes
        sentences += [
            f"Outcomes are {outcomes} after the last epoch; nothing was chosen by them.",
            "A cell's outcome is the median over its seeds.",
            (
                "A cell did not train unless its outcome is better than the chance level by more than 2.576 standard "
                "errors of that level and by more than 2 % of the distance from it to the best value; in ranks such "
                "cells are tied, above diverged ones."
            ),
            *(
                [f"{diverged}; each counts as the worst outcome in medians and ranks, and its cell is given no mean."]
                if ran
                else []
            ),
            f"{intervals}.",
            *(_pairs(terms) if len(names) > 1 else []),
        ]
    if ranked:
        sentences.append(
            f"Over workloads, the combinations of {_workload(terms)}, {terms.treatment}s were compared "
            "by Friedman's test, corrected for unequal variances (Huynh and Feldt, 1976), and pairs of mean ranks by "
            "Holm; workloads, not seeds, are the sample."
        )
    if recipes and any(record.probes for record in records):
        sentences.append(
            f"Probes were tested against outcomes by permuting the {terms.treatment}s' labels jointly over all "
            "workloads; the statistic is the mean of Spearman's ρ over workloads, corrected by Holm for all probes and "
            f"their forms.{terms.exchange}"
        )
    if statuses["failed"]:
        failed = f"{counted(statuses['failed'], 'further trial')} ended with an error and"
        sentences.append(f"{failed} {'is' if statuses['failed'] == 1 else 'are'} in no statistic.")
    if quotients:
        measured = "; ".join(f"{name} with {text}" for name, text in quotients.items())
        sentences.append(
            "The gradient quotient (Dauphin and Schoenholz, 2019) was measured before the first training step "
            f"({measured}); where most of the gradient is smaller than ε it is saturated"
            + (", and statistics are given with such values and without them." if recipes else ".")
        )
    sentences.append(
        f"Trials ran on {_listed(sorted({_device(record) for record in records}))} with Python "
        f"{_versions(records, 'python')} and PyTorch {_versions(records, 'torch')}."
    )
    return " ".join(sentences)


def _pairs(terms: Terms) -> list[str]:
    several = f"{terms.treatment}s"
    return [
        (
            f"Within a workload, pairs of {several} were compared by their paired differences over the seeds, "
            f"corrected by Holm's procedure; each interval has the level of its pair's step and, up to {BLOCK_SEEDS} "
            f"seeds, is the widest of those by the pair's own variance and by variances that {several} share."
        ),
        (
            f"In tables, intervals of differences from the {terms.treatment} that ranks best hold for all pairs of "
            f"{several} at once (Bonferroni)."
        ),
    ]


def _tuned(tune: Tune, terms: Terms) -> list[str]:
    whose = "One search served all seeds" if tune.is_once else "Each seed had a search of its own"
    keys = listed([_key(key) for key in tune.keys])
    verb = "was" if len(tune.keys) == 1 else "were"
    at = {
        "own": "each at the best of its own search",
        "shared": "all at the learning rate with the best mean rank over their searches",
        "recipe": "all at the values that the recipe writes",
    }
    return [
        f"{capitalized(keys)} {verb} tuned on the validation split, with {tune.tries} tries per cell.",
        f"{whose}; final trials were trained afresh at the values that it chose.",
        *([f"{capitalized(terms.treatment)}s are compared {at[tune.protocol]}."] if tune.protocol else []),
    ]


def _key(key: str) -> str:
    kind, _, name = key.partition(".")
    return "the learning rate" if key == RATE else f"the argument {name} of the {kind}"


def _workload(terms: Terms) -> str:
    if terms.treatment == "initializer":
        return "architecture, scheme, dataset and recipe"
    return "all that is not compared"


def _recipe(recipes: Sequence[Mapping[str, Any]], *, has_tuned_rate: bool = False) -> str:
    """Return ``for 8 epochs in batches of 64 with SGD (learning rate 0.1, momentum 0.9, schedule cosine)``.

    Settings that only some networks have end in "or not": ``gradients clipped at norm 1.0 or not``.
    """
    used = [effective(recipe) for recipe in recipes]

    def values(field: str) -> list[Any]:
        distinct_values = {repr(recipe[field]): recipe[field] for recipe in used if field in recipe}.values()
        return sorted((value for value in distinct_values if value not in OFF), key=lambda value: natural(str(value)))

    details = [f"learning rate {'tuned' if has_tuned_rate else _either(values('lr'))}"]
    for field, words in DETAILS.items():
        if used_values := values(field):
            amount = "" if used_values[0] is True else f" {_either(used_values)}"
            everywhere = all(recipe.get(field) not in OFF for recipe in used)
            details.append(f"{words}{amount}{'' if everywhere else ' or not'}")
    lengths = [
        f"{_either(numbers)} {unit if numbers == [1] else f'{unit}s'}"
        for unit, numbers in (("epoch", values("epochs")), ("step", values("steps")))
        if numbers
    ]
    sizes = [*values("batch_size"), *(f"up to {tokens} tokens" for tokens in values("batch_tokens"))]
    return (
        f"for {_either(lengths)} in batches of {_either(sizes)} with "
        f"{_either([OPTIMIZERS.get(name, name) for name in values('optimizer')])} ({', '.join(details)})"
    )


OFF: tuple[Any, ...] = (None, 0, False, (), [])
DETAILS = {
    "momentum": "momentum",
    "nesterov": "Nesterov’s form of it",
    "betas": "betas",
    "weight_decay": "weight decay",
    "lr_multipliers": "learning-rate multipliers",
    "weight_decays": "weight decays",
    "schedule": "schedule",
    "milestones": "milestones at epochs",
    "step_factor": "each by a factor of",
    "warmup_epochs": "warm-up epochs",
    "warmup_steps": "warm-up steps",
    "shift_steps": "steps of the schedule’s shift",
    "accumulate": "gradient accumulation",
    "batch_norm": "statistics of BatchNorm over each",
    "clip_norm": "gradients clipped at norm",
    "random_resized_crop": "random crops, resized, of a share of the area in",
    "crop": "random crops after padding by",
    "flip": "random horizontal flips",
    "cutout": "cutout",
    "mixup": "mixup",
    "label_smoothing": "label smoothing",
    "precision": "precision",
    "deterministic": "deterministic kernels",
    "cudnn_benchmark": "cuDNN’s fastest kernels",
    "compile": "a compiled model",
}
"""Fields of the recipe → their words, if they are not off."""


def _datasets(records: Sequence[TrialRecord]) -> list[str]:
    texts = set()
    for dataset in with_contents(distinct(record.spec["dataset"] for record in records)):
        given = [f"{name} {value}" for name, value in dataset["arguments"].items() if value is not None]
        texts.add(dataset["name"] + (f" ({', '.join(given)})" if given else ""))
    return sorted(texts, key=natural)


def _versions(records: Sequence[TrialRecord], name: str) -> str:
    versions = set()
    for record in records:
        value = record.environment.get(name)
        versions.add(str(value) if value else "of a version that was not recorded")
    return _either(sorted(versions, key=natural))


def _device(record: TrialRecord) -> str:
    device, processor = record.environment.get("device", "a device"), record.environment.get("processor")
    return f"{device} ({processor})" if processor else str(device)


def _span(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _either(values: Sequence[Any]) -> str:
    return " or ".join(show(value) if isinstance(value, dict) else str(value) for value in values)


def _listed(names: Sequence[str]) -> str:
    if len(names) > _LONGEST_LIST:
        return f"{', '.join(names[:_LONGEST_LIST])} and {len(names) - _LONGEST_LIST} more"
    return listed(names)
