"""Cells that cannot run: from the plan through the suite's folder into the labels of the report."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
from ledgers import make_record, write_ledger

from initbench.errors import InitbenchError, LedgerError
from initbench.execution.driver import run_suite
from initbench.execution.in_process import run_in_process
from initbench.ledger import Ledger
from initbench.reporting.frame import results_frames
from initbench.reporting.refused import refused_cells
from initbench.reporting.resolved import incompatible_entries, read_incompatible
from initbench.reporting.source import Source, join, read_folder
from initbench.suite.document import Document
from initbench.suite.load import suite_of
from initbench.suite.smoke import smoke, smoke_suite
from initbench.tracking.experiment import read_experiment
from initbench.tracking.uri import default_tracking_uri
from suites import BASE, plan_of, planned

PLAIN_10, PLAIN_16, WRN_10 = "plain[depth=10, width=1]", "plain[depth=16, width=1]", "wrn[depth=10, width=1]"
NETWORKS = [
    {"name": "plain", "depth": [10, 16], "width": 1, "norm": "none"},
    {"name": "wrn", "depth": 10, "width": 1, "norm": "none"},
]
KEYS = {"architectures": NETWORKS, "initializers": ["kaiming", "xavier", "fixup", "skipinit"], "seeds": 2}
NO_SCHEME = "plain: {}: no residual branches are found in WideResNet"


def records_of(plan, left_out=lambda _: False):
    return [make_record(trial) for trial in plan.trials if not left_out(trial)]


def incompatible_of(plan, tmp_path):
    """What a report reads of a plan, by way of the file."""
    Ledger(tmp_path).write_suite("", {"incompatible": incompatible_entries(plan.refused)})
    return read_incompatible(tmp_path)


def cells(frame):
    return {(row.treatment, row.workload): row.reason for row in frame.itertuples()}


def labels(records, compare=("initializer",)):
    frame = results_frames(records, compare).standings
    return set(frame["treatment"]), set(frame["workload"]), set(zip(frame["treatment"], frame["workload"], strict=True))


# --- the plan and its file


def refusals(**suite):
    return [(row.spec, row.reason, row.blames) for row in planned(**suite).refused]


def test_every_cell_is_in_the_plan_once_for_all_seeds_and_whatever_is_selected():
    plan = planned(**KEYS)
    found = [(pair.spec.initializer.name, pair.spec.architecture.arguments["depth"]) for pair in plan.refused]
    assert sorted(found) == [("fixup", 10), ("fixup", 16), ("skipinit", 10), ("skipinit", 16)]
    every = refusals(**KEYS)
    assert refusals(**KEYS, only=["initializer=kaiming"]) == every
    assert refusals(**KEYS, exclude=[{"initializer": "fixup", "depth": 16}]) == [*every[:2], *every[3:]]


def test_what_is_refused_whatever_the_initializer_is_refused_with_each():
    batch = {"name": "wrn", "depth": 10, "width": 1, "norm": "batch", "scheme": "fixup"}
    plan = planned(architectures=[batch, "mlp"], initializers=["kaiming", "xavier"], recipe={"lr": [0.1, 0.2]})
    assert len(plan.incompatible) == 1
    found = [(pair.spec.initializer.name, pair.spec.recipe.lr) for pair in plan.refused]
    assert sorted(found) == [("kaiming", 0.1), ("kaiming", 0.2), ("xavier", 0.1), ("xavier", 0.2)]


def test_a_file_gives_back_every_spec_and_is_small(tmp_path):
    rates = {"lr": [0.01 * i for i in range(1, 11)], "label_smoothing": [0.0, 0.1], "clip_norm": 1.0}
    plan = planned(**KEYS | {"recipe": rates, "rules": [{"when": {"depth": 16}, "recipe": {"clip_norm": None}}]})
    assert len(plan.refused) == 80
    expected = []
    for pair in plan.refused:
        spec = pair.spec.model_dump(mode="json")
        del spec["probes"]
        expected.append((spec, pair.reason))
    assert list(incompatible_of(plan, tmp_path)) == expected
    assert (tmp_path / "resolved.json").stat().st_size < 400 * len(plan.refused)
    # Entries that say all of their specs are read, too.
    whole = [{"spec": spec, "reason": reason} for spec, reason in expected]
    Ledger(tmp_path).write_suite("", {"incompatible": whole})
    assert list(read_incompatible(tmp_path)) == expected


def test_labels_of_tuning_go_through_the_file(tmp_path):
    plan = planned(**KEYS)
    tuned = [("recipe.lr",), ("recipe.lr", "initializer.gain"), (), ("recipe.lr",)]
    refused = [
        replace(pair, spec=pair.spec.model_copy(update={"tuned": keys}))
        for pair, keys in zip(plan.refused, tuned, strict=True)
    ]
    Ledger(tmp_path).write_suite("", {"incompatible": incompatible_entries(refused)})
    found = read_incompatible(tmp_path)
    assert [tuple(spec.get("tuned", ())) for spec, _ in found] == tuned


def test_a_file_without_incompatible_pairs_has_none_and_a_damaged_one_is_one_line(tmp_path):
    folder = write_ledger(tmp_path, records_of(planned(**KEYS))).folder
    assert read_incompatible(folder) == read_folder(folder).incompatible == ()
    file = folder / "resolved.json"
    file.write_text('{"schema": 2, "compare": ["initializer"]}')
    assert read_folder(folder).incompatible == ()
    [entry, *_] = incompatible_entries(planned(**KEYS).refused)
    needed = [key for key in entry["spec"] if key != "seed"]  # no label says it
    cut = [[{**entry, "spec": {k: v for k, v in entry["spec"].items() if k != key}}] for key in needed]
    for content in (*cut, 1, ["fixup"], [{"reason": "none"}], [{"spec": entry["spec"]}]):
        file.write_text(json.dumps({"schema": 2, "incompatible": content}))
        with pytest.raises(InitbenchError) as refused:
            read_folder(folder)
        assert str(refused.value).startswith(f"{file}: incompatible is no list of specs with reasons")
        assert "\n" not in str(refused.value)
    # What the message of a damaged file advises makes a report, which says what it lacks.
    file.write_text("{")
    with pytest.raises(InitbenchError, match="--compare"):
        read_folder(folder)
    source = read_folder(folder, ["initializer"])
    assert (source.compare, source.incompatible) == (("initializer",), ())
    assert source.notes == ("Which pairs of s are incompatible is not known: its resolved.json cannot be read.",)
    file.write_text('{"schema": 1}')
    with pytest.raises(LedgerError):
        read_incompatible(folder)


# --- the cells of a report


def test_what_cannot_run_is_told_apart_from_what_has_not_run(tmp_path):
    plan = planned(**KEYS)
    records = records_of(plan, lambda t: (t.initializer.name, t.architecture.arguments["depth"]) == ("xavier", 16))
    found = refused_cells(records, incompatible_of(plan, tmp_path))
    assert list(found.columns) == ["treatment", "workload", "reason"]
    assert [tuple(row) for row in found.to_numpy()] == [
        (name, workload, NO_SCHEME.format(name)) for workload in (PLAIN_10, PLAIN_16) for name in ("fixup", "skipinit")
    ]
    treatments, workloads, ran = labels(records)
    missing = {(t, w) for t in treatments for w in workloads} - ran - set(cells(found))
    assert missing == {("xavier", PLAIN_16)}
    assert refused_cells(records, ()).empty
    assert list(refused_cells(records, ()).columns) == list(found.columns)


def test_a_pair_whose_treatment_or_workload_no_trial_has_is_left_out(tmp_path):
    plan = planned(**KEYS)
    pairs = incompatible_of(plan, tmp_path)
    without_fixup = records_of(plan, lambda t: t.initializer.name == "fixup")
    assert {treatment for treatment, _ in cells(refused_cells(without_fixup, pairs))} == {"skipinit"}
    without_16 = records_of(plan, lambda t: t.architecture.arguments["depth"] == 16)
    assert {workload for _, workload in cells(refused_cells(without_16, pairs))} == {PLAIN_10}


def test_what_varies_among_incompatible_pairs_alone_is_in_no_label(tmp_path):
    """All that is left of a normalized plain network cannot run, so that no trial's label says its norm."""
    networks = [NETWORKS[0] | {"norm": ["none", "batch"], "depth": 10}, NETWORKS[1]]
    plan = planned(
        **KEYS | {"architectures": networks, "exclude": [{"norm": "batch", "initializer": ["kaiming", "xavier"]}]}
    )
    assert len(plan.refused) == 4
    records = records_of(plan)
    assert labels(records)[1] == {PLAIN_10, WRN_10}
    found = cells(refused_cells(records, incompatible_of(plan, tmp_path)))
    assert set(found) == {("fixup", PLAIN_10), ("skipinit", PLAIN_10)}


