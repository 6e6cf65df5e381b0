"""Decoding with the cached state of transformer: equal to the whole forward pass."""

from __future__ import annotations

import pytest
import torch
from cases import randomize
from small_transformer import LONGEST, TARGET_WORDS, pairs, transformer

from initbench.errors import InitbenchError
from initbench.inputs import PAD

EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize(
    "arguments",
    [{"norm": "post"}, {"norm": "pre", "decoder_depth": 3}, {"norm": "none", "scheme": "fixup", "tied": "none"}],
)
def test_steps_are_the_forward_pass(arguments):
    model = randomize(transformer(**arguments), 0.4).eval()
    inputs, _ = pairs(6)
    inputs[5, 0] = PAD
    logits = model(inputs)
    state = model.start(inputs[:, 0])
    for place in range(LONGEST):
        step, state = model.step(inputs[:, 1, place], state)
        torch.testing.assert_close(step, logits[:, place], **EXACT)
        assert state.length == place + 1


def test_selected_rows_go_on_with_their_past_and_their_source():
    """Rows are reordered, repeated and dropped at each step, as a beam search does."""
    model = randomize(transformer()).eval()
    inputs, _ = pairs(5)
    generator = torch.Generator().manual_seed(1)
    state = model.start(inputs[:, 0])
    sources, written = inputs[:, 0], torch.empty(5, 0, dtype=torch.int64)
    for place in range(LONGEST):
        rows = torch.randint(len(sources), (4 + place % 3,), generator=generator)
        state, sources, written = state.select(rows), sources[rows], written[rows]
        tokens = torch.randint(1, TARGET_WORDS, (len(rows),), generator=generator)
        written = torch.cat([written, tokens[:, None]], 1)
        step, state = model.step(tokens, state)
        padded = torch.full((len(rows), LONGEST), PAD)
        padded[:, : place + 1] = written
        torch.testing.assert_close(step, model(torch.stack([sources, padded], 1))[:, place], **EXACT)


def test_a_state_is_not_changed_by_steps_from_it():
    model = randomize(transformer()).eval()
    inputs, _ = pairs()
    _, state = model.step(inputs[:, 1, 0], model.start(inputs[:, 0]))
    first, _ = model.step(inputs[:, 1, 1], state)
    model.step(inputs[:, 1, 2], state)
    again, _ = model.step(inputs[:, 1, 1], state)
    assert torch.equal(first, again)


def test_a_source_may_be_shorter_than_the_target():
    model = randomize(transformer()).eval()
    source = torch.tensor([[3, 4, 1]])
    assert model.encode(source).shape == (1, 3, 8)
    state = model.start(source)
    for _ in range(LONGEST):
        _, state = model.step(torch.tensor([2]), state)
    with pytest.raises(InitbenchError, match=rf"at most {LONGEST} tokens, got {LONGEST + 1}$"):
        model.step(torch.tensor([2]), state)
