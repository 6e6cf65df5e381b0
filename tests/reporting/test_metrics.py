"""Reports of other metrics than errors: R², of which more is better, bits per byte, and several in one report."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from initbench.reporting.answers.probe_results import measure
from initbench.reporting.answers.treatments import rank
from initbench.reporting.statistics.cells import cells
from initbench.reporting.trial_table import trial_table
from ledgers import (
    BITS,
    CLASSIFICATION,
    DELTA_1,
    DELTA_2,
    ERROR,
    KAIMING,
    LANGUAGE,
    METAINIT,
    PLAIN,
    R_SQUARED,
    REGRESSION,
    make_measured,
    make_record,
    make_scored,
    make_spec,
    task_of,
    write_ledger,
)
from reports import compared, comparison

from initbench.errors import InitbenchError
from initbench.metric import Metric
from initbench.reporting.frame import results_frame, slim
from initbench.reporting.metrics import outcome_metrics
from initbench.reporting.report import write_report
from initbench.reporting.statistics.cost import cost_to_target
from initbench.reporting.statistics.intervals import Estimate
from initbench.reporting.statistics.paired import in_direction

DEPTHS = (10, 16, 22, 28, 34)
FIVE = (KAIMING, DELTA_1, DELTA_2, METAINIT, {"name": "xavier"})
NAMES = ["kaiming", "delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]", "metainit(delta_orthogonal)", "xavier"]
DATASETS = {"regression": "sines", "language_modelling": "python_library", "classification": "digits"}


def noise(*key):
    return 0.001 * float(np.random.default_rng(key).standard_normal())


def world(task, value, depths=DEPTHS):
    """Return records whose i-th initializer is the i-th best; `value` takes the place and the depth's index."""
    return [
        make_scored(
            make_spec(
                own,
                PLAIN | {"depth": depth},
                seed,
                dataset={"name": DATASETS[task["name"]], "train_size": None, "image_size": None},
                task=task["name"],
            ),
            task,
            value(i, a) + noise(i, a, seed),
            quotient=1 + i + 0.01 * a,
        )
        for a, depth in enumerate(depths)
        for i, own in enumerate(FIVE)
        for seed in range(3)
    ]


def r_squared(i, a):
    return 0.9 - 0.05 * i - 0.01 * a


def bits(i, a):
    return 1.5 + 0.1 * i + 0.02 * a


def page_of(folder, records):
    write_ledger(folder, records)
    text = write_report(folder).read_text(encoding="utf-8")
    assert "test error" not in text.lower()
    return text, {path.stem: pd.read_csv(path) for path in (folder / "report").glob("*.csv")}


def said(text):
    """The answers of a page, without marks."""
    return [re.sub(r"<[^>]+>", "", answer) for answer in re.findall(r"<dd>(.*?)</dd>", text)]


# One metric.


def test_the_highest_r_squared_wins_everywhere(tmp_path):
    text, tables = page_of(tmp_path, world(REGRESSION, r_squared))
    table = tables["comparison"]
    assert list(table["treatment"]) == NAMES * len(DEPTHS)
    assert list(table["rank"]) == [1, 2, 3, 4, 5] * len(DEPTHS)
    assert table["outcome_median"].iloc[0] == pytest.approx(0.9, abs=0.01)
    assert set(table["metric"]) == {"test_r_squared"}
    sentences = " ".join(said(text))
    assert "kaiming is first (mean rank 1.00 of 5, n = 5 workloads" in sentences
    assert "kaiming has the highest median test R², 0.9" in sentences
    assert re.search(r"kaiming has 0\.0\d\d more test R² than delta_orthogonal\[gain=1\] \(95 % interval", sentences)
    assert re.search(r"delta_orthogonal\[gain=1\] has 0\.0\d\d less test R² than kaiming \(95 % interval", sentences)
    assert "points" not in sentences.partition("Knowing")[0]
    assert "%" not in "".join(re.findall(r"median test R², [^;]*;", sentences))


