"""Packed blocks: a text is covered exactly once, and splits share no token."""

from __future__ import annotations

import pytest
import torch

from initbench.data.text import blocks, byte_tokens, check_blocks, pack
from initbench.errors import ArgumentError, DataError


@pytest.mark.parametrize("context", [1, 2, 7, 32])
@pytest.mark.parametrize("length", [33, 64, 65, 97])
def test_blocks_cover_a_text_exactly_once_but_for_the_rest(context, length):
    text = torch.arange(length) + 100
    split = blocks(text, context)
    whole = (length - 1) // context * context
    assert split.inputs.shape == split.targets.shape == (whole // context, context)
    assert split.inputs.flatten().tolist() == text[:whole].tolist()
    assert split.targets.flatten().tolist() == text[1 : whole + 1].tolist()
    assert length - 1 - whole < context  # the rest fills no block


def test_a_block_is_predicted_from_its_own_tokens():
    split = blocks(torch.arange(11), 3)
    assert split.inputs.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert split.targets.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_bytes_are_tokens():
    assert byte_tokens(bytes(range(256))).tolist() == list(range(256))
    assert byte_tokens(b"").shape == (0,)
    assert byte_tokens(b"").dtype == torch.int64


def texts(*lengths):
    """Tokens that occur once in all of the texts."""
    return torch.arange(sum(lengths)).split(lengths)


def test_no_token_of_a_text_is_in_a_block_of_another():
    splits = pack("name", texts(100, 23, 47), context=8)
    tokens = [
        set(split.inputs.flatten().tolist()) | set(split.targets.flatten().tolist())
        for split in (splits.train, splits.validation, splits.test)
    ]
    assert [len(own) for own in tokens] == [97, 17, 41]
    assert len(set.union(*tokens)) == sum(map(len, tokens))


def test_a_subset_is_of_whole_blocks_in_order_and_part_of_larger_ones():
    whole = pack("name", texts(1000, 0, 20), context=8).train
    rows = {tuple(row) for row in whole.inputs.tolist()}
    found = []
    for size in (5, 50, len(whole)):
        train = pack("name", texts(1000, 0, 20), context=8, sizes={"train_size": size}).train
        assert len(train) == size
        assert torch.equal(train.targets, train.inputs + 1)
        firsts = train.inputs[:, 0].tolist()
        assert firsts == sorted(firsts)
        found.append({tuple(row) for row in train.inputs.tolist()})
    assert found[0] < found[1] < found[2] == rows
    assert max(found[0])[0] > 500  # not the beginning of the text


def test_there_may_be_no_validation_text():
    splits = pack("name", texts(20, 0, 20), context=8)
    assert len(splits.validation) == 0
    assert splits.validation.inputs.shape == (0, 8)


@pytest.mark.parametrize(
    ("lengths", "split"), [((8, 9, 9), "training"), ((9, 8, 9), "validation"), ((9, 9, 0), "test")]
)
def test_a_text_shorter_than_a_block_is_named(lengths, split):
    pack("name", texts(9, 9, 9), context=8)
    with pytest.raises(DataError) as refusal:
        pack("name", texts(*lengths), context=8)
    message = str(refusal.value)
    assert all(part in message for part in ("name", f"the {split} text has {min(lengths)} tokens", "context 8", "9"))
    assert "\n" not in message


def test_more_blocks_than_there_are_are_refused():
    with pytest.raises(ArgumentError, match="at most 12, got 13") as refusal:
        pack("name", texts(100, 0, 20), context=8, sizes={"train_size": 13})
    assert refusal.value.argument == "train_size"


@pytest.mark.parametrize("name", ["train_size", "validation_size", "test_size"])
def test_each_split_may_be_a_subset_of_its_own(name):
    splits = pack("name", texts(200, 100, 150), context=8, sizes={name: 4})
    lengths = {"train_size": 24, "validation_size": 12, "test_size": 18} | {name: 4}
    assert [len(splits.train), len(splits.validation), len(splits.test)] == list(lengths.values())
    with pytest.raises(ArgumentError) as refusal:
        pack("name", texts(200, 100, 150), context=8, sizes={name: 25})
    assert refusal.value.argument == name


def test_there_may_be_no_validation_and_no_split_else_is_empty():
    assert not len(pack("name", texts(200, 100, 150), context=8, sizes={"validation_size": 0}).validation)
    check_blocks(8, validation_size=0)
    for name in ("train_size", "test_size"):
        with pytest.raises(ArgumentError) as refusal:
            check_blocks(8, **{name: 0})
        assert refusal.value.argument == name
