"""A smoke run: every part of a suite at least once, in a few trials of two steps on random data."""

import json
import sys
from pathlib import Path

import pytest
import torch
from cases import LeastSquares

import initbench
from initbench.cli.command_line import main
from initbench.data import load_dataset
from initbench.errors import InitbenchError
from initbench.execution.trial import run_trial
from initbench.inputs import Inputs
from initbench.ledger import Ledger
from initbench.registry import INITIALIZERS, PROBES, Initializer
from initbench.suite.load import load_suite
from initbench.suite.smoke import is_smoke, smoke, smoke_suite
from suites import BASE, plan_of, planned

SUITE = """\
name: colours
dataset: {name: cifar10, validation_size: 0, image_size: 8}
architectures:
  - {name: plain, depth: [22, 10, 16], width: 1, norm: [none, batch]}
  - {name: wrn, depth: [16, 10], width: 1, norm: none}
  - {name: mlp, width: [8, 4]}
initializers:
  - kaiming
  - {name: delta_orthogonal, gain: [1, 2]}
  - {name: metainit, base: [orthogonal, xavier], steps: 200}
recipe: {epochs: 200, batch_size: 128, lr: 0.1, mixup: 1.0, crop: 1, flip: true, threads: 2, history_every: 50}
rules:
  - {when: {architecture: plain, norm: none}, recipe: {clip_norm: 1.0}}
  - {when: {architecture: plain, depth: 22}, recipe: {lr: 0.01}}
  - {when: {initializer: metainit}, initializer: {steps: 400, batch_size: 64}}
exclude:
  - {architecture: [plain, wrn], depth: 10, initializer: kaiming}
  - {architecture: mlp, initializer: kaiming}
probes: [{name: gradient_quotient, data: [random, real], batches: [8, 16]}, gradient_norm]
seeds: [7, 3, 5]
resources: {gpus: 0.5, cpus: 4}
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """The suite above in an empty folder, whose data root has no file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path / "data"))
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return load_suite("suite.yaml")


def parts(trials, kind):
    return {json.dumps(getattr(t, kind).model_dump(mode="json"), sort_keys=True) for t in trials}


def beside_depth(trial):
    arguments = {k: v for k, v in trial.architecture.arguments.items() if k != "depth"}
    return json.dumps([trial.architecture.name, trial.scheme, arguments], sort_keys=True)


# --- the covering set


def test_every_part_is_covered(suite):
    full = plan_of(suite)
    trials = smoke(full).trials
    assert {beside_depth(t) for t in trials} == {beside_depth(t) for t in full.trials}
    assert {(t.initializer.name, t.initializer.arguments.get("gain")) for t in trials} == {
        ("kaiming", 2**0.5),
        ("delta_orthogonal", 1.0),
        ("delta_orthogonal", 2.0),
        ("metainit", None),
    }
    bases = [t.initializer.arguments["base"] for t in trials if "base" in t.initializer.arguments]
    assert {base["name"] for base in bases} == {"orthogonal", "xavier"}
    # What the rules make of the recipe, at a depth that is not the smallest too.
    assert {(t.recipe.clip_norm, t.recipe.lr) for t in trials} == {(None, 0.1), (1.0, 0.1), (1.0, 0.01), (None, 0.01)}


def test_it_is_small_and_each_trial_is_another(suite):
    full = plan_of(suite)
    trials = smoke(full).trials
    assert len(full.trials) == 135
    assert len(trials) == 7  # five architectures, of which `plain` at its smallest depth has two of the four recipes
    assert len({t.id for t in trials}) == len(trials)
    assert {t.id for t in trials}.isdisjoint(t.id for t in full.trials)
    assert {t.seed for t in trials} == {7}


def test_every_architecture_is_there_at_its_smallest_depth(suite):
    depths = {}
    for trial in smoke(plan_of(suite)).trials:
        depths.setdefault(beside_depth(trial), set()).add(trial.architecture.arguments["depth"])
    assert [min(found) for key, found in depths.items() if '"mlp"' not in key] == [10, 10, 10]


