"""Packed ledgers: every claim comes to the same before and after, whatever its criterion reads."""

from __future__ import annotations

import importlib
import io
import json
import lzma
import sys
import tarfile
from dataclasses import replace
from typing import get_args

import pytest
from claimed import trial
from pages import DOCS

from initbench.claims.claim import Claim
from initbench.claims.criteria import CRITERIA
from initbench.ledger import Ledger
from initbench.reporting.questions.claims import claims

A, B = {"initializer": "a"}, {"initializer": "b"}
A10, B10 = A | {"depth": 10}, B | {"depth": 10}
SIDES = {"each": ["depth"], "best_over": "recipe.lr"}
MEASURED = {"measure": "probe.norms", **SIDES}
# One of each kind, and every measure that is no metric.
ASKED = [
    {"judge": "ordering", "lower": A, "higher": B, "held_at": 0.6, "groups": 2, **SIDES},
    {"judge": "ordering", "lower": A, "higher": B, "measure": "mean_train_loss", **SIDES},
    {"judge": "lead", "lower": A, "higher": B, **SIDES},
    {"judge": "equality", "between": [A, B], "within": 0.01, **SIDES},
    {"judge": "difference", "between": [A, B], "by": 0.1, **SIDES},
    {"judge": "not_worse", "of": A, "than": B, "within": 0.01, **SIDES},
    {"judge": "trains", "of": A, **SIDES},
    {"judge": "at_chance", "of": B, **SIDES},
    {"judge": "within", "of": A, "at_most": 0.2, **SIDES},
    {"judge": "correlation", "of": {"architecture": "plain"}, "measure": "probe.gradient_quotient", "at_least": 0.5,
     "trained_only": True, **SIDES},
    {"judge": "contrast", "cells": [[A10, A | {"depth": 20}], [B10, B | {"depth": 20}]], "best_over": "recipe.lr"},
    {"judge": "rate_ratio", "of": A, "at_most": 0.2, "each": ["depth"]},
    {"judge": "rate_ratio", "of": A, "against": B, "at_most": 2.0, "each": ["depth"]},
    {"judge": "layers", "of": A, "against": B, "at_most": 1.0, **MEASURED},
    {"judge": "layers", "of": A, "at_least": 0.5, **MEASURED | {"measure": "initialization.scale"}},
    {"judge": "layer_distance", "of": A, "reference": B, "at_most": 0.5, **MEASURED},
]  # fmt: skip
WITHOUT_STEPS = [asked for asked in ASKED if asked.get("measure") != "mean_train_loss"]


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(DOCS / "scripts"))
    yield importlib.import_module("pack_ledger")
    sys.path.remove(str(DOCS / "scripts"))
    del sys.modules["pack_ledger"]


def write_suite(folder, asked, published=None):
    """Write a ledger of three starts, three depths, two rates and three seeds, with a history of single steps."""
    ledger = Ledger(folder)
    for name, outcome, quotient in (("a", 0.1, 0.2), ("b", 0.3, 0.6), ("c", 0.2, 0.4)):
        for depth in (10, 20, 30):
            for lr, worse in ((0.1, 0.0), (1.0, 0.2)):
                for seed in range(3):
                    record = trial(
                        name,
                        seed,
                        lr=lr,
                        depth=depth,
                        outcome=None if (name, depth, seed) == ("b", 30, 2) else outcome + 0.01 * seed + worse,
                        quotient=quotient,
                        layers={"conv.weight": outcome * (1 + seed), "fc.weight": 1.0 + depth},
                        factors={"conv.weight": outcome + depth / 10},
                    )
                    history = [{"step": step, "epoch": step / 4, "train_loss": outcome / step} for step in range(1, 9)]
                    ledger.write(replace(record, history=history))
    stated = [
        {"id": f"claim-{place}", "claim": "It does.", "source": "a paper", "criteria": [criterion]}
        for place, criterion in enumerate(asked)
    ]
    refuted = {"id": "refuted", "refuted_by": [asked[0]]}
    stated.append(stated[-1] | refuted)
    resolved = {"schema": 2, "name": "made-up", "compare": ["initializer"], "claims": stated, "seeds": 3}
    ledger.write_suite("name: made-up\n", resolved | ({"published": published} if published else {}))


def packed(script, folder):
    """Pack a ledger, and return the folder into which it is unpacked."""
    script.pack(folder, folder.with_suffix(".tar.xz"))
    unpacked = folder.with_name("unpacked")
    script.unpack(folder.with_suffix(".tar.xz"), unpacked)
    return unpacked


def verdicts(folder):
    return [
        (one.claim.id, one.status, one.lacks, [(c.status, c.lacks, repr(c.groups)) for c in one.judged])
        for one in claims(folder).facts
    ]


def test_every_kind_of_criterion_is_asked():
    kinds = {kind for criterion in CRITERIA for kind in get_args(criterion.model_fields["judge"].annotation)}
    assert {one["judge"] for one in WITHOUT_STEPS} == kinds


@pytest.mark.parametrize("asked", [ASKED, WITHOUT_STEPS], ids=["with single steps", "without"])
def test_every_kind_of_criterion_comes_to_the_same_by_a_packed_ledger(script, tmp_path, asked):
    write_suite(tmp_path / "run", asked)
    before = verdicts(tmp_path / "run")
    assert verdicts(packed(script, tmp_path / "run")) == before
    # Every criterion has judged something, and they do not all come to the same.
    assert all(groups != "()" for _, _, _, criteria in before for _, _, groups in criteria)
    assert {status for _, status, _, _ in before} == {"held", "did not hold", "undecided"}


