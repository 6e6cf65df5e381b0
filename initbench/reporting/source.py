"""Where a report's records come from: the folder of one suite, or several put together."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.errors import InitbenchError
from initbench.files import read_text
from initbench.ledger import RESOLVED_FILE, SUITE_FILE
from initbench.reporting.frame import read_records
from initbench.reporting.resolved import Refused, Stated, read_compare, read_incompatible, read_stated, read_tune

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from initbench.ledger import TrialRecord


@dataclass(frozen=True)
class Source:
    """Trial records, and what a report must say of where they come from.

    Attributes:
        records: as from `frame.read_records`, each id once.
        skipped: a line for each record that could not be read, with its name and why.
        descriptions: what each suite asks, by its name, where that is known.
        compare: the factors that make the treatment.
        notes: what a reader must know of how the records were put together.
        incompatible: the cells that the suites ask for and that cannot run: a spec each, as plain data, and why.
        tunes: what each suite that tunes says of it (`resolved.read_tune`), where that is known.
        stated: what each suite says of papers, where it says anything.
    """

    records: list[TrialRecord]
    skipped: tuple[str, ...] = ()
    descriptions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    compare: tuple[str, ...] = DEFAULT_COMPARE
    incompatible: tuple[Refused, ...] = ()
    tunes: tuple[Mapping[str, Any], ...] = ()
    stated: tuple[Stated, ...] = ()


def read_folder(folder: str | Path, compare: Sequence[str] | None = None) -> Source:
    """Return what a suite's folder holds; a file that is not a record is passed over and named.

    Args:
        folder: the suite's folder.
        compare: the factors that make the treatment; by default those of the suite in the folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read, or does not say what its suite compares.
    """
    skipped: list[str] = []
    records = read_records(folder, skipped)
    try:
        text = read_text(Path(folder) / SUITE_FILE)
    except (OSError, ValueError):
        text = ""
    found = read_compare(folder) if compare is None else tuple(compare)
    notes: tuple[str, ...] = ()
    try:
        incompatible, tune, stated = read_incompatible(folder), read_tune(folder), read_stated(folder)
    except InitbenchError:
        if compare is None:
            raise
        # Who says what is compared has a report of a folder whose resolved.json is damaged too.
        incompatible, tune, stated = (), None, None
        name = records[0].spec["suite"]
        notes = (f"Which pairs of {name} are incompatible is not known: its {RESOLVED_FILE} cannot be read.",)
    tunes = () if tune is None else (tune,)
    said = () if stated is None else (stated,)
    return Source(records, tuple(skipped), descriptions_of(records, text), notes, found, incompatible, tunes, said)


def descriptions_of(records: Sequence[TrialRecord], suite_file: str) -> dict[str, str]:
    """Return the suite file's description under the name of the records' suite.

    A report needs none, so a file that cannot be understood is no error.
    """
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

    A trial that stands in more than one (equal ids: the same trial in everything that changes its numbers) is counted
    once: the first that has a result. Where its numbers differ, on another machine or with other versions, a note
    says so.

    Raises:
        InitbenchError: they do not compare the same.
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
            f"{len(repeated)} trial{' stands' if one else 's stand'} in more than one ledger and "
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
    )


def _once(incompatible: Iterable[Refused]) -> tuple[Refused, ...]:
    """Return each pair once: a ledger may be given twice, and its copy beside it."""
    return tuple({json.dumps(pair, sort_keys=True): pair for pair in incompatible}.values())


def _stated_once(stated: Iterable[Stated]) -> tuple[Stated, ...]:
    """Return each once: they hold conditions, which have no hash."""
    found: list[Stated] = []
    for one in stated:
        if one not in found:
            found.append(one)
    return tuple(found)


def _named_by(record: TrialRecord, names: Iterable[str]) -> TrialRecord:
    """Return a record whose scheme was named by all of these: it stands in the workloads of each."""
    return replace(record, spec=record.spec | {"scheme_named_by": sorted(names, reverse=True)})


def _outcome(record: TrialRecord) -> tuple[Any, ...]:
    return record.status, record.metrics, [_measured(entry) for entry in record.probes]


def _measured(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "conditions"}


def read_source(
    folders: str | Path | Source | Sequence[str | Path | Source], compare: Sequence[str] | None = None
) -> Source:
    """Return one source of one or several suites' folders, or of sources read before.

    Args:
        folders: of suites, or sources.
        compare: the factors that make the treatment; by default those of the suites.

    Raises:
        InitbenchError: a folder has no trial records that can be read; or the suites do not compare the same.
    """
    given = [folders] if isinstance(folders, str | Path | Source) else folders
    sources = [item if isinstance(item, Source) else read_folder(item, compare) for item in given]
    return join(sources if compare is None else [replace(source, compare=tuple(compare)) for source in sources])