def test_differences_and_intervals_are_in_the_metrics_own_direction(tmp_path):
    _, tables = page_of(tmp_path, world(REGRESSION, r_squared))
    for name in ("differences", "paired_differences"):
        others = tables[name][tables[name]["treatment"] != "kaiming"]
        assert (others["difference"] < 0).all()
    rows = tables["differences"].set_index("treatment")
    row = rows.loc["xavier"]
    assert row["difference"] == pytest.approx(-0.2, abs=0.01)
    assert row["difference_low"] < row["difference"] < row["difference_high"] < 0
    assert row["improvement"] == 0  # it is never better
    paired = tables["paired_differences"]
    assert ((paired["low"] < paired["difference"]) & (paired["difference"] < paired["high"])).all()


def test_a_difference_of_an_unbounded_metric_is_not_clipped(tmp_path):
    _, tables = page_of(tmp_path, world(LANGUAGE, lambda i, a: 1.0 + 3 * i + 0.3 * a * (i + 1)))
    row = tables["differences"].set_index("treatment").loc["xavier"]
    assert row["difference"] > 12
    assert row["difference_high"] > row["difference"]


def test_a_diverged_trial_is_the_worst_where_higher_is_better(tmp_path):
    records = world(REGRESSION, r_squared, DEPTHS[:2])
    spec = make_spec({"name": "zero"}, PLAIN | {"depth": 10}, dataset={"name": "sines", "train_size": None})
    records += [make_scored(spec.model_copy(update={"seed": seed}), REGRESSION, None) for seed in range(3)]
    table = comparison(records)
    last = table[table["workload"].str.contains("depth=10")].iloc[-1]
    assert (last["treatment"], last["rank"], last["outcome_median"]) == ("zero", 6, -math.inf)
    text, tables = page_of(tmp_path, records)
    assert '<span class="bad-text">diverged</span>' in text
    assert "triangles at the lower edge have no test R²" in text
    assert tables["curves"]["outcome_smallest"].min() == -math.inf


def test_probes_predict_in_the_metrics_own_direction(tmp_path):
    """The quotient grows as R² falls and as bits per byte grow."""
    for task, value, direction, sign in ((REGRESSION, r_squared, "lower", "-"), (LANGUAGE, bits, "higher", "+")):
        text, tables = page_of(tmp_path / task["name"], world(task, value))
        outcome = Metric.from_json(task["metrics"][task["primary"]]).title
        sentences = " ".join(said(text))
        assert f"The higher the gradient quotient, the {direction} the {outcome}: mean ρ = {sign}1.00" in sentences
        assert "Picking by the gradient quotient costs 0.000" in sentences
        own = tables["correlation"].query("probe == 'gradient_quotient'")
        assert list(own["rho"]) == pytest.approx([float(f"{sign}1")] * len(DEPTHS))


def test_bits_per_byte_read_with_their_unit(tmp_path):
    text, tables = page_of(tmp_path, world(LANGUAGE, bits))
    sentences = " ".join(said(text))
    assert re.search(
        r"kaiming has the lowest median test bits per byte, 1\.\d{3}\N{NO-BREAK SPACE}bits; next", sentences
    )
    assert re.search(r"kaiming has 0\.1\d\d less test bits per byte than .*? bits, n = 3 seeds\)", sentences)
    assert list(tables["comparison"]["rank"]) == [1, 2, 3, 4, 5] * len(DEPTHS)
    assert "test bits per byte (bits)" in text  # the axis
    assert "(percentage points)" not in text


def test_a_profile_measures_from_the_best_value(tmp_path):
    """1 - R² of the last is three times that of the first and more; bits per byte have no best value but 0."""
    text, _ = page_of(tmp_path / "r", world(REGRESSION, r_squared))
    assert "distance of the test R² from 1.000" in text
    unknown = task_of(Metric("score", better="higher", primary=True).on("test"), name="regression")
    text, _ = page_of(tmp_path / "s", world(unknown, r_squared))
    assert "No performance profile: the test score has no best value to measure from." in text
    assert not list((tmp_path / "s" / "report" / "figures").glob("profile-outcome*"))


