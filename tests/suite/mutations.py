"""Suites as nobody should write them: shipped ones with things deleted, swapped, doubled, renamed and broken."""

from __future__ import annotations

import copy
import io
from pathlib import Path

from ruamel.yaml import YAML

from suites import VALID

FILES = sorted((Path(__file__).parents[2] / "suites").rglob("*.yaml"))
# What stands where something else is expected.
VALUES = [
    *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e-300, 1e308),
    *(float("nan"), float("inf"), -float("inf"), "", " ", "x", "x" * 500, "0.1", "1e-3", "NaN", "null", "on", "~"),
    *("\u202eabc", "naïve·β", "a\nb", "a\tb", "../../etc", "a/b", "$HOME", "{}", "{0.__class__}", "%s", "[red]", "*"),
    *([], {}, [[]], [None], [{}], {"name": None}, {"name": "x"}, {"name": []}, [1, 1], [1, "1"], [0.1, [0.2]]),
    *("2026-11-23", [0.1, 0.2], ["kaiming"], {"name": "kaiming"}, {"when": {}}, list(range(500)), list(range(11))),
    *({"log": [0.001, 1.0]}, {"a": {"b": {"c": {}}}}, "kaiming", "metainit", "digits", "gpt", "batch", "sgd"),
]
KEYS = [
    *("name", "dataset", "architectures", "initializers", "recipe", "rules", "exclude", "probes", "seeds", "resources"),
    *("compare", "description", "when", "base", "scheme", "lr", "epochs", "steps", "batch_size", "depth", "width"),
    *("norm", "threads", "cpus", "gpus", "tune", "nmae", "Name", "architecture", "initializer", "seed", "phase", ""),
    *("näme", "a.b", "a b", "0", "true", "<<", "?", "recipe.lr", "x" * 200, "__class__"),
]
TUNE = {"recipe.lr": {"log": [0.001, 1.0]}, "initializer.steps": [2, 4], "tries": 7}
LINES = [
    *("tune: {recipe.lr: {log: [0.001, 1.0]}, tries: 7}", "name: again", "? [a, b]\n: c", "- item", "  - item", "..."),
    *("bomb: [&a [1, 2], &b [*a, *a], &c [*b, *b], *c]", "round: &r [*r]", "---", "x: 12:30:45", "x: ="),
    *("x: !!python/object/apply:os.system ['true']", "x: !!binary aGVsbG8=", "x: !!set {a, b}", "x: !tag y"),
    *("<<: {name: merged}", "%YAML 1.1", "x: 0x1F", "x: 1_000"),
    *("seeds: 9999999999999999999999", "seeds: .nan", "x: " + "[" * 60 + "]" * 60, "x: " + "{a: " * 3000, "\ttab: 1"),
    *("\ufeffname: x", "x: \x00", "x: 'unclosed", 'x: "\\ud800"', "seeds: [" + "1, " * 200 + "1]"),
]  # fmt: skip


class Mutations:
    """Mutated suites, one after another.

    Args:
        random: a seeded generator.
    """

    def __init__(self, random):
        self.random = random
        self.bases = [_load(path.read_text(encoding="utf-8")) for path in FILES] + [_load(VALID)]

    def suite(self):
        """Return the text of the next one."""
        random = self.random
        data = self.thinned(copy.deepcopy(random.choice(self.bases)))
        for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3, 5])):
            self.change(data)
        text = _dump(data)
        if random.random() < 0.25:
            for _ in range(random.choice([1, 1, 2, 4])):
                text = self.damaged(text)
        return text

    def thinned(self, data):
        """Keep a few components of a suite, so that a plan of it takes a moment.

        Claims speak of components that are gone then: they mostly go too, or no suite that has some would be planned.
        """
        if self.random.random() < 0.8:
            for section in ("claims", "published"):
                data.pop(section, None)
        for section in ("architectures", "initializers", "probes", "dataset"):
            listed = data.get(section)
            if isinstance(listed, list):
                data[section] = self.random.sample(listed, min(len(listed), self.random.choice([1, 1, 2, 3])))
        if self.random.random() < 0.9:
            data["seeds"] = self.random.choice([1, 2, [3, 1]])
        return data

    def change(self, data):
        """Change one thing somewhere in plain data."""
        random = self.random
        places = list(_places(data))
        above, key = random.choice(places)
        kind = random.randrange(14)
        if kind > 8:
            above[key] = self.near(above[key])
        elif kind == 0:
            del above[key]
        elif kind in {1, 2, 3}:
            above[key] = copy.deepcopy(random.choice(VALUES))
        elif kind == 4 and isinstance(above, dict):
            above[random.choice([*KEYS, f"{key}s", key[:-1], key.upper()])] = above.pop(key)
        elif kind == 5:
            other, other_key = random.choice(places)
            above[key] = copy.deepcopy(other.get(other_key) if isinstance(other, dict) else other[other_key])
        elif kind == 6:
            above[key] = [above[key], *([copy.deepcopy(random.choice(VALUES))] * random.randrange(3))]
        elif kind == 7 and isinstance(above, dict):
            above[random.choice(KEYS)] = copy.deepcopy(random.choice([*VALUES, TUNE]))
        elif isinstance(above, list):
            above.insert(key, copy.deepcopy(above[key]))
        else:
            data["tune"] = TUNE

    def near(self, value):
        """Return another value of the same type, which may well be right."""
        random = self.random
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return random.choice([value + 1, value - 1, 2 * value, value // 2, 0, 1, 3, 100_000])
        if isinstance(value, float):
            return value * random.choice([0.0, 0.1, 0.5, 2.0, 10.0, 1e6, -1.0])
        if isinstance(value, str):
            return random.choice(
                [value, value.upper(), value[:-1], *KEYS[:20], "kaiming", "lsuv", "fixup", "wrn", "none"]
            )
        if isinstance(value, list):
            return random.choice([value[:1], value[::-1], value * 2])
        return value

    def damaged(self, text):
        """Change one thing in the text."""
        random = self.random
        lines = text.split("\n")
        line, place = random.randrange(len(lines)), random.randrange(len(text) + 1)
        kind = random.randrange(8)
        if kind == 0:
            del lines[line]
        elif kind == 1:
            lines.insert(random.randrange(len(lines)), lines[line])
        elif kind == 2:
            lines.insert(line, random.choice(LINES))
        elif kind == 3:
            lines[line] = random.choice([" ", "  ", "\t"]) + lines[line]
        elif kind == 4:
            return text[:place] + random.choice("{}[]:,&*!|>'\"%@`#-?\t\x00\u2028β0.e") + text[place:]
        elif kind == 5:
            return text[:place] + text[place + random.choice([1, 1, 10, 100]) :]
        elif kind == 6:
            return text[:place]
        else:
            other = random.randrange(len(lines))
            lines[line], lines[other] = lines[other], lines[line]
        return "\n".join(lines)


def _load(text):
    return YAML(typ="safe", pure=True).load(text)


def _dump(data):
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


def _places(data):
    """Yield each mapping and list with each of its keys, from the top down."""
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        yield data, key
        if isinstance(value, dict | list):
            yield from _places(value)
