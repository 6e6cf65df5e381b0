"""Compare the verdicts of `initbench check` with what the networks of the packed ledgers did when they were trained.

    python docs/scripts/check_against_ledgers.py

A cell is a network with an initializer on a dataset with a recipe. The model of the cell's first seed is built and
initialized as its trial did, and `check` judges it on real batches, without training. The cell trained if it came, at
every seed, half of the way from guessing to the best of its workload (`initbench.statistics.cells.all_train`). Cells
are counted and left out if their data are not on this machine, and if a tuner, which takes minutes, made their start.

Networks (architecture, arguments and scheme) are sorted by name and halved: those at odd positions are judged, the
thresholds of `check` may have been chosen on the others (`--half first`). Ledgers that were packed later
are judged whole (`--half later`).
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from initbench.data.load import load_dataset
from initbench.errors import DataError
from initbench.execution.trial import starting_model
from initbench.inspection.check import check
from initbench.inspection.verdicts import KINDS
from initbench.reporting.results import read_results
from initbench.statistics.cells import all_train
from initbench.statistics.intervals import wilson_estimate
from initbench.suite.spec import TrialSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.inspection.verdicts import Verdict

RESULTS = Path(__file__).parents[1] / "results"
FAMILIES = ("plain", "residual", "BatchNorm", "post-norm", "pre-norm")
TUNERS = {"metainit", "gradinit"}


def family(spec: TrialSpec) -> str:
    """Return the family of a network."""
    norm = spec.architecture.arguments.get("norm")
    if norm in {"batch", "group"}:
        return "BatchNorm"
    if norm in {"pre", "post"}:
        return f"{norm}-norm"
    return "plain" if spec.architecture.name in {"plain", "mlp", "vgg"} else "residual"


def network(spec: TrialSpec) -> str:
    """Return the name by which networks are sorted."""
    return json.dumps([spec.architecture.name, spec.architecture.arguments, spec.scheme], sort_keys=True)


HALVED = {
    *(
        "cifar_depth",
        "digits_initializers",
        "digits_normalization",
        "fair_digits",
        "fashion_depth",
        "images_and_text",
        "language_modelling",
        "quickstart",
    ),
    *(
        "papers/cifar_depth",
        "papers/fixup_depth",
        "papers/gradinit_appendix_c",
        "papers/gradinit_table8",
        "papers/metainit_bases",
        "papers/metainit_batchnorm",
        "papers/metainit_figure3",
        "papers/metainit_lsuv",
        "papers/metainit_real_data",
        "papers/metainit_table1",
        "papers/metainit_table2",
        "papers/skipinit_depth",
        "papers/skipinit_failures",
        "papers/skipinit_own_rates",
        "papers/skipinit_rates",
        "papers/weightnorm_depth",
        "papers/weightnorm_warmup",
    ),
}
"""The ledgers that there were when the thresholds were chosen."""


def ledgers(*, later: bool = False) -> list[Path]:
    """Return the packed ledgers that there were when the thresholds were chosen, or those that came later."""
    packed = sorted([*RESULTS.glob("*.tar.xz"), *RESULTS.glob("papers/*.tar.xz")])
    names = {path: path.relative_to(RESULTS).as_posix().removesuffix(".tar.xz") for path in packed}
    return [path for path in packed if (names[path] not in HALVED) == later]


def cells_of(archive: Path) -> Iterator[tuple[TrialSpec, bool]]:
    """Yield the first seed's spec of each cell, and whether all seeds trained."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = read_results(next(path.parent for path in folder.rglob("trials")))
            trained = dict(
                zip(
                    zip(results.cells["workload"], results.cells["treatment"], strict=True),
                    all_train(results.cells),
                    strict=True,
                )
            )
        specs = {record["id"]: record["spec"] for record in map(_read, folder.rglob("trials/*.json"))}
    for cell, own in results.trials.groupby(["workload", "treatment"], sort=False):
        first = own.sort_values("seed").iloc[0]
        yield TrialSpec.model_validate_json(json.dumps(specs[first["trial_id"]])), bool(trained[cell])


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def judged(spec: TrialSpec) -> Verdict:
    """Return the verdict on the model that a trial starts from."""
    dataset = load_dataset(spec.dataset.name, spec.dataset.all_arguments, "cpu", spec.dataset.content)
    data = {"name": spec.dataset.name, **spec.dataset.all_arguments}
    row = check(starting_model(spec, dataset), data=data, seeds=1, quotient=False).rows[0]
    assert row.verdict is not None
    return row.verdict


