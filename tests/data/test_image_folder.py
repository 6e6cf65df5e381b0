"""ImageFolder trees: what is decoded, the splits, the identity, and equal numbers in memory and streamed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from image_trees import make_tree, picture
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import initbench
from initbench.data import cache, content, describe_dataset, image_samples, load_dataset
from initbench.data.batches import TrainingBatches, endless_batches
from initbench.data.image_samples import ImagesInMemory, StreamedImages
from initbench.data.prepare import hold_out_validation
from initbench.errors import ArgumentError, DataError
from initbench.inputs import Inputs
from initbench.randomness import generator
from initbench.training.loop import train
from initbench.training.recipe import Recipe
from suites import the_trial

SMALL = {"image_size": 12, "resize": 15}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_made", {})
    monkeypatch.setattr(content, "SETTLED", -1)


@pytest.fixture
def root(tmp_path):
    return make_tree(tmp_path / "tree")


@pytest.fixture
def one_thread():
    """Sums are taken in one order, so that numbers are bitwise equal."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def load(root, **arguments):
    return load_dataset("image_folder", {"root": str(root), **SMALL, **arguments})


def everything(samples):
    return samples.take(slice(len(samples)))


READING = [{"in_memory": True}, {"in_memory": False}]
GIVEN = {"mean": [0.4, 0.5, 0.6], "std": [0.1, 0.2, 0.3]}


@pytest.mark.parametrize("reading", READING, ids=str)
@pytest.mark.parametrize("size", [(12, 15), (11, 16), (16, None), (13, 14)])
def test_images_are_those_of_torchvision_s_image_folder_and_transforms(root, reading, size):
    """Every mode and size, bit by bit; sizes that are rounded each way when the middle is cut out."""
    image_size, resize = size
    transform = v2.Compose(
        [
            v2.PILToTensor(),
            v2.Resize(resize or image_size),
            v2.CenterCrop(image_size),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(**GIVEN),
        ]
    )
    arguments = {"image_size": image_size, "resize": resize, "validation_size": 0, **GIVEN, **reading}
    dataset = load(root, **arguments)
    for split, name in ((dataset.test, "test"), (dataset.train, "train")):
        theirs = ImageFolder(root / name, transform)
        order = range(len(theirs)) if name == "test" else hold_out_validation(torch.tensor(theirs.targets), 0)[0]
        inputs, targets = everything(split)
        assert torch.equal(inputs, torch.stack([theirs[i][0] for i in order]))
        assert targets.tolist() == [theirs.targets[i] for i in order]
        assert split.sample_shape == inputs.shape[1:] == (3, image_size, image_size)
        assert torch.equal(split.targets, targets)
    assert dataset.outputs == 2


CROPPING = [{"in_memory": True}, *({"in_memory": False, "workers": workers} for workers in (0, 2))]


@pytest.mark.parametrize("reading", CROPPING, ids=str)
def test_boxes_are_those_of_torchvision_in_the_uncropped_image(root, reading):
    """Bit by bit, and with any number of decoding processes; the middle box is the image as it is without boxes."""
    dataset = load(root, image_size=12, resize=15, validation_size=0, **GIVEN, **reading)
    order = [torch.tensor([3, 1]), torch.tensor([0])]
    boxes = [torch.tensor([[0, 0, 15, 15], [2, 5, 9, 10]]), torch.tensor([[2, 2, 12, 12]])]

    def uncropped(image):
        """Return the square of side 15 whose middle, 2 pixels from its edge, is that of CenterCrop(12)."""
        top, left = (round((side - 12) / 2) - 2 for side in image.shape[1:])
        return image[:, top : top + 15, left : left + 15]

    theirs = ImageFolder(root / "train", v2.Compose([v2.PILToTensor(), v2.Resize(15), uncropped]))
    shuffled = hold_out_validation(torch.tensor(theirs.targets), 0)[0]
    finish = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(**GIVEN)])
    for samples, its_boxes, (inputs, targets) in zip(order, boxes, dataset.train.batches(order, boxes), strict=True):
        expected = [
            v2.functional.resized_crop(finish(theirs[shuffled[i]][0]), *box, size=[12, 12])
            for i, box in zip(samples, its_boxes.tolist(), strict=True)
        ]
        assert torch.equal(inputs, torch.stack(expected))
        assert torch.equal(targets, dataset.train.targets[samples])
    assert torch.equal(inputs, dataset.train.take(order[1])[0])
    assert dataset.train.uncropped_shape == (3, 15, 15)