def test_a_greater_depth_where_nothing_else_has_a_part():
    entries = [{"name": "plain", "depth": [10, 16], "width": 1}]
    full = planned(
        architectures=entries, initializers=["kaiming", "xavier"], exclude=[{"depth": 10, "initializer": "xavier"}]
    )
    trials = smoke(full).trials
    assert [(t.architecture.arguments["depth"], t.initializer.name) for t in trials] == [
        (10, "kaiming"),
        (16, "xavier"),
    ]


def test_nothing_runs_that_the_suite_does_not_run(suite):
    full = plan_of(suite)
    pairs = {(t.architecture.model_dump_json(), t.initializer.name) for t in full.trials}
    reduced = smoke(full)
    assert {(t.architecture.model_dump_json(), t.initializer.name) for t in reduced.trials} <= pairs
    assert (reduced.incompatible, reduced.excluded) == (full.incompatible, full.excluded)


def test_a_filter_is_honoured(suite):
    trials = smoke(plan_of(suite, ["architecture=wrn", "initializer=metainit"])).trials
    assert {(t.architecture.name, t.initializer.name) for t in trials} == {("wrn", "metainit")}
    assert [t.architecture.arguments["depth"] for t in trials] == [10, 10]


def test_trials_that_become_the_same_run_once():
    full = planned(recipe={"epochs": [10, 20]}, dataset={"name": "digits", "train_size": [100, 200]}, seeds=3)
    assert (len(full.trials), len(smoke(full).trials)) == (12, 1)


def test_a_plan_without_trials_stays_without():
    full = planned(architectures=[{"name": "mlp", "scheme": "fixup"}])
    assert smoke(full) == full


def test_the_plan_and_the_suite_are_left_as_they_are(suite):
    full = plan_of(suite)
    before = [t.model_dump_json() for t in full.trials], dict(suite.document.overrides)
    smoke(full)
    reduced = smoke_suite(suite)
    assert ([t.model_dump_json() for t in full.trials], suite.document.overrides) == before
    assert (suite.name, reduced.name) == ("colours", "colours-smoke")
    assert (reduced.resources.cpus, reduced.resources.gpus) == (1, 0)


# --- what a trial becomes


@pytest.mark.parametrize(
    ("dataset", "shape", "classes"),
    [
        ({"name": "cifar10", "validation_size": 0}, (3, 32, 32), 10),
        ({"name": "cifar100"}, (3, 32, 32), 100),
        ({"name": "fashion_mnist", "image_size": 14}, (1, 14, 14), 10),
        ({"name": "digits"}, (1, 8, 8), 10),
        ({"name": "gaussian", "channels": 2, "image_size": 9, "num_classes": 4}, (2, 9, 9), 4),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_the_data_have_the_shape_and_no_file_is_read(dataset, shape, classes, tmp_path, monkeypatch):
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path))
    [trial] = smoke(planned(dataset=dataset, recipe={"batch_size": 100})).trials
    assert trial.dataset.name == "random"
    assert (trial.dataset.inputs, trial.dataset.outputs) == (Inputs(shape), classes)
    data = load_dataset(trial.dataset.name, trial.dataset.arguments)
    assert (data.inputs, data.outputs) == (Inputs(shape), classes)
    assert data.train.inputs.shape == (8, *shape)  # one batch
    assert list(tmp_path.iterdir()) == []


class Counting(LeastSquares):
    """The sum of the tokens of a text, by squared error."""


@pytest.mark.parametrize(
    "inputs", [Inputs((5,)), Inputs((2, 8, 12)), Inputs((6,), vocabulary=7)], ids=["rows", "wide images", "tokens"]
)
def test_any_task_and_any_shape(inputs, scratch_registry):  # they must be forgotten
    initbench.register_task("counting")(Counting)
    initbench.register_dataset("counted", task="counting", inputs=inputs, outputs=1)(lambda: None)

    @initbench.register_architecture("counter", tasks=("counting",))
    def counter(*, inputs, outputs):
        features = torch.nn.Flatten()
        if inputs.vocabulary:
            features = torch.nn.Sequential(torch.nn.Embedding(inputs.vocabulary, 1), features)
        return torch.nn.Sequential(features, torch.nn.LazyLinear(outputs))

    [trial] = smoke(planned(dataset="counted", architectures=["counter"], initializers=["kaiming"])).trials
    assert (trial.dataset.task, trial.dataset.inputs) == ("counting", inputs)
    data = load_dataset(trial.dataset.name, trial.dataset.arguments)
    assert (data.task, data.inputs, data.train.inputs.is_floating_point()) == (
        "counting",
        inputs,
        inputs.vocabulary is None,
    )
    assert is_smoke(trial.model_dump(mode="json"))


