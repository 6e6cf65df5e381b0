"""Write docs/claims.json: what became of every claim of docs/claims.yaml, and on what evidence.

    python docs/scripts/claims_record.py --write && python docs/scripts/claims_page.py --write

Laws are judged by tests (tests/claims), whose findings are in docs/results/laws.json. Packed ledgers
(docs/results/papers/NAME.tar.xz) are judged by the list's criteria. NAME.yaml beside the archive says what was run and
how its conditions differ from the list's. It states criteria only where they differ from those of the archive's suite.
docs/claims_notes.yaml says how each criterion was set and why a claim did not hold, docs/claims_log.yaml which verdicts
and criteria have changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pack_ledger import unpack
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from initbench.claims.claim import Claim
from initbench.claims.criteria import AtChance, Correlation
from initbench.claims.judge import judge_claims
from initbench.comparing.conditions import Matcher
from initbench.comparing.formatting import typeset
from initbench.reporting.criteria_in_words import criterion_words, measured_words
from initbench.reporting.questions.claims import evidence_of
from initbench.reporting.results import read_results

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from initbench.claims.evidence import Evidence
    from initbench.claims.verdict import ClaimVerdict, CriterionVerdict

DOCS = Path(__file__).parents[1]
RECORD, LIST = DOCS / "claims.json", DOCS / "claims.yaml"
NOTES, LOG, PAPERS = DOCS / "claims_notes.yaml", DOCS / "claims_log.yaml", DOCS / "claims_papers.yaml"
LAWS, STARTS, LEDGERS = (DOCS / "results" / name for name in ("laws.json", "starts_in_float64.json", "papers"))
VERDICTS = ("held", "did not hold", "undecided", "indication", "not run", "cannot be tested here")
EVIDENCE = ("identity", "at initialization", "trained twin", "trained at the paper's size")
LARGEST_FLOAT32 = 3.4e38
LISTED = ("as listed", "replaced")
SHOWN = 2
"""Groups of a criterion in the line of a claim; the others are unfolded with it."""
JPEG_COPIES = "JPEG copies of CIFAR-10 have higher errors than the original files."


def counts_as(status: str, conditions: str) -> tuple[str, str | None]:
    """Return what a verdict by the list's criterion counts as under a run's conditions, and an indication's direction.

    Harder conditions refute nothing and easier ones uphold nothing. Conditions that fall short of the list's in other
    ways, such as another dataset or fewer networks, give an indication.
    """
    if conditions == "short" and status != "not run":
        return "indication", {"held": "for", "did not hold": "against"}.get(status, "mixed")
    if (conditions, status) in {("harder", "did not hold"), ("easier", "held")}:
        return "undecided", None
    return status, None


def read(path: Path) -> Any:
    """Return what a YAML or JSON file holds."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else YAML(typ="safe", pure=True).load(text)


def record() -> dict[str, Any]:
    """Return the record: papers, counts, every claim with its evidence, and the log."""
    listed, notes, log = read(LIST), read(NOTES), read(LOG)
    judgements = judged_by_laws(notes, {entry["claim"] for entry in log if "replaced_by" in entry})
    for path in sorted(LEDGERS.glob("*.yaml")):
        if path.with_suffix(".tar.xz").exists():
            for claim, judgement in judged_by_ledger(path):
                judgements.setdefault(claim, []).append(judgement)
    claims = [
        _claim(claim, notes.get(claim["id"], {}), judgements.get(claim["id"], []), log, papers_of()) for claim in listed
    ]
    log.sort(key=lambda entry: str(entry["date"]))
    to = {claim["id"]: claim["verdict"] for claim in claims}
    for entry in reversed(log):  # an entry leads to what the next one of its claim starts from
        entry["date"], entry["to"] = str(entry["date"]), to[entry["claim"]]
        to[entry["claim"]] = entry["from"]
    return {"papers": read(PAPERS), "counts": counts(claims), "claims": claims, "log": log}


@cache
def papers_of() -> dict[str, str]:
    """Return the paper of each document."""
    return {document["id"]: paper["id"] for paper in read(PAPERS) for document in paper["documents"]}


