"""The hash of files: what it depends on, what it does not, and the cache it is kept in."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from image_trees import forbid

from initbench.data import cache, content, content_hash
from initbench.data.content import combined, readable_content
from initbench.errors import DataError

FILES = {"train/cat/1.txt": b"one", "train/dog/2.txt": b"two", "test/cat/3.txt": b"three", "labels.csv": b"0,1\n"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache folder of its own, for a process that has hashed nothing yet; files count as settled at once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_made", {})
    monkeypatch.setattr(content, "SETTLED", -1)
    return tmp_path / "cache" / "initbench" / "content"


@pytest.fixture
def root(tmp_path):
    return made(tmp_path / "data")


@pytest.fixture
def hashed(monkeypatch):
    """The paths whose bytes are read."""
    paths, read = [], content._sha256
    monkeypatch.setattr(content, "_sha256", lambda path: paths.append(path) or read(path))
    return paths


def made(root, files=None):
    for name, text in (FILES if files is None else files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return root


def hash_of(root):
    return content_hash(root, [path for path in root.rglob("*") if path.is_file()], "put it there")


def forget():
    """Read the cache as another process would."""
    cache._made.clear()


class TestWhatItDependsOn:
    def test_two_folders_with_the_same_files_are_the_same_dataset(self, root, tmp_path):
        other = made(tmp_path / "elsewhere" / "copy")
        os.utime(other / "labels.csv", (1, 1))
        assert hash_of(root) == hash_of(other)

    @pytest.mark.parametrize(
        "change",
        [
            {"rename": ("labels.csv", "targets.csv")},
            {"rename": ("train/cat/1.txt", "train/dog/1.txt")},  # its label
            {"rename": ("train/cat/1.txt", "test/cat/1.txt")},
            {"write": ("train/cat/1.txt", b"One")},  # of the same size
            {"write": ("labels.csv", b"1,0\n")},
            {"write": ("train/cat/1.txt", b"")},
            {"write": ("train/cat/4.txt", b"")},
            {"remove": "labels.csv"},
        ],
        ids=str,
    )
    def test_another_name_label_or_content_is_another(self, root, change):
        before = hash_of(root)
        if "rename" in change:
            old, new = change["rename"]
            (root / old).rename(root / new)
        elif "write" in change:
            name, text = change["write"]
            (root / name).write_bytes(text)
        else:
            (root / change["remove"]).unlink()
        assert hash_of(root) != before

    def test_swapped_contents_are_another(self, root, tmp_path):
        names = list(FILES)
        swapped = FILES | {names[0]: FILES[names[1]], names[1]: FILES[names[0]]}
        assert hash_of(root) != hash_of(made(tmp_path / "swapped", swapped))

    def test_the_order_and_the_form_of_the_paths_make_no_difference(self, root, monkeypatch):
        expected = content_hash(root, list(FILES), "")
        assert content_hash(root, [root / name for name in reversed(FILES)], "") == expected
        assert content_hash(str(root), (Path(name) for name in [*FILES, *FILES]), "") == expected
        monkeypatch.chdir(root.parent)
        assert content_hash(root.name, list(FILES), "") == expected

    def test_given_names_take_the_place_of_those_in_the_folder(self, root):
        train, test = root / "labels.csv", root / "test" / "cat" / "3.txt"
        split = content_hash(root, {"train/0": train, "test/0": test}, "")
        assert content_hash(root, {"train/0": test, "test/0": train}, "") != split
        assert content_hash(root.parent, {"test/0": test, "train/0": "data/labels.csv"}, "") == split

    def test_a_file_outside_the_folder_has_no_name_below_it(self, root):
        with pytest.raises(ValueError, match=r"labels\.csv"):
            content_hash(root / "train", [root / "labels.csv"], "")


class TestDefinition:
    @pytest.mark.skipif(shutil.which("sha256sum") is None, reason="the command is not installed")
    def test_it_is_the_sha256_of_what_sha256sum_prints(self, root):
        odd = {"a b": b"1", "Z": b"2", "é": b"3", "back\\slash": b"4", "two\nlines": b"5", "-dash": b"6"}
        made(root, odd)
        names = sorted([*FILES, *odd], key=os.fsencode)
        printed = subprocess.run(["sha256sum", "--", *names], cwd=root, capture_output=True, check=True).stdout
        assert hash_of(root) == f"sha256:{hashlib.sha256(printed).hexdigest()}"

    def test_no_name_can_stand_for_two_files(self):
        one, two = ("a", "1" * 64), ("b", "2" * 64)
        assert combined(dict([one, two])) != combined({f"a\n{two[1]}  b": one[1]})

    def test_names_that_are_not_unicode_are_told_apart(self):
        first, second = (os.fsdecode(name) for name in (b"\xff", b"\xfe"))
        assert combined({first: "0"}) != combined({second: "0"})


class TestFilesThatCannotBeHashed:
    def test_missing_ones_are_named_with_what_to_do(self, root):
        with pytest.raises(DataError) as refusal:
            content_hash(root, ["labels.csv", "absent.csv", "labels.csv/below", "gone.csv"], "run make_it.py")
        assert str(root / "absent.csv") in str(refusal.value)
        assert "2 more" in str(refusal.value)
        assert "run make_it.py" in str(refusal.value)

    def test_none_at_all(self, root):
        with pytest.raises(DataError) as refusal:
            content_hash(root, [], "run make_it.py")
        assert str(root) in str(refusal.value)
        assert "run make_it.py" in str(refusal.value)

    @pytest.mark.parametrize("name", ["train", "loop", "null\0character"])
    def test_what_is_no_file_is_named(self, root, name):
        (root / "loop").symlink_to(root / "loop")
        with pytest.raises(DataError) as refusal:
            content_hash(root, [name], "")
        assert str(root / name) in str(refusal.value)

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
    def test_an_unreadable_one_is_named(self, root):
        (root / "labels.csv").chmod(0)
        with pytest.raises(DataError) as refusal:
            hash_of(root)
        assert str(root / "labels.csv") in str(refusal.value)

    def test_all_that_may_not_be_read_are_named_and_asked_again(self, root, hashed, monkeypatch):
        names = ["labels.csv", "train/cat/1.txt"]
        with monkeypatch.context() as patch:
            forbid(patch, *(root / name for name in names))
            for _ in range(2):
                with pytest.raises(DataError) as refusal:
                    hash_of(root)
                assert str(refusal.value).startswith("2 files cannot be read: ")
                assert all(f"{root / name} (Permission denied)" in str(refusal.value) for name in names)
                forget()
            assert len(hashed) == len(FILES)  # the second time, only these are opened
            rest = [name for name in FILES if name not in names]
            found = readable_content(root, list(FILES), "")
            assert found == (content_hash(root, rest, ""), dict.fromkeys(names, "Permission denied"))
        for name in names:
            (root / name).chmod(0o644)
        everything = hash_of(root)
        assert everything == hash_of(made(root.parent / "copy"))
        assert everything != found.hash

    def test_one_that_changes_while_it_is_read(self, root, folder, monkeypatch):
        read = content._sha256

        def change(path):
            (root / "labels.csv").write_bytes(b"other than it was")
            return read(path)

        monkeypatch.setattr(content, "_sha256", change)
        with pytest.raises(DataError, match=str(root)):
            hash_of(root)
        assert list(folder.iterdir()) == []


class TestCache:
    def test_a_second_description_reads_no_file(self, root, hashed):
        first = hash_of(root)
        assert len(hashed) == len(FILES)
        assert hash_of(root) == first
        forget()
        assert hash_of(root) == first
        assert len(hashed) == len(FILES)

    @pytest.mark.parametrize("keep_time", [False, True])
    def test_changed_content_of_the_same_size_is_read(self, root, hashed, keep_time):
        path = root / "labels.csv"
        before, times = hash_of(root), path.stat()
        path.write_bytes(b"1,0\n")
        if keep_time:  # as `cp --preserve` or `rsync --times` do; the time of the change itself cannot be set
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            if path.stat().st_ctime_ns == times.st_ctime_ns:
                pytest.skip("this machine's clock is too coarse for the test")
        else:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
        assert hash_of(root) != before
        assert len(hashed) == 2 * len(FILES)

    def test_files_that_may_change_within_one_tick_of_the_clock_are_not_kept(self, root, folder, hashed, monkeypatch):
        monkeypatch.setattr(content, "SETTLED", 3600 * 10**9)
        first = hash_of(root)
        assert list(folder.iterdir()) == []
        assert hash_of(root) == first
        assert len(hashed) == 2 * len(FILES)

    @pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"sha256:0", "cut", "flipped", "of another"])
    def test_a_damaged_entry_is_made_anew(self, root, folder, hashed, damage, tmp_path):
        first = hash_of(root)
        (entry,) = folder.iterdir()
        whole = entry.read_bytes()
        if damage == "of another":
            hash_of(made(tmp_path / "other", {"a": b"a"}))
            (damage,) = (path.read_bytes() for path in folder.iterdir() if path != entry)
            hashed.clear()
        elif isinstance(damage, str):
            damage = whole[:-1] + (b"" if damage == "cut" else bytes([whole[-1] ^ 1]))
        hashed.clear()
        entry.write_bytes(damage)
        forget()
        assert hash_of(root) == first
        assert len(hashed) == len(FILES)
        assert entry.read_bytes() == whole

    @pytest.mark.parametrize("nowhere", ["a file", "no home"])
    def test_without_a_cache_folder_the_process_remembers(self, root, hashed, tmp_path, monkeypatch, nowhere):
        if nowhere == "a file":
            (tmp_path / "cache").write_text("")
        else:

            def fail():
                raise RuntimeError("no home")

            monkeypatch.delenv("XDG_CACHE_HOME")
            monkeypatch.setattr(Path, "home", fail)
        assert hash_of(root) == hash_of(root)
        assert len(hashed) == len(FILES)

    def test_another_machine_has_a_cache_of_its_own(self, root, hashed, monkeypatch):
        first = hash_of(root)
        monkeypatch.setattr(content.platform, "node", lambda: "another")
        assert hash_of(root) == first
        assert len(hashed) == 2 * len(FILES)

    def test_of_two_processes_one_reads_and_the_other_waits(self, root, folder, tmp_path):
        program = tmp_path / "program.py"
        program.write_text(f"""
import time
from pathlib import Path
from initbench.data import content
content.SETTLED, read = -1, content._sha256
def slow(path):
    with Path({str(tmp_path / "log")!r}).open("a") as log:
        log.write(path.name + "\\n")
    time.sleep(0.2)
    return read(path)
content._sha256 = slow
ready = Path({str(tmp_path)!r})
(ready / f"ready{{__import__('os').getpid()}}").touch()
while len(list(ready.glob("ready*"))) < 2:
    time.sleep(0.01)
print(content.content_hash({str(root)!r}, {list(FILES)!r}, ""))
""")
        processes = [subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        printed = {process.communicate(timeout=60)[0].strip() for process in processes}
        assert printed == {content_hash(root, list(FILES), "")}
        assert len((tmp_path / "log").read_text().splitlines()) == len(FILES)
        assert len(list(folder.iterdir())) == 1  # no lock, no part
