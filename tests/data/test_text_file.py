"""Text from any files: which text is in which split, the tokenizer, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from language_models import bigram

from initbench.data import bpe, cache, content, describe_dataset, load_dataset
from initbench.data.text import cut
from initbench.errors import ArgumentError, DataError
from initbench.inputs import Inputs
from initbench.registry import register_architecture
from suites import planned

BOOK = "".join(
    f"Chapter {i}.\n\nIt was the {i}th day, and the weather wäs as it häd been: {i * i % 97} drops of rain.\n"
    for i in range(400)
)
OTHER = "".join(f"A line about {i} quite different things, ‘{i % 13}’ of them blue.\n" for i in range(100))
TOKENS = """
import hashlib
from initbench.data import load_dataset
d = load_dataset("text_file", {"files": "book.txt", "tokenizer": "bpe", "vocabulary": 400, "context": 16})
print(hashlib.sha256(d.train.inputs.numpy().tobytes() + d.test.targets.numpy().tobytes()).hexdigest())
"""
BPE = {"tokenizer": "bpe", "vocabulary": 300, "context": 16}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data root with some texts."""
    root = tmp_path / "data"
    (root / "parts" / "deep").mkdir(parents=True)
    monkeypatch.setenv("INITBENCH_DATA", str(root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_made", {})
    monkeypatch.setattr(content, "SETTLED", -1)
    (root / "book.txt").write_text(BOOK, encoding="utf-8")
    (root / "other.txt").write_text(OTHER, encoding="utf-8")
    for name in ("b", "a", "deep/c"):
        (root / "parts" / f"{name}.txt").write_text(f"This is part {name}.\n" * 20, encoding="utf-8")
    return root


def load(**arguments):
    return load_dataset("text_file", arguments)


def text(split):
    """The text of a split's blocks of bytes, with the last target."""
    if not len(split):
        return b""
    return bytes([*split.inputs.flatten().tolist(), int(split.targets[-1, -1])])


def refusal_of(kind, **arguments):
    """The one line of an error that planning, or else loading, gives."""
    with pytest.raises(kind) as refusal:
        load(**arguments)
    assert "\n" not in str(refusal.value)
    return refusal.value


def decode(tokenizer, tokens):
    """The bytes of tokens, by the characters that stand for bytes in byte-level encoding (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    byte_of = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
    return bytes(byte_of[character] for token in tokens.tolist() for character in tokenizer.id_to_token(token))


@pytest.mark.usefixtures("root")
class TestSplits:
    def test_files_are_cut_in_order(self):
        dataset = load(files="book.txt", context=8, validation_share=0.1, test_share=0.2)
        whole = BOOK.encode()
        test, validation = int(len(whole) * 0.2), int(len(whole) * 0.1)
        parts = whole[: -test - validation], whole[-test - validation : -test], whole[-test:]
        for split, part in zip((dataset.train, dataset.validation, dataset.test), parts, strict=True):
            found = text(split)
            assert part.startswith(found)
            assert len(part) - len(found) < 8
        assert (dataset.inputs, dataset.outputs, dataset.task) == (Inputs((8,), 256), 256, "language_modelling")

    def test_no_character_is_cut(self, root):
        (root / "umlauts.txt").write_text("ä" * 100, encoding="utf-8")
        dataset = load(files="umlauts.txt", context=1, validation_share=0.025, test_share=0.045)
        parts = [text(split).decode() for split in (dataset.train, dataset.validation, dataset.test)]
        assert [len(part) for part in parts] == [92, 3, 5]  # 5 and 9 bytes would cut two characters

    def test_a_list_of_files_for_each(self):
        dataset = load(train=["other.txt", "parts/a.txt"], test="book.txt", context=1)
        assert text(dataset.train) == OTHER.encode() + b"\0" + b"This is part a.\n" * 20
        assert text(dataset.test) == BOOK.encode()
        assert len(dataset.validation) == 0

    def test_a_pattern_stands_for_files_in_the_order_of_their_paths(self):
        dataset = load(train="parts/**/*.txt", validation="oth*.txt", test="book.txt", context=1)
        assert text(dataset.train) == b"\0".join(f"This is part {n}.\n".encode() * 20 for n in ("a", "b", "deep/c"))
        assert text(dataset.validation) == OTHER.encode()

    def test_a_file_that_two_patterns_find_is_read_once(self):
        dataset = load(train=["parts/b.txt", "parts/*.txt"], test="book.txt", context=1)
        assert text(dataset.train) == b"\0".join(f"This is part {n}.\n".encode() * 20 for n in "ba")

    def test_an_absolute_path(self, root, tmp_path):
        place = tmp_path / "elsewhere" / "[1] book*.txt"  # a name that looks like a pattern
        place.parent.mkdir()
        (root / "book.txt").rename(place)
        assert text(load(train=str(place), test="other.txt", context=1).train) == BOOK.encode()
        found = load(train=str(place.parent / "*.txt"), test="other.txt", context=1)
        assert text(found.train) == BOOK.encode()


@pytest.mark.usefixtures("root")
class TestIdentity:
    def test_it_is_the_text_whatever_the_paths(self, root):
        first = describe_dataset("text_file", {"train": "book.txt", "test": ["other.txt", "parts/a.txt"]})
        for old, new in (("book.txt", "renamed"), ("other.txt", "parts/1"), ("parts/a.txt", "parts/2")):
            (root / old).rename(root / new)
        again = describe_dataset("text_file", {"train": str(root / "renamed"), "test": "parts/[12]"})
        assert again == first
        swapped = describe_dataset("text_file", {"train": "renamed", "test": ["parts/2", "parts/1"]})
        assert swapped.content != first.content  # another order is another text
        roles = describe_dataset("text_file", {"test": "renamed", "train": ["parts/1", "parts/2"]})
        assert roles.content != first.content

    @pytest.mark.usefixtures("scratch_registry")
    def test_paths_are_no_part_of_a_trials_id(self, root):
        register_architecture("bigram", tasks=("language_modelling",))(bigram)

        def id_of(**arguments):
            (trial,) = planned(dataset={"name": "text_file", **arguments}, architectures=["bigram"], seeds=1).trials
            return trial.id

        first = id_of(train="book.txt", test="other.txt")
        (root / "copy.txt").write_text(BOOK, encoding="utf-8")
        assert id_of(train=["copy.txt"], test="ot*.txt") == first
        assert id_of(train="book.txt", test="parts/a.txt") != first
        assert id_of(train="book.txt", test="other.txt", context=32) != first
        assert id_of(train="book.txt", test="other.txt", tokenizer="bpe", vocabulary=300) != first

    def test_a_change_of_one_byte_is_another_text(self, root):
        first = describe_dataset("text_file", {"files": "book.txt"}).content
        (root / "book.txt").write_text(BOOK.replace("399", "398"), encoding="utf-8")
        assert describe_dataset("text_file", {"files": "book.txt"}).content != first


@pytest.mark.usefixtures("root")
class TestBytePairs:
    def test_tokens_are_the_text(self, root):
        dataset = load(files="book.txt", **BPE)
        lengths = dataset.splits.token_bytes
        assert (dataset.inputs, dataset.outputs) == (Inputs((16,), 300), 300)
        assert lengths.shape == (300,)
        assert lengths[:256].tolist() == [1] * 256
        assert lengths[256:].min() >= 2
        whole = cut(BOOK.encode(), 0.05, 0.05)[0]
        train = dataset.train.inputs.flatten()
        decoded = decode(bpe.trained_tokenizer(whole, 300, root), train)
        assert whole.startswith(decoded)
        assert int(lengths[train].sum()) == len(decoded)
        assert len(train) < 0.8 * len(decoded)  # it is shorter than the bytes

    def test_it_is_trained_on_the_training_split_alone(self, root):
        first = load(train="book.txt", test="other.txt", **BPE)
        (root / "other.txt").write_text("zzz zzz zzz qqq qqq\n" * 50, encoding="utf-8")
        second = load(train="book.txt", test="other.txt", **BPE)
        assert torch.equal(first.train.inputs, second.train.inputs)
        assert torch.equal(first.splits.token_bytes, second.splits.token_bytes)
        assert not torch.equal(first.test.inputs[:2], second.test.inputs[:2])

    def test_a_subset_has_the_tokens_of_the_whole(self):
        whole = load(files="book.txt", **BPE)
        part = load(files="book.txt", train_size=3, **BPE)
        rows = {tuple(row) for row in whole.train.inputs.tolist()}
        assert {tuple(row) for row in part.train.inputs.tolist()} < rows
        assert torch.equal(whole.test.inputs, part.test.inputs)

    def test_pieces_are_encoded_as_the_whole(self, monkeypatch):
        words = ("one\n\n\ntwo  \n three\0four five\r\n" * 30 + BOOK).encode()
        tokenizer = bpe._train(words, 320)
        whole = torch.tensor(tokenizer.encode(words.decode()).ids)
        for size in (1, 5, 100):
            monkeypatch.setattr(bpe, "_PIECE", size)
            assert len(list(bpe._pieces(words))) > 3
            assert torch.equal(bpe.encode(tokenizer, words), whole)
            assert bpe._train(words, 320).to_str() == tokenizer.to_str()

    def test_no_token_reaches_over_the_end_of_a_file(self):
        tokenizer = bpe._train(b"ab\0ab\0ab\0ab\0ab\0ab", 257)
        assert [token for token in tokenizer.get_vocab() if len(token) > 1] == ["ab"]

    @pytest.mark.slow
    def test_another_process_has_the_same_tokens(self, root):
        found = []
        for _ in range(2):
            done = subprocess.run([sys.executable, "-c", TOKENS], capture_output=True, text=True, check=True, cwd=root)
            found.append(done.stdout)
            for entry in (root / "tokenizers").iterdir():
                entry.unlink()
        assert found[0] == found[1]

    def test_the_cache_is_used_and_a_damaged_one_is_made_anew(self, root, monkeypatch):
        trained = []
        train = bpe._train
        monkeypatch.setattr(bpe, "_train", lambda *given: trained.append(given) or train(*given))
        first = load(files="book.txt", **BPE)
        (entry,) = (root / "tokenizers").iterdir()
        good = entry.read_bytes()

        def again(context):
            monkeypatch.setattr(cache, "_made", {})  # as another process
            return load(files="book.txt", **BPE | {"context": context})

        again(17)
        assert len(trained) == 1
        for count, damaged in enumerate((b"", good[: len(good) // 2], good.replace(b"300", b"301"), b"\xff"), start=2):
            entry.write_bytes(damaged if damaged != good else good[:-1])
            found = again(16 + count)
            assert len(trained) == count
            assert torch.equal(found.splits.token_bytes, first.splits.token_bytes)
            assert entry.read_bytes() == good

    def test_a_data_root_that_cannot_be_written_needs_no_cache(self, root):
        (root / "tokenizers").write_text("in the way")
        assert len(load(files="book.txt", **BPE).train) > 100


@pytest.mark.usefixtures("root")
class TestRefusals:
    def test_text_that_is_not_utf_8_names_file_and_byte(self, root):
        path = root / "latin.txt"
        path.write_bytes(b"plain " * 100 + "schön".encode("latin-1"))
        error = refusal_of(DataError, train="book.txt", test="latin.txt")
        assert all(part in str(error) for part in (str(path), "UTF-8", "byte 603", "0xf6"))

    def test_a_file_that_is_not_there(self, root):
        error = refusal_of(DataError, train="book.txt", test="nowhere.txt")
        assert all(part in str(error) for part in (str(root / "nowhere.txt"), "INITBENCH_DATA"))

    @pytest.mark.parametrize("pattern", ["*.md", "parts/[xyz].txt", "nowhere/**/*"])
    def test_a_pattern_that_finds_nothing(self, root, pattern):
        error = refusal_of(DataError, train="book.txt", test=pattern)
        assert all(part in str(error) for part in ("test", pattern, str(root)))

    def test_a_file_in_two_splits(self, root):
        (root / "link.txt").symlink_to(root / "other.txt")
        for test in ("other.txt", "parts/../other.txt", "o*.txt", "link.txt"):
            error = refusal_of(ArgumentError, train=["other.txt", "book.txt"], test=test)
            assert error.argument == "test"
            assert all(part in str(error) for part in (".txt", "train"))

    def test_a_text_shorter_than_a_block(self, root):
        (root / "short.txt").write_text("short")
        error = refusal_of(DataError, train="book.txt", test="short.txt")
        assert all(part in str(error) for part in ("test", "5 tokens", "context 256"))

    @pytest.mark.parametrize(
        ("arguments", "argument", "said"),
        [
            ({}, "train", "files"),
            ({"train": "book.txt"}, "test", "required"),
            ({"files": "book.txt", "test": "other.txt"}, "test", "files"),
            ({"files": []}, "files", "empty"),
            ({"files": "book.txt", "context": 0}, "context", "at least 1"),
            ({"files": "book.txt", "train_size": 0}, "train_size", "at least 1"),
            ({"files": "book.txt", "test_share": 0.0}, "test_share", "between 0 and 1"),
            ({"train": "book.txt", "test": "umlauts.txt", "test_share": 0.1}, "test_share", "is for files"),
            ({"files": "book.txt", "validation_share": -0.1}, "validation_share", "at least 0"),
            ({"files": "book.txt", "validation_share": 0.6, "test_share": 0.4}, "validation_share", "train"),
            ({"files": "book.txt", "vocabulary": 300}, "vocabulary", "bpe"),
            ({"files": "book.txt", "tokenizer": "bpe"}, "vocabulary", "257"),
            ({"files": "book.txt", "tokenizer": "bpe", "vocabulary": 256}, "vocabulary", "at least 257"),
        ],
    )
    def test_arguments_that_no_text_could_have(self, arguments, argument, said):
        with pytest.raises(ArgumentError, match=said) as refusal:
            describe_dataset("text_file", arguments)
        assert refusal.value.argument == argument

    def test_more_tokens_than_the_training_text_gives(self, root):
        (root / "tiny.txt").write_text("the cat and the dog and the rat\n" * 20)
        arguments = {"train": "tiny.txt", "test": "book.txt", "tokenizer": "bpe", "context": 16}
        assert describe_dataset("text_file", arguments | {"vocabulary": 5000}).outputs == 5000  # it is not trained
        error = refusal_of(ArgumentError, **arguments, vocabulary=5000)
        assert error.argument == "vocabulary"
        most = int(str(error).partition("at most ")[2].partition(",")[0])
        assert 256 < most < 300
        assert load(**arguments, vocabulary=most).outputs == most
        assert refusal_of(ArgumentError, **arguments, vocabulary=most + 1).argument == "vocabulary"


def test_a_pattern_does_not_walk_the_whole_machine():
    with pytest.raises(ArgumentError, match=r"files must name a folder before \*\*"):
        describe_dataset("text_file", {"files": "/**/*.nothing-here"})