def test_the_training_split_as_it_is_cropped_is_standardized(root):
    """In float64 from the bytes; the same for both ways to read, and not of the validation samples."""
    dataset = load(root, validation_size=4)
    raw = load(root, validation_size=4, mean=[0, 0, 0], std=[1, 1, 1])
    x = everything(raw.train)[0].double()
    mean, std = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), correction=0, keepdim=True)
    for split in ("train", "validation", "test"):
        expected = (everything(getattr(raw, split))[0].double() - mean) / std
        found = everything(getattr(dataset, split))[0].double()
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)  # float32
    published = everything(load(root, validation_size=4, standardize="imagenet").test)[0]
    known = v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    torch.testing.assert_close(published, known(everything(raw.test)[0]))


class TestSplits:
    def test_validation_is_held_out_of_train_and_smaller_subsets_are_part_of_larger_ones(self, root):
        small, large = (load(root, validation_size=5, train_size=size, **GIVEN) for size in (6, None))
        sizes = [len(split) for split in (large.train, large.validation, large.test)]
        assert (sizes, len(small.train)) == ([15, 5, 12], 6)
        assert torch.equal(everything(small.train)[0], everything(large.train)[0][:6])
        for size in (small, large):
            counts = size.train.targets.bincount()
            assert abs(counts[0] - counts[1]) <= 2
        images = torch.cat([everything(large.train)[0], everything(large.validation)[0]])
        assert len(images.flatten(1).unique(dim=0)) == 20  # disjoint, and all of the tree

    def test_by_default_a_tenth_is_held_out(self, root):
        assert len(load(root).validation) == 2

    def test_val_is_the_test_split_where_there_is_no_test(self, root, tmp_path):
        other = make_tree(tmp_path / "other", held_out="val", test=3)
        assert len(load(other).test) == 6
        shutil.copytree(other / "val", root / "val")
        assert len(load(root).test) == 12

    def test_below_the_data_root(self, root, monkeypatch):
        monkeypatch.setenv("INITBENCH_DATA", str(root.parent))
        assert torch.equal(everything(load("tree").test)[0], everything(load(root).test)[0])

    def test_images_in_folders_below_a_class_are_its_own_in_torchvision_s_order(self, root):
        for name in ("b/z.png", "b-b/a.png", "B.png"):
            (root / "test" / "bee" / name).parent.mkdir(exist_ok=True)
            shutil.copy(root / "test" / "ant" / "0.png", root / "test" / "bee" / name)
        theirs = ImageFolder(root / "test", v2.Compose([v2.PILToTensor(), v2.Resize(15), v2.CenterCrop(12)]))
        split = load(root, in_memory=True).test
        assert torch.equal(split.images, torch.stack([image for image, _ in theirs]))


