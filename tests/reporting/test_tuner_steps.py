"""Measurements by the number of a tuner's steps."""

from dataclasses import replace

import pytest
from drawings import marks_of
from ledgers import DELTA_1, KAIMING, PLAIN, WRN, make_record, make_spec

from initbench.errors import InitbenchError
from initbench.reporting import tuner_steps
from initbench.reporting.quantities import quantity_words, short_quantities
from initbench.reporting.records import slim
from initbench.reporting.results import Results
from initbench.reporting.source import Source


def trial(initializer, *, seed=0, architecture=PLAIN, **values):
    probes = [
        {"name": name, "kind": "scalar", "value": value, "unit": "", "conditions": {}} for name, value in values.items()
    ]
    return replace(make_record(make_spec(initializer, architecture, seed)), probes=probes)


def metainit(steps, base=KAIMING):
    return {"name": "metainit", "steps": steps, "base": base, "batch_size": 32}


def steps_of(records, **chosen):
    return tuner_steps(Results(Source([slim(record) for record in records])), **chosen)


def rows_of(found, *columns):
    return [tuple(row[column] for column in columns) for row in found.facts.to_dict("records")]


def test_the_base_stands_at_0_and_tuners_from_other_bases_apart():
    records = [
        trial(own, seed=seed, sharpness=value * (seed + 1))
        for own, value in (
            (KAIMING, 5.0),
            (metainit(200), 1.0),
            (metainit(50), 3.0),
            (metainit(50, DELTA_1), 7.0),
            (metainit(200, DELTA_1), 6.0),
            ({"name": "xavier"}, 9.0),
        )
        for seed in range(3)
    ]
    found = steps_of(records)
    ends = ("treatment", "steps", "seeds", "value_median", "value_smallest", "value_largest")
    assert rows_of(found, *ends) == [
        ("metainit(delta_orthogonal)", 50, 3, 14, 7, 21),  # its base did not run
        ("metainit(delta_orthogonal)", 200, 3, 12, 6, 18),
        ("metainit(kaiming)", 0, 3, 10, 5, 15),
        ("metainit(kaiming)", 50, 3, 6, 3, 9),
        ("metainit(kaiming)", 200, 3, 2, 1, 3),
    ]
    assert [str(sentence) for sentence in found.sentences] == [
        "On plain-28, the sharpness is 14.0 after 50 and 12.0 after 200 steps of metainit (from delta_orthogonal).",
        "On plain-28, the sharpness is 10.0 after 0 and 2.00 after 200 steps of metainit (from kaiming).",
    ]
    [figure] = found.figures
    assert (figure.title, figure.subject) == ("Sharpness by the tuner’s steps: plain-28", "plain-28")
    marks = marks_of(figure.svg)
    assert sorted(marks) == [
        "metainit (from delta_orthogonal), steps 200: 12 (6 to 18)",
        "metainit (from delta_orthogonal), steps 50: 14 (7 to 21)",
        "metainit (from kaiming), steps 0: 10 (5 to 15)",
        "metainit (from kaiming), steps 200: 2 (1 to 3)",
        "metainit (from kaiming), steps 50: 6 (3 to 9)",
    ]
    assert [marks[name].x for name in sorted(marks)][:2] == [marks[name].x for name in sorted(marks)][3:]


def test_one_number_of_steps_is_no_answer_nor_is_none():
    assert steps_of([trial(KAIMING, sharpness=1.0), trial(metainit(50), sharpness=1.0)]) is None
    assert steps_of([trial(KAIMING, sharpness=1.0), trial({"name": "xavier"}, sharpness=1.0)]) is None


def test_chosen_probes_and_workloads():
    records = [
        trial(metainit(steps), architecture=architecture, sharpness=1.0, flatness=2.0)
        for steps in (50, 200)
        for architecture in (PLAIN, WRN)
    ]
    assert len(steps_of(records).facts) == 8
    assert rows_of(steps_of(records, probe="flatness", workload="wrn-28"), "probe", "steps", "value_median") == [
        ("flatness", 50, 2),
        ("flatness", 200, 2),
    ]
    with pytest.raises(InitbenchError, match="no probe 'flatnes' in these results"):
        steps_of(records, probe="flatnes")
    with pytest.raises(InitbenchError, match="no workload 'wrn-82' in these results"):
        steps_of(records, workload="wrn-82")


def test_a_tuner_is_named_without_its_steps_and_its_base_keeps_its_own():
    inner = metainit(5)
    outer = [
        metainit(steps, base) | {"batch_size": 16} for steps in (50, 200) for base in (inner, inner | {"steps": 6})
    ]
    records = [trial(own, sharpness=1.0) for own in (*outer, {"name": "mine", "max_steps": 5})]
    assert set(steps_of(records).facts["treatment"]) == {
        "metainit(metainit[steps=5](kaiming))",
        "metainit(metainit[steps=6](kaiming))",
    }


def test_words():
    assert quantity_words("signal_by_depth.mean_square") == "mean square (signal by depth)"
    assert quantity_words("hessian[eps=0.1].share_of_g") == "share of g (hessian[eps=0.1])"
    assert quantity_words("gradient_norm[eps=0.1]") == "gradient norm[eps=0.1]"
    one, both = ["a_b[n=2].per_layer", "c"], ["a_b[n=2].per_layer", "a_b.per_layer"]
    assert short_quantities(one) == {"a_b[n=2].per_layer": "a b", "c": "c"}
    assert short_quantities(both) == {"a_b[n=2].per_layer": "a b[n=2]", "a_b.per_layer": "a b"}
