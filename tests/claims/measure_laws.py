"""Judges the claims that are laws, and writes what was found of each to a JSON file.

    python tests/claims/measure_laws.py --write docs/results/laws.json

With `--only` or `--fast` the other findings of the file stay as they are. ``seconds`` are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from dataclasses import asdict
from pathlib import Path

import torch
from law import all_laws

LIST = Path(__file__).parents[2] / "docs" / "claims.yaml"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="JSON file")
    parser.add_argument("--only", nargs="+", default=[], metavar="CLAIM", help="ids, or beginnings of them")
    parser.add_argument("--fast", action="store_true", help="leave out the slow ones")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of tuners that stop early; a finding says what matters of it
    laws = all_laws()
    chosen = [name for name in laws if not options.only or name.startswith(tuple(options.only))]
    found = {}
    if options.write is not None and options.write.exists():
        found = json.loads(options.write.read_text(encoding="utf-8"))["laws"]
    for name in chosen:
        if options.fast and (laws[name].slow or laws[name].by_command):
            continue
        started = time.process_time()
        finding = asdict(laws[name].measure())
        seconds = round(time.process_time() - started, 1)
        found[name] = finding | {"seconds": seconds, "torch": torch.__version__, "machine": platform.machine()}
        print(f"{name} ({seconds} s)\n  {finding['status']}: {finding['measured']}\n  {finding['note']}", flush=True)
        if options.write is not None:
            _write(options.write, {key: found[key] for key in laws if key in found})


def _write(path: Path, laws: dict) -> None:
    content = {"claims": f"docs/{LIST.name}", "threads": 1, "laws": laws}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
