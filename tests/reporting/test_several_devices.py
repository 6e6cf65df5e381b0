"""Seconds of different devices are not compared: they are left out where trials ran on several."""

import math
from dataclasses import replace

from ledgers import KAIMING, make_record, make_spec

from initbench.ledger import Ledger
from initbench.reporting import read_results
from initbench.reporting.questions.cost import cost_texts, initialization_costs
from initbench.reporting.questions.workloads import comparison_frame
from initbench.statistics.cost import on_one_device


def ran_on(device, processor="A", status="finished"):
    environment = {"device": device, "processor": processor, "host": "one of many"}
    return replace(make_record(make_spec(KAIMING), status=status), environment=environment)


def test_a_device_is_a_processor_or_a_gpu_whatever_serves_it():
    assert on_one_device([ran_on("cpu"), ran_on("cpu")])
    assert not on_one_device([ran_on("cpu"), ran_on("cpu", "B")])
    assert on_one_device([ran_on("H200"), ran_on("H200", "B")])
    assert not on_one_device([ran_on("H200"), ran_on("cpu")])
    assert on_one_device([ran_on("cpu"), ran_on("H200", status="failed")])


def results_on(folder, *devices):
    for seed, device in enumerate(devices):
        record = make_record(make_spec(KAIMING, seed=seed), initialization_seconds=0.5)
        environment = {"device": device, "processor": "A"}
        initialization = record.initialization | {"cost": {"forward": 9, "backward": 9}}
        Ledger(folder).write(replace(record, environment=environment, initialization=initialization))
    return read_results(folder)


def test_seconds_stand_where_all_ran_on_one_device_alone(tmp_path):
    one, two = results_on(tmp_path / "one", "cpu", "cpu"), results_on(tmp_path / "two", "cpu", "H200")
    assert initialization_costs(one)["initialization_seconds"].tolist() == [0.5]
    assert comparison_frame(one)["initialization_seconds_mean"].tolist() == [0.5]
    assert all("s" in text.partition("·")[2] for text in cost_texts(one).values())
    assert math.isnan(initialization_costs(two)["initialization_seconds"].item())
    assert math.isnan(comparison_frame(two)["initialization_seconds_mean"].item())
    assert all("·" not in text and "steps" in text for text in cost_texts(two).values())
