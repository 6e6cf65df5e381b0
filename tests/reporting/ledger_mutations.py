"""Folders of suites in which somebody, or some fault, has changed records and what lies beside them."""

from __future__ import annotations

import copy
import json
import shutil

from ledgers import ERROR, quickstart_records, write_ledger
from tuned import tuned_records

from initbench.suite.spec import digest
from suites import VALID

VALUES = [
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63 - 1, 2**63, -(10**400), 0.0, -0.0, 0.5, 1e-308, 1e308, -1e308),
    *(
        "",
        " ",
        "x" * 3000,
        "0.05",
        "NaN",
        "\u202e",
        "β\n\n<script>",
        "{0.__class__}",
        "{:99999999d}",
        "|",
        "</td>",
        "a,b",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        [{}],
        {"name": None},
        {"a": {"b": {}}},
        [1, "1"],
        "finished",
        "failed",
        "diverged",
        "curve",
    ),
    *("kaiming", "per_layer", "search", "nobody", {"name": "kaiming", "arguments": {}}, [0.1, 0.2], list(range(200))),
]


def _outcome(at):
    """Two initializers, of which one diverges at the larger rate."""
    return None if at.treatment == "a" and at.rate > 0.05 else 0.1 + 0.01 * at.seed


LETTERS = '{}[]:,"\\0N\x00 β'


class LedgerMutations:
    """Mutated folders, one after another.

    Args:
        random: a seeded generator.
        folder: where the folder of a suite is made, and made anew for each.
    """

    def __init__(self, random, folder):
        self.random, self.folder = random, folder
        # Two networks, three initializers, two seeds: as small as a report of every analysis may be.
        records = [r for r in quickstart_records() if r.spec["seed"] < 2]
        plain = [r for r in records if "gain=2" not in str(r.spec["initializer"])][:12]
        tuned = tuned_records(_outcome, ["net"], ["a", "b"], seeds=2, rates=(0.01, 0.1), written=0.1)
        resolved = {"schema": 2, "name": "made-up", "compare": ["initializer"]}
        tune = {"keys": {"recipe.lr": [0.01, 0.1]}, "tries": 2, "points": "grid", "search": "each"}
        self.bases = [(plain, resolved)] * 2 + [(tuned, resolved | {"tune": tune})]

    def ledger(self):
        """Make the next one, and return its folder."""
        random = self.random
        shutil.rmtree(self.folder, ignore_errors=True)
        ledger = write_ledger(self.folder, [])
        ledger.trials.mkdir(parents=True)
        records, resolved = random.choice(self.bases)
        beside = {"suite.yaml": VALID, "resolved.json": json.dumps(resolved)}
        changed = random.sample(range(len(records)), random.choice([1, 1, 2, 3, len(records)]))
        for index, record in enumerate(records):
            name, content = f"{record.id}.json", (text := json.dumps(record.to_json()))
            if index in changed:
                name, content = self.mutated(name, text)
            (ledger.trials / name).write_bytes(content.encode("utf-8", "surrogatepass"))
        for name, text in beside.items():
            content = self.cut(text) if random.random() < 0.05 else text
            (ledger.folder / name).write_bytes(content.encode("utf-8", "surrogatepass"))
        return ledger.folder

    def mutated(self, name, text):
        """Return a record's file with something changed, its name and its text."""
        random = self.random
        if random.random() < 0.15:
            return name, self.cut(text)
        data = json.loads(text)
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            self.change(data)
        if random.random() < 0.6 and isinstance(data.get("identity"), dict):  # by somebody who knows how ids are made
            data["id"] = digest(json.loads(json.dumps(data["identity"])))
            name = f"{data['id']}.json"
        return name, json.dumps(data)

    def change(self, data):
        """Change one thing somewhere in a record; what its identity says too, half of the time."""
        random = self.random
        places = list(_places(data))
        above, key = random.choice(places)
        kind = random.randrange(10)
        value = copy.deepcopy(random.choice(VALUES))
        if kind == 0:
            del above[key]
        elif kind == 1 and isinstance(above, dict):
            above[f"{key}x"] = above.pop(key)
        elif kind == 2 and isinstance(above, dict):
            above[random.choice(["extra", "name", "value", "step", "test_error", "arguments", "x y"])] = value
        elif kind == 3:
            other, other_key = random.choice(places)
            above[key] = copy.deepcopy(other[other_key])
        elif kind in {4, 5, 6, 7} and isinstance(above[key], int | float) and not isinstance(above[key], bool):
            above[key] = random.choice([-above[key], 0, above[key] * 1e300, above[key] / 1e300, 10 * above[key], None])
        elif kind == 8 and isinstance(above[key], str):
            above[key] = random.choice([above[key] + "β|<b>", "", above[key].upper(), ERROR.name])
        else:
            above[key] = value
        spec, identity = data.get("spec"), data.get("identity")
        if random.random() < 0.5 and isinstance(spec, dict) and isinstance(identity, dict):
            for name in ("architecture", "initializer", "dataset", "seed", "phase"):
                if name in spec and name in identity and spec[name] != identity[name]:
                    identity[name] = _as_identity(spec[name], identity[name])

    def cut(self, text):
        """Return a text that was cut off, or in which a byte is another."""
        random, place = self.random, self.random.randrange(len(text) + 1)
        return random.choice(
            [
                text[:place],
                text[place:],
                "",
                text[:place] + random.choice(LETTERS) + text[place + 1 :],
                text + text,
                "\ufeff" + text,
                text.replace("0.", "NaN + 0.", 1),
                "\ud800",
                "[" * 20_000,
                '{"schema": 3}',
                '{"schema": 2}',
                "null",
            ]
        )


def _as_identity(part, before):
    """Return what an identity says of a part of a spec that was changed."""
    if not isinstance(part, dict) or not isinstance(before, dict):
        return part
    arguments = part.get("arguments")
    kept = before.get("arguments")
    if isinstance(arguments, dict) and isinstance(kept, dict):
        arguments = {key: value for key, value in arguments.items() if key in kept}
    return before | {"name": part.get("name"), "arguments": arguments}


def _places(data):
    """Yield each mapping and list with each of its keys, from the top down."""
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        yield data, key
        if isinstance(value, dict | list):
            yield from _places(value)