def test_initializers_that_are_arguments_are_short_too(scratch_registry):  # they must be forgotten
    @initbench.register_initializer("slow", smoke={"sweeps": 2})
    def slow(sweeps: int = 100, batch_size: int = 64):
        return lambda model, context: None

    @initbench.register_initializer("outer")
    def outer(inner: Initializer = Initializer("slow")):
        return lambda model, context: None

    [trial] = smoke(planned(initializers=["outer"])).trials
    assert trial.initializer.arguments["inner"]["arguments"] == {"sweeps": 2, "batch_size": 8}


@pytest.mark.parametrize(
    ("recipe", "becomes"),
    [
        ({"steps": 1000, "warmup_steps": 100}, {"steps": 2, "warmup_steps": 1}),
        ({"epochs": 90, "warmup_steps": 500}, {"epochs": 2, "warmup_steps": 1}),
        (
            {"steps": 1000, "evaluate_every": 50, "history_every": 10},
            {"steps": 2, "evaluate_every": 1, "history_every": 1},
        ),
        ({"accumulate": 16, "batch_norm": "micro_batch"}, {"epochs": 2, "accumulate": 2, "batch_norm": "micro_batch"}),
        ({"epochs": 0}, {"epochs": 0}),
    ],
    ids=str,
)
def test_a_recipe_has_two_steps_and_what_the_suite_s_has(recipe, becomes):
    [trial] = smoke(planned(recipe=recipe)).trials
    assert {name: getattr(trial.recipe, name) for name in becomes} == becomes
    always = {"batch_size", "threads", *becomes}
    assert {n for n, value in trial.recipe if value != type(trial.recipe).model_fields[n].default} <= always


def test_two_micro_batches_have_two_samples_each_however_large_one_is():
    dataset = {"name": "gaussian", "image_size": 224}
    recipe = {"batch_size": 256, "accumulate": 4, "batch_norm": "micro_batch"}
    [trial] = smoke(planned(dataset=dataset, recipe=recipe)).trials
    assert (trial.recipe.batch_size, trial.recipe.accumulate) == (4, 2)


@pytest.mark.parametrize(("given", "becomes"), [(128, 8), (8, 8), (5, 5), (1, 1)])
def test_batches_are_small_and_never_larger_than_they_were(given, becomes):
    metainit = {"name": "metainit", "batch_size": given}
    [trial] = smoke(planned(initializers=[metainit], recipe={"batch_size": given})).trials
    assert (trial.recipe.batch_size, trial.initializer.arguments["batch_size"]) == (becomes, becomes)
    assert trial.dataset.arguments["train_size"] == becomes


@pytest.mark.parametrize(("side", "samples"), [(32, 8), (64, 8), (96, 3), (224, 2)])
def test_batches_of_large_images_are_smaller(side, samples):
    """So that a tuner's passes over a large network fit into the memory of a laptop."""
    large = {"name": "gaussian", "channels": 3, "image_size": side}
    initializers = [{"name": "metainit", "batch_size": 84}]
    [trial] = smoke(planned(dataset=large, initializers=initializers, recipe={"batch_size": 256})).trials
    assert (trial.recipe.batch_size, trial.initializer.arguments["batch_size"]) == (samples, samples)


def test_initializers_and_probes_take_what_they_declare(suite):
    trials = smoke(plan_of(suite)).trials
    tuned = [t.initializer for t in trials if t.initializer.name == "metainit"]
    assert {(i.arguments["steps"], i.arguments["lr"], i.arguments["batch_size"]) for i in tuned} == {(3, 0.1, 8)}
    # Two numbers of batches become one; random and real data stay two.
    found = [(p.name, p.arguments["data"], p.arguments["batch_size"], p.arguments["batches"]) for p in trials[0].probes]
    assert found == [
        ("gradient_quotient", "random", 2, 2),
        ("gradient_quotient", "real", 2, 2),
        ("gradient_norm", "random", 2, 2),
    ]


