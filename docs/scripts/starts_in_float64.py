"""Measure in float64 the loss and gradient at the start of trials that diverged within their first steps.

    python docs/scripts/starts_in_float64.py skipinit_depth skipinit_failures weightnorm_depth \
      --write docs/results/starts_in_float64.json

A loss that is not finite at step 0 may be an overflow of float32 alone, which says nothing of whether the network could
be trained. Each network of a packed ledger (docs/results/papers) that diverged at one of the first three steps is built
and initialized again as its trial was, and takes one forward and one backward pass in training mode over its first
training batch, in float32 and in float64. Trials that share a start, such as those of several learning rates, are
measured once, and what the file has is not measured again. Networks that a tuner initialized are left out: to tune one
again takes as long as its trial.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pack_ledger import unpack

from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatches
from initbench.data.load import load_dataset
from initbench.execution.process_state import process_state
from initbench.execution.trial import _build, _initialize
from initbench.json_values import json_values
from initbench.suite.spec import TrialSpec
from initbench.tasks import find_task
from initbench.training.run import batch_loss

LEDGERS = Path(__file__).parents[1] / "results" / "papers"
FIRST_STEPS = 3


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledgers", nargs="+")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    known = json.loads(options.write.read_text("utf-8")) if options.write and options.write.exists() else {}
    measured: dict[str, dict[str, Any]] = {}
    for ledger in options.ledgers:
        for record in diverged_records(LEDGERS / f"{ledger}.tar.xz"):
            shared = ("architecture", "scheme", "initializer", "dataset", "seed")
            parts = [record["identity"][key] for key in shared] + [record["spec"]["recipe"]["batch_size"]]
            start = json.dumps(parts, sort_keys=True)
            if start not in measured:
                spec = TrialSpec.model_validate_json(json.dumps(record["spec"]))
                measured[start] = known.get(record["id"]) or json_values(at_start(spec))
            known[record["id"]] = measured[start] | {"ledger": ledger}
            print(ledger, start, known[record["id"]], flush=True)
    if options.write is not None:
        options.write.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def diverged_records(archive: Path) -> list[dict[str, Any]]:
    """Return the records of untuned networks that diverged at one of the first steps."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(archive, Path(folder))
        records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("trials/*.json"))]
    return [
        record
        for record in records
        if record["status"] == "diverged"
        and record["metrics"]["diverged_at_step"] < FIRST_STEPS
        and not record["initialization"]["history"]
    ]


def at_start(spec: TrialSpec) -> dict[str, float]:
    """Return the loss and the norm of its gradient before the first step, in float32 and in float64."""
    measured = {}
    with process_state(spec.recipe.threads, torch.device("cpu")):
        dataset = load_dataset(spec.dataset.name, spec.dataset.all_arguments, torch.device("cpu"), spec.dataset.content)
        model = _build(spec, dataset)
        _initialize(spec, model, dataset)
        recipe = spec.recipe
        augmentation = Augmentation(recipe.crop, recipe.flip, recipe.cutout, recipe.mixup, recipe.random_resized_crop)
        batches = TrainingBatches(dataset.train, recipe.batch_size, augmentation, spec.stream_seed)
        batch = next(batches.epoch())
        for dtype in (torch.float32, torch.float64):
            model = model.to(dtype).train()
            model.zero_grad()
            batch = replace(batch, inputs=batch.inputs.to(dtype))
            loss = batch_loss(find_task(dataset.task), model(batch.inputs), batch)
            loss.backward()
            norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
            name = str(dtype).removeprefix("torch.")
            measured |= {f"loss_{name}": loss.item(), f"gradient_norm_{name}": norm.item()}
    return measured


if __name__ == "__main__":
    main()
