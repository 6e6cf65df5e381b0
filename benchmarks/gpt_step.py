"""A training step of gpt with initbench against a plain PyTorch loop, and its gradient quotient against gradients.

initbench trains by `train`; the reference is a network and a loop as nanoGPT has them, with the three projections of
attention in one layer. Both take the same steps of AdamW with clipped gradients on the same tokens, which is checked
first. The gradient quotient needs attention whose derivative has a derivative; it is compared with a gradient by that
kernel of attention, and with one by PyTorch's fused kernel, which a training has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import timing
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import initbench
from initbench.data.dataset import Dataset, Split, Splits
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.registry import register_task
from initbench.tasks import Task
from initbench.training.loop import train
from initbench.training.recipe import Recipe

LR, BETAS, DECAY, CLIP = 1e-3, (0.9, 0.95), 0.1, 1.0
STEP_BOUND, QUOTIENT_BOUND = 1.05, 4.0
CHECKED = 3
TASK = "next_token_of_benchmark"


@register_task(TASK)
class NextToken(Task):
    """The least task over tokens: the mean cross-entropy over all positions."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("loss", "lower", primary=True),)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, 0-dim, of logits (N, T, vocabulary) and targets (N, T)."""
        return next_token_loss(outputs, targets)

    def output_shape(self, inputs: Inputs, outputs: int) -> tuple[int, ...]:
        """Return (T, vocabulary)."""
        return (*inputs.shape, outputs)

    def totals(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return the summed loss."""
        return {"loss": next_token_loss(outputs, targets) * len(targets)}

    def values(self, totals: Mapping[str, float], samples: int) -> dict[str, float]:
        """Return the mean loss."""
        return {"loss": totals["loss"] / samples}

    def constant_predictor(self, targets: Tensor, outputs: int) -> Tensor:
        """Return equal logits: nothing here is compared with chance."""
        return torch.zeros(*targets.shape[1:], outputs)

    def random_targets(self, outputs: int, samples: int, generator: torch.Generator) -> Tensor:
        """Refuse: batches are given."""
        raise NotImplementedError


class ReferenceBlock(nn.Module):
    """A block of nanoGPT, github.com/karpathy/nanoGPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gelu = nn.GELU(approximate="tanh")

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, T, width) to (N, T, width)."""
        samples, length, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (part.view(samples, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).contiguous().view(samples, length, width))
        total: Tensor = x + self.mlp_proj(self.gelu(self.c_fc(self.ln_2(x))))
        return total


class ReferenceNetwork(nn.Module):
    """nanoGPT with biases and a tied head."""

    def __init__(self, depth: int, width: int, heads: int, context: int, vocabulary: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList([ReferenceBlock(width, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (N, T) to logits (N, T, vocabulary)."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits: Tensor = self.lm_head(self.ln_f(x))
        return logits

    def load(self, model: nn.Module) -> None:
        """Take the weights of a gpt."""
        values = model.state_dict()
        for name in [name for name in values if ".c_q." in name]:
            three = [values.pop(name.replace("c_q", part)) for part in ("c_q", "c_k", "c_v")]
            values[name.replace("attn.c_q", "c_attn")] = torch.cat(three)
        for part in ("attn", "mlp"):
            for name in [name for name in values if f".{part}.c_" in name]:
                values[name.replace(f"{part}.c_proj", f"{part}_proj").replace(f"{part}.", "")] = values.pop(name)
        self.load_state_dict(values)


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy over all positions, 0-dim."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def reference_loop(
    model: nn.Module, inputs: Tensor, targets: Tensor, batch: int, epochs: int = 1
) -> Callable[[], None]:
    """Return a function that trains for some epochs."""

    def run() -> None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=BETAS, weight_decay=DECAY)
        model.train()
        for _ in range(epochs):
            for chosen in torch.split(torch.randperm(len(inputs)), batch):
                loss = next_token_loss(model(inputs[chosen]), targets[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.parameters(), CLIP)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                loss.item()

    return run


def initbench_loop(
    model: nn.Module, inputs: Tensor, targets: Tensor, batch: int, epochs: int = 1
) -> Callable[[], dict[str, Any]]:
    """Return the same by initbench's `train`, which ends a training with an evaluation: here, of one sample."""
    context, vocabulary = inputs.shape[1], int(max(inputs.max(), targets.max())) + 1
    one, none = Split(inputs[:1], targets[:1]), Split(inputs[:0], targets[:0])
    dataset = Dataset(
        "random", TASK, Inputs((context,), vocabulary), vocabulary, Splits(Split(inputs, targets), none, one)
    )
    recipe = Recipe(
        epochs=epochs,
        batch_size=batch,
        optimizer="adamw",
        lr=LR,
        betas=BETAS,
        weight_decay=DECAY,
        clip_norm=CLIP,
        schedule="constant",
    )

    def run() -> dict[str, Any]:
        result = train(model, dataset, recipe, seed=0)
        if result.diverged:
            raise ArithmeticError("the training diverged, so that fewer steps were timed")
        return result.metrics

    return run


