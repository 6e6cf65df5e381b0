"""Numbers and claims of a paper in a suite: ``published:`` and ``claims:``.

A claim is a sentence with criteria that trials of the suite can meet. It held if all of its criteria did. It did not
hold if one is refuted or, in the case of a claim with ``refuted_by``, if that is met. Otherwise it is undecided. This
is pure data, which `initbench.claims.judge` judges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import BaseModel, Field

from initbench.claims.criteria import CRITERIA, STRICT, AnyCriterion, NonNegative, Selector, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.arguments import Key

_LISTS = ("criteria", "refuted_by")


class Claim(BaseModel):
    """A paper's claim, and the criteria for it in this suite.

    Attributes:
        id: a short name, such as ``metainit-t1-plain28-metainit-recovers``.
        claim: one sentence, as the paper means it.
        source: paper, and section, table or figure.
        criteria: all must hold.
        refuted_by: refutes the claim, if that takes more than a failed criterion: the claim did not hold if any of
            these is met. A refuted criterion of `criteria` then only leaves the claim undecided.
        caution: a note for readers: an ambiguity, or how the suite falls short of the paper.
    """

    model_config = STRICT

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    claim: Text
    source: Text
    criteria: Annotated[list[AnyCriterion], Field(min_length=1)]
    refuted_by: list[AnyCriterion] = []
    caution: str = ""

    def all_criteria(self) -> Iterator[tuple[Key, AnyCriterion]]:
        """Yield every criterion with its key, such as ``("refuted_by", 0)``."""
        for name in _LISTS:
            for index, criterion in enumerate(getattr(self, name)):
                yield (name, index), criterion


class PublishedValue(BaseModel):
    """A number that a paper prints.

    Attributes:
        what: the quantity, in the paper's words.
        where: table, figure or section.
        value: in the unit of `measure`: errors and accuracies are fractions.
        of: the trials whose mean is shown beside it.
        measure: as in a `Criterion`.
        spread: the spread that the paper prints beside it; null for none.
        n: the number of runs; null if the paper does not say.
        spread_is: the kind of spread; null if the paper does not say.
    """

    model_config = STRICT

    what: Text
    where: Text
    value: float
    of: Selector
    measure: Text = "outcome"
    spread: NonNegative | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    spread_is: Literal["standard_deviation", "standard_error"] | None = None


class Published(BaseModel):
    """The numbers of a paper, shown beside the suite's.

    Attributes:
        source: the paper.
        differs: the differences from the paper, in one sentence; empty if the conditions are the paper's, so that the
            difference of the numbers means something.
        numbers: one by one.
    """

    model_config = STRICT

    source: Text
    differs: str = ""
    numbers: Annotated[list[PublishedValue], Field(min_length=1)]


_JUDGED = {kind: criterion for criterion in CRITERIA for kind in get_args(criterion.model_fields["judge"].annotation)}


def key_as_written(key: Key) -> Key:
    """Return a key of ``claims`` without the kind that validation adds after a criterion's index."""
    inside = key[:1] == ("claims",) and len(key) > 4 and key[2] in _LISTS and key[4] in _JUDGED
    return (*key[:4], *key[5:]) if inside else key


def keys_beside(key: Key) -> list[str]:
    """Return the keys that are valid beside a key of ``claims`` or ``published``; empty for other sections.

    The key has the kind that validation adds after a criterion's index.
    """
    model: type[BaseModel] | None = None
    if key[0] == "published":
        model = PublishedValue if key[1] == "numbers" else Published
    elif key[0] == "claims":
        model = _JUDGED[str(key[4])] if len(key) > 5 and key[2] in _LISTS else Claim
    return list(model.model_fields) if model else []