def test_the_cost_to_a_target_is_met_from_the_better_side():
    spec = make_spec(KAIMING, dataset={"name": "sines", "train_size": None})
    record = make_scored(spec, REGRESSION, 0.8)
    history = [{"step": 10 * i, "epoch": i, "test_r_squared": value} for i, value in enumerate((0.2, 0.5, 0.4, 0.8), 1)]
    record.history[:] = history
    record.initialization["cost"] = {"forward": 0, "backward": 0}
    assert [cost_to_target(record, target) for target in (0.1, 0.5, 0.7, 0.9)] == [10, 20, 40, math.inf]
    # Every value that is better than all before is kept, so that the first at any target is.
    assert [entry["test_r_squared"] for entry in slim(record).history if not entry["drawn"]] == []
    assert [entry["test_r_squared"] for entry in slim(record).history] == [0.2, 0.5, 0.4, 0.8]


def test_early_metrics_are_shown_where_records_have_them(tmp_path):
    early = Metric("first_epoch_r_squared", "higher", "first-epoch R²", best=1.0, show="{:.3f}")
    task = task_of(R_SQUARED, early, name="regression")
    records = [
        make_scored(make_spec(own, seed=seed), task, 0.5 + 0.1 * i, metrics={"first_epoch_r_squared": 0.2 + 0.1 * i})
        for i, own in enumerate(FIVE)
        for seed in range(3)
    ]
    text, tables = page_of(tmp_path, records)
    assert list(tables["comparison"]["first_epoch_r_squared_mean"]) == pytest.approx([0.6, 0.5, 0.4, 0.3, 0.2])
    assert '<th scope="col">First-epoch<br>R²</th>' in text
    assert "<td>0.600</td>" in text
    assert "first-epoch R²" in said(text)[-1] or "First-epoch R²" in text


@pytest.mark.parametrize(
    ("metric", "worst"),
    [
        (Metric("first_epoch_r_squared", "higher", best=1.0), -math.inf),
        (Metric("first_epoch_bits", "lower"), math.inf),
        (Metric("first_epoch_accuracy", "higher", unit="%", scale=100), 0.0),
    ],
)
def test_a_trial_that_diverged_in_its_first_epoch_is_the_worst_after_it(metric, worst, monkeypatch):
    """R² may be below 0, so that 0 would be better than what the others had learned."""
    task = task_of(R_SQUARED, metric, name="regression")
    records = [
        make_scored(
            make_spec(own, seed=seed), task, None if i == 4 else 0.5, metrics={metric.name: -2.0 if i < 4 else None}
        )
        for i, own in enumerate(FIVE)
        for seed in range(3)
    ]
    found = compared(records)
    taken = {}
    monkeypatch.setattr(
        "initbench.reporting.answers.probe_results.cells",
        lambda trials, columns: taken.update(trials=trials) or cells(trials, columns),
    )
    measure(found.trials, records, found.terms)
    values = taken["trials"].groupby("status")[metric.name].agg(set)
    assert dict(values) == {"finished": {-2.0}, "diverged": {worst}}


def test_the_frame_has_one_outcome_for_each_task():
    records = [*world(REGRESSION, r_squared, (10,)), make_record(make_spec(KAIMING), 0.1)]
    frame = results_frame(records)
    assert dict(frame.groupby("dataset")["metric"].first()) == {"digits": "test_error", "sines": "test_r_squared"}
    values = frame["test_r_squared"].fillna(frame["test_error"])
    assert list(frame["outcome"]) == list(values)
    assert list(outcome_metrics(records).values()) == [R_SQUARED, ERROR]


