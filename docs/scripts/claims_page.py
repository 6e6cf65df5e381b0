"""Write docs/claims.md: every claim of five papers, what became of it, and by what it can be judged again.

    python docs/scripts/claims_page.py --write

Claims are those of docs/claims.yaml. Laws are judged by tests (tests/claims), whose findings docs/results/laws.json
holds; others by the trials of suites, whose packed ledgers docs/results/papers holds (see pack_ledger.py). What was
found out of those that did not hold, and where one that held does not, stands in docs/claims_why.yaml.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pack_ledger import unpack
from ruamel.yaml import YAML

from initbench.reporting.analyses.claims import claims as claims_of
from initbench.reporting.results import read_results
from initbench.reporting.words.claims import criterion_words, measured_words

if TYPE_CHECKING:
    from initbench.metric import Metric
    from initbench.reporting.judging.verdict import CriterionVerdict

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PAGE, LIST, WHY = DOCS / "claims.md", DOCS / "claims.yaml", DOCS / "claims_why.yaml"
RESULTS = DOCS / "results"
LAWS, LEDGERS = RESULTS / "laws.json", RESULTS / "papers"
SUITES = ROOT / "suites" / "papers"
PAPERS = {
    "metainit": "Dauphin & Schoenholz, MetaInit, NeurIPS 2019",
    "metainit-response": "The author response to MetaInit",
    "gradinit": "Zhu et al., GradInit, NeurIPS 2021, appendix",
    "skipinit-response": "De & Smith, SkipInit, NeurIPS 2020, author response",
    "weightnorm-reviews": "Arpit, Campos & Bengio, NeurIPS 2019, reviews",
}
TESTED = ("held", "did not hold", "undecided")
OTHERS = ("not run", "cannot be tested here")
STATUSES = (*TESTED, *OTHERS)
WHY_TITLES = {
    "did not hold": "Why claims did not hold",
    "undecided": "Why claims are undecided",
    "held": "Where claims that held do not",
}
LAW_CHANCE = 0.0
JPEG_COPIES = "cifar10-jpeg"


@dataclass(frozen=True)
class Entry:
    """What became of a claim.

    Attributes:
        status: one of `STATUSES`.
        measured: the numbers, each with its interval and its n; or why there are none.
        how: a command that judges it again, or would.
        chance: how likely it is held if it is false; 0 for a law, which has no chance in it.
    """

    status: str
    measured: str
    how: str
    chance: float = LAW_CHANCE


def entries() -> dict[str, Entry]:
    """Return what became of each claim of the list, by its id."""
    listed = YAML(typ="safe", pure=True).load(LIST.read_text(encoding="utf-8"))
    known = suites_by_claim() | laws_by_claim() | judged_by_suites() | judged_by_laws()
    return {claim["id"]: known.get(claim["id"]) or _without(claim) for claim in listed}


def judged_by_laws() -> dict[str, Entry]:
    """Return the claims that tests judge."""
    found = json.loads(LAWS.read_text(encoding="utf-8"))["laws"] if LAWS.exists() else {}
    return {name: _of_law(name, law) for name, law in found.items()}


def _of_law(name: str, law: dict[str, Any]) -> Entry:
    interval = law["interval"]
    ends = "" if interval is None else f" ({interval[0]:.3g} to {interval[1]:.3g})"
    measured = f"{law['measured'].rstrip('.')}{ends}; n = {law['n']}"
    pages = [path.name for path in sorted(LEDGERS.glob("*.md")) if f"`{name}`" in path.read_text(encoding="utf-8")]
    beside = "".join(f", [the twin of its figure](results/papers/{page})" for page in pages)
    how = f"`python tests/claims/measure_laws.py --only {name}`{beside}"
    return Entry(law["status"].replace("_", " "), measured, how)


def judged_by_suites() -> dict[str, Entry]:
    """Return the claims that the trials of packed ledgers judge; what was decided stands before what was not."""
    found: dict[str, Entry] = {}
    for path in sorted(LEDGERS.glob("*.tar.xz")):
        with tempfile.TemporaryDirectory() as folder:
            unpack(path, Path(folder))
            analysis = claims_of(read_results(folder))
            copies = JPEG_COPIES in (Path(folder) / "resolved.json").read_text(encoding="utf-8")
            how = _run(path) + (" (CIFAR-10 as JPEG copies)" if copies else "")
            for verdict in () if analysis is None else analysis.verdicts:
                texts = [_judged(one, analysis.metric(one.criterion)) for one in verdict.criteria]
                entry = Entry(verdict.status, "<br>".join(texts), how, verdict.chance)
                if verdict.claim.id not in found or found[verdict.claim.id].status not in TESTED[:2]:
                    found[verdict.claim.id] = entry
    return found


def _judged(verdict: CriterionVerdict, metric: Metric | None) -> str:
    """Return what a criterion says, what came of it, and what was measured."""
    measured = measured_words(verdict, metric)
    return f"{criterion_words(verdict.criterion, metric)}: {verdict.status}{', ' * bool(measured)}{measured}."


def _run(path: Path) -> str:
    """Return the command that makes a packed ledger: the twin of its name, else the suite; with its page, if any."""
    name = path.name.removesuffix(".tar.xz")
    suite = next(file for folder in ("twins", ".", "..") for file in (SUITES / folder).glob(f"{name}.yaml"))
    command = f"`initbench run {suite.resolve().relative_to(ROOT)}`"
    return f"{command}, [as it was run](results/{name}.md)" if (RESULTS / f"{name}.md").exists() else command


def laws_by_claim() -> dict[str, Entry]:
    """Return the claims that tests judge, as not run: the findings that are known stand in the file of laws."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "claims").glob("laws_of_*.py"))]
    names = [name for text in texts for name in re.findall(r'^@law\("([a-z0-9-]+)"', text, flags=re.MULTILINE)]
    return {name: Entry("not run", "", f"`python tests/claims/measure_laws.py --only {name}`") for name in names}


