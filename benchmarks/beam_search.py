"""Beam search in batches with cached states against a transcription of fairseq's algorithm, sentence by sentence.

The transcription runs the whole model on every prefix.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor, float64, tensor

from initbench.inputs import END, PAD
from initbench.tasks.search import Hypothesis


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
        extensions = log_probabilities(tensor(active)).double()
        extensions[:, PAD] = -math.inf
        if step >= longest:
            extensions[:, :END] = -math.inf
            extensions[:, END + 1 :] = -math.inf
        elif step < 1:
            extensions[:, END] = -math.inf
        totals = (extensions + tensor(scores, dtype=float64)[:, None]).flatten()
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
