"""The README's examples are run as they stand there."""

import re
from pathlib import Path

import pytest
import torch
from ledgers import DELTA_1, KAIMING, make_record, make_spec, write_ledger

import initbench
from initbench.suite.document import parse
from initbench.suite.load import suite_of
from suites import plan_of

README = Path(__file__).parents[1] / "README.md"


def blocks(language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [text for found, text in fenced if found == language]


def test_the_suite_expands_as_its_comments_say():
    [text] = blocks("yaml")
    planned = plan_of(suite_of(parse(text, "my-suite.yaml")))
    # WRN at 2 depths × 2 norms, and a ResNet; 2 initializers; 3 seeds: each as written, and a search of 7.
    assert len(planned.trials) == (2 * 2 + 1) * 2 * 3 * (1 + 7)
    assert not planned.incompatible


def test_the_results_example_says_and_draws_what_was_found(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    records = [
        make_record(make_spec(name, seed=seed), error)
        for name, error in ((KAIMING, 0.1), (DELTA_1, 0.3))
        for seed in (0, 1)
    ]
    write_ledger(tmp_path / "runs" / "quickstart", records)
    example, _, _ = blocks("python")
    names = {}
    exec(example, names)  # noqa: S102  # as a reader would
    assert capsys.readouterr().out.splitlines() == [str(sentence) for sentence in names["answer"].sentences]
    assert (tmp_path / "map.pdf").read_bytes().startswith(b"%PDF")
    assert [" ".join(text.split()) for text in names["answer"].frame["text"]] == ["10.0 %", "30.0 %"]


def test_the_model_example_tunes_a_model():
    _, initialize, _ = blocks("python")
    model = initbench.create_model("wrn", depth=10, width=1, norm="none", activation="beta_swish")
    before = [p.detach().clone() for p in model.parameters()]
    names = {"model": model, "torch": torch}
    exec(initialize.replace("steps=500", "steps=2").replace("32, 3, 32, 32", "4, 3, 8, 8"), names)  # noqa: S102  # as a reader would
    assert sum(len(group["params"]) for group in names["optimizer"].param_groups) == len(before)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert len(names["record"].history) == 2


@pytest.mark.usefixtures("scratch_registry")
def test_the_plug_in_example_draws_what_it_says():
    _, _, plugin = blocks("python")
    names = {"__name__": "readme_example"}
    exec(plugin, names)  # noqa: S102  # as a reader would
    model = torch.nn.Linear(400, 400)
    initbench.initialize(model, "my_init", std=0.5)
    # 160,000 draws: the standard error of their standard deviation is 0.5 / sqrt(320,000) = 0.0009.
    assert model.weight.std().item() == pytest.approx(0.5, abs=0.005)
    for check in initbench.testing.checks("my_init"):
        check()


def test_every_command_of_the_readme_is_one():
    from initbench.cli.command_line import app

    named = {command.name for command in app.registered_commands}
    code = "\n".join([*blocks(""), *re.findall(r"`(initbench [^`]*)`", README.read_text(encoding="utf-8"))])
    used = set(re.findall(r"(?:^|&& )initbench ([a-z-]+)", code, re.MULTILINE))
    assert {"run", "plan", "list", "describe", "ui", "report"} <= used <= named
