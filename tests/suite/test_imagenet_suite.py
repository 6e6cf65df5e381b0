"""The suite on ImageNet: planned and smoke-run before the images are there, and run on a tree like theirs."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from initbench.cli.command_line import main
from initbench.data import cache
from initbench.ledger import Ledger

SUITE = Path(__file__).parents[2] / "suites" / "imagenet_resnet50.yaml"
# ResNet-50 with images of 32×32 costs a fiftieth.
SMALL = ("--set", "dataset.image_size=32", "--set", "dataset.resize=36")
ONE = ("--only", "initializer=kaiming")
# Whether two steps on 8 noisy images diverge means nothing; that a part does not work is "failed".
RAN = {"finished", "diverged"}


@pytest.fixture(autouse=True)
def _nowhere(tmp_path, monkeypatch):
    """An empty working directory, data root and cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_made", {})


@pytest.fixture
def tree(tmp_path):
    """JPEGs of two sizes in train/ and val/, three classes, with 12 and 4 images of each."""
    random = np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 4)):
        for label in ("n01440764", "n01443537", "n01484850"):
            folder = tmp_path / "tree" / split / label
            folder.mkdir(parents=True)
            for i in range(count):
                image = Image.fromarray(random.integers(0, 256, (40 + 8 * (i % 2), 48, 3), dtype=np.uint8))
                file = io.BytesIO()
                image.save(file, "JPEG")
                (folder / f"{i}.JPEG").write_bytes(file.getvalue())
    return tmp_path / "tree"


@pytest.fixture
def initbench(capsys, monkeypatch):
    def run(command, *options):
        monkeypatch.setattr(sys, "argv", ["initbench", command, str(SUITE), *SMALL, *options])
        main()
        return capsys.readouterr().out

    return run


def records(name="imagenet-resnet50"):
    return list(Ledger(Path("runs") / name).records())


def on(tree, classes=3):
    return "--set", f"dataset.root={tree}", "--set", f"dataset.classes={classes}"


def test_it_is_planned_without_the_images(initbench, tmp_path):
    data = json.loads(initbench("plan", "--json"))
    assert (data["trials"], data["missing"], len(data["cells"]), data["incompatible"]) == (24, 24, 8, [])
    assert {len(cell["trials"]) for cell in data["cells"]} == {0}  # no ids before the content is known
    [waiting] = data["undescribed"]
    assert waiting["reason"].startswith(f"{tmp_path / 'data' / 'imagenet'} is not a folder: put images into ")
    assert waiting["reason"] in " ".join(initbench("plan").split())


def test_it_does_not_run_without_the_images(refused, tmp_path):
    message = refused("run", str(SUITE), *SMALL, "--executor", "in-process")
    assert message.startswith(f"{SUITE}:")
    assert f"dataset: {tmp_path / 'data' / 'imagenet'} is not a folder: put images into " in message


def test_a_wrong_number_of_classes_is_refused(refused, tree):
    """As where a part of ImageNet is not unpacked yet; also where random data would be run on."""
    for smoke in ((), ("--smoke",)):
        message = refused("plan", str(SUITE), *SMALL, "--set", f"dataset.root={tree}", *smoke)
        assert f"dataset.classes: must be 3, the folders in {tree / 'train'}; got 1000" in message


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:delta_orthogonal does not keep the norm")  # where a bottleneck narrows
def test_every_part_of_it_smoke_runs_without_the_images(initbench):
    initbench("run", "--smoke", "--executor", "in-process")
    found = records("imagenet-resnet50-smoke")
    assert {record.status for record in found} <= RAN
    assert {record.spec["dataset"]["outputs"] for record in found} == {1000}
    assert len({record.spec["initializer"]["name"] for record in found}) == len(found) == 8


@pytest.mark.slow
def test_it_smoke_runs_on_a_tree(initbench, tree):
    initbench("run", "--smoke", "--executor", "in-process", *on(tree), *ONE)
    [record] = records("imagenet-resnet50-smoke")
    assert record.status in RAN
    assert (record.spec["dataset"]["name"], record.spec["dataset"]["outputs"]) == ("random", 3)


@pytest.mark.slow
def test_it_trains_on_a_tree_streamed_and_in_memory_with_the_same_numbers(initbench, tree):
    """At its recipe but for its length: random resized crops of JPEGs, val as the test split, validation from train."""
    short = ("--set", "recipe.epochs=1", "--set", "recipe.batch_size=8", "--set", "recipe.lr=0.01")
    options = (
        "--executor",
        "in-process",
        "--seeds",
        "1",
        *ONE,
        *short,
        "--set",
        "resources.gpus=0",
        "--set",
        "probes=[]",
    )
    sizes = ("--set", "dataset.validation_size=6", "--set", "dataset.workers=1")
    metrics = []
    for reading in ("false", "true"):
        out = f"runs_{reading}"
        initbench("run", *options, *sizes, *on(tree), "--set", f"dataset.in_memory={reading}", "--out", out)
        [record] = Ledger(Path(out) / "imagenet-resnet50").records()
        assert record.status == "finished"
        assert record.metrics["steps"] == 4  # 30 images are left to train on, in batches of 8
        metrics.append((record.id, record.metrics, record.history))
    assert metrics[0] == metrics[1]