def test_two_tasks_may_call_different_metrics_alike():
    nats = task_of(Metric("loss", better="lower", unit="nats", primary=True).on("test"), name="language_modelling")
    plain = task_of(Metric("loss", better="lower", primary=True).on("test"), name="regression")
    records = [*world(nats, bits, (10,)), *world(plain, bits, (10,))]
    assert set(results_frame(records)["metric"]) == {"test_loss (language_modelling)", "test_loss (regression)"}
    assert {metric.unit for metric in outcome_metrics(records).values()} == {"nats", ""}


# Several metrics.


def mixed():
    """Kaiming is the best on three workloads of regression and three of bits per byte, the others in order."""
    return [*world(REGRESSION, r_squared, DEPTHS[:3]), *world(LANGUAGE, bits, DEPTHS[:3])]


def test_ranks_stand_over_several_metrics_and_values_are_never_put_together(tmp_path):
    text, tables = page_of(tmp_path, mixed())
    sentences = said(text)
    assert any("kaiming is first (mean rank 1.00 of 5, n = 6 workloads" in sentence for sentence in sentences)
    # Differences and variances are those of each metric by itself.
    for title, n in (("test R²", 3), ("test bits per byte", 3)):
        assert f"<dt>over all workloads, {title}</dt>" in text
        found = [s for s in sentences if s.startswith("delta_orthogonal[gain=1] has") and f" {title} than kaiming" in s]
        assert len(found) == 1
        assert f"n = {n} workloads" in found[0]
        assert any(s.startswith(f"Of the variance of the {title},") for s in sentences)
    assert tables["differences"][["difference", "improvement"]].isna().all(axis=None)
    assert list(tables["differences"]["mean_rank"]) == [1, 2, 3, 4, 5]
    assert "whose values are never put together: there is no forest of mean differences" in text
    figures = {path.stem for path in (tmp_path / "report" / "figures").iterdir()}
    assert not figures & {"differences", "profile-outcome"}
    assert {"mean-ranks", "profile-cost"} <= figures | {"profile-cost"}
    # What each workload says by itself stands, in its own metric and direction.
    paired = tables["paired_differences"]
    signs = {metric: set(np.sign(own["difference"])) for metric, own in paired.groupby("metric")}
    assert signs == {"test_r_squared": {-1.0}, "test_bits_per_byte": {1.0}}
    assert "kaiming has the highest median test R²" in text
    assert "kaiming has the lowest median test bits per byte" in text


def test_probes_over_several_metrics(tmp_path):
    found = compared(mixed())
    [first, *_] = measure(found.trials, mixed(), found.terms)
    assert first.test.statistic == pytest.approx(1)  # a higher quotient goes with a worse outcome, in both
    assert math.isnan(first.chosen[1].regret.value)
    assert first.chosen[1].precision.value == 1
    assert math.isnan(first.gain.without)
    text, _ = page_of(tmp_path, mixed())
    assert "The higher the gradient quotient, the worse the outcome: mean ρ = +1.00" in " ".join(said(text))
    assert "what picking by a probe costs, and what it adds, is left out" in text
    assert "What does it cost to pick" not in text


def test_metrics_that_differ_in_their_chance_alone_are_one():
    """Chance is a dataset's: two datasets of one task have one metric."""
    other = {**CLASSIFICATION, "metrics": {**CLASSIFICATION["metrics"]}}
    other["metrics"]["test_error"] = ERROR.to_json() | {"chance": 0.9, "chance_standard_error": 0.01}
    records = [make_scored(make_spec(KAIMING, seed=s), task, 0.1) for s, task in enumerate((CLASSIFICATION, other))]
    assert len(compared(records).metrics) == 1
    assert rank(compared(records).trials).whole.table.shape == (1, 1)


# What a plug-in brought.

REPORT = """
import sys
from initbench.reporting.report import write_report
write_report(sys.argv[1])
assert not {"torch", "initbench.registry", "initbench.tasks", "initbench.plugins"} & set(sys.modules), sys.modules
"""