def test_a_rule_for_what_cannot_run_takes_it_out_of_every_workload(tmp_path):
    rules = [{"when": {"architecture": "plain", "initializer": "fixup"}, "recipe": {"lr": 0.05}}]
    networks = [NETWORKS[0] | {"depth": 10}, NETWORKS[1]]
    plan = planned(**KEYS | {"architectures": networks, "recipe": {"lr": [0.1, 0.2]}, "rules": rules})
    records = records_of(plan)
    workloads = {f"{PLAIN_10} · lr={lr}" for lr in (0.1, 0.2)}
    assert workloads < labels(records)[1]
    found = cells(refused_cells(records, incompatible_of(plan, tmp_path)))
    assert set(found) == {(name, workload) for name in ("fixup", "skipinit") for workload in workloads}


def test_arguments_of_a_treatment_that_vary(tmp_path):
    plan = planned(**KEYS | {"initializers": ["kaiming", {"name": "fixup", "scalar_learning_rate": [0.1, 1.0]}]})
    found = cells(refused_cells(records_of(plan), incompatible_of(plan, tmp_path)))
    treatments = {f"fixup[scalar_learning_rate={rate}]" for rate in ("0.1", "1")}
    assert set(found) == {(treatment, workload) for treatment in treatments for workload in (PLAIN_10, PLAIN_16)}


