"""Checks and notes before a run writes its first byte."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from initbench.comparing.formatting import counted
from initbench.errors import ArgumentError, DataError
from initbench.execution.environment import differences, environment
from initbench.execution.executor import device_of
from initbench.ledger import TrialRecord
from initbench.suite.document import Origin
from initbench.suite.load import Suite
from initbench.suite.plan import Plan
from initbench.suite.spec import ComponentSpec, TrialSpec
from initbench.training.recipe import Recipe

_MOST_NAMED = 5


def notes(
    suite: Suite, plan: Plan, missing: Sequence[TrialSpec], records: Mapping[str, TrialRecord], skipped: Sequence[str]
) -> Iterator[str]:
    """Check the data of a run, and yield notes for the user, one line each."""
    if missing:
        _check_device(suite, missing)
        yield from check_data(suite, missing)
        yield from _of_emulation(suite, missing)
    yield from _of_what_is_there(plan, records)
    yield from (f"skipped {line}" for line in skipped[:_MOST_NAMED])
    if len(skipped) > _MOST_NAMED:
        yield f"skipped {len(skipped) - _MOST_NAMED} more"


def _check_device(suite: Suite, missing: Iterable[TrialSpec]) -> None:
    import torch

    from initbench.training.refusals import check_device

    device = device_of(suite.resources.gpus)
    if device == "cuda" and not torch.cuda.is_available():  # a node of the cluster may have one, and checks it
        return
    for trial in missing:
        try:
            check_device(trial.recipe, device)
        except ArgumentError as error:
            raise Origin(suite.document, ("recipe",)).argument_error(error) from error


def check_data(suite: Suite, trials: Iterable[TrialSpec]) -> list[str]:
    """Read every dataset once, downloading missing files; return notes about the files for the user.

    A SuiteError says that a dataset refuses an argument, cannot be obtained, or does not fit into a recipe's batches.
    """
    from initbench.data.load import load_dataset
    from initbench.training.refusals import check_sentences

    origins = {_named(part.spec): part.origin for part in suite.datasets}
    used: dict[str, TrialSpec] = {}
    recipes: defaultdict[str, dict[str, Recipe]] = defaultdict(dict)
    for trial in sorted(trials, key=lambda trial: trial.phase == "search"):  # a search trial is the last, if any
        key = trial.dataset.model_dump_json()
        used[key] = trial
        recipes[key][trial.recipe.model_dump_json()] = trial.recipe
    notes = []
    for trial in used.values():
        dataset = trial.dataset
        origin = origins.get(_named(dataset)) or Origin(suite.document, ("dataset",))
        try:
            loaded = load_dataset(dataset.name, dataset.all_arguments, content=dataset.content)
        except ArgumentError as error:
            raise origin.argument_error(error) from error
        except DataError as error:
            raise origin.error(str(error)) from error
        if trial.phase == "search" and not len(loaded.validation):
            raise origin.error("has no validation samples, which tune needs")
        for recipe in recipes[dataset.model_dump_json()].values():
            try:
                check_sentences(recipe, loaded.train)
            except ArgumentError as error:
                raise Origin(suite.document, ("recipe",)).argument_error(error) from error
        if loaded.facts:
            facts = ", ".join(f"{name.replace('_', ' ')}: {number}" for name, number in loaded.facts.items())
            notes.append(f"{dataset.name}: {facts}")
    return notes


def _named(component: ComponentSpec) -> str:
    return component.model_dump_json(include={"name", "arguments"})


def _of_emulation(suite: Suite, missing: Iterable[TrialSpec]) -> Iterator[str]:
    if all(trial.recipe.precision != "bf16" for trial in missing):
        return
    import torch

    from initbench.training.precision import bf16_is_emulated

    device = device_of(suite.resources.gpus)
    # On a cluster, this process may have no GPU.
    if (device == "cpu" or torch.cuda.is_available()) and bf16_is_emulated(device):
        yield (
            f"recipe.precision: bf16: this {'GPU' if suite.resources.gpus else 'processor'} has no instructions for "
            "it, and a step may take ten times as long as one of fp32"
        )


def _of_what_is_there(plan: Plan, records: Mapping[str, TrialRecord]) -> Iterator[str]:
    planned = {trial.id for trial in (*plan.trials, *plan.unselected)}
    others = len([i for i in records if i not in planned])
    if others:
        them = "it" if others == 1 else "them"
        yield (
            f"the ledger also has {counted(others, 'trial')} that this suite does not plan; the report shows {them} too"
        )
    if plan.incompatible:
        are = "is" if len(plan.incompatible) == 1 else "are"
        yield f"{counted(len(plan.incompatible), 'pair')} {are} incompatible: {plan.reasons}"
    # On a cluster, this process may not have the device of the trials.
    here = environment("cpu")
    on_cpus = [record.environment for record in records.values() if record.environment.get("device") == "cpu"]
    changed = sorted({text for where in on_cpus for text in differences(where, here)})
    if changed:
        yield f"finished trials ran elsewhere ({'; '.join(changed)}): numbers may not be bitwise comparable"
