"""Batches of a split: the training epochs, and endless batches for tuners and probes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initbench.data import augmentation as augment
from initbench.data.dataset import Samples
from initbench.models.batches import to_device
from initbench.randomness import derive_seed, generator


@dataclass(frozen=True)
class TrainingBatch:
    """One augmented training batch.

    With mixup, `weight` is λ, the weight of `targets`, and `partners` are the targets that are mixed in; without it, 1
    and `targets` itself.
    """

    inputs: Tensor
    targets: Tensor
    partners: Tensor
    weight: float = 1.0

    def __len__(self) -> int:
        return len(self.targets)

    def split(self, parts: int) -> list[TrainingBatch]:
        """Split the samples, in their order, into parts of nearly equal size."""
        tensors = (self.inputs, self.targets, self.partners)
        split = zip(*(tensor.tensor_split(parts) for tensor in tensors), strict=True)
        return [TrainingBatch(inputs, targets, partners, self.weight) for inputs, targets, partners in split]


class TrainingBatches:
    """The training split, epoch after epoch, in random order and augmented.

    With `batch_tokens`, batches have up to that many tokens instead of `batch_size` samples. The samples of each are
    then fixed, see `token_batches`, and only the order of the batches changes from epoch to epoch.

    Order, random resized crops, crops, flips, cutout and mixup are applied in this order. Each has its own random
    stream, drawn for a whole epoch at its start. So switching one on leaves the others unchanged, all but mixup are
    independent of the batch size, and each sends one small tensor per epoch to the device. mixup's λ comes from a NumPy
    generator because PyTorch's Beta accepts none.
    """

    def __init__(
        self,
        split: Samples,
        batch_size: int,
        augmentation: augment.Augmentation,
        seed: int,
        batch_tokens: int | None = None,
    ) -> None:
        self.split = split
        self.batch_size = batch_size
        self.augmentation = augmentation
        # Checkpoints use these names.
        self._generators = {
            "order": generator(seed, "data_order"),
            "resized_crop": generator(seed, "augmentation", "random_resized_crop"),
            "crop": generator(seed, "augmentation", "crop"),
            "flip": generator(seed, "augmentation", "flip"),
            "cutout": generator(seed, "augmentation", "cutout"),
            "partners": generator(seed, "augmentation", "mixup_partners"),
        }
        self._fixed: list[Tensor] | None = None
        if batch_tokens is not None:
            assert split.lengths is not None  # see `initbench.training.refusals.check_sentences`
            fixed = token_batches(split.lengths, batch_tokens, generator(seed, "data_order", "token_batches"))
            self._fixed = [batch.to(split.index_device) for batch in fixed]
        self._weight = np.random.default_rng(derive_seed(seed, "augmentation", "mixup_weight"))
        # Position in an epoch: the streams at its start, and how many of its batches are taken or left out.
        self._begun: dict[str, Tensor] | None = None
        self._taken = self._left_out = 0

    def __len__(self) -> int:
        return len(self._sizes()) if self._fixed is None else len(self._fixed)

    def _sizes(self) -> list[int]:
        """Return the batch sizes. A single leftover sample joins the previous batch, because BatchNorm needs two."""
        full, rest = divmod(len(self.split), self.batch_size)
        sizes = [self.batch_size] * full + [rest] * (rest > 0)
        return [*sizes[:-2], sizes[-2] + 1] if rest == 1 and full else sizes

    def epoch(self) -> Iterator[TrainingBatch]:
        """Iterate over one epoch, every sample once; after `restore`, over the batches that were not yet taken."""
        options = self.augmentation
        skipped, self._left_out = self._left_out, 0
        self._begun, self._taken = self._streams(), skipped
        order = self._order()
        sizes = [len(part) for part in order]
        drawn = self._drawn(sizes)
        if options.mixup:
            partners = self._generators["partners"]
            permutations = [torch.randperm(len(part), generator=partners, device="cpu") for part in order]
            pairs = torch.split(torch.cat(permutations).to(self.split.device), sizes)
        boxes = drawn.pop("boxes", None)
        taken = self.split.batches(order[skipped:], None if boxes is None else boxes[skipped:])
        for i, (samples, targets) in enumerate(taken, start=skipped):
            self._taken = i + 1
            inputs = self._augmented(samples, {name: parts[i] for name, parts in drawn.items()})
            if options.mixup:
                weight = float(self._weight.beta(options.mixup, options.mixup))
                yield TrainingBatch(augment.mixup(inputs, weight, pairs[i]), targets, targets[pairs[i]], weight)
            else:
                yield TrainingBatch(inputs, targets, targets)

    def _order(self) -> Sequence[Tensor]:
        """Draw an epoch: return the indices of each batch's samples."""
        batches = self._fixed
        count = len(self.split) if batches is None else len(batches)
        permutation = torch.randperm(count, generator=self._generators["order"], device="cpu")
        if batches is None:
            return torch.split(permutation.to(self.split.index_device), self._sizes())
        return [batches[index] for index in permutation.tolist()]

    def state(self) -> dict[str, Any]:
        """Return the state of the streams between two batches, as tensors, numbers and text.

        Streams that are drawn for a whole epoch are returned as they were at its start, together with the number of
        batches taken since; `restore` draws the whole epoch again.
        """
        within = self._begun is not None and self._taken < len(self)
        streams = self._begun if within else self._streams()
        # NumPy's state has 128-bit numbers, which every reader can take as text.
        weight = json.dumps(self._weight.bit_generator.state)
        return {"streams": streams, "mixup_weight": weight, "taken": self._taken if within else 0}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of another iterator with the same arguments; see `state`."""
        for name, stream in self._generators.items():
            stream.set_state(state["streams"][name])
        self._weight.bit_generator.state = json.loads(state["mixup_weight"])
        self._begun = self._streams()
        self._taken = self._left_out = int(state["taken"])

    def _streams(self) -> dict[str, Tensor]:
        return {name: stream.get_state() for name, stream in self._generators.items()}

    def _drawn(self, sizes: list[int]) -> dict[str, Sequence[Tensor]]:
        """Return the random numbers that augment an epoch's images: name → one tensor per batch."""
        n, options, device, streams = len(self.split), self.augmentation, self.split.device, self._generators
        drawn: dict[str, Tensor] = {}
        if options.random_resized_crop:
            height, width = self.split.uncropped_shape[-2:]
            # They stay on the CPU, see `random_resized_crop`.
            drawn["boxes"] = augment.draw_boxes(
                n, (height, width), options.random_resized_crop, streams["resized_crop"]
            )
        if options.crop:
            windows = torch.randint(2 * options.crop + 1, (n, 2), generator=streams["crop"], device="cpu")
            drawn["windows"] = windows.to(device)
        if options.flip:
            drawn["mirrored"] = (torch.rand(n, generator=streams["flip"], device="cpu") < 0.5).to(device)
        if options.cutout:
            sides = self.split.sample_shape[-2:]
            centres = [torch.randint(side, (n,), generator=streams["cutout"], device="cpu") for side in sides]
            drawn["squares"] = torch.stack(centres, 1).to(device)
        return {name: torch.split(values, sizes) for name, values in drawn.items()}

    def _augmented(self, inputs: Tensor, drawn: Mapping[str, Tensor]) -> Tensor:
        """Return one batch after all augmentations except mixup and random resized crops."""
        options = self.augmentation
        if options.crop:
            inputs = augment.crop(inputs, drawn["windows"], options.crop)
        if options.flip:
            inputs = augment.flip(inputs, drawn["mirrored"])
        if options.cutout:
            inputs = augment.cutout(inputs, drawn["squares"], options.cutout)
        return inputs