def test_several_datasets(tmp_path):
    datasets = ["digits", {"name": "digits", "train_size": 64}]
    plan = planned(**KEYS | {"dataset": datasets, "architectures": [NETWORKS[0] | {"depth": 10}, NETWORKS[1]]})
    records = records_of(plan, lambda t: t.dataset.arguments["train_size"] == 64 and t.initializer.name == "kaiming")
    found = cells(refused_cells(records, incompatible_of(plan, tmp_path)))
    sets = [f"digits[train_size={size}]" for size in ("null", "64")]
    workloads = {f"{PLAIN_10} · {name}" for name in sets}
    assert set(found) == {(name, workload) for name in ("fixup", "skipinit") for workload in workloads}
    assert workloads < labels(records)[1]


def test_a_dataset_that_an_architecture_refuses_is_refused_with_every_initializer(tmp_path):
    rows = {"name": "random", "shape": [4], "outputs": 3}
    keys = {"dataset": ["digits", rows], "architectures": [{"name": "mlp", "width": 8}, NETWORKS[1]]}
    plan = planned(**keys, initializers=["kaiming", "xavier"], compare=["architecture"])
    records = records_of(plan)
    found = cells(refused_cells(records, incompatible_of(plan, tmp_path), ("architecture",)))
    treatments, workloads, ran = labels(records, ("architecture",))
    assert set(found) == {(t, w) for t in treatments for w in workloads} - ran
    assert len(found) == 2
    assert all(treatment.startswith("wrn") and "random" in workload for treatment, workload in found)
    assert all(reason.startswith("wrn refuses inputs of 4: ") for reason in found.values())
    # Among initializers the network is the workload, and no trial is there.
    assert refused_cells(records, incompatible_of(plan, tmp_path)).empty


def test_two_factors(tmp_path):
    """Fixup asks for no normalization, so that with it there is a treatment that stands nowhere."""
    networks = [network | {"depth": 10, "norm": ["none", "batch"]} for network in NETWORKS]
    plan = planned(**KEYS | {"architectures": networks})
    records, compare = records_of(plan), ("initializer", "architecture.norm")
    found = cells(refused_cells(records, incompatible_of(plan, tmp_path), compare))
    assert found == {(f"{name}, norm=none", PLAIN_10): NO_SCHEME.format(name) for name in ("fixup", "skipinit")}
    assert {"fixup, norm=none", "kaiming, norm=batch"} <= labels(records, compare)[0]
    assert "fixup, norm=batch" not in labels(records, compare)[0]


