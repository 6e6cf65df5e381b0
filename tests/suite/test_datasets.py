"""Datasets are described before the plan; where files are absent, trials are counted and have no ids yet."""

import json
import sys

import pytest

import initbench
from initbench.cli.command_line import main
from initbench.errors import DataError, SuiteError
from initbench.inputs import Inputs
from initbench.registry import Description
from initbench.suite.document import Document
from initbench.suite.load import describe_datasets, suite_of
from initbench.suite.plan import plan
from initbench.suite.smoke import smoke
from suites import BASE, ids, planned

PLUGIN = '''\
import os
import initbench
from initbench import DataError, Description, Inputs

def describe(*, size):
    if not os.path.exists("{folder}"):
        raise DataError("absent: put images into {folder}")
    return Description(Inputs((1, size, size)), 3, "sha256:1")

@initbench.register_dataset("absent", describe=describe)
def absent(size: int = 8):
    """Images that are not there."""
'''


@pytest.fixture
def absent():
    """A dataset whose files are absent until the set that is returned has something in it."""
    files = set()

    def describe(*, size):
        if not files:
            raise DataError("absent: put images into data/absent")
        return Description(Inputs((1, size, size)), 10, "sha256:1")

    @initbench.register_dataset("absent", describe=describe)
    def factory(size: int = 8):
        """Never read."""

    return files


def suite(**keys):
    return suite_of(Document("suite.yaml", "", BASE | keys))


TWO = {
    "dataset": ["digits", {"name": "absent", "size": [8, 16]}],
    "initializers": ["kaiming", "xavier"],
    "rules": [{"when": {"dataset": "absent"}, "recipe": {"lr": 0.5}}],
    "exclude": [{"dataset.size": 16, "initializer": "xavier"}],
    "seeds": 3,
}


@pytest.mark.usefixtures("absent")
def test_a_suite_is_described_in_its_order():
    digits, *others = describe_datasets(suite(**TWO))
    known = digits.described
    assert (known.name, known.task, known.inputs, known.outputs) == ("digits", "classification", Inputs((1, 8, 8)), 10)
    assert [(other.described, type(other.absent)) for other in others] == [(None, DataError), (None, DataError)]


def test_trials_on_absent_data_are_counted_and_have_no_ids(absent):
    made = suite(**TWO)
    result = plan(made, descriptions=describe_datasets(made))
    assert {t.dataset.name for t in result.trials} == {"digits"}
    assert len(result.trials) == 6
    assert [(len(rows), part.origin.key, str(part.absent)) for part, rows in result.waiting.items()] == [
        (6, ("dataset", 1), "absent: put images into data/absent"),
        (3, ("dataset", 1), "absent: put images into data/absent"),
    ]
    waiting = [row for rows in result.waiting.values() for row in rows]
    assert {(row.status, row.spec.id, row.spec.recipe.lr) for row in waiting} == {("waiting", "", 0.5)}
    assert result.excluded == 3
    absent.add("image")
    whole = plan(made, descriptions=describe_datasets(made))
    assert (len(whole.trials), whole.waiting) == (15, {})
    assert set(ids(result)) < set(ids(whole))  # what was known has the ids that it had


@pytest.mark.usefixtures("absent")
def test_only_and_incompatible_pairs_are_known_without_the_data():
    result = planned(**TWO, only=["dataset=absent", "initializer=kaiming"])
    assert (result.trials, [*map(len, result.waiting.values())]) == ((), [3, 3])
    asked = {"name": "mlp", "scheme": "standard"}
    schemes = planned(dataset="absent", architectures=[asked], initializers=["xavier", "fixup"])
    assert [pair.reason for pair in schemes.incompatible] == ["fixup needs scheme fixup, the suite says standard"]
    assert [*map(len, schemes.waiting.values())] == [1]


@pytest.mark.usefixtures("absent")
def test_a_smoke_run_leaves_them_out():
    result = smoke(planned(**TWO))
    assert result.waiting == {}
    assert {t.initializer.name for t in result.trials} == {"kaiming", "xavier"}


