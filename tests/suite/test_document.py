"""YAML to plain data with line numbers."""

import math

import pytest

from initbench.arguments import dotted
from initbench.errors import ArgumentError
from initbench.suite.document import Origin, parse, parse_value, read

TEXT = """\
# a comment, line 1
%s
name: demo   # line 3

recipe: {epochs: 1,
  lr: 0.1,

  betas: [0.9,
          0.99]}
architectures:
  # line 11
  - plain
  -
    name: wrn
    depth:
      - 16
      - 28
base: &base
  clip_norm: 1.0
rules:
- when: {architecture: plain}
  recipe: *base
description: |
  Several
  lines.
seeds: 3
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_of_block_and_flow_keys(newline):
    document = parse((TEXT % "").replace("\n", newline), "suite.yaml")
    want = {
        ("name",): 3,
        ("recipe",): 5,
        ("recipe", "epochs"): 5,
        ("recipe", "lr"): 6,
        ("recipe", "betas"): 8,
        ("recipe", "betas", 0): 8,
        ("recipe", "betas", 1): 9,
        ("architectures",): 10,
        ("architectures", 0): 12,
        ("architectures", 1): 14,
        ("architectures", 1, "name"): 14,
        ("architectures", 1, "depth"): 15,
        ("architectures", 1, "depth", 0): 16,
        ("architectures", 1, "depth", 1): 17,
        ("base",): 18,
        ("base", "clip_norm"): 19,
        ("rules",): 20,
        ("rules", 0): 21,
        ("rules", 0, "when"): 21,
        ("rules", 0, "recipe"): 22,
        # Behind an alias: where the text stands, which is at the anchor.
        ("rules", 0, "recipe", "clip_norm"): 19,
        ("description",): 23,
        ("seeds",): 26,
    }
    assert {key: document.lines[key] for key in want} == want
    assert document.data["rules"] == [{"when": {"architecture": "plain"}, "recipe": {"clip_norm": 1.0}}]
    assert document.data["description"] == "Several\nlines.\n"


def test_an_error_takes_the_line_of_the_nearest_known_key():
    document = parse(TEXT % "", "dir/suite.yaml")
    for key, line, text in (
        (("architectures", 1, "widht"), 14, "architectures[1].widht"),
        (("nothing", "here"), 3, "nothing.here"),
        ((), 3, ""),
    ):
        error = document.error(key, "m")
        assert (error.where, error.line, error.key, error.problem) == ("dir/suite.yaml", line, text, "m")


@pytest.mark.parametrize(
    ("error", "key", "line"),
    [
        (ArgumentError("must be odd", "depth"), "b[0].depth", 2),
        (ArgumentError("must be odd", "base.gain"), "b[0].base.gain", 3),
        (ArgumentError("depth and width do not fit"), "b[0]", 2),
    ],
)
def test_what_a_component_says_of_an_argument(error, key, line):
    made = Origin(parse("a: 1\nb: [{x: 1,\n base: y}]\n", "s.yaml"), ("b", 0)).argument_error(error)
    assert (made.where, made.line, made.key, made.problem) == ("s.yaml", line, key, error.problem)
    assert str(made) == f"s.yaml:{line}: {key}: {error.problem}"


@pytest.mark.parametrize(
    ("key", "want"),
    [
        (("initializers", 2, "gain"), "initializers[2].gain"),
        (("rules", 0, "when", "initializer.steps"), "rules[0].when.initializer.steps"),
        (("a b",), "'a b'"),
        (("a\nb", "\x1b[31m"), "'a\\nb'.'\\x1b[31m'"),
        (("x" * 100,), repr("x" * 100)[:57] + "..."),
        ((), ""),
    ],
)
def test_keys_as_users_read_them(key, want):
    assert dotted(key) == want


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-0x10", -16),
        ("0o17", 15),
        ("1_000", 1000),
        ("9223372036854775807", 2**63 - 1),
        ("1e-3", 0.001),
        ("5e4", 50000.0),
        (".5", 0.5),
        (".inf", math.inf),
        ("true", True),
        ("yes", "yes"),  # YAML 1.2
        ("off", "off"),
        ("null", None),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("2026-11-21", "2026-11-21"),
        ("2026-11-21 10:00:00", "2026-11-21 10:00:00"),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ("'1'", "1"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
        ("timm/resnet18", "timm/resnet18"),
        ("[&a 1, *a, &a 2, *a]", [1, 1, 2, 2]),
    ],
)
def test_values(text, value):
    got = parse_value(text, "--set x")
    assert got == value
    assert type(got) is type(value)


def test_not_a_number_is_read_as_one():
    assert math.isnan(parse_value(".nan", "--set x"))


def test_aliases_give_copies():
    """What is changed at one place must not change at the other."""
    data = parse("a: &a {x: [1]}\nb: *a\n", "s.yaml").data
    data["a"]["x"].append(2)
    assert data["b"] == {"x": [1]}


def test_limits_admit_what_a_suite_may_have():
    document = parse("seeds: [" + ", ".join(map(str, range(10_000))) + "]\n", "s.yaml")
    assert document.data["seeds"] == [*range(10_000)]
    nested = "[" * 19 + "]" * 19
    assert dotted(max(parse(f"a: {nested}\n", "s.yaml").lines, key=len)) == "a" + "[0]" * 18


def test_a_byte_order_mark_is_no_content(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\n")
    document = read(path)
    assert document.data == {"name": "x"}
    assert document.text == "name: x\n"


def test_has():
    document = parse("a: [{b: null}]\n", "s.yaml")
    assert document.has(("a", 0, "b"))
    assert not document.has(("a", 1))
    assert not document.has(("a", 0, "c"))
    assert not document.has(("a", 0, "b", "c"))
