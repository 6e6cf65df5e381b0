"""The line of facts below a report's title, and what a reader is warned of."""

import pytest
from ledgers import KAIMING, PLAIN, WRN, make_record, make_spec, quickstart_records
from planted import FAILED, LANGUAGE, MEASURED, TEN_CLASSES, planted, results_of

from initbench.reporting.facts_line import facts_line
from initbench.reporting.notices import notices


def line(outcomes, task=TEN_CLASSES, **options):
    return facts_line(results_of(planted(outcomes, task, **options)))


def test_the_line_of_a_whole_suite():
    records = quickstart_records()
    assert facts_line(results_of(records)) == (
        "24 trials: 4 initializers × 2 networks × 3 seeds · digits · 8 epochs of SGD, rate 0.1 · 8 minutes of computing"
    )


def test_one_of_each():
    assert line({"net": {"a": [0.1]}}, recipe={"epochs": 1}).startswith(
        "1 trial: 1 initializer × 1 network × 1 seed · classification_data · 1 epoch of SGD"
    )
    assert line({"net": {"a": [0.1]}}).endswith(" · 20 seconds of computing")


def test_cells_with_different_numbers_of_seeds_and_failed_trials():
    found = line({"net": {"a": [0.1, 0.2, 0.3], "b": [0.1]}, "other": {"a": [FAILED], "b": [None]}})
    assert found.startswith("6 trials: 2 initializers × 2 networks × 1 to 3 seeds; 1 failed · ")


def test_pairs_that_cannot_run_are_counted():
    spec = make_spec({"name": "b"}, {"name": "net2"}, dataset={"name": "classification_data"}).model_dump(mode="json")
    records = planted({"net1": {"a": [0.1], "b": [0.2]}, "net2": {"a": [0.1]}})
    found = facts_line(results_of(records, incompatible=((spec, "no residual branch"),)))
    assert found.startswith("3 trials: 2 initializers × 2 networks × 1 seed; 1 pair cannot run · ")


def test_datasets_of_several_tasks_and_what_varies_in_recipes():
    tasks = {"cnn": TEN_CLASSES, "transformer": LANGUAGE}
    found = line({"cnn": {"a": [0.1]}, "transformer": {"a": [2.0]}}, tasks)
    assert " · classification_data, language_modelling_data · " in found
    specs = [make_spec(KAIMING, recipe={"lr": lr, "optimizer": kind}) for lr, kind in ((0.1, "sgd"), (0.001, "adamw"))]
    found = facts_line(results_of([make_record(spec) for spec in specs]))
    assert "8 epochs of AdamW or SGD, rate 0.001 or 0.1" in found
    specs = [make_spec(KAIMING, recipe={"lr": 0.1 * 2**i}) for i in range(5)]
    assert "rate 0.1 to 1.6 " in facts_line(results_of([make_record(spec) for spec in specs]))


def test_a_dataset_is_named_with_what_is_given_of_it():
    spec = make_spec(KAIMING, dataset={"name": "fashion_mnist", "train_size": 10_000, "image_size": None})
    assert " · fashion_mnist (train size 10000) · " in facts_line(results_of([make_record(spec)]))


def test_what_was_measured_alone_was_not_trained():
    assert "measured, not trained" in line({"net": {"a": [MEASURED]}})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, ""),
        (0.2, "1 second"),
        (59.0, "59 seconds"),
        (90.0, "2 minutes"),
        (7199.0, "2.0 hours"),
        (9000.0, "2.5 ho"),
    ],
)
def test_how_long_it_took(seconds, text):
    record = make_record(make_spec(KAIMING))
    record.timing["total_seconds"] = seconds
    found = facts_line(results_of([record]))
    assert found.split(" · ")[-1].startswith(text) if text else found.endswith("rate 0.1")


def test_search_trials_are_no_part_of_it():
    records = [
        make_record(make_spec(KAIMING, net, phase=phase)) for net in (PLAIN, WRN) for phase in ("final", "search")
    ]
    assert facts_line(results_of(records)).startswith("2 trials: 1 initializer × 2 networks × 1 seed · ")


def test_a_reader_is_told_of_records_that_could_not_be_read():
    records = planted({"net": {"a": [0.1]}})
    assert notices(results_of(records)) == []
    [one] = notices(results_of(records, skipped=("x.json: no JSON",)))
    assert one == "1 record could not be read and is missing below: x.json: no JSON"
    [many, note] = notices(results_of(records, skipped=tuple(f"{i}.json" for i in range(25)), notes=("Two suites.",)))
    assert many.startswith("25 records could not be read and are missing below: 0.json; 1.json; ")
    assert many.endswith("19.json; and 5 more")
    assert note == "Two suites."


def test_a_smoke_run_is_no_result():
    records = planted({"net": {"a": [0.1]}}, suite="made-up-smoke")
    assert notices(results_of(records)) == []  # of a suite that has such a name and real data
    for record in records:
        record.spec["dataset"]["name"] = "random"
    [text] = notices(results_of(records))
    assert text.startswith("A smoke run: ")
