"""Who fails is said by the factor that tells it best, where the workloads are too many to be named."""

from types import SimpleNamespace

import pandas as pd

from initbench.reporting.failure_sentences import UNTRAINED, failures_by_factor


def facts(failing, details):
    """Return what the words look at: three treatments on the workloads of these details, and who fails where."""
    names = {
        f"w{i}": {f"architecture.{words.split(' ')[0]}": words for words in detail} for i, detail in enumerate(details)
    }
    rows = [
        {"treatment": t, "workload": w, "state": "untrained" if [*own.values()] in failing.get(t, ()) else "trained"}
        for w, own in names.items()
        for t in ("kaiming", "lsuv", "zero")
    ]
    results = SimpleNamespace(
        judged=pd.DataFrame(rows), names=SimpleNamespace(details=names, treatment=lambda label: label)
    )
    columns = [SimpleNamespace(label=label) for label in names]
    return results, SimpleNamespace(columns=columns)


CROSSED = [[f"norm {norm}", f"depth {depth}"] for norm in ("pre", "post") for depth in (2, 8)]


def test_the_factor_that_splits_who_fails_is_named_and_the_other_is_not():
    failing = {"kaiming": [["norm post", "depth 2"], ["norm post", "depth 8"]]}
    assert str(failures_by_factor(*facts(failing, CROSSED), UNTRAINED)) == (
        "With norm post, kaiming does not train; with norm pre, none"
    )
    failing = {label: [["norm pre", "depth 8"], ["norm post", "depth 8"]] for label in ("kaiming", "zero")}
    assert str(failures_by_factor(*facts(failing, CROSSED), UNTRAINED)) == (
        "With depth 8, kaiming and zero do not train; with depth 2, none"
    )


def test_who_fails_on_a_part_of_a_level_is_not_said_to_fail_on_all_of_it():
    failing = {"kaiming": [["norm post", "depth 2"], ["norm post", "depth 8"]], "lsuv": [["norm post", "depth 8"]]}
    found = failures_by_factor(*facts(failing, CROSSED), UNTRAINED)
    assert str(found) == "With norm post, kaiming and lsuv fail in part; with norm pre, none"


def test_a_later_clause_has_its_own_verb_where_it_is_another():
    """With norm pre, kaiming fails at one depth alone, which the verb of the first clause would deny."""
    of_norms = [[f"norm {norm}", f"depth {depth}"] for norm in ("post", "pre", "batch", "none") for depth in (2, 8)]
    failing = {
        "zero": of_norms[:2],
        "lsuv": of_norms[:2],
        "kaiming": [["norm pre", "depth 8"], *of_norms[4:6]],
    }
    assert str(failures_by_factor(*facts(failing, of_norms), UNTRAINED)) == (
        "With norm post, lsuv and zero do not train; with norm pre, kaiming fails in part; with norm batch, kaiming "
        "does not train; with norm none, none"
    )


def test_where_all_levels_have_the_same_failures_or_a_factor_is_not_of_all_nothing_is_said():
    assert failures_by_factor(*facts({"kaiming": CROSSED}, CROSSED), UNTRAINED) is None
    assert failures_by_factor(*facts({"kaiming": [["norm post"]]}, [["norm post"], ["rate 3"]]), UNTRAINED) is None