class TestReading:
    @pytest.mark.slow
    @pytest.mark.parametrize("workers", [0, 1, 2])
    def test_batches_are_the_same_bit_by_bit_however_they_are_read(self, root, workers):
        """Order, box, crop, mixup, and the batches of tuners; the global random stream stays where it is."""
        held, streamed = load(root, in_memory=True), load(root, in_memory=False, workers=workers)
        assert isinstance(held.train, ImagesInMemory)
        assert isinstance(streamed.train, StreamedImages)
        before = torch.random.get_rng_state()
        options = {"random_resized_crop": (0.3, 1.0), "crop": 1, "flip": True, "cutout": 3, "mixup": 1.0}
        runs = [TrainingBatches(split, 7, augmented(**options), 5) for split in (held.train, streamed.train)]
        for _ in range(2):
            for ours, theirs in zip(*(run.epoch() for run in runs), strict=True):
                assert torch.equal(ours.inputs, theirs.inputs)
                assert torch.equal(ours.targets, theirs.targets)
                assert torch.equal(ours.partners, theirs.partners)
                assert ours.weight == theirs.weight
        endless = [endless_batches(split, 13, generator(0, "tuner_batches")) for split in (held.train, streamed.train)]
        for _ in range(4):
            for ours, theirs in zip(*(next(batches) for batches in endless), strict=True):
                assert torch.equal(ours, theirs)
        for name in ("train", "validation", "test"):
            for ours, theirs in zip(*(everything(getattr(data, name)) for data in (held, streamed)), strict=True):
                assert torch.equal(ours, theirs)
        assert torch.equal(torch.random.get_rng_state(), before)

    @pytest.mark.slow
    @pytest.mark.usefixtures("one_thread")
    def test_a_training_gives_the_same_numbers_bit_by_bit(self, root):
        results = []
        for reading in ({"in_memory": True}, *({"in_memory": False, "workers": workers} for workers in (0, 1, 2))):
            dataset = load(root, validation_size=4, **reading)
            model = initbench.create_model(
                "wrn", depth=10, width=1, input_shape=(3, 12, 12), num_classes=2, drop_path=0.5
            )
            initbench.initialize(model, "kaiming", seed=0)
            recipe = Recipe(epochs=2, batch_size=5, random_resized_crop=(0.2, 1.0), flip=True, mixup=0.5)
            results.append((train(model, dataset, recipe, 3), [p.detach().clone() for p in model.parameters()]))
        (expected, parameters), *others = results
        assert expected.history[-1]["train_loss"] > 0
        for result, own in others:
            assert result == expected
            assert all(map(torch.equal, own, parameters))

    @pytest.mark.parametrize("workers", [0, 1, 2])
    def test_no_more_than_two_batches_for_each_worker_are_read_ahead(self, root, workers):
        asked = []
        order = (asked.append(i) or torch.tensor([i % 7]) for i in range(10**9))
        batches = load(root, in_memory=False, workers=workers).train.batches(order)
        for taken in range(1, 12):
            next(batches)
            assert len(asked) <= taken + 2 * workers

    @pytest.mark.slow
    @pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux says what a process takes at most")
    @pytest.mark.parametrize(
        ("reading", "bounded"),
        [({"in_memory": False}, True), ({"in_memory": False, "workers": 2}, True), ({"in_memory": True}, False)],
        ids=str,
    )
    def test_the_memory_of_an_epoch_does_not_grow_with_the_images(self, tmp_path, reading, bounded):
        """600 images of 512×512, 472 MB decoded, of which a batch of 8 is 6 MB as bytes and 25 MB as numbers.

        The bound is that of six batches of numbers: a batch, its copies on the way, and those that wait; a third of
        what the images take, which is what they take where they are held in memory.
        """
        image = picture(0, size=(512, 512), kind="JPEG")
        for i in range(600):
            path = tmp_path / "large" / ("train" if i < 598 else "test") / f"c{i % 2}" / f"{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(image)
        script = tmp_path / "script.py"
        script.write_text(STREAM.format(root=str(tmp_path / "large"), reading=reading))
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
        grown = int(done.stdout)  # kB
        assert grown < 150_000 if bounded else grown > 400_000

    def test_what_fits_is_held_in_memory(self, root, monkeypatch):
        """Training images with their margin, the others without: 18·15², 14·12² pixels of 3 bytes."""
        limit = 3 * (18 * 15**2 + 14 * 12**2)
        monkeypatch.setattr(image_samples, "MEMORY", limit)
        assert isinstance(load(root, train_size=18).train, ImagesInMemory)
        monkeypatch.setattr(image_samples, "MEMORY", limit - 1)
        assert isinstance(load(root, train_size=18, workers=1).train, StreamedImages)

    def test_a_second_load_looks_into_no_file(self, root, monkeypatch):
        load(root, in_memory=False)
        cache._made.clear()  # as another process would
        monkeypatch.setattr("initbench.data.image_decoding.decode", None)
        assert len(load(root, in_memory=False, workers=0, train_size=18).train) == 18

    def test_on_another_device_the_samples_are_sent_there(self, root):
        split = load(root, in_memory=True).splits.to("meta").train
        inputs, targets = split.take(torch.tensor([0], device="meta"))
        assert inputs.is_meta
        assert targets.is_meta
        streamed = load(root, in_memory=False).splits.to("meta").train
        assert (streamed.device.type, streamed.index_device.type) == ("meta", "cpu")
        assert streamed.take(torch.tensor([0]))[0].is_meta


STREAM = """
import re
from pathlib import Path
from initbench.data import load_dataset
from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatches

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

if __name__ == "__main__":
    arguments = dict(root={root!r}, image_size=512, validation_size=0, standardize="imagenet")
    load_dataset("image_folder", arguments | dict(in_memory=False)).train.take(slice(8))
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    train = load_dataset("image_folder", arguments | {reading!r}).train
    for batch in TrainingBatches(train, 8, Augmentation(), 0).epoch():
        pass
    print(peak() - before)
"""


def augmented(**options):
    from initbench.data.augmentation import Augmentation

    return Augmentation(**options)