def suites_by_claim() -> dict[str, Entry]:
    """Return the claims that suites state, as not run; twins stand before the papers' own sizes."""
    found: dict[str, Entry] = {}
    for path in [*sorted((SUITES / "twins").glob("*.yaml")), *sorted(SUITES.glob("*.yaml"))]:
        suite = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        for claim in suite.get("claims", ()):
            command = f"`initbench run {path.relative_to(ROOT)}`"
            found.setdefault(claim["id"], Entry("not run", "", command))
    return found


def _without(claim: dict[str, Any]) -> Entry:
    """Return what stands for a claim that nothing judges."""
    if claim["twin"].startswith("none: "):
        return Entry("cannot be tested here", claim["twin"].removeprefix("none: "), "")
    return Entry("not run", "No suite states it yet.", "")


def page(found: dict[str, Entry]) -> str:
    """Return the page.

    Args:
        found: as from `entries`.
    """
    listed = YAML(typ="safe", pure=True).load(LIST.read_text(encoding="utf-8"))
    why = YAML(typ="safe", pure=True).load(WHY.read_text(encoding="utf-8"))
    counts = Counter(entry.status for entry in found.values())
    tested = [entry for entry in found.values() if entry.status in TESTED]
    by_chance = sum(entry.chance for entry in tested)
    introduction = (
        "Each claim is judged by its own criterion, which was written down before the result was seen: that of a law "
        "stands in [claims.yaml](claims.yaml), that of a suite in the suite. Suites run on small data and for few "
        "epochs, so that a claim that holds here holds for a *twin* of the paper's experiment, and one that does not "
        "may hold at the paper's size. “JPEG copies” of CIFAR-10 have higher errors than the original files."
    )
    results = ", ".join(f"{counts[status]} {status}" for status in TESTED if counts[status])
    chance = "All of these are laws, which have no chance in them."
    if by_chance:
        chance = (
            "If none of those that trials judge were true, "
            f"at most {by_chance:.2g} would have come out as held by chance."
        )
    finding = (
        f"Of {len(found)} claims of five papers on initialization, {len(tested)} are tested: {results}. "
        f"Of the others {counts['not run']} have not been run and {counts['cannot be tested here']} cannot be tested "
        "here."
    )
    lines = [
        "# Claims",
        "",
        finding,
        chance,
        "",
        introduction,
        "",
        "This page is made by `python docs/scripts/claims_page.py --write`.",
    ]
    for paper, title in PAPERS.items():
        own = [claim for claim in listed if claim["paper"] == paper]
        lines += ["", f"## {title}", "", "| Claim | Where | Status | Measured | How |", "|---|---|---|---|---|"]
        lines += [_row(claim, found[claim["id"]]) for claim in own]
    for status, title in WHY_TITLES.items():
        own = [claim for claim in listed if found[claim["id"]].status == status and claim["id"] in why]
        lines += ["", f"## {title}", ""] if own else []
        lines += [f"- {claim['claim'].rstrip('.')} (`{claim['id']}`): {why[claim['id']]}" for claim in own]
    return "\n".join(lines) + "\n"


def _row(claim: dict[str, Any], entry: Entry) -> str:
    cells = (f"{claim['claim']} `{claim['id']}`", claim["where"], f"**{entry.status}**", entry.measured, entry.how)
    plain = [" ".join(cell.replace("|", "\\|").split()) for cell in cells]
    return f"| {' | '.join(plain)} |"


def main() -> None:
    """Write the page, or say whether it is as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    text = page(entries())
    if parser.parse_args().write:
        PAGE.write_text(text, encoding="utf-8")
    elif text != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE} is not as the results are: run this with --write")


if __name__ == "__main__":
    main()
