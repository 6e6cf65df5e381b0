"""The page of one model: what `audit`, `diff` and `check` found, offline and with all texts escaped."""

import re

import pytest
import torch
from torch import nn

import initbench
from initbench.errors import InitbenchError
from initbench.inspection.fingerprint import fingerprint
from initbench.reporting.model_page import model_answers, write_model_page


def network():
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 5))


def faulty(_seed):
    model = network()
    nn.init.constant_(model[2].weight, 0.1)
    return model


def page_of(result, tmp_path, title="a model"):
    path = tmp_path / "page.html"
    write_model_page(path, title, result)
    return path.read_text("utf-8")


def test_the_page_of_an_audit_has_its_findings_first_then_laws_then_tensors(tmp_path):
    result = initbench.audit(faulty(0), torch.zeros(1, 20))
    text = page_of(result, tmp_path)
    assert result.findings
    assert re.findall(r"<h2[^>]*>([^<]+)</h2>", text) == [
        "What is out of order?",
        "Which laws do the tensors have?",
        "What does each tensor hold?",
    ]
    assert text.index(result.findings[0].kind) < text.index("Which laws")
    findings, laws, tensors = model_answers(result)
    assert list(findings.frame["kind"]) == [finding.kind for finding in result.findings]
    assert set(laws.frame["role"]) == {row.role for row in result.roles}
    assert list(tensors.frame["std"]) == [tensor.std for tensor in result.tensors]


def test_the_page_of_a_difference_has_the_pair_that_differs_first(tmp_path):
    result = initbench.diff(fingerprint(lambda _: network(), name="a"), fingerprint(faulty, name="b"))
    [answer] = model_answers(result)
    assert answer.frame["a"][0] == "2.weight"
    assert "constant" in answer.frame["kinds"][0]
    assert "2.weight" in page_of(result, tmp_path)


def test_the_page_of_a_check_has_a_row_for_each_initializer_and_both_profiles(tmp_path):
    result = initbench.check(network(), initializers=["kaiming", "xavier"], seeds=2)
    [answer] = model_answers(result)
    assert list(answer.frame["initializer"]) == ["kaiming", "xavier"]
    assert [figure.name for figure in answer.figures] == ["output", "gradient"]
    text = page_of(result, tmp_path)
    assert text.count("<svg") >= 2
    assert "src=" not in text  # offline
    assert 'href="http' not in text


def test_texts_are_escaped(tmp_path):
    text = page_of(initbench.audit(network()), tmp_path, "<script>alert(1)</script>")
    assert "<script>alert" not in text


def test_nothing_else_has_a_page(tmp_path):
    with pytest.raises(InitbenchError, match="no page of a int"):
        page_of(1, tmp_path)
