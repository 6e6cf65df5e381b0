"""Translations in files: tokens, splits, and what is refused; and IWSLT'14, which is such files."""

from __future__ import annotations

import pytest
import torch

from initbench.data import cache, content, describe_dataset, iwslt14, load_dataset
from initbench.errors import ArgumentError, DataError
from initbench.inputs import END, PAD, Inputs

WORDS = ["das Haus", "ein Garten", "die Straße", "42 Äpfel", "der rote Hund", "nichts"]
GERMAN = [f"{WORDS[i % 6]} und {WORDS[i * i % 5]} – {i}" for i in range(200)]
WAYS = ["house", "garden", "narrow street", "dog and apples", "nothing"]
ENGLISH = [f"line {i} of the other tongue, {'long ' * (i % 4)}{WAYS[i * i % 5]} end" for i in range(200)]
ARGUMENTS = {"folder": "pairs", "vocabulary": 300, "longest": 80}


def write(folder, name, lines):
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data root with the files of three splits."""
    root = tmp_path / "data"
    monkeypatch.setenv("INITBENCH_DATA", str(root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_made", {})
    monkeypatch.setattr(content, "SETTLED", -1)
    folder = root / "pairs"
    folder.mkdir(parents=True)
    for name, part in (("train", slice(0, 150)), ("valid", slice(150, 170)), ("test", slice(170, 200))):
        write(folder, f"{name}.de", GERMAN[part])
        write(folder, f"{name}.en", ENGLISH[part])
    return root


def load(**arguments):
    return load_dataset("parallel_text", ARGUMENTS | arguments)


def refusal_of(kind, name="parallel_text", **arguments):
    """The one line of an error."""
    with pytest.raises(kind) as refusal:
        load_dataset(name, (ARGUMENTS if name == "parallel_text" else {}) | arguments)
    assert "\n" not in str(refusal.value)
    return refusal.value


def sources(dataset, split):
    """The source tokens without END and PAD."""
    return [row[: row.index(END)] for row in split.source.tolist()]


@pytest.mark.usefixtures("root")
class TestTokens:
    def test_the_splits_are_the_lines(self):
        dataset = load()
        assert (dataset.task, dataset.inputs, dataset.outputs) == ("translation", Inputs((2, 80), 300), 300)
        parts = (dataset.train, ENGLISH[:150]), (dataset.validation, ENGLISH[150:170]), (dataset.test, ENGLISH[170:])
        for split, lines in parts:
            assert [dataset.splits.detokenize(row) for row in split.targets.tolist()] == lines
        assert dataset.facts == {}

    def test_a_joint_vocabulary_gives_both_sides_the_same_tokens(self):
        back = load(source="en", target="de")
        assert sources(back, back.test) == [row[: row.index(END)] for row in load().test.targets.tolist()]
        texts = [back.splits.detokenize(row) for row in back.test.targets.tolist()]
        assert texts == GERMAN[170:]

    def test_separate_vocabularies_are_fitted_to_their_side(self):
        joint, separate = load(), load(joint=False)
        assert separate.outputs == joint.outputs
        # 42 merges for one language go further than 42 for two.
        for side in ("source", "targets"):
            tokens = [int((getattr(d.train, side) != PAD).sum()) for d in (separate, joint)]
            assert tokens[0] < tokens[1]
        assert [separate.splits.detokenize(r) for r in separate.test.targets.tolist()] == ENGLISH[170:]

    def test_ids_and_unknown_characters(self, root):
        write(root / "pairs", "test.de", ["völlig 新しい ☃", *GERMAN[171:]])
        write(root / "pairs", "test.en", ["新しい ☃", *ENGLISH[171:]])
        dataset = load()
        assert dataset.splits.detokenize(dataset.test.targets[0].tolist()) == "新しい ☃"
        for split in (dataset.train, dataset.test):
            for side in (split.source, split.targets):
                assert int(side.max()) < 300
                assert torch.equal((side == END).sum(1), torch.ones(len(split), dtype=torch.int64))
                after = (side == END).cumsum(1) - (side == END).int() > 0
                assert torch.equal(side == PAD, after)

    def test_the_first_word_of_a_line_is_the_word_within_one(self, root):
        for language in ("de", "en"):
            write(root / "pairs", f"test.{language}", ["end end", "end"])
        first, second = sources(None, load().test)
        assert first == second * 2

    def test_the_tokens_are_fitted_on_the_training_split_alone(self, root):
        before = sources(None, load().train)
        write(root / "pairs", "test.de", ["zzzz zzzz zzzz"] * 30)
        assert sources(None, load().train) == before

    def test_a_kept_vocabulary_is_the_fitted_one(self, root, monkeypatch):
        before = sources(None, load().train)
        assert [p.suffix for p in (root / "tokenizers").iterdir()] == [""]
        monkeypatch.setattr(cache, "_made", {})
        write(root / "pairs", "test.de", GERMAN[140:170])  # other content, so that it is loaded again
        assert sources(None, load().train) == before

    def test_subsets_are_of_the_lines_in_their_order(self):
        whole, small = load(), load(train_size=40, validation_size=0, test_size=5)
        assert [len(split) for split in (small.train, small.validation, small.test)] == [40, 0, 5]
        every = sources(None, whole.train)
        positions = [every.index(tokens) for tokens in sources(None, small.train)]
        assert positions == sorted(positions)

    def test_no_validation(self):
        assert len(load(validation=None).validation) == 0

    def test_lines_end_at_line_feeds_alone(self, root):
        (root / "pairs" / "test.de").write_bytes("eins\u2028zwei \r\n\n drei".encode())
        (root / "pairs" / "test.en").write_bytes(b"a\x0cb\nc\nd\n")
        dataset = load()
        texts = [dataset.splits.detokenize(row) for row in dataset.test.targets.tolist()]
        assert texts == ["a\x0cb", "c", "d"]
        assert sources(None, dataset.test)[1] == []


@pytest.mark.usefixtures("root")
class TestLongSentences:
    def test_long_training_pairs_are_dropped_and_counted(self, root):
        write(root / "pairs", "train.en", ["far " * 100, *ENGLISH[1:150]])
        dataset = load()
        assert len(dataset.train) == 149
        assert dataset.facts == {"long_pairs_dropped": 1}
        assert dataset.train.lengths.max() <= 80
        assert len(load(longest=500).train) == 150

    def test_a_sentence_of_just_that_length_is_kept(self):
        longest = int(torch.cat([split.lengths for split in (load().train, load().validation, load().test)]).max())
        assert len(load(longest=longest).train) == 150

    @pytest.mark.parametrize("split", ["valid", "test"])
    def test_elsewhere_they_are_refused(self, root, split):
        write(root / "pairs", f"{split}.de", ["kurz", "weit " * 100, "kurz"])
        write(root / "pairs", f"{split}.en", ["a", "b", "c"])
        message = str(refusal_of(DataError))
        assert "line 2 of" in message
        assert f"{split}.de" in message
        assert "longest, 80" in message

    def test_nothing_left_to_train_on(self, root):
        write(root / "pairs", "train.en", ["far " * 100] * 150)
        assert "no training pair" in str(refusal_of(DataError, vocabulary=290))


class TestRefusals:
    def test_a_missing_file(self, root):
        (root / "pairs" / "valid.en").unlink()
        message = str(refusal_of(DataError))
        assert f"{root / 'pairs' / 'valid.en'} is missing" in message
        assert "FOLDER/SPLIT.LANGUAGE" in message

    def test_a_missing_folder_is_described_without_its_content(self, root):
        described = describe_dataset("parallel_text", ARGUMENTS | {"folder": "elsewhere"})
        assert (described.inputs, described.outputs, described.content) == (Inputs((2, 80), 300), 300, None)
        for message in (described.absent, str(refusal_of(DataError, folder="elsewhere"))):
            assert str(root / "elsewhere") in message
            assert "FOLDER/SPLIT.LANGUAGE" in message

    def test_other_numbers_of_lines(self, root):
        write(root / "pairs", "train.en", ENGLISH[:149])
        message = str(refusal_of(DataError))
        assert "train.de has 150 lines" in message
        assert "train.en 149" in message

    def test_not_utf8(self, root):
        (root / "pairs" / "test.de").write_bytes(b"gut\nStra\xdfe\n" + b"x\n" * 28)
        message = str(refusal_of(DataError))
        assert "test.de is not UTF-8 at byte 8 (0xdf)" in message

    def test_an_empty_split(self, root):
        for language in ("de", "en"):
            (root / "pairs" / f"test.{language}").write_bytes(b"")
        assert "the test split is empty" in str(refusal_of(DataError))

    @pytest.mark.usefixtures("root")
    @pytest.mark.parametrize(
        ("argument", "arguments"),
        [
            ("vocabulary", {"vocabulary": 258}),
            ("longest", {"longest": 1}),
            ("train_size", {"train_size": 0}),
            ("validation_size", {"validation_size": -1}),
            ("target", {"target": "de"}),
            ("test", {"test": "train"}),
            ("vocabulary", {"vocabulary": 9000}),
            ("train_size", {"train_size": 151}),
        ],
    )
    def test_arguments_that_cannot_be(self, argument, arguments):
        assert refusal_of(ArgumentError, **arguments).argument == argument

    @pytest.mark.usefixtures("root")
    def test_too_large_a_vocabulary_says_the_largest(self):
        most = int(str(refusal_of(ArgumentError, vocabulary=9000)).partition("at most ")[2].partition(",")[0])
        assert load(vocabulary=most).outputs == most
        refusal_of(ArgumentError, vocabulary=most + 1)


def test_identity_is_the_text_whatever_the_paths(root):
    before = describe_dataset("parallel_text", ARGUMENTS)
    (root / "pairs").rename(root / "moved")
    assert describe_dataset("parallel_text", ARGUMENTS | {"folder": "moved"}) == before
    write(root / "moved", "test.en", ENGLISH[:30])
    assert describe_dataset("parallel_text", ARGUMENTS | {"folder": "moved"}).content != before.content


class TestIwslt14:
    def test_it_says_what_to_do_and_downloads_nothing(self, root):
        described = describe_dataset("iwslt14", {})
        assert (described.inputs, described.outputs, described.content) == (Inputs((2, 256), 10_000), 10_000, None)
        for message in (described.absent, str(refusal_of(DataError, "iwslt14"))):
            assert "prepare-iwslt14.sh" in message
            assert str(root / "iwslt14") in message
        assert not (root / "iwslt14").exists()

    @pytest.fixture
    def prepared(self, root, monkeypatch):
        (root / "pairs").rename(root / "iwslt14")
        monkeypatch.setattr(iwslt14, "LINES", {"train": 150, "validation": 20, "test": 30})
        return root / "iwslt14"

    @pytest.mark.usefixtures("prepared")
    def test_both_directions(self):
        for source, lines in (("de", ENGLISH), ("en", GERMAN)):
            dataset = load_dataset("iwslt14", {"source": source, "vocabulary": 300})
            assert [dataset.splits.detokenize(r) for r in dataset.test.targets.tolist()] == lines[170:]

    def test_the_lines_of_each_split_are_counted(self, prepared):
        for language, lines in (("de", GERMAN), ("en", ENGLISH)):
            write(prepared, f"valid.{language}", lines[150:169])
        message = str(refusal_of(DataError, "iwslt14", vocabulary=300))
        assert "valid.de has 19 lines, the prepared file 20" in message

    def test_parts_of_words_are_noticed(self, prepared):
        write(prepared, "train.de", ["Gar@@ ten", *GERMAN[1:150]])
        assert "train.de is split into parts of words (@@)" in str(refusal_of(DataError, "iwslt14", vocabulary=300))

    def test_the_published_counts(self):
        assert iwslt14.LINES == {"train": 160_239, "validation": 7_283, "test": 6_750}
