"""Beam search in batches with cached states against a transcription of fairseq's algorithm, sentence by sentence.

The transcription keeps no states: for each token it runs the decoder on the whole prefixes. The network is an untrained
`transformer`, which hardly ever ends a sentence: translations are as long as they may be, 1.2 times the source plus 10
tokens. That both find the same is checked first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import timing
import torch
from torch import Tensor, nn

import initbench
from initbench.inputs import END, PAD, Inputs
from initbench.tasks.search import Hypothesis, beam_search, longest_targets

BEAM, LENGTH_PENALTY, VOCABULARY, LONGEST = 5, 1.0, 4000, 64
BOUND, MOST_SECONDS = 0.2, 60.0


def transcription(
    log_probabilities: Callable[[Tensor], Tensor], longest: int, beam: int, length_penalty: float
) -> list[Hypothesis]:
    """Return the finished hypotheses of one sentence, those with the highest score first.

    Args:
        log_probabilities: from prefixes (n, length), END first, to the log-probabilities of their next tokens (n, V).
        longest: most tokens before END.
        beam: hypotheses that are followed at a time.
        length_penalty: exponent of the length.
    """
    finished: list[Hypothesis] = []
    active, scores = [[END]], [0.0]
    for step in range(longest + 1):
        extensions = log_probabilities(torch.tensor(active)).double()
        extensions[:, PAD] = -math.inf
        if step >= longest:
            extensions[:, :END] = -math.inf
            extensions[:, END + 1 :] = -math.inf
        elif step < 1:
            extensions[:, END] = -math.inf
        totals = (extensions + torch.tensor(scores, dtype=torch.float64)[:, None]).flatten()
        values, indices = totals.topk(min(2 * beam, len(totals)))
        best = [
            (value, [*active[index // extensions.shape[1]], index % extensions.shape[1]])
            for value, index in zip(values.tolist(), indices.tolist(), strict=True)
            if value > -math.inf
        ]
        for value, tokens in best[:beam]:
            if tokens[-1] == END and len(finished) < beam:
                finished.append(Hypothesis(tuple(tokens[1:-1]), value / (step + 1) ** length_penalty))
        going = [(value, tokens) for value, tokens in best if tokens[-1] != END][:beam]
        if len(finished) == beam or not going:
            break
        scores, active = [value for value, _ in going], [tokens for _, tokens in going]
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)


def network(depth: int, width: int) -> nn.Module:
    """Return an untrained transformer in evaluation mode."""
    torch.manual_seed(0)
    model = initbench.create_model(
        "transformer",
        depth=depth,
        width=width,
        inputs=Inputs((2, LONGEST), VOCABULARY),
        num_classes=VOCABULARY,
    )
    return model.eval()


def sentences(count: int) -> Tensor:
    """Return random sources of 15 to 25 tokens with END, which are the lengths of captions, int64 (count, 25)."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(14, 25, (count, 1), generator=generator)
    tokens = torch.randint(END + 1, VOCABULARY, (count, 25), generator=generator)
    positions = torch.arange(25)
    return tokens.masked_fill(positions == ends, END).masked_fill(positions > ends, PAD)


@torch.inference_mode()
def by_transcription(model: nn.Module, source: Tensor) -> list[list[Hypothesis]]:
    """Translate sentence by sentence."""
    results = []
    for sentence, longest in zip(source, _longest(source).tolist(), strict=True):
        memory = model.encode(sentence[sentence != PAD][None])

        def log_probabilities(prefixes: Tensor, memory: Tensor = memory) -> Tensor:
            count, length = len(prefixes), memory.shape[1]
            attended = torch.ones(count, 1, 1, length, dtype=torch.bool)
            logits: Tensor = model.decoder(prefixes, memory.expand(count, -1, -1), attended)[:, -1]
            return logits.log_softmax(1)

        results.append(transcription(log_probabilities, longest, BEAM, LENGTH_PENALTY))
    return results


def by_initbench(model: nn.Module, source: Tensor, batch: int = 128) -> list[list[Hypothesis]]:
    """Translate in batches."""
    results = []
    for part in source.split(batch):
        results += beam_search(model, part, _longest(part), beam=BEAM, length_penalty=LENGTH_PENALTY)
    return results


def same_search(depth: int, width: int, count: int) -> None:
    """Check in float64 that both find the same translations with the same scores."""
    model, source = network(depth, width).double(), sentences(count)
    for found, expected in zip(by_initbench(model, source), by_transcription(model, source), strict=True):
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        assert all(abs(one.score - other.score) < 1e-9 for one, other in zip(found, expected, strict=True))


def _longest(source: Tensor) -> Tensor:
    return longest_targets(source, 1.2, 10, LONGEST)


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return the ratio for some sentences, and the processor's seconds for many."""
    depth, width, few, many = (1, 8, 2, 4) if quick else (6, 64, 32, 1000)
    same_search(depth, width, 2)
    model = network(depth, width)
    pairs = timing.paired(
        lambda: by_initbench(model, sentences(few)), lambda: by_transcription(model, sentences(few)), runs
    )
    case = f"beam {BEAM} on {{:,}} sentences, transformer {depth}+{depth} of width {width}"
    start = time.process_time()
    by_initbench(model, sentences(many))
    seconds = time.process_time() - start
    return [
        timing.Row.of_pairs(case.format(few), pairs, BOUND),
        timing.Row(f"{case.format(many)}, processor time", (seconds,), "s", bound=MOST_SECONDS),
    ]


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=5, threads=1)
