"""The Methods paragraph says all of the recipe that a reader needs to train the same."""

from __future__ import annotations

from ledgers import KAIMING, make_record, make_spec
from planted import MEASURED, planted
from reports import results_of

from initbench.reporting.page.methods import DETAILS, methods
from initbench.training.recipe import Recipe

NEED_NO_WORDS = {
    *("epochs", "steps", "batch_size", "batch_tokens", "optimizer", "lr"),  # in the sentence itself
    # Where it computes, and how often it evaluates.
    *("activation_checkpointing", "channels_last", "history_every", "evaluate_every", "threads"),
}


def test_every_field_of_the_recipe_has_words_or_needs_none():
    assert set(Recipe.model_fields) == {*DETAILS, *NEED_NO_WORDS}
    assert not NEED_NO_WORDS & set(DETAILS)


def test_what_is_on_is_named_with_its_value():
    recipe = {"random_resized_crop": (0.08, 1.0), "flip": True, "accumulate": 4, "batch_norm": "micro_batch"}
    found = methods(results_of([make_record(make_spec(KAIMING, recipe=recipe))]), {})
    for words in (
        ", random crops, resized, of a share of the area in [0.08, 1.0], ",
        ", random horizontal flips, ",
        ", gradient accumulation 4, statistics of BatchNorm over each micro_batch, ",
    ):
        assert words in found, words
    assert "crops" not in methods(results_of([make_record(make_spec(KAIMING))]), {})


def test_pairs_on_a_workload_are_corrected_step_by_step_and_those_of_tables_all_at_once():
    found = methods(results_of(planted({"net": {"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.5]}})), {})
    within, tables = (
        text for text in found.split(". ") if text.startswith(("Within a workload, ", "In tables, intervals of diff"))
    )
    assert "pairs of initializers were compared by their paired differences over the seeds" in within
    assert (
        "Holm's procedure; each interval has the level of its pair's step and, up to 7 seeds, is the widest" in within
    )
    assert "Bonferroni" not in within
    assert tables.endswith("hold for all pairs of initializers at once (Bonferroni)")
    for alone in ([0.1, 0.2, 0.3], [MEASURED]):
        assert "pairs of initializers" not in methods(results_of(planted({"net": {"a": alone}})), {})