def test_a_recipe_keeps_what_does_not_make_it_long(suite):
    before = {t.recipe.clip_norm: t.recipe for t in plan_of(suite).trials if t.recipe.lr == 0.1}
    for trial in smoke(plan_of(suite)).trials:
        if trial.recipe.lr == 0.1:
            short = {"epochs": 2, "batch_size": 8, "history_every": 1, "threads": 1}
            assert trial.recipe == before[trial.recipe.clip_norm].model_copy(update=short)


# --- what a trial does


def run_smoke(**recipe):
    [trial] = smoke(planned(recipe=recipe)).trials
    return run_trial(trial)


def test_a_milestone_is_met():
    record = run_smoke(epochs=200, schedule="step", milestones=[60, 120, 160], step_factor=0.25, lr=0.4)
    assert [entry["lr"] for entry in record.history] == [0.4, 0.1]
    assert (record.status, record.metrics["steps"]) == ("finished", 2)


def test_a_warm_up_is_met():
    """One step of it, at the whole learning rate, then the cosine of the one step that remains, from its beginning."""
    record = run_smoke(epochs=200, warmup_epochs=5.0, lr=0.2)
    cold = run_smoke(epochs=200, lr=0.2)
    assert [entry["lr"] for entry in cold.history] == [0.2, 0.1]
    assert [entry["lr"] for entry in record.history] == [0.2, 0.2]
    assert record.metrics["steps"] == 2


def test_a_warm_up_before_milestones_is_met():
    record = run_smoke(epochs=90, schedule="step", milestones=[30], warmup_epochs=0.5, lr=0.2)
    assert [entry["lr"] for entry in record.history] == pytest.approx([0.2, 0.02])


def test_the_history_of_steps_is_written():
    assert [entry["step"] for entry in run_smoke(history_every=100).history] == [1, 2]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 1000])
def test_two_steps_whatever_the_batch(batch_size):
    assert run_smoke(batch_size=batch_size).metrics["steps"] == 2


def test_steps_in_the_place_of_epochs():
    assert run_smoke(steps=1000, warmup_steps=10).metrics["steps"] == 2


def test_a_recipe_that_only_measures():
    record = run_smoke(epochs=0)
    assert (record.status, record.metrics["steps"]) == ("finished", 0)


# --- what is declared


def test_what_is_declared_is_accepted():
    for registry in (INITIALIZERS, PROBES):
        for component in map(registry.get, registry.builtins):
            component.build(component.traits.smoke)
            short = component.resolve(component.traits.smoke)
            # A size of batches need not be declared: every one is made small.
            counts = {k: v for k, v in short.items() if type(v) is int and k != "batch_size"}
            assert max(counts.values(), default=0) <= 10, f"{component.name} declares no short run: {counts}"


def test_what_is_declared_makes_nothing_longer():
    full = planned(
        initializers=[{"name": "metainit", "steps": 1}],
        probes=[{"name": "gradient_norm", "batches": 1, "batch_size": 1}],
    )
    [trial] = smoke(full).trials
    assert trial.initializer.arguments["steps"] == 1
    [probe] = trial.probes
    assert (probe.arguments["batches"], probe.arguments["batch_size"]) == (1, 1)


@pytest.mark.parametrize(
    ("register", "kind"), [(initbench.register_initializer, "initializer"), (initbench.register_probe, "probe")]
)
def test_what_is_declared_must_be_an_argument(register, kind):
    with pytest.raises(InitbenchError) as refused:

        @register("short", smoke={"step": 3})
        def short(steps: int = 100):
            """Never called."""

    assert str(refused.value) == f"{kind} 'short': smoke sets 'step', which is not an argument (did you mean 'steps'?)"


# --- the command line


def initbench_run(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["initbench", *arguments])
    main()
    return capsys.readouterr().out


