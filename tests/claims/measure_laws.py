"""Judges the claims that are laws, and writes what was found of each to a JSON file.

    python tests/claims/measure_laws.py --write docs/results/laws.json

With `--only` or `--fast` the other findings of the file stay as they are. ``seconds`` are those of the processor.
Two processes that measure at once write to two files, which `--merge` then puts together:

    python tests/claims/measure_laws.py --merge first.json second.json --write docs/results/laws.json
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from law import all_laws

if TYPE_CHECKING:
    from collections.abc import Callable

    from law import Finding, Law

LIST = Path(__file__).parents[2] / "docs" / "claims.yaml"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="JSON file")
    parser.add_argument("--only", nargs="+", default=[], metavar="CLAIM", help="ids, or beginnings of them")
    parser.add_argument("--fast", action="store_true", help="leave out the slow ones")
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="FILE", help="take the findings of files, measure none"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of tuners that stop early; a finding says what matters of it
    laws = all_laws()
    found = {}
    for path in [options.write, *(options.merge or [])]:
        if path is not None and path.exists():
            found |= json.loads(path.read_text(encoding="utf-8"))["laws"]
    chosen = [name for name in laws if not options.only or name.startswith(tuple(options.only))]
    for name in [] if options.merge else chosen:
        if options.fast and (laws[name].slow or laws[name].by_command):
            continue
        found[name] = measure(laws[name])
        print(f"{name} ({found[name]['seconds']} s)\n  {found[name]['status']}: {found[name]['measured']}", flush=True)
        if options.write is not None:
            write(options.write, {key: found[key] for key in laws if key in found})
    if options.merge and options.write is not None:
        write(options.write, {key: found[key] for key in laws if key in found})


def measure(law: Law) -> dict:
    """Return a law's entry in the file: its finding, and that of its confirmation."""
    entry = _timed(law.measure, law.digits)
    entry |= {"evidence": law.evidence, "torch": torch.__version__, "machine": platform.machine()}
    if law.confirmation is not None:
        second = _timed(law.confirm, law.digits)
        keys = ("status", "measured", "n", "of", "interval", "values", "seconds")
        entry["confirmation"] = {"network": law.confirmation.network} | {key: second[key] for key in keys}
    return entry


def _timed(function: Callable[[], Finding], digits: int) -> dict:
    started = time.process_time()
    finding = asdict(function())
    finding["values"] = stored(finding["values"], digits)
    return finding | {"seconds": round(time.process_time() - started, 1)}


def stored(value: Any, digits: int) -> Any:
    """Return what JSON can hold: floats to some significant digits, and those that are not finite as text."""
    if isinstance(value, dict):
        return {key: stored(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [stored(item, digits) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)
    return value


def write(path: Path, laws: dict) -> None:
    """Write entries, with every innermost list on one line."""
    content = {"claims": f"docs/{LIST.name}", "threads": 1, "laws": laws}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    text = re.sub(r"\[\n[^\[\]{}]*\]", _on_one_line, text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def _on_one_line(match: re.Match) -> str:
    return json.dumps(json.loads(match[0]), ensure_ascii=False)


if __name__ == "__main__":
    main()
