"""The source of a report's records: the folder of one suite, or several joined."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.errors import InitbenchError
from initbench.files import read_text
from initbench.ledger import RESOLVED_FILE, SUITE_FILE, TrialRecord
from initbench.reporting.records import read_records
from initbench.reporting.resolved import (
    Refused,
    Stated,
    read_compare,
    read_defaults,
    read_incompatible,
    read_stated,
    read_tune,
)


@dataclass(frozen=True)
class Source:
    """Trial records and their origin.

    Attributes:
        records: as from `records.read_records`, each id once.
        skipped: a line for each file that is not a record, with its name and the reason.
        descriptions: the question of each suite that has one, by the suite's name.
        compare: the factors that make the treatment.
        notes: how the records were joined, as far as a reader must know.
        incompatible: the cells that the suites request and that cannot run, as pairs of spec and reason.
        tunes: the tuning settings of each suite that tunes (`resolved.read_tune`), if known.
        stated: claims and published numbers of each suite that has any.
        defaults: initializer → argument → default, of the arguments that make its initializers run long.
    """

    records: list[TrialRecord]
    skipped: tuple[str, ...] = ()
    descriptions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    compare: tuple[str, ...] = DEFAULT_COMPARE
    incompatible: tuple[Refused, ...] = ()
    tunes: tuple[Mapping[str, Any], ...] = ()
    stated: tuple[Stated, ...] = ()
    defaults: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def read_folder(folder: str | Path, compare: Sequence[str] | None = None) -> Source:
    """Return the source in a suite's folder; files that are not records are skipped and listed.

    Raises:
        InitbenchError: the folder has no readable trial records, or `compare` is not given and cannot be read.
    """
    skipped: list[str] = []
    records = read_records(folder, skipped)
    try:
        text = read_text(Path(folder) / SUITE_FILE)
    except (OSError, ValueError):
        text = ""
    factors = read_compare(folder) if compare is None else tuple(compare)
    notes: tuple[str, ...] = ()
    try:
        incompatible, tune, stated = read_incompatible(folder), read_tune(folder), read_stated(folder)
        defaults = read_defaults(folder)
    except InitbenchError:
        if compare is None:
            raise
        # With `compare` given, a damaged resolved.json does not prevent a report.
        incompatible, tune, stated, defaults = (), None, None, {}
        name = records[0].spec["suite"]
        notes = (f"Which pairs of {name} are incompatible is not known: its {RESOLVED_FILE} cannot be read.",)
    tunes = () if tune is None else (tune,)
    said = () if stated is None else (stated,)
    descriptions = descriptions_of(records, text)
    return Source(records, tuple(skipped), descriptions, notes, factors, incompatible, tunes, said, defaults)


def descriptions_of(records: Sequence[TrialRecord], suite_file: str) -> dict[str, str]:
    """Return the suite file's description by the name of the records' suite; empty if the file cannot be read."""
    try:
        suite: Any = YAML(typ="safe", pure=True).load(suite_file)
    except (ValueError, YAMLError, RecursionError):
        return {}
    description = suite.get("description") if isinstance(suite, dict) else None
    if not isinstance(description, str) or not description.strip():
        return {}
    return {records[0].spec["suite"]: description.strip()}


def join(sources: Sequence[Source]) -> Source:
    """Return several sources as one.

    If several sources have a trial (equal ids mean the same trial in everything that changes its numbers), the first
    one with a result counts. A note says if the numbers differ, as on another machine or with other versions.

    Raises:
        InitbenchError: the sources compare different factors.
    """
    if len(sources) == 1:
        return sources[0]
    if len({frozenset(source.compare) for source in sources}) > 1:
        said = {f"{source.records[0].spec['suite']}: {','.join(source.compare)}": None for source in sources}
        raise InitbenchError(f"the suites compare different things ({'; '.join(said)}); say what with --compare")
    chosen: dict[str, TrialRecord] = {}
    repeated, different = set(), set()
    named_by: dict[str, set[str]] = defaultdict(set)
    for record in (record for source in sources for record in source.records):
        known = chosen.setdefault(record.id, record)
        if known is record:
            continue
        repeated.add(record.id)
        named_by[record.id] |= {*known.spec["scheme_named_by"], *record.spec["scheme_named_by"]}
        if known.status == "failed":
            chosen[record.id] = record
        elif record.status != "failed" and _outcome(known) != _outcome(record):
            different.add(record.id)
    notes = [note for source in sources for note in source.notes]
    if repeated:
        one = len(repeated) == 1
        notes.append(
            f"{len(repeated)} trial{' is' if one else 's are'} in more than one ledger and "
            f"{'is' if one else 'are'} counted once"
            + (f"; {len(different)} of them with other numbers, of which the first are shown." if different else ".")
        )
    return Source(
        [_named_by(record, named_by[i]) if i in named_by else record for i, record in chosen.items()],
        tuple(line for source in sources for line in source.skipped),
        {name: text for source in reversed(sources) for name, text in source.descriptions.items()},
        tuple(notes),
        sources[0].compare,
        _once(pair for source in sources for pair in source.incompatible),
        tuple(tune for source in sources for tune in source.tunes),
        _stated_once(stated for source in sources for stated in source.stated),
        {name: arguments for source in sources for name, arguments in source.defaults.items()},
    )


def _once(incompatible: Iterable[Refused]) -> tuple[Refused, ...]:
    """Drop duplicates, because a ledger and its copy may both be given."""
    return tuple({json.dumps(pair, sort_keys=True): pair for pair in incompatible}.values())


def _stated_once(stated: Iterable[Stated]) -> tuple[Stated, ...]:
    unique: list[Stated] = []  # no set, because conditions have no hash
    for one in stated:
        if one not in unique:
            unique.append(one)
    return tuple(unique)


def _named_by(record: TrialRecord, names: Iterable[str]) -> TrialRecord:
    """Return a record that belongs to the workloads of every `names`."""
    return replace(record, spec=record.spec | {"scheme_named_by": sorted(names, reverse=True)})


def _outcome(record: TrialRecord) -> tuple[Any, ...]:
    measured = [{key: value for key, value in probe.items() if key != "conditions"} for probe in record.probes]
    return record.status, record.metrics, measured


def read_source(
    folders: str | Path | Source | Sequence[str | Path | Source], compare: Sequence[str] | None = None
) -> Source:
    """Return the joined source of suites' folders and of sources that were read before.

    Raises:
        InitbenchError: a folder has no readable trial records, or the suites compare different factors.
    """
    given = [folders] if isinstance(folders, str | Path | Source) else folders
    sources = [item if isinstance(item, Source) else read_folder(item, compare) for item in given]
    return join(sources if compare is None else [replace(source, compare=tuple(compare)) for source in sources])
