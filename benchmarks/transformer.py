"""A training step of transformer with initbench against torch's `nn.Transformer` in a plain loop: time and memory.

Both are post-norm networks without final norms, from the same weights, and take the same steps of Adam on the same
batches of sentences with padding, which is checked first. The peak memory of initbench is measured after that of the
reference, in the same process, which keeps what was freed: a ratio is never below 1.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import timing
import torch
from micro_batches import memory, peak
from torch import Tensor, nn
from torch.nn import functional

import initbench
from initbench.data.dataset import Dataset, Split, Splits
from initbench.inputs import END, PAD, Inputs
from initbench.models.sentences import paired
from initbench.training.loop import train
from initbench.training.recipe import Recipe

LR, BETAS = 5e-4, (0.9, 0.98)
STEP_BOUND, MEMORY_BOUND = 1.1, 1.1
CHECKED = 3


class ReferenceNetwork(nn.Module):
    """Torch's Transformer with fairseq's embeddings and a head that shares the weight of the target's."""

    def __init__(self, model: nn.Module, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, math.sqrt(width)
        encoder, decoder = model.get_submodule("encoder"), model.get_submodule("decoder")
        self.source, self.target = (copy.deepcopy(stack.get_submodule("embed_tokens")) for stack in (encoder, decoder))
        self.positions: Tensor = encoder.get_submodule("embed_positions").get_buffer("table")
        self.stacks = nn.Transformer(
            width, heads, depth, depth, 2 * width, dropout=0.0, batch_first=True, dtype=self.positions.dtype
        )
        self.stacks.encoder.norm = self.stacks.decoder.norm = None
        self.stacks.load_state_dict(stacked(model))

    def forward(self, pair: Tensor) -> Tensor:
        """Map (N, 2, L) to logits (N, L, vocabulary)."""
        source, target = pair.unbind(1)
        padding = source == PAD
        positions = self.positions[: pair.shape[2]]
        causal = torch.ones(pair.shape[2], pair.shape[2], dtype=torch.bool).triu(1)
        states = self.stacks(
            self.scale * self.source(source) + positions,
            self.scale * self.target(target) + positions,
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return functional.linear(states, self.target.get_parameter("weight"))


def stacked(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of our layers by torch's names, with the three projections of attention in one tensor."""
    values = {name: value for name, value in model.state_dict().items() if ".layers." in name}
    for name in [name for name in values if ".q_proj." in name]:
        three = [values.pop(name.replace("q_proj", f"{role}_proj")) for role in "qkv"]
        values[name.replace("q_proj.", "in_proj_")] = torch.cat(three)
    renamed = {}
    for name, value in values.items():
        last = "norm3" if name.startswith("decoder") else "norm2"
        pairs = {"self_attn_layer_norm": "norm1", "encoder_attn_layer_norm": "norm2", "final_layer_norm": last}
        pairs |= {"encoder_attn": "multihead_attn", "feed_forward.fc1": "linear1", "feed_forward.fc2": "linear2"}
        new = name
        for ours, theirs in pairs.items():
            new = new.replace(f".{ours}.", f".{theirs}.")
        renamed[new] = value
    return renamed


def word_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy over all tokens but padding, 0-dim."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


def sentences(number: int, longest: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Return inputs (N, 2, L) and targets (N, L) of random tokens, with lengths from L/2 to L."""
    sides = []
    for _ in range(2):
        tokens = torch.randint(END + 1, vocabulary, (number, longest))
        last, place = torch.randint(longest // 2, longest, (number, 1)), torch.arange(longest)
        sides.append(tokens.masked_fill(place == last, END).masked_fill(place > last, PAD))
    source, targets = sides
    return paired(source, targets), targets


def reference_loop(
    model: nn.Module, inputs: Tensor, targets: Tensor, batch: int, epochs: int = 1
) -> Callable[[], None]:
    """Return a function that trains for some epochs."""

    def run() -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=LR, betas=BETAS)
        model.train()
        for _ in range(epochs):
            for chosen in torch.split(torch.randperm(len(inputs)), batch):
                loss = word_loss(model(inputs[chosen]), targets[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                loss.item()

    return run


def initbench_loop(
    model: nn.Module, inputs: Tensor, targets: Tensor, batch: int, epochs: int = 1
) -> Callable[[], dict[str, Any]]:
    """Return the same by initbench's `train`, which ends a training with an evaluation: here, of one pair."""
    vocabulary = int(max(inputs.max(), targets.max())) + 1
    one, none = Split(inputs[:1], targets[:1]), Split(inputs[:0], targets[:0])
    shape = Inputs(tuple(inputs.shape[1:]), vocabulary)
    dataset = Dataset("random", "translation", shape, vocabulary, Splits(Split(inputs, targets), none, one))
    recipe = Recipe(
        epochs=epochs, batch_size=batch, optimizer="adam", lr=LR, betas=BETAS, weight_decay=0.0, schedule="constant"
    )

    def run() -> dict[str, Any]:
        result = train(model, dataset, recipe, seed=0)
        if result.diverged:
            raise ArithmeticError("the training diverged, so that fewer steps were timed")
        return result.metrics

    return run


def networks(
    depth: int, width: int, heads: int, longest: int, vocabulary: int, *, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, ReferenceNetwork]:
    """Return a transformer and the reference with the same weights."""
    inputs = Inputs((2, longest), vocabulary)
    model = initbench.create_model(
        "transformer", depth=depth, width=width, heads=heads, inputs=inputs, num_classes=vocabulary
    )
    initbench.initialize(model, "fairseq", inputs=inputs)
    model = model.to(dtype)
    return model, ReferenceNetwork(model, depth, width, heads)


def same_training(depth: int, width: int, heads: int, longest: int, vocabulary: int) -> None:
    """Check in float64 that both sides take the same steps on one batch, over and over.

    Raises:
        AssertionError: they do not.
    """
    model, reference = networks(depth, width, heads, longest, vocabulary, dtype=torch.float64)
    inputs, targets = sentences(4, longest, vocabulary)
    initbench_loop(model, inputs, targets, 4, CHECKED)()
    reference_loop(reference, inputs, targets, 4, CHECKED)()
    with torch.no_grad():
        real = targets != PAD
        # Adam's first steps are as long for the smallest gradient as for the largest.
        torch.testing.assert_close(model(inputs)[real], reference(inputs)[real], rtol=1e-6, atol=1e-6)


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return a row for the time of a step and one for the peak memory."""
    torch.manual_seed(0)
    depth, width, heads, longest, vocabulary, batch, steps = 3, 256, 4, 32, 1000, 32, 3
    if quick:
        depth, width, heads, longest, vocabulary, batch, steps = 1, 8, 2, 8, 16, 2, 1
    model, reference = networks(depth, width, heads, longest, vocabulary)
    inputs, targets = sentences(steps * batch, longest, vocabulary)
    before = memory("VmRSS")
    loops = [reference_loop(reference, inputs, targets, batch), initbench_loop(model, inputs, targets, batch)]
    theirs, ours = (peak(loop, before) for loop in loops)
    same_training(1, 8, 2, 8, 16)
    case = f"transformer of depth {depth}, width {width}, sentences of {longest}, batch {batch}"
    pairs = timing.paired(loops[1], loops[0], runs)
    return [
        timing.Row.of_pairs(f"step of {case}", pairs, STEP_BOUND, per=steps),
        timing.Row("its peak memory", (ours / theirs,), bound=MEMORY_BOUND),
    ]


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=9, threads=1)