@pytest.fixture
def promised():
    """A dataset whose files are absent, and whose arguments say what it asks of a model."""

    def describe(*, size, classes):
        return Description(Inputs((1, size, size)), classes, absent="promised: put images into data/promised")

    @initbench.register_dataset("promised", describe=describe)
    def factory(size: int = 8, classes: int = 3):
        """Never read."""


@pytest.mark.usefixtures("promised")
class TestDataThatArePromised:
    """Their files are absent, and it is known all the same what they ask of a model."""

    def test_trials_have_no_ids_and_pairs_are_tried(self):
        found = planned(dataset=["digits", "promised"], architectures=["mlp"], initializers=["kaiming", "xavier"])
        assert {trial.dataset.name for trial in found.trials} == {"digits"}
        [(dataset, rows)] = found.waiting.items()
        assert str(dataset.absent) == "promised: put images into data/promised"
        assert [row.spec.id for row in rows] == ["", ""]
        assert (dataset.described.inputs, dataset.described.outputs) == (Inputs((1, 8, 8)), 3)
        refused = planned(dataset="promised", architectures=["timm/crossvit_9_240", "mlp"])
        [pair] = refused.incompatible
        assert "crossvit_9_240" in pair.reason

    def test_a_smoke_run_is_on_random_data_of_their_shape(self):
        trials = smoke(planned(dataset={"name": "promised", "classes": 5}, initializers=["kaiming", "xavier"])).trials
        assert {t.initializer.name for t in trials} == {"kaiming", "xavier"}
        assert {(t.dataset.name, t.dataset.inputs.shape, t.dataset.outputs) for t in trials} == {
            ("random", (1, 8, 8), 5)
        }
        both = smoke(planned(dataset=["digits", "promised"])).trials
        assert [t.dataset.outputs for t in both] == [10, 3]


def test_planning_reads_nothing(absent):
    """The plan is a function of the suite and the descriptions."""
    made = suite(**TWO)
    described = describe_datasets(made)
    absent.add("image")
    assert len(plan(made, descriptions=described).waiting) == 2


def test_an_argument_that_a_description_refuses():
    with pytest.raises(SuiteError) as refused:
        describe_datasets(suite(dataset=["digits", {"name": "gaussian", "channels": 0}]))
    assert refused.value.key == "dataset[1].channels"


# --- the command line

FILE = """\
name: valid
dataset: [digits, absent]
architectures: [{name: mlp, width: 8}]
initializers: [kaiming, xavier]
probes: []
seeds: 2
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A suite with absent data, and the plug-in that has them, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin.py").write_text(PLUGIN.format(folder=tmp_path / "images"), encoding="utf-8")
    (tmp_path / "suite.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path


def initbench_plan(capsys, monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["initbench", "plan", "suite.yaml", "--plugin", "plugin.py", *options])
    main()
    return capsys.readouterr().out


def test_plan_says_what_to_put_where(files, capsys, monkeypatch):
    data = json.loads(initbench_plan(capsys, monkeypatch, "--json"))
    assert (data["trials"], data["missing"]) == (8, 8)
    assert [(c["dataset"], len(c["trials"]), c["seeds"], c["cell"] is None) for c in data["cells"]] == [
        ("digits", 2, [0, 1], False),
        ("digits", 2, [0, 1], False),
        ("absent", 0, [0, 1], True),
        ("absent", 0, [0, 1], True),
    ]
    [waiting] = data["undescribed"]
    assert (waiting["dataset"], waiting["trials"]) == ("absent", 4)
    assert str(files / "images") in waiting["reason"]
    assert waiting["reason"] in " ".join(initbench_plan(capsys, monkeypatch).split())
    (files / "images").mkdir()
    data = json.loads(initbench_plan(capsys, monkeypatch, "--json"))
    assert (data["undescribed"], {len(c["trials"]) for c in data["cells"]}) == ([], {2})


def test_run_refuses(files, refused):
    message = refused("run", "suite.yaml", "--plugin", "plugin.py", "--executor", "in-process")
    assert message == f"suite.yaml:2: dataset[1]: absent: put images into {files / 'images'}"