def networks(
    depth: int, width: int, heads: int, context: int, vocabulary: int, *, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, ReferenceNetwork]:
    """Return a gpt and the reference with the same weights."""
    model = initbench.create_model(
        "gpt", depth=depth, width=width, heads=heads, inputs=Inputs((context,), vocabulary), num_classes=vocabulary
    )
    initbench.initialize(model, "gpt2")
    reference = ReferenceNetwork(depth, width, heads, context, vocabulary)
    reference.load(model)
    return model.to(dtype), reference.to(dtype)


def same_training(depth: int, width: int, heads: int, context: int, vocabulary: int) -> None:
    """Check in float64 that both sides take the same steps on one batch, over and over.

    Raises:
        AssertionError: they do not.
    """
    model, reference = networks(depth, width, heads, context, vocabulary, dtype=torch.float64)
    inputs, targets = torch.randint(vocabulary, (2, 4, context))
    initbench_loop(model, inputs, targets, 4, CHECKED)()
    reference_loop(reference, inputs, targets, 4, CHECKED)()
    with torch.no_grad():
        # AdamW's first steps are as long for the smallest gradient as for the largest.
        torch.testing.assert_close(model(inputs), reference(inputs), rtol=1e-6, atol=1e-6)


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return a row for the step, one for the quotient by the same kernel of attention, one by the fused kernel."""
    torch.manual_seed(0)
    depth, width, heads, context, vocabulary, batch, steps = 4, 128, 4, 128, 256, 16, 4
    if quick:
        depth, width, heads, context, vocabulary, batch, steps = 1, 8, 2, 8, 16, 2, 1
    sizes = (depth, width, heads, context, vocabulary)
    same_training(1, 8, 2, 8, 16)
    model, reference = networks(*sizes)
    inputs, targets = torch.randint(vocabulary, (2, steps * batch, context))
    case = f"gpt of depth {depth}, width {width}, context {context}, batch {batch}"
    pairs = timing.paired(
        initbench_loop(model, inputs, targets, batch), reference_loop(reference, inputs, targets, batch), runs
    )
    rows = [timing.Row.of_pairs(f"step of {case}", pairs, STEP_BOUND, per=steps)]
    model, _ = networks(*sizes)
    model.eval()
    parameters = list(model.parameters())
    some = (inputs[:batch], targets[:batch])

    @torch.no_grad()
    def quotient() -> Tensor:
        return initbench.gradient_quotient(model, *some, next_token_loss)

    def gradient() -> tuple[Tensor, ...]:
        return torch.autograd.grad(next_token_loss(model(some[0]), some[1]), parameters)

    def gradient_by_same_kernel() -> tuple[Tensor, ...]:
        with sdpa_kernel(SDPBackend.MATH):
            return gradient()

    pairs = timing.paired(quotient, gradient_by_same_kernel, runs)
    rows.append(
        timing.Row.of_pairs(f"quotient of {case}, against a gradient by the same kernel", pairs, QUOTIENT_BOUND)
    )
    pairs = timing.paired(quotient, gradient, runs)
    rows.append(timing.Row.of_pairs(f"quotient of {case}, against a gradient by the fused kernel", pairs, None))
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=15, threads=1)