def counts(claims: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many claims have each verdict, by kind of evidence; those that another implies are not counted."""
    every = list(claims)
    counted = [claim for claim in every if claim["implied_by"] is None]
    by_evidence = {
        kind: dict(Counter(claim["verdict"] for claim in counted if claim["evidence"] == kind)) for kind in EVIDENCE
    }
    verdicts = Counter(claim["verdict"] for claim in counted)
    return {
        "claims": len(every),
        "verdicts": {verdict: verdicts[verdict] for verdict in VERDICTS},
        "by_evidence": by_evidence,
        "implied": len(every) - len(counted),
    }


def _claim(
    claim: dict[str, Any],
    note: dict[str, Any],
    judgements: list[dict[str, Any]],
    log: Sequence[dict[str, Any]],
    papers: Mapping[str, str],
) -> dict[str, Any]:
    """Return the record of one claim. The strongest evidence decides: see `_strength`."""
    judgements = sorted(judgements, key=_strength, reverse=True)
    best = judgements[0] if judgements else None
    verdict, direction = ("not run", None) if best is None else (best["counts_as"], best["direction"])
    if verdict == "indication":
        directions = {one["direction"] for one in judgements if one["counts_as"] == "indication"} - {"mixed"}
        direction = directions.pop() if len(directions) == 1 else "mixed"
    if "cannot" in note:
        verdict = "cannot be tested here"
    elif claim["twin"].startswith("none: ") and not any(
        entry["claim"] == claim["id"] and "replaced_by" in entry for entry in log
    ):
        verdict, note = "cannot be tested here", {"cannot": claim["twin"].removeprefix("none: ")} | note
    confirmation = None if best is None else best.pop("confirmation", None)
    published = claim.get("published", [])
    return {
        "id": claim["id"],
        "paper": papers[claim["paper"]],
        "document": claim["paper"],
        "where": claim["where"],
        "claim": claim["claim"],
        "kind": claim["kind"],
        "verdict": verdict,
        "direction": direction,
        "evidence": None if best is None or verdict in VERDICTS[4:] else best["evidence"],
        "criterion_set": note.get("criterion_set", "before any run"),
        "implied_by": note.get("implied_by"),
        "published": published_text(published),
        "published_values": [{"what": one["what"], "value": _value(one)} for one in published],
        "measured": "" if best is None else best["measured"],
        "run": "" if best is None else best["run"],
        "n": "" if best is None else best["n"],
        "criterion": claim["twin"],
        "why": note.get("cannot", note.get("why", "")),
        "caution": claim.get("caution", ""),
        "contradicted_by": [one["source"] for one in judgements if _contradicts(one, verdict)],
        "judgements": judgements,
        "confirmation": confirmation,
        "log": [
            {key: entry[key] for key in ("from", "why") if key in entry}
            for entry in log
            if entry["claim"] == claim["id"]
        ],
    }


def _contradicts(judgement: Mapping[str, Any], verdict: str) -> bool:
    """Return whether an indication speaks against what stronger evidence decides."""
    return (verdict, judgement["direction"]) in {("held", "against"), ("did not hold", "for")}


def _strength(judgement: Mapping[str, Any]) -> tuple[bool, bool, int, bool, int]:
    """Return how strong a judgement is.

    The list's conditions outrank others, a decided verdict an undecided one, training a measurement at initialization,
    and more replicates fewer.
    """
    decided = judgement["counts_as"] in VERDICTS[:2] or judgement["direction"] in {"for", "against"}
    kind = -1 if judgement["evidence"] is None else EVIDENCE.index(judgement["evidence"])
    return judgement["conditions"] != "short", decided, kind, judgement["conditions"] in LISTED, judgement["count"]


def published_text(published: Sequence[Mapping[str, Any]]) -> str:
    """Return the printed numbers in one line, grouped by unit."""
    by_unit: dict[str, list[str]] = {}
    for one in published:
        by_unit.setdefault("" if one["unit"] == "none" else one["unit"], []).append(str(one["value"]))
    return "; ".join(f"{', '.join(values)} {unit}".strip() for unit, values in by_unit.items())


def _value(one: Mapping[str, Any]) -> str:
    spread = f" ± {one['spread']}" if "spread" in one else ""
    n = f" (n = {one['n']})" if "n" in one else ""
    return f"{one['value']}{spread} {'' if one['unit'] == 'none' else one['unit']}".strip() + n


def judged_by_laws(notes: Mapping[str, Any], replaced: Container[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the findings of the laws, by claim.

    Args:
        notes: on the claims, with what each law measures.
        replaced: the claims whose listed criterion is retired.
    """
    return {
        name: [_of_law(name, law, notes[name]["run"], "replaced" if name in replaced else "as listed")]
        for name, law in read(LAWS)["laws"].items()
    }


def _of_law(name: str, law: Mapping[str, Any], run: str, conditions: str) -> dict[str, Any]:
    interval = "" if law["interval"] is None else " ({:.3g} to {:.3g})".format(*law["interval"])
    measured = typeset(f"{law['measured'].rstrip('.')}{interval}")
    detail = f"{measured}. {typeset(law['note'])}" if law["note"] else measured
    counted, confirmation = law["status"], law.get("confirmation")
    if confirmation is not None:
        confirmation = {
            "status": confirmation["status"],
            **{key: typeset(confirmation[key]) for key in ("network", "measured")},
            "n": _n(confirmation),
        }
        if counted == "held" and confirmation["status"] != "held":
            counted = "undecided"
    if law.get("part"):
        counted = "not run"
    return {
        "source": "law",
        "status": law["status"],
        "counts_as": counted,
        "direction": None,
        "evidence": law["evidence"],
        "conditions": conditions,
        "differs": "",
        "run": run,
        "n": _n(law),
        "count": law["n"],
        "measured": measured.partition("; ")[0] + (f" (of {law['part']} alone)" if law.get("part") else ""),
        "criteria": [{"criterion": "", "status": law["status"], "measured": detail, "refutes": False}],
        "diverged": [],
        "command": f"python tests/claims/measure_laws.py --only {name}",
        "ledger": "",
        "report": "",
        "confirmation": confirmation,
    }


def _n(law: Mapping[str, Any]) -> str:
    """Return how many of what a law was measured on."""
    return "1 network" if (law["n"], law["of"]) == (1, "networks") else f"{law['n']:,} {law['of']}"


def judged_by_ledger(path: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the claims that a packed ledger judges, each with what came of it.

    Args:
        path: the file beside the archive that states conditions, and the criteria where they are not the suite's.
    """
    stated = read(path)
    texts = {claim["id"]: claim["claim"] for claim in read(LIST)}
    names = [path.stem, *stated.get("beside", [])]
    with tempfile.TemporaryDirectory() as folder:
        folders = [Path(folder) / name for name in names]
        for name, unpacked in zip(names, folders, strict=True):
            unpack(LEDGERS / f"{name}.tar.xz", unpacked)
        results = read_results(folders, None if len(names) == 1 else ["initializer"])
        evidence = evidence_of(results)
        seeds = len({record.spec["seed"] for record in results.records})
        of_suite = {claim["id"]: claim for claim in read(folders[0] / "resolved.json").get("claims", [])}
        for entry in stated["claims"]:
            criteria = entry if "criteria" in entry else of_suite[entry["id"]]
            given = {key: criteria[key] for key in ("criteria", "refuted_by") if key in criteria}
            claim = TypeAdapter(Claim).validate_python(
                given | {"id": entry["id"], "claim": texts[entry["id"]], "source": "docs/claims.yaml"}
            )
            (verdict,) = judge_claims(evidence, [claim], seeds)
            yield entry["id"], _of_ledger(path, stated, entry, verdict, evidence)


def _of_ledger(
    path: Path, stated: Mapping[str, Any], entry: Mapping[str, Any], verdict: ClaimVerdict, evidence: Evidence
) -> dict[str, Any]:
    criteria = [
        {
            "criterion": criterion_words(one.criterion, one.metric),
            "status": ("met" if one.status == "held" else "not met") if refutes else one.status,
            "measured": measured_words(one, one.metric),
            "refutes": refutes,
        }
        for refutes, group in ((False, verdict.criteria), (True, verdict.refutations))
        for one in group
    ]
    status, (counted, direction) = verdict.status, counts_as(verdict.status, entry["conditions"])
    overflowed = overflows(verdict, evidence)
    if overflowed and counted == "held":
        counted = "undecided"
    n = min((one.n for one in verdict.criteria if one.n), default=0)
    sample = "workloads" if isinstance(verdict.criteria[0].criterion, Correlation) else "seeds"
    decisive = deciding(verdict)
    report = LEDGERS / f"{path.stem}.md"
    known = (report, LEDGERS.parent / f"{path.stem}.md")
    return {
        "source": path.stem,
        "status": status,
        "counts_as": counted,
        "direction": direction,
        "evidence": entry["evidence"],
        "conditions": entry["conditions"],
        "differs": " ".join([entry.get("differs", ""), *[JPEG_COPIES] * ("JPEG" in entry["run"])]).strip(),
        "run": entry["run"],
        "n": f"{n} {sample}",
        "count": n,
        "measured": measured_words(replace(decisive, groups=decisive.groups[:SHOWN]), decisive.metric)
        + (f"; and {hidden} more" if (hidden := len(decisive.groups[SHOWN:])) else ""),
        "criteria": criteria,
        "diverged": diverged_starts(verdict, evidence),
        "command": stated["command"],
        "ledger": f"results/papers/{path.stem}.tar.xz",
        "report": next((str(file.relative_to(DOCS)) for file in known if file.exists()), ""),
    }


def deciding(verdict: ClaimVerdict) -> CriterionVerdict:
    """Return the criterion that decides a claim, with the groups in which it is decided.

    If one of the claim's own criteria failed, it comes before one that refutes the claim: its measurement has the sign
    and the unit of the claim.
    """
    failed = [one for one in verdict.criteria if one.status == "did not hold"]
    refuting = [one for one in verdict.refutations if one.status == "held"]
    others = [one for one in verdict.criteria if one.status != "held"]
    decisive = (failed or refuting or others or list(verdict.criteria))[0]
    if decisive.status == "held":
        return decisive
    groups = tuple(group for group in decisive.groups if group.status != "held")
    return replace(decisive, groups=groups or decisive.groups)


def _trials_at_chance(verdict: ClaimVerdict, evidence: Evidence) -> list[Mapping[str, Any]]:
    """Return the diverged trials by which a claim's criteria call a network at chance, with what each diverged from."""
    starts = read(STARTS)
    chosen = [
        trial
        for one in verdict.criteria
        if isinstance(one.criterion, AtChance)
        for trial in evidence.final(one.criterion.protocol)
        if Matcher(one.criterion.of)(trial.properties) and trial.row["status"] == "diverged"
    ]
    return [{"trial": trial, "start": starts.get(trial.row["trial_id"])} for trial in chosen]


def overflows(verdict: ClaimVerdict, evidence: Evidence) -> bool:
    """Return whether a network is called at chance for an overflow of float32 alone, which tells nothing of training.

    That is so if a trial diverged at step 0 and its loss and gradient, in float64, are numbers that float32 could hold.
    """
    for one in _trials_at_chance(verdict, evidence):
        start = one["start"]
        if one["trial"].row["diverged_at_step"] == 0 and start is not None:
            loss, gradient = start["loss_float64"], start["gradient_norm_float64"]
            if loss is not None and gradient is not None and max(loss, gradient) < LARGEST_FLOAT32:
                return True
    return False


def diverged_starts(verdict: ClaimVerdict, evidence: Evidence) -> list[str]:
    """Return a sentence for each step at which trials diverged, with the loss and gradient that they started from."""
    by_step: dict[int, list[Mapping[str, float]]] = {}
    for one in _trials_at_chance(verdict, evidence):
        if one["start"] is not None:
            by_step.setdefault(int(one["trial"].row["diverged_at_step"]), []).append(one["start"])
    sentences = []
    for step, starts in sorted(by_step.items()):
        loss = _range(start["loss_float64"] for start in starts)
        gradient = _range(start["gradient_norm_float64"] for start in starts)
        sentences.append(
            f"{len(starts)} trials diverged at step {step}; in float64 they start from a loss of {loss} and a gradient "
            f"norm of {gradient}."
        )
    return sentences


def _range(values: Iterable[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return "no finite value"
    low, high = f"{known[0]:.3g}", f"{known[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


def main() -> None:
    """Write the record, or say whether it is as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    text = json.dumps(record(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if parser.parse_args().write:
        RECORD.write_text(text, encoding="utf-8")
    elif not RECORD.exists() or text != RECORD.read_text(encoding="utf-8"):
        sys.exit(f"{RECORD} is not as the results are: run this with --write")


if __name__ == "__main__":
    main()