def cells(half: str) -> list[tuple[TrialSpec, bool]]:
    """Return the cells of one half of the networks, or of those that came later, each with whether it trained."""
    chosen_from = ledgers(later=half == "later")
    by_id = {spec.id: (spec, trained) for archive in chosen_from for spec, trained in cells_of(archive)}
    pairs = list(by_id.values())  # some trials are in several ledgers
    names = sorted({network(spec) for spec, _ in pairs})
    chosen = set({"first": names[0::2], "second": names[1::2], "later": names}[half])
    return [(spec, trained) for spec, trained in pairs if network(spec) in chosen]


Outcome = tuple[str, str, bool]  # family, kind of the verdict, whether the cell trained


def outcomes(half: str, *, tuners: bool, deepest: int) -> tuple[list[Outcome], Counter[str]]:
    """Return what was judged, and how many cells were left out by reason."""
    results, left_out, known = [], Counter(), {}
    for spec, trained in cells(half):
        if spec.initializer.name in TUNERS and not tuners:
            left_out["their initializer is a tuner"] += 1
            continue
        if spec.architecture.arguments.get("depth", 0) > deepest:
            left_out[f"they are deeper than {deepest} layers"] += 1
            continue
        start = spec.model_dump_json(include={"architecture", "scheme", "initializer", "dataset", "seed"})
        try:
            if start not in known:
                known[start] = judged(spec)
        except DataError:
            left_out[f"{spec.dataset.name} is not the data of the trial"] += 1
            continue
        results.append((family(spec), known[start].kind, trained))
    return results, left_out


def table(results: list[Outcome]) -> str:
    """Return the numbers of cells by family and verdict as Markdown."""
    lines = ["| family | verdict | trained | did not |", "|---|---|---|---|"]
    counts = Counter(results)
    for name in FAMILIES:
        for kind in reversed(KINDS):
            yes, no = counts[name, kind, True], counts[name, kind, False]
            if yes or no:
                lines.append(f"| {name} | {kind} | {yes} | {no} |")
    return "\n".join(lines)


def sentence(results: list[Outcome]) -> str:
    """Return what the verdicts are worth, with Wilson's 95 % intervals."""
    healthy = [trained for _, kind, trained in results if kind == "healthy"]
    others = [trained for _, kind, trained in results if kind != "healthy"]
    return f"Of the cells judged healthy, {_share(healthy)} trained, of all others {_share(others)}."


def _share(trained: list[bool]) -> str:
    rate = wilson_estimate(sum(trained), len(trained))
    return f"{sum(trained)} of {len(trained)} (95 % interval {rate.low:.0%} to {rate.high:.0%})"


def main() -> None:
    """Print the table and the sentence."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--half", choices=("first", "second", "later"), default="second", help="the networks that are judged"
    )
    parser.add_argument("--tuners", action="store_true", help="judge what tuners leave, too, which takes minutes each")
    parser.add_argument("--deepest", type=int, default=200, help="layers of the deepest network that is judged")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results, left_out = outcomes(arguments.half, tuners=arguments.tuners, deepest=arguments.deepest)
    print(table(results), sentence(results), sep="\n\n")
    for reason, number in left_out.items():
        print(f"{number} cells were left out: {reason}.")


if __name__ == "__main__":
    main()
