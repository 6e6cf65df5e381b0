"""Judge every claim again without the library, and compare with docs/claims.json.

    python docs/scripts/recompute_claims.py

`recomputed_ledgers.py` and `recomputed_laws.py` have one function for each judgement, written from the text of the list
and with statistics of their own, so that a fault of the library's judging shows as a difference. This script derives
what each judgement counts as, and each claim's verdict. It ends with exit code 1 if anything differs, if a judgement
has no function or a function no judgement, or if the start of a run that diverged at once is not known in float64.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recomputed_laws import LAWS, numbers
from recomputed_ledgers import LEDGERS
from recomputed_statistics import HELD, NOT_HELD, UNDECIDED
from recomputed_trials import PAPERS, read_ledger
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recomputed_trials import Trials

DOCS = Path(__file__).parents[1]
LAW = "law"
INDICATION, NOT_RUN, CANNOT_BE_TESTED = "indication", "not run", "cannot be tested here"
DIRECTIONS = {HELD: "for", NOT_HELD: "against", UNDECIDED: "mixed"}
LARGEST = 3.4e38
"""In single precision."""


@dataclass(frozen=True)
class Judgement:
    """What one ledger or one law says of a claim.

    Attributes:
        claim: its id.
        source: name of the ledger, or `LAW`.
        status: by the list's criterion.
        counts_as: after the conditions of the run, the starts of diverged runs, and the confirmation.
        confirmation: status of the confirmation, "" if there is none.
    """

    claim: str
    source: str
    status: str
    counts_as: str
    confirmation: str = ""


def counted(status: str, conditions: str) -> str:
    """Return what a status counts as under conditions that make the criterion easier or harder to meet."""
    if conditions == "short":
        return INDICATION
    if (conditions, status) in {("harder", NOT_HELD), ("easier", HELD)}:
        return UNDECIDED
    if conditions not in {"as listed", "replaced", "harder", "easier"}:
        raise ValueError(f"unknown conditions {conditions!r}")
    return status


def doubted(trials: Trials, starts: dict[str, Any], faults: list[str]) -> Trials:
    """Return the trials without the results of those that overflowed: they diverged at step 0 from a sound start.

    A start is sound if float32 could hold its loss and gradient, measured in float64. One that `starts` lacks is in
    doubt too, and a fault.
    """
    found, unknown = [], 0
    for trial in trials:
        start = starts.get(trial["id"])
        measured = [start[key] for key in ("loss_float64", "gradient_norm_float64")] if start else []
        unknown += trial["diverged_at"] == 0 and not measured
        sound = all(value is not None and value < LARGEST for value in measured)
        nothing = {"error": math.nan, "validation": math.nan} if trial["diverged_at"] == 0 and sound else {}
        found.append(trial | nothing)
    if unknown:
        faults.append(f"{unknown} trials diverged at step 0 and have no start in float64")
    return found


def by_ledgers(faults: list[str]) -> Iterator[Judgement]:
    """Yield the judgements of all packed ledgers."""
    starts = json.loads((DOCS / "results" / "starts_in_float64.json").read_text(encoding="utf-8"))
    for path in sorted(PAPERS.glob("*.yaml")):
        stated = YAML(typ="safe").load(path)
        trials = [trial for name in [path.stem, *stated.get("beside", [])] for trial in read_ledger(name)]
        sound = doubted(trials, starts, faults)
        for claim in stated["claims"]:
            judge = LEDGERS.get((path.stem, claim["id"]))
            if judge is None:
                faults.append(f"{path.stem} judges {claim['id']}, which has no function")
                continue
            status = judge(trials)
            counts_as = counted(status, claim["conditions"])
            if counts_as == HELD and judge(sound) != HELD:
                counts_as = UNDECIDED
            yield Judgement(claim["id"], path.stem, status, counts_as)


def by_laws(files: Sequence[Path], faults: list[str]) -> Iterator[Judgement]:
    """Yield the judgements of all laws, whose files are read in order."""
    laws = {claim: entry for file in files for claim, entry in json.loads(file.read_text("utf-8"))["laws"].items()}
    for claim, entry in laws.items():
        if claim not in LAWS or "values" not in entry:
            faults.append(f"{claim}: the law has no {'values' if claim in LAWS else 'function'}")
            continue
        status = LAWS[claim](numbers(entry["values"]))
        second = entry.get("confirmation")
        confirmation = LAWS[claim](numbers(second["values"])) if second else ""
        failed = status == HELD and confirmation in {NOT_HELD, UNDECIDED}
        counts_as = NOT_RUN if entry.get("part") else UNDECIDED if failed else status
        yield Judgement(claim, LAW, status, counts_as, confirmation)


def verdict(judgements: Sequence[Judgement]) -> tuple[str, str | None]:
    """Return a claim's verdict, and the direction of an indication.

    A judgement that decides outweighs those that do not, two that contradict one another decide nothing, and only where
    nothing else was run is an indication the verdict. An indication with a direction outweighs those that have none.
    """
    every = {judgement.counts_as for judgement in judgements}
    decisive = every & {HELD, NOT_HELD}
    if len(decisive) == 1:
        return decisive.pop(), None
    if decisive or UNDECIDED in every:
        return UNDECIDED, None
    directions = {DIRECTIONS[judgement.status] for judgement in judgements if judgement.counts_as == INDICATION}
    if not directions:
        return NOT_RUN, None
    known = directions - {"mixed"}
    return INDICATION, known.pop() if len(known) == 1 else "mixed"


def differences(record: dict[str, Any], found: Sequence[Judgement]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield claim, what of it differs, its value in the record, and the recomputed one."""
    mine = {(judgement.claim, judgement.source): judgement for judgement in found}
    theirs = {(c["id"], judgement["source"]): judgement for c in record["claims"] for judgement in c["judgements"]}
    for key in sorted(mine.keys() | theirs.keys()):
        one, other = theirs.get(key), mine.get(key)
        if one is None or other is None:
            yield key[0], f"judgement by {key[1]}", one and one["status"], other and other.status
            continue
        for name in ("status", "counts_as"):
            if one[name] != getattr(other, name):
                yield key[0], f"{name} by {key[1]}", one[name], getattr(other, name)
    for claim in record["claims"]:
        judgements = [judgement for judgement in found if judgement.claim == claim["id"]]
        confirmation = next((judgement.confirmation for judgement in judgements if judgement.confirmation), None)
        if (claim["confirmation"] or {}).get("status") != confirmation:
            yield claim["id"], "confirmation", claim["confirmation"], confirmation
        stated, derived = (claim["verdict"], claim["direction"]), verdict(judgements)
        if stated != derived and not (stated == (CANNOT_BE_TESTED, None) and not judgements):
            yield claim["id"], "verdict", stated, derived


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs, or every judgement if there is no record, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--claims", type=Path, default=DOCS / "claims.json", help="the record to compare with")
    parser.add_argument("--laws", type=Path, nargs="+", default=[DOCS / "results" / "laws.json"], help="JSON files")
    options = parser.parse_args(arguments)
    faults: list[str] = []
    found = [*by_ledgers(faults), *by_laws(options.laws, faults)]
    judged = {judgement.claim for judgement in found}
    left = {*LEDGERS, *((LAW, claim) for claim in LAWS)} - {(judgement.source, judgement.claim) for judgement in found}
    faults += [f"nothing judges {claim} by {source}, for which there is a function" for source, claim in sorted(left)]
    if options.claims.exists():
        rows = list(differences(json.loads(options.claims.read_text(encoding="utf-8")), found))
        for claim, what, stated, recomputed in rows:
            print(f"{claim}: {what} is {stated!r} in the record and {recomputed!r} here")
    else:
        rows = []
        for judgement in found:
            print(f"{judgement.status:13} {judgement.counts_as:13} {judgement.source:19} {judgement.claim}")
        faults.append(f"{options.claims} does not exist")
    for fault in faults:
        print(fault)
    if not rows and not faults:
        print(f"all {len(found)} judgements and {len(judged)} verdicts agree")
    return 1 if rows or faults else 0


if __name__ == "__main__":
    sys.exit(main())
