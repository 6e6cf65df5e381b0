"""The recipe's own checks: an error names the field that it is about."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from initbench.errors import ArgumentError
from initbench.training.recipe import Recipe

WARM = {"schedule": "inverse_square_root"}


@pytest.mark.parametrize(
    ("field", "recipe"),
    [
        ("steps", {"steps": 100, "epochs": 3}),
        ("steps", {"steps": 100, "epochs": 0}),
        ("warmup_steps", {"warmup_steps": 5, "warmup_epochs": 1.0}),
        ("warmup_steps", {"steps": 5, "warmup_steps": 5}),
        ("schedule", WARM),
        ("shift_steps", {"shift_steps": 10}),
        ("shift_steps", WARM | {"shift_steps": 10, "warmup_steps": 5}),
        ("shift_steps", WARM | {"shift_steps": 10, "warmup_epochs": 0.5}),
        ("warmup_epochs", {"epochs": 2, "warmup_epochs": 2.0}),
        ("warmup_epochs", {"schedule": "step", "milestones": (2,), "warmup_epochs": 3.0}),
        ("milestones", {"schedule": "step"}),
        ("milestones", {"milestones": (2,)}),
        ("milestones", {"schedule": "step", "milestones": (3, 2)}),
        ("step_factor", {"step_factor": 0.5}),
        ("accumulate", {"batch_size": 4, "accumulate": 5}),
        ("accumulate", {"batch_size": 7, "accumulate": 4, "batch_norm": "micro_batch"}),
        ("batch_norm", {"batch_norm": "micro_batch"}),
        ("batch_norm", {"batch_norm": "micro_batch", "accumulate": 2, "batch_tokens": 100}),
        ("batch_tokens", {"batch_tokens": 100, "batch_size": 64}),
        ("nesterov", {"nesterov": True, "momentum": 0.0}),
        ("nesterov", {"nesterov": True, "optimizer": "adamw"}),
        ("clip_norm", {"optimizer": "signsgd", "momentum": 0.0, "clip_norm": 1.0}),
        ("momentum", {"optimizer": "adamw", "momentum": 0.5}),
        ("betas", {"betas": (0.8, 0.9)}),
    ],
)
def test_what_does_not_go_together_is_refused_by_the_field_that_is_wrong(field, recipe):
    with pytest.raises(ValidationError) as caught:
        Recipe(**recipe)
    [details] = caught.value.errors()
    error = details["ctx"]["error"]
    assert isinstance(error, ArgumentError)
    assert error.argument == field
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "recipe",
    [
        {"steps": 100},
        {"steps": 100, "epochs": 10},  # the default: as if it were not written
        {"steps": 100, "warmup_epochs": 20.0},
        WARM | {"warmup_epochs": 0.5},
        WARM | {"steps": 10, "warmup_steps": 9},
        {"optimizer": "adamw", "betas": (0.9, 0.95)},
        {"batch_size": 8, "accumulate": 4, "batch_norm": "micro_batch"},
        {"batch_tokens": 100, "accumulate": 500},  # batch_size has no part in it
        {"epochs": 0, "warmup_epochs": 5.0, "schedule": "cosine"},
        {"epochs": 0, "warmup_steps": 5, "mixup": 1.0, "evaluate_every": 3},
    ],
)
def test_what_goes_together_is_taken(recipe):
    made = Recipe(**recipe)
    assert Recipe.model_validate(made.model_dump()) == made
    assert made.trains is (recipe.get("epochs", 1) > 0)