def test_a_scheme_is_of_the_workload_where_initializers_are_not_compared(tmp_path):
    plan = planned(**KEYS | {"initializers": ["kaiming", "fixup"]})
    found = cells(refused_cells(records_of(plan), incompatible_of(plan, tmp_path), ("architecture",)))
    assert set(found) == {(network, "scheme fixup · fixup") for network in (PLAIN_10, PLAIN_16)}


def test_a_cell_that_has_trials_is_not_refused(tmp_path):
    """One suite asks for what cannot run; in another, or before the code was changed, it has run."""
    plan = planned(**KEYS)
    pair = plan.refused[-1]
    assert (pair.spec.initializer.name, pair.spec.architecture.arguments["depth"]) == ("skipinit", 16)
    ran = pair.spec.model_copy(update={"dataset": plan.trials[0].dataset, "seed": 7})
    pairs = incompatible_of(plan, tmp_path)
    before = set(cells(refused_cells(records_of(plan), pairs)))
    after = set(cells(refused_cells([*records_of(plan), make_record(ran)], pairs)))
    assert before - after == {("skipinit", PLAIN_16)}
    assert after < before


# --- from the folders


def test_the_pairs_of_several_ledgers_are_put_together(tmp_path):
    folders = []
    for name in ("fixup", "skipinit"):
        plan = planned(**KEYS | {"name": name, "initializers": ["kaiming", name]})
        ledger = write_ledger(tmp_path / name, records_of(plan))
        ledger.write_suite("", {"schema": 2, "incompatible": incompatible_entries(plan.refused)})
        folders.append(ledger.folder)
    sources = [read_folder(folder) for folder in folders]
    joined = join(sources)
    found = cells(refused_cells(joined.records, joined.incompatible, joined.compare))
    assert set(found) == {(name, workload) for name in ("fixup", "skipinit") for workload in (PLAIN_10, PLAIN_16)}
    other = join(sources[::-1])
    assert refused_cells(other.records, other.incompatible).equals(refused_cells(joined.records, joined.incompatible))
    assert join([sources[0], sources[0]]).incompatible == sources[0].incompatible
    older = Source(sources[1].records)
    assert join([sources[0], older]).incompatible == sources[0].incompatible


@pytest.mark.slow
def test_a_run_writes_the_pairs_and_a_report_from_mlflow_has_them(tmp_path):
    """Also where a part of the suite runs first."""
    keys = {
        "name": "real",
        "dataset": {"name": "digits", "train_size": 16, "image_size": None},
        "architectures": [{"name": "mlp", "width": 8}, NETWORKS[1]],
        "initializers": ["kaiming", "fixup"],
        "recipe": {"epochs": 1, "batch_size": 8},
    }
    suite = suite_of(Document("suite.yaml", "", copy.deepcopy(BASE | keys)))
    folder = tmp_path / "real"
    expected = {("fixup", "mlp[depth=3, width=8]"): "mlp: fixup: no residual branches are found in Sequential"}
    for only, refused in ((["initializer=kaiming"], {}), ([], expected)):
        run_suite(suite, plan_of(suite, only), folder, run_in_process)
        sources = [read_folder(folder), read_experiment("real", default_tracking_uri(folder))]
        for source in sources:
            assert [(spec["initializer"]["name"], spec["architecture"]["name"]) for spec, _ in source.incompatible] == [
                ("fixup", "mlp")
            ]
            assert cells(refused_cells(source.records, source.incompatible, source.compare)) == refused
    assert len(sources[0].records) == 3


def test_a_smoke_run_has_the_pairs_among_its_own_trials(tmp_path):
    suite = suite_of(Document("suite.yaml", "", copy.deepcopy(BASE | KEYS)))
    plan = smoke(plan_of(suite))
    assert {pair.spec.suite for pair in plan.refused} == {smoke_suite(suite).name} == {"s-smoke"}
    records = records_of(plan)
    found = cells(refused_cells(records, incompatible_of(plan, tmp_path)))
    _, workloads, _ = labels(records)
    assert set(found) == {(n, w) for n in ("fixup", "skipinit") for w in workloads if w.startswith("plain")} != set()
