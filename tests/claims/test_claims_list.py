"""The list of claims is complete and of one form, and every law judges one of them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from law import all_laws
from pydantic import BaseModel, ConfigDict, TypeAdapter
from ruamel.yaml import YAML

PATH = Path(__file__).parents[2] / "docs" / "claims.yaml"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Published(Strict):
    what: str
    value: int | float | str
    spread: float | None = None
    n: int | None = None
    unit: str


class Claim(Strict):
    id: str
    paper: Literal["metainit", "metainit-response", "gradinit", "skipinit-response", "weightnorm-reviews"]
    where: str
    claim: str
    kind: Literal["ordering", "failure", "trains", "equality", "trend", "recovery", "value", "cost", "law"]
    treatments: list[str]
    workload: str
    published: list[Published] = []
    needs: list[str]
    twin: str
    caution: str | None = None


TEXT = PATH.read_text(encoding="utf-8")
CLAIMS = TypeAdapter(list[Claim]).validate_python(YAML(typ="safe", pure=True).load(TEXT))


def test_ids_are_unique_and_begin_with_their_paper():
    counts = Counter(claim.id for claim in CLAIMS)
    assert len(counts) == len(CLAIMS) == 110
    prefixes = {"skipinit-response": "skipinit", "weightnorm-reviews": "weightnorm"}
    for claim in CLAIMS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", claim.id)
        assert claim.id.startswith(prefixes.get(claim.paper, claim.paper) + "-")


def test_every_capability_is_explained_at_the_end():
    glossary = " ".join(TEXT.split("# Capabilities in `needs`")[1].replace("#", " ").split())
    explained = set(re.findall(r"(?:^|; )([a-z0-9-]+): ", glossary))
    assert explained == {need for claim in CLAIMS for need in claim.needs}


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.id for claim in CLAIMS])
def test_a_claim_says_by_what_it_is_held(claim):
    assert "held" in claim.twin or claim.twin.startswith("none: ")
    assert claim.claim.endswith(".")


def test_a_law_judges_a_claim_of_the_list():
    assert set(all_laws()) <= {claim.id for claim in CLAIMS}