@pytest.mark.slow
def test_run(suite, tmp_path, capsys, monkeypatch):
    """Without data, GPUs or a tracking server, all of which the suite or the user's settings name."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    Path("suite.yaml").write_text(Path("suite.yaml").read_text().rstrip())  # without a newline at its end
    threads = torch.get_num_threads()
    command = ("run", "suite.yaml", "--smoke", "--executor", "in-process", "--only", "architecture=mlp")
    out = initbench_run(capsys, monkeypatch, *command)
    note, count, *_ = out.splitlines()
    assert note == "note: a smoke run: a few trials of two steps each on random data; its results mean nothing"
    assert count == "4 trials to run"
    assert [line.partition(": ")[0] for line in out.splitlines()[-3:]] == [
        "4 trials",
        "report",
        "MLflow",
    ]  # no findings
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["colours-smoke"]
    assert not (tmp_path / "data").exists()
    folder = tmp_path / "runs/colours-smoke"
    assert (folder / "mlflow.db").is_file()
    assert (folder / "suite.yaml").read_text().endswith("\n# run with --smoke\n")
    records = list(Ledger(folder).records())
    assert {r.id for r in records} == {t.id for t in smoke(plan_of(suite, ["architecture=mlp"])).trials}
    assert {r.status for r in records} == {"finished"}
    assert {r.metrics["steps"] for r in records} == {2}
    assert {r.spec["suite"] for r in records} == {"colours-smoke"}
    assert torch.get_num_threads() == threads
    assert "nothing to run: all 4 trials have a result" in initbench_run(capsys, monkeypatch, *command)


def test_plan_of(suite, tmp_path, capsys, monkeypatch):
    data = json.loads(initbench_run(capsys, monkeypatch, "plan", "suite.yaml", "--smoke", "--json"))
    assert data["suite"] == "colours-smoke"
    assert data["trials"] == data["missing"] == len(smoke(plan_of(suite)).trials)
    out = initbench_run(capsys, monkeypatch, "plan", "suite.yaml", "--smoke")
    assert out.splitlines()[-1].endswith("its results mean nothing")
    assert "mean nothing" not in initbench_run(capsys, monkeypatch, "plan", "suite.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["suite.yaml"]


def test_the_plan_of_a_tuned_suite_tunes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tuned = BASE | {"tune": {"recipe.lr": [0.01, 0.1]}}
    Path("suite.yaml").write_text(json.dumps(tuned), encoding="utf-8")
    assert "tune" in json.loads(initbench_run(capsys, monkeypatch, "plan", "suite.yaml", "--json"))
    assert "tune" not in json.loads(initbench_run(capsys, monkeypatch, "plan", "suite.yaml", "--smoke", "--json"))
    assert "tunes" not in initbench_run(capsys, monkeypatch, "plan", "suite.yaml", "--smoke")


ABSENT = """\
import initbench
from initbench.data.content import content_hash

def describe(root: str = "nowhere"):
    found = content_hash(root, ["a.pt"], "put a.pt there")
    return initbench.Description(inputs=initbench.Inputs((1, 8, 8)), outputs=10, content=found)

@initbench.register_dataset("absent", describe=describe)
def absent(root: str = "nowhere"):
    raise NotImplementedError
"""


@pytest.mark.slow
def test_a_dataset_whose_files_are_absent_is_left_out(suite, tmp_path, capsys, monkeypatch):
    """Not planned at full size; where nothing else is left, nothing can run."""
    (tmp_path / "absent.py").write_text(ABSENT)
    options = ("suite.yaml", "--smoke", "--plugin", "absent.py", "--only", "architecture=mlp")
    both = ("--set", "dataset=[digits,absent]", "--set", "recipe.crop=0")
    out = initbench_run(capsys, monkeypatch, "plan", *options, *both)
    notes = [line for line in out.splitlines() if line.startswith("note: the smoke run leaves out absent, ")]
    assert len(notes) == 1
    assert "put a.pt there" in notes[0]
    assert "not known yet" not in out
    data = json.loads(initbench_run(capsys, monkeypatch, "plan", *options, *both, "--json"))
    assert len(data["cells"]) == data["trials"] == data["missing"]
    assert all(cell["trials"] for cell in data["cells"])
    assert f"note: {data['notes'][1]}" == notes[0]
    out = initbench_run(capsys, monkeypatch, "run", *options, *both, "--executor", "in-process")
    assert out.splitlines()[1] == notes[0]
    with pytest.raises(SystemExit):
        initbench_run(capsys, monkeypatch, "plan", *options, "--set", "dataset=absent")
    assert "no trial can run" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_number_of_seeds_is_refused(command, refused):
    message = "--seeds cannot be combined with --smoke, which runs one seed"
    assert refused(command, "suite.yaml", "--smoke", "--seeds", "5", suite_yaml=SUITE) == message