def token_batches(lengths: Tensor, batch_tokens: int, ties: torch.Generator) -> list[Tensor]:
    """Return the indices of each batch's samples, int64: every sample once, sorted by length.

    A batch has as many samples as fit: its longest sentence times its samples is at most `batch_tokens`, so that
    padding counts, as with ``--max-tokens`` of fairseq. The number of batches depends only on the lengths.

    Args:
        lengths: tokens in the longer sentence of each pair, int64 (N,), at most `batch_tokens`.
        batch_tokens: the most tokens in a batch, of the source or of the target.
        ties: orders samples of one length at random.
    """
    shuffled = torch.randperm(len(lengths), generator=ties, device="cpu")
    order = shuffled[lengths[shuffled].argsort(stable=True)]
    sizes: list[int] = []
    for length in lengths[order].tolist():
        if not sizes or (sizes[-1] + 1) * length > batch_tokens:
            sizes.append(0)
        sizes[-1] += 1
    return list(torch.split(order, sizes)) if sizes else []


def endless_batches(split: Samples, batch_size: int, order: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Return endless batches of real samples, each of exactly `batch_size`, not augmented.

    The samples come in one random permutation after another, so none is repeated before all have been seen. `order` is
    a CPU generator for these batches only, of the stream ``tuner_batches`` or ``probe_batches``; it runs ahead of the
    batches if samples are read ahead.
    """
    return split.batches(_endless_order(split, batch_size, order))


def _endless_order(split: Samples, batch_size: int, order: torch.Generator) -> Iterator[Tensor]:
    waiting = torch.empty(0, dtype=torch.int64, device="cpu")
    while True:
        while len(waiting) < batch_size:
            waiting = torch.cat([waiting, torch.randperm(len(split), generator=order, device="cpu")])
        yield to_device(waiting[:batch_size], split.index_device)
        waiting = waiting[batch_size:]