def test_a_report_needs_no_plugin_and_no_registry(tmp_path):
    """The names of task, dataset, architecture, initializer, metric and probe are known to the records alone."""
    task = task_of(Metric("elo", better="higher", unit="Elo", show="{:.0f}", primary=True).on("test"), name="chess")
    base = {"name": "plugin_base", "temperature": 2.0, "source": "sha256:1"}
    own = {"name": "plugin_initializer", "base": base, "source": "sha256:2"}
    records = []
    for i, initializer in enumerate((own, own | {"base": base | {"temperature": 3.0}})):
        for seed in range(3):
            spec = make_spec(
                initializer,
                {"name": "plugin_network", "depth": 3, "source": "sha256:3"},
                seed,
                dataset={"name": "plugin_games", "size": 10},
                task="chess",
            )
            record = make_scored(spec, task, 1200.0 + 300 * i + seed * (1 + i))
            record.probes.append({"name": "plugin_probe", "kind": "scalar", "value": 3.5 + i, "conditions": {}})
            records.append(record)
    write_ledger(tmp_path, records)
    done = subprocess.run(
        [sys.executable, "-c", REPORT, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    for shown in (
        "plugin_initializer(plugin_base[temperature=3]) has the highest median test elo, 1502\N{NO-BREAK SPACE}Elo",
        "plugin_network[depth=3]",
        "plugin_games",
        "Plugin probe",
        "301 Elo more test elo than plugin_initializer(plugin_base[temperature=2])",
    ):
        assert shown in text, shown


def test_no_number_is_minus_zero():
    for metric, zero in ((R_SQUARED, "0.000"), (ERROR, "0.00"), (Metric("m", "lower", show="{:.0e}"), "0e+00")):
        for value in (-0.0, -1e-9) if metric.name != "m" else (-0.0,):
            assert metric.number(value) == zero
            assert metric.signed(value) == f"+{zero}"
            assert metric.difference(value).split()[0] == zero
            assert not metric.text(value).startswith("-")
        assert metric.signed(-0.5).startswith("-")
        assert metric.number(-math.inf).endswith("-inf")
    tie = pd.DataFrame({"difference": [0.0], "low": [0.0], "high": [0.0], "median": [0.0]})
    assert not np.signbit(in_direction(tie, R_SQUARED).to_numpy()).any()
    assert not np.signbit(Estimate(0.0, 0.0, 0.0, 3).in_direction(R_SQUARED)[:3]).any()
    assert math.copysign(1, R_SQUARED.oriented(0.0)) == 1


def test_a_unit_that_the_title_has_is_not_said_twice():
    assert BITS.amount(0.05) == "0.050"
    assert ERROR.amount(0.05) == "5.00 points"


def test_a_metric_of_bits_is_what_its_json_says():
    for metric in (BITS, R_SQUARED, ERROR):
        assert Metric.from_json(metric.to_json() | {"later": 1}) == metric


def compared_datasets():
    """One network with two initializers on a dataset of classification and one of regression."""
    return [
        record
        for i, own in enumerate((KAIMING, DELTA_1))
        for seed in range(3)
        for record in (
            make_record(make_spec(own, seed=seed), 0.05 + 0.01 * i + 0.001 * seed),
            make_scored(
                make_spec(own, seed=seed, dataset={"name": "sines"}, task="regression"), REGRESSION, 0.8 - 0.01 * i
            ),
        )
    ]


def test_datasets_of_two_metrics_are_never_ranked_against_one_another():
    table = comparison(compared_datasets(), ("dataset",))
    assert set(table["workload"]) == {
        f"plain[depth=28, width=1] · {own} · {metric}"
        for own in ("kaiming", "delta_orthogonal")
        for metric in ("test error", "test R²")
    }
    assert list(table["rank"]) == [1] * 4
    assert {own: set(rows["metric"]) for own, rows in table.groupby("treatment")} == {
        "digits": {"test_error"},
        "sines": {"test_r_squared"},
    }
    # A trial that failed goes with the others of its treatment.
    records = compared_datasets()
    failed = make_record(make_spec(KAIMING, seed=9), status="failed")
    again = comparison([*records, failed], ("dataset",)).set_index(["workload", "treatment"])
    assert again["failed"]["plain[depth=28, width=1] · kaiming · test error", "digits"] == 1
    assert len(again) == 4
    assert set(comparison(records)["workload"]) == {
        "plain[depth=28, width=1] · digits",
        "plain[depth=28, width=1] · sines",
    }


def test_metrics_of_one_key_have_columns_of_their_own(tmp_path):
    """Classification's error is a share in percent, the other task's is not; so is what it is after the first epoch."""
    absolute = Metric("error", better="lower", label="mean absolute error", show="{:.3f}", primary=True).on("test")
    early = Metric("first_epoch_accuracy", "higher", "first-epoch closeness", show="{:.1f}")
    task = task_of(absolute, early, name="regression")
    records = [make_record(make_spec(KAIMING, seed=seed), 0.05) for seed in range(3)]
    for seed in range(3):
        spec = make_spec(KAIMING, seed=seed, dataset={"name": "sines"}, task="regression")
        numbers = {"first_epoch_accuracy": 7.5, "train_error": 2.5}
        records.append(make_scored(spec, task, 3.2, metrics=numbers))
    found = compared(records)
    table = trial_table(found.trials, records, found.metrics, found.terms)
    kinds = {column["heading"]: column["kind"] for column in table["columns"]}
    values = {name: {row[i] for row in table["rows"]} for i, name in enumerate(kinds)}
    for heading, unit, value in (
        ("Test error", "%", 0.05),
        ("Test mean absolute error", "", 3.2),
        ("Training error", "%", 0.01),
        ("Training mean absolute error", "", 2.5),
        ("First-epoch accuracy", "%", 0.5),
        ("First-epoch closeness", "", 7.5),
    ):
        assert kinds[heading]["unit"] == unit
        assert values[heading] == {value, None}
    write_ledger(tmp_path, records)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert '<th scope="col">First-epoch<br>closeness</th>' in text
    assert "<td>7.5</td>" in text


def test_metrics_of_one_title_are_told_apart_by_their_tasks():
    plain = task_of(Metric("error", better="lower", show="{:.3f}", primary=True).on("test"), name="regression")
    records = [make_record(make_spec(KAIMING), 0.05)]
    records.append(make_scored(make_spec(KAIMING, dataset={"name": "sines"}, task="regression"), plain, 3.2))
    found = compared(records)
    columns = trial_table(found.trials, records, found.metrics, found.terms)["columns"]
    headings = [column["heading"] for column in columns]
    assert len(set(headings)) == len(headings)
    assert {"Test error", "Test error (regression)"} <= set(headings)


def test_ledgers_that_do_not_agree_what_is_better_are_refused():
    records = []
    for suite, better in (("a", "higher"), ("b", "lower")):
        task = task_of(Metric("score", better=better, primary=True).on("test"), name="chess")
        records.append(make_scored(make_spec(KAIMING, dataset={"name": suite}, suite=suite, task="chess"), task, 1.0))
    with pytest.raises(InitbenchError, match="do not agree which test_score of chess is better: higher in a; lower in"):
        results_frame(records)


def test_the_methods_of_what_was_measured_only_say_nothing_of_outcomes(tmp_path):
    records = [make_measured(make_spec(own, seed=seed)) for own in (KAIMING, METAINIT) for seed in range(3)]
    write_ledger(tmp_path, records)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    [methods] = re.findall(r"2 initializers \(.*?PyTorch [^<]*", text, re.DOTALL)
    assert "(a cell) was measured with 3 seeds." in methods
    assert "Models were not trained, but measured at initialization." in methods
    assert "statistics are given with such values" not in methods
    for word in ("utcome", "diverge", "Probes were tested", "Intervals", "was trained"):
        assert word not in methods, word