class TestIdentity:
    def trial(self, root, **arguments):
        dataset = {"name": "image_folder", "root": str(root), **SMALL, **arguments}
        return the_trial(dataset=dataset, architectures=[{"name": "wrn", "depth": 10, "width": 1}])

    def test_a_copy_elsewhere_is_the_same_and_one_byte_another(self, root, tmp_path):
        first = self.trial(root)
        assert first.dataset.inputs == Inputs((3, 12, 12))
        shutil.copytree(root, tmp_path / "copy")
        assert self.trial(tmp_path / "copy").id == first.id
        file = tmp_path / "copy" / "train" / "ant" / "0.png"
        file.write_bytes(file.read_bytes() + b"\0")
        assert self.trial(tmp_path / "copy").id != first.id

    def test_another_name_or_class_is_another(self, root):
        first = self.trial(root)
        (root / "test" / "ant" / "0.png").rename(root / "test" / "bee" / "00.png")
        assert self.trial(root).id != first.id

    def test_what_is_no_image_is_not_part_of_it(self, root):
        first = self.trial(root)
        (root / "train" / "ant" / "Thumbs.db").write_bytes(b"")
        assert self.trial(root).id == first.id

    def test_how_it_is_read_is_no_part_of_it_but_what_is_made_of_it_is(self, root):
        first = self.trial(root)
        for reading in ({"workers": 2}, {"in_memory": False}, {"in_memory": True, "workers": 1}, {"classes": 2}):
            other = self.trial(root, **reading)
            assert (other.id, other.cell) == (first.id, first.cell)
            assert other.dataset.arguments == first.dataset.arguments  # so that reports do not tell them apart
            assert other.dataset.all_arguments.items() >= reading.items()
        others = [{"image_size": 11}, {"resize": 16}, {"train_size": 4}, {"validation_size": 3}]
        others += [{"standardize": "imagenet"}, GIVEN]
        assert len({first.id, *(self.trial(root, **arguments).id for arguments in others)}) == 7

    def test_a_tree_that_changed_since_the_plan_is_refused(self, root):
        planned = self.trial(root).dataset
        (root / "train" / "ant" / "0.png").unlink()
        with pytest.raises(DataError, match=rf"^image_folder: .*{planned.content}$"):
            load_dataset("image_folder", planned.all_arguments, content=planned.content)


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "argument"),
        [
            ({"image_size": 0}, "image_size"),
            ({"resize": 11}, "resize"),
            ({"train_size": 0}, "train_size"),
            ({"validation_size": -1}, "validation_size"),
            ({"workers": -1}, "workers"),
            ({"classes": 0}, "classes"),
            ({"classes": 3}, "classes"),
            ({"mean": [0.5, 0.5, 0.5]}, "mean"),
            ({"std": [0.5, 0.5, 0.5]}, "std"),
            ({"mean": [0.5, 0.5, 0.5], "std": [0.5, 0, 0.5]}, "std"),
            ({**GIVEN, "standardize": "imagenet"}, "standardize"),
            ({"standardize": "cifar"}, "standardize"),
            ({"mean": [0.5, 0.5], "std": [0.5, 0.5]}, "mean"),
        ],
        ids=str,
    )
    def test_impossible_ones_are_refused_by_name_before_a_file_is_read(self, root, arguments, argument):
        with pytest.raises(ArgumentError) as refusal:
            describe_dataset("image_folder", {"root": str(root), **SMALL, **arguments})
        assert refusal.value.argument.partition(".")[0] == argument

    @pytest.mark.parametrize("argument", ["train_size", "validation_size"])
    def test_more_samples_than_there_are(self, root, argument):
        with pytest.raises(ArgumentError) as refusal:
            load(root, **{argument: 21})
        assert refusal.value.argument == argument

    def test_by_default_the_images_lie_in_a_folder_of_that_name(self, root, monkeypatch):
        monkeypatch.setenv("INITBENCH_DATA", str(root.parent))
        with pytest.raises(DataError, match=f"^{root.parent / 'images'} is not a folder: "):
            describe_dataset("image_folder", {})
        root.rename(root.parent / "images")
        assert describe_dataset("image_folder", {}).inputs == Inputs((3, 224, 224))


def test_with_the_number_of_classes_it_is_described_before_the_folder_is_there(tmp_path):
    arguments = {"root": str(tmp_path / "later"), **SMALL, "classes": 2}
    found = describe_dataset("image_folder", arguments)
    assert (found.inputs, found.outputs, found.content) == (Inputs((3, 12, 12)), 2, None)
    assert found.absent.startswith(f"{tmp_path / 'later'} is not a folder: put images into ")
    with pytest.raises(DataError) as refusal:
        load_dataset("image_folder", arguments)
    assert str(refusal.value) == found.absent
    make_tree(tmp_path / "later")
    there = describe_dataset("image_folder", arguments)
    assert (there.inputs, there.outputs, there.absent) == (found.inputs, 2, None)
    assert there.content is not None


def test_a_constant_channel_is_refused(tmp_path):
    from PIL import Image

    for i, (split, label) in enumerate([("train", "a"), ("train", "b"), ("test", "a"), ("test", "b")]):
        folder = Path(tmp_path / "flat" / split / label)
        folder.mkdir(parents=True)
        Image.new("RGB", (16, 16), (100, 10 * i, 30 * i)).save(folder / "x.png")
    for reading in READING:
        with pytest.raises(DataError, match="channel"):
            load(tmp_path / "flat", validation_size=0, **reading)
