"""Try every initializer and scheme on models that others wrote, and put what came of it into a page.

    python docs/scripts/initializers_on_models.py --write

writes it into docs/initializers_on_models.md. It takes about half an hour; pairs that the cache has are not tried
again. The exit code is 1 where there are silent failures. What an earlier version did is in
initializers_on_models_before.json, which was made, with that version first on PYTHONPATH, by

    python docs/scripts/initializers_on_models.py --cache before.jsonl --kinds docs/scripts/initializers_on_models_before.json
"""  # noqa: E501  # a command is one line

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import on_models_page
import torch
from model_pair import AS_BUILT, Method, Outcome, methods, outcome, plain_name
from models_of_others import models
from small_model import STANDARD

PAGE = Path(__file__).parents[1] / "initializers_on_models.md"
BEFORE = Path(__file__).with_name("initializers_on_models_before.json")
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
# By name, because an earlier version has no registry of schemes. The columns of admin and deepnorm show theirs, too.
SCHEMES = ["channel_bias", "fixup", "skipinit", "weight_norm", "weight_norm_beside_norm"]

Outcomes = dict[tuple[str, str], Outcome]


def load(cache: Path) -> Outcomes:
    """Return the outcomes of a cache by model and method; a later one of a pair counts."""
    outcomes = {}
    for line in cache.read_text(encoding="utf-8").splitlines() if cache.exists() else []:
        entry: dict[str, Any] = json.loads(line)
        pair = entry.pop("model"), entry.pop("method")
        outcomes[pair] = Outcome(**entry)
    return outcomes


def fill(outcomes: Outcomes, cache: Path, names: list[str], columns: list[Method]) -> None:
    """Try what is not known, keep it in the cache, and show how far it is: a letter for each method, the kind's."""
    with cache.open("a", encoding="utf-8") as file:
        for name in names:
            stuck: set[str] = set()
            start = time.perf_counter()
            for method in [Method(AS_BUILT, STANDARD), *columns]:
                pair = name, str(method)
                if pair not in outcomes:
                    outcomes[pair] = outcome(models()[name], method, stuck)
                    entry = {"model": name, "method": str(method)} | outcomes[pair].to_json()
                    print(json.dumps(entry), file=file, flush=True)
                if method.initializer == AS_BUILT:
                    stuck = {plain_name(tensor) for tensor in outcomes[pair].unmoved}
            kinds = "".join(outcomes[name, str(method)].kind[0] for method in columns)
            print(f"{name:32} {time.perf_counter() - start:5.1f} s  {kinds}", file=sys.stderr, flush=True)


def main() -> None:
    """Parse the command line, try what is not in the cache, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path("initializers_on_models.jsonl"), help="a line for each pair")
    parser.add_argument("--models", nargs="*", help="all by default")
    parser.add_argument("--kinds", type=Path, help="write in short what came of each pair")
    parser.add_argument("--write", action="store_true", help="write the page, of all models")
    options = parser.parse_args()
    torch.set_num_threads(1)
    outcomes, columns = load(options.cache), methods(SCHEMES)
    names = options.models or list(models())
    fill(outcomes, options.cache, names, columns)
    if options.kinds:
        rows = on_models_page.kinds(outcomes, names, columns)
        lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
        options.kinds.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    if options.write:
        before = json.loads(BEFORE.read_text(encoding="utf-8"))
        made = on_models_page.page(outcomes, before, list(models()), columns)
        head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")
    mistakes = on_models_page.mistakes(outcomes)
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    sys.exit(bool(mistakes))


if __name__ == "__main__":
    main()
