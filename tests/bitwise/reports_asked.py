"""What two versions are asked about one set of trials, so that each difference of their reports can be proved."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitwise.reports_compared import compare_tables
from bitwise.reports_inputs import (
    brings_schemes,
    chance_of,
    trains,
    untrained,
    with_schemes_moved,
    with_untrained_tied,
    without_causes,
)
from bitwise.reports_reasons import REFERENCE, SCHEMES, TARGET, UNTESTABLE, UNTRAINED, Reason
from bitwise.reports_schema import schema_1
from bitwise.reports_tables import Table, equal, number, read_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bitwise.reports_compared import Compared, Tables


@dataclass(frozen=True)
class SetOfTrials:
    """Trials of one suite, as plain data of schema 2."""

    name: str
    records: list[dict[str, Any]]


@dataclass
class Found:
    """What was found of one set of trials.

    Attributes:
        words: what it is.
        tables: by what was done to the trials and by name.
        errors: why reports could not be written.
    """

    words: str
    tables: dict[str, dict[str, Compared]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class ReportsOfSet:
    """The reports of one set of trials by two versions: first what they are asked, then what they said.

    Args:
        trials: what is reported.
        folder: for ledgers and reports.
        schema: of the old version's records.

    Attributes:
        old: jobs of `reports_worker.py` for the old version, by what was done to the trials.
        new: likewise for the new one.
    """

    def __init__(self, trials: SetOfTrials, folder: Path, schema: int) -> None:
        self.trials, self.folder, self.schema = trials, folder, schema
        records = trials.records
        self.untrained = untrained(records)
        ledgers = {"plain": records, "strict": without_causes(records)}
        moved = with_schemes_moved(records) if brings_schemes(records) and schema == 1 else None
        if moved is not None:
            ledgers["moved"] = moved
        if self.untrained:
            base = records if moved is None else moved
            ledgers["tied"] = with_untrained_tied(base, untrained(base))
        # Of schema 1 a record says the same with and without the causes.
        asked = [name for name in ledgers if name != "strict" or schema != 1]
        self.old = {name: _job(folder / "old", name, ledgers[name], schema) for name in asked}
        self.new = {name: _job(folder / "new", name, ledgers[name]) for name in ("plain", "strict")}
        self.base = "plain" if moved is None else "moved"

    def read(self) -> None:
        """Read what the versions said to the first jobs."""
        self.before = {
            name: read_tables(Path(job["output"]), renamed=self.schema == 1) for name, job in self.old.items()
        }
        self.now = {name: read_tables(Path(job["output"]), renamed=False) for name, job in self.new.items()}
        self.before.setdefault("strict", self.before["plain"])

    def further(self) -> dict[str, dict[str, Any]]:
        """Return what the old version (0.1) is asked, now that it is known what the new one chose."""
        jobs: dict[str, dict[str, Any]] = {}
        if self.schema != 1:
            return jobs
        best = reference(self.now["plain"])
        if best is not None and best != reference(self.before[self.base]):
            jobs["pinned"] = self._with(self.base, "pinned", reference=best)
        for name, base in (("plain", self.base), ("strict", "plain")):
            if targets := _targets(self.now[name], self.before[base], self.trials.records if name == "plain" else ()):
                jobs[f"{name} costs"] = self._with(base, f"{name}-costs", targets=targets)
        return jobs

    def _with(self, base: str, name: str, **more: Any) -> dict[str, Any]:
        return self.old[base] | {"output": str(self.folder / "old" / name)} | more

    def compare(self, further: Iterable[str]) -> Found:
        """Return what was found.

        Args:
            further: the names of the jobs of `further`, which are done.
        """
        said = {name: read_tables(self.folder / "old" / name.replace(" ", "-"), renamed=True) for name in further}
        named = {"moved": SCHEMES, "tied": UNTRAINED, "pinned": REFERENCE}
        known = self.before | said
        sources: list[tuple[Reason, Tables]] = [
            (reason, known[name]) for name, reason in named.items() if name in known
        ]
        costs: dict[str, list[tuple[Reason, Tables]]] = {
            name: [(TARGET, _costs(self.now[name], said[f"{name} costs"]))]
            for name in self.now
            if f"{name} costs" in said
        }
        found = Found(f"{len(self.trials.records)} trials, {len(self.untrained)} in cells that did not train")
        asis, strict = "as it is", "without chance levels and brought schemes"
        sources += costs.get("plain", [])
        sources += [(UNTESTABLE, _tested(tables)) for tables in (self.before["plain"], *(own for _, own in sources))]
        found.tables[asis] = compare_tables(self.now["plain"], self.before["plain"], sources)
        alone = [*costs.get("strict", []), (UNTESTABLE, _tested(self.before["strict"]))]
        found.tables[strict] = compare_tables(self.now["strict"], self.before["strict"], alone)
        return found


def _job(folder: Path, name: str, records: Iterable[Mapping[str, Any]], schema: int = 2) -> dict[str, Any]:
    """Write a ledger and return the job of its report."""
    ledger = folder / name
    (ledger / "trials").mkdir(parents=True, exist_ok=True)
    for record in records:
        data = schema_1(record) if schema == 1 else record
        (ledger / "trials" / f"{data['id']}.json").write_text(json.dumps(data), encoding="utf-8")
    return {"folder": str(ledger), "output": str(folder / f"{name}-report")}


def _tested(tables: Tables) -> Tables:
    """Return the tables without the mean ρ of probes that have no p-value."""
    if "probes" not in tables:
        return {}
    rows = {
        key: row if row["pvalue"] else row | dict.fromkeys(("rho", "rho_low", "rho_high"), "")
        for key, row in tables["probes"].rows.items()
    }
    return {"probes": replace(tables["probes"], rows=rows)}


def reference(tables: Tables) -> str | None:
    """Return the treatment with which a report compares all others: it ranks best; None where nothing is compared."""
    if "differences" in tables:
        return next(iter(tables["differences"].rows))[0]
    others = {treatment for _, treatment, *_ in tables.get("paired_differences", Table()).rows}
    known = {key[1] for key, row in tables["comparison"].rows.items() if row["outcome_median"]}
    return next(iter(known - others)) if others and len(known - others) == 1 else None


def _targets(now: Tables, before: Tables, records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the cost targets that differ and that a cell which trained has attained, or that are none."""
    chance = next((known for record in records if (known := chance_of(record))), None)
    attained: dict[str, set[float]] = {}
    for (workload, *_), row in now["comparison"].rows.items():
        median = number(row["outcome_median"])
        if median is not None and math.isfinite(median) and trains(median, chance):
            attained.setdefault(workload, {math.nan}).add(median)
    found: dict[str, float] = {}
    for key, row in now.get("costs", Table()).rows.items():
        old = before.get("costs", Table()).rows.get(key)
        if old is None or equal(old["target"], row["target"]):
            continue
        target = number(row["target"])
        if target is not None and (math.isnan(target) or target in attained.get(key[0], ())):
            found[key[0]] = target
    return found


def _costs(now: Tables, at_target: Tables) -> dict[str, Table]:
    """Return what costs.csv has to say at the new targets, which were proved."""
    rows = {}
    for key, row in at_target["costs_to_target"].rows.items():
        if key in now["costs"].rows:
            own = now["costs"].rows[key]
            # Where there is no target, steps to it may be missing; the old version's function calls it a miss.
            nothing = own["target"] == own["steps_to_target"] == ""
            rows[key] = {
                "target": own["target"],
                "steps_to_target": "" if nothing else row["steps_to_target"],
            }
    return {"costs": Table(["target", "steps_to_target"], rows)}