@pytest.mark.parametrize("asked", [ASKED, WITHOUT_STEPS], ids=["by the training loss", "by the outcome"])
def test_the_history_of_single_steps_is_kept_where_a_claim_is_about_it(script, tmp_path, asked):
    write_suite(tmp_path / "run", asked)
    steps = 8 if asked == ASKED else 2
    assert {len(record.history) for record in Ledger(packed(script, tmp_path / "run")).records()} == {steps}


def test_evaluations_within_an_epoch_are_kept(script):
    history = [{"step": step, "epoch": step / 100, "train_loss": 1.0} for step in range(1, 9)]
    history[3] |= {"validation_loss": 2.0}
    history[7] |= {"test_error": 0.5}
    assert [entry["step"] for entry in script.packed({"history": history})["history"]] == [4, 8]


def test_the_history_of_single_steps_is_kept_for_a_published_number_about_it(script, tmp_path):
    number = {"what": "loss", "where": "Figure 5", "value": 0.1, "of": A, "measure": "mean_train_loss"}
    write_suite(tmp_path / "run", [ASKED[0]], {"source": "a paper", "numbers": [number]})
    assert {len(record.history) for record in Ledger(packed(script, tmp_path / "run")).records()} == {8}


def test_what_refutes_a_claim_is_read_too(script, tmp_path):
    write_suite(tmp_path / "run", [ASKED[1], ASKED[0]])
    path = tmp_path / "run" / "resolved.json"
    resolved = json.loads(path.read_text(encoding="utf-8"))
    (about_loss,) = resolved["claims"][0]["criteria"]
    resolved["claims"] = [resolved["claims"][1] | {"refuted_by": [about_loss]}]
    path.write_text(json.dumps(resolved), encoding="utf-8")
    Claim.model_validate(resolved["claims"][0])
    assert script.reads_steps(tmp_path / "run")


def archive_of(path, *members):
    """Write an archive of members of any kind, and return its path."""
    with tarfile.open(path, "w:xz", preset=0) as tar:
        for name, fields, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(content) if content else None)
    return path


def link(name, to, kind=tarfile.SYMTYPE):
    return name, {"type": kind, "linkname": to}, b""


FILE = ("suite.yaml", {}, b"name: made-up")
NO_FILES = {
    "a symbolic link": [link("trials", "/")],
    "a link to itself": [link("a", "a")],
    "two links in a circle": [link("a", "b"), link("b", "a")],
    "a link to nothing": [link("a", "gone")],
    "a hard link": [FILE, link("b", "suite.yaml", tarfile.LNKTYPE)],
    "a hard link to nothing": [link("b", "gone", tarfile.LNKTYPE)],
    "a folder": [("trials", {"type": tarfile.DIRTYPE}, b"")],
    "the folder itself": [(".", {}, b"text")],
    "a pipe": [("trials", {"type": tarfile.FIFOTYPE}, b"")],
    "a device": [("zero", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}, b"")],
    "a sparse file": [("large", {"pax_headers": {"GNU.sparse.size": f"{10**13}", "GNU.sparse.map": "0,1"}}, b"1")],
}


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_plain_file_is_refused_and_nothing_is_written(script, tmp_path, kind):
    archive = archive_of(tmp_path / "other.tar.xz", FILE, *NO_FILES[kind])
    with pytest.raises(ValueError, match=r"other\.tar\.xz: .* is no file of a ledger"):
        script.unpack(archive, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def large_file(size):
    member = tarfile.TarInfo("trials/large.json")
    member.size = size
    return member.tobuf()


def large_header(size):
    """A header that the reader of an archive takes for its own, and reads whole."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("header", [large_file, large_header])
def test_a_small_archive_of_a_large_file_is_not_unpacked(script, tmp_path, header):
    archive, bound = tmp_path / "large.tar.xz", script.MOST_BYTES // 10**6
    megabytes = bound + 10
    with lzma.open(archive, "w", preset=0) as file:
        file.write(header(megabytes * 10**6))
        for _ in range(megabytes):
            file.write(bytes(10**6))
    assert archive.stat().st_size < 100_000
    with pytest.raises(ValueError, match=rf"large\.tar\.xz: unpacks to more than {bound} MB"):
        script.unpack(archive, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", lzma.compress(b"no archive"), lzma.compress(bytes(10_240))[:-9]],
    ids=["nothing", "another file", "another file compressed", "cut off"],
)
def test_what_is_no_archive_is_said_in_one_line(script, tmp_path, content):
    (tmp_path / "other.tar.xz").write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.tar\.xz: is no \.tar\.xz \(.*\)$"):
        script.unpack(tmp_path / "other.tar.xz", tmp_path / "folder")


def test_every_packed_ledger_of_the_documentation_is_far_below_the_bound(script):
    archives = sorted((DOCS / "results" / "papers").glob("*.tar.xz"))
    assert archives
    for archive in archives:
        assert len(lzma.decompress(archive.read_bytes())) < script.MOST_BYTES / 10
