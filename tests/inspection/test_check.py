"""`check`: verdicts on modules, sources and after initializers, and the command."""

import copy
import json
import sys

import pytest
import torch
from planted_networks import TOKENS, VECTORS, Residual, plain
from torch import nn

from initbench.cli.check import sparkline
from initbench.cli.command_line import main
from initbench.errors import ArgumentError, InitbenchError, InitializationError
from initbench.inputs import Inputs
from initbench.inspection.check import check
from initbench.inspection.source import model_source


class TwoHeads(nn.Module):
    """A custom model: a GRU between an embedding and a head that share a weight, and a second head."""

    def __init__(self, embedding=0.05, gru=None, layers=1):
        super().__init__()
        self.embedding = nn.Embedding(100, 48)
        nn.init.normal_(self.embedding.weight, 0, embedding)
        self.gru = nn.GRU(48, 48, layers, batch_first=True)
        if gru is not None:
            for parameter in self.gru.parameters():
                nn.init.normal_(parameter, 0, gru)
        self.tokens = nn.Linear(48, 100, bias=False)
        self.tokens.weight = self.embedding.weight
        self.value = nn.Linear(48, 1)

    def forward(self, tokens):
        states, _ = self.gru(self.embedding(tokens))
        return {"tokens": self.tokens(states), "value": self.value(states[:, -1])}


def two_heads():
    return TwoHeads()


def exploding(gain=3.0):
    return plain(12, gain)


def linear(outputs=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, outputs))


def kinds(model, **options):
    return {row.initializer: row.verdict and row.verdict.kind for row in check(model, **options).rows}


def test_a_custom_module_needs_no_inputs_and_no_task():
    found = check(two_heads())
    assert (found.inputs, found.objective) == (Inputs((32,), vocabulary=100), "projection")
    assert str(found) == "as built: healthy"
    assert found.rows[0].quotient.value > 0


def test_stacked_recurrent_layers_with_small_weights_do_not_pass():
    assert kinds(TwoHeads(gru=0.02, layers=4))["as built"] in {"vanishing", "collapsed"}


class Tied(nn.Module):
    """An N(0, 1) embedding, torch's default, tied to the head."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(100, 64), nn.LayerNorm(64)
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.norm(self.embedding(tokens)))


def test_a_loss_far_above_chance_is_said():
    torch.manual_seed(0)
    [row] = check(Tied(), seeds=1).rows
    # Logits of standard deviation 8, the largest of 100 about 20, the target's about 0: 20 nats, chance is 4.6.
    assert row.verdict.kind == "loss_above_chance"
    assert row.loss_over_chance > 4


def test_a_module_is_left_bitwise_as_it_was():
    model = Residual(2, norm=True)
    before = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    check(model, inputs=Inputs((3, 8, 8)), initializers=["kaiming", "xavier"], outputs=10, seeds=2)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_each_initializer_has_a_verdict_and_none_is_called_better():
    model = plain(20, 1.0)
    initializers = ["lecun", "kaiming", {"name": "gaussian", "std": 0.01}, {"name": "gaussian", "std": 1.0}]
    found = check(model, inputs=VECTORS, initializers=initializers, seeds=2)
    assert {row.initializer: row.verdict.kind for row in found.rows} == {
        "lecun": "vanishing",  # each layer keeps half of the variance: 2^-10 of the signal
        "kaiming": "healthy",
        "gaussian[std=0.01]": "vanishing",
        "gaussian[std=1.0]": "exploding",
    }
    assert "better" not in str(found)
    assert found.kinds == {"healthy", "vanishing", "exploding"}


def test_initializers_that_need_data_are_not_judged_without_it():
    source = model_source("test_check:linear", inputs=Inputs((1, 8, 8)))
    rows = check(source, initializers=["lsuv", "weight_norm", "kaiming"], seeds=1).rows
    assert [row.verdict is None for row in rows] == [True, True, False]
    assert str(rows[0]) == "lsuv: not judged: it needs real data: give a dataset (data, --data)"
    assert "weight_norm" in rows[1].not_judged
    found = check(source, initializers=["lsuv"], seeds=1, data="digits")
    assert (found.objective, found.data) == ("classification", "digits")
    assert found.rows[0].verdict is not None


def test_each_seed_builds_the_model_anew():
    [row] = check(model_source("test_check:exploding", {"gain": 1.4}, inputs=VECTORS), seeds=3, quotient=False).rows
    assert len({signals.layers[0].output for signals in row.seeds}) == len(row.verdicts) == 3
    assert row == check(model_source("test_check:exploding", {"gain": 1.4}, inputs=VECTORS), quotient=False).rows[0]


def test_seeds_that_differ_are_counted():
    torch.manual_seed(0)
    [row] = check(plain(24, 2.2**0.5 * 1.25), inputs=VECTORS, seeds=5, quotient=False).rows
    kinds = [verdict.kind for verdict in row.verdicts]
    assert row.verdict.kind == max(set(kinds), key=kinds.count)


def test_plain_data_can_be_written_and_names_what_is_not_finite():
    found = check(plain(40, 100.0), inputs=VECTORS, outputs=10, seeds=1)
    written = json.loads(json.dumps(found.to_json(), allow_nan=False))
    [row] = written["rows"]
    assert row["verdict"]["kind"] == "not_finite"
    assert len(row["seeds"][0]["layers"]) == 41
    assert written["inputs"] == {"shape": [64], "vocabulary": None}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.LazyLinear(3), "weight has no storage yet"),
        (nn.Linear(3, 3, device="meta"), "weight has no storage yet"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(7, 2)), "give inputs"),
        (nn.ReLU(), "give inputs"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_line(model, message):
    with pytest.raises(InitializationError, match=message) as caught:
        check(model)
    assert "\n" not in str(caught.value)


def test_unknown_names_are_refused():
    with pytest.raises(InitbenchError, match="kaimin"):
        check(linear(), inputs=Inputs((1, 8, 8)), initializers=["kaimin"])


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["initbench", "check", *arguments])
    try:
        main()
        code = 0
    except SystemExit as exit_:
        code = exit_.code
    return code, *capsys.readouterr()


SHAPE = ("--input", "64", "--seeds", "1")


def test_the_command_prints_a_sentence_and_a_table(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "test_check:exploding", *SHAPE, "--initializer", "kaiming,xavier,lsuv")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "kaiming: healthy"
    assert lines[1] == "xavier: healthy"  # 2^-6 after twelve layers
    assert lines[2].startswith("lsuv: not judged")
    assert [line.split()[0] for line in lines[4:7]] == ["initializer", "kaiming", "xavier"]


def test_the_command_takes_arguments_of_initializers(monkeypatch, capsys):
    given = "kaiming,gaussian[std=0.01, embedding_std=.1],gaussian[std=1.0]"
    _, out, _ = run(monkeypatch, capsys, "test_check:exploding", *SHAPE, "--initializer", given, "--json")
    rows = json.loads(out)["rows"]
    assert [row["initializer"] for row in rows] == [
        "kaiming",
        "gaussian[std=0.01, embedding_std=0.1]",
        "gaussian[std=1.0]",
    ]
    assert [row["verdict"]["kind"] for row in rows] == ["healthy", "vanishing", "exploding"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gaussian[std", "must be NAME or NAME"),
        ("gaussian[3]", "gaussian: 3: must be KEY=VALUE"),
        ("gaussian[stdd=1]", "stdd is an unknown key"),
        ("gaussian[std=-1]", "std must be"),
        ("gaussian[name=kaiming]", "name is an unknown key"),
        ("gaussian[std=[]", "std=[: not YAML: "),
    ],
)
def test_a_bad_argument_of_an_initializer_is_one_line(monkeypatch, capsys, given, message):
    code, out, err = run(monkeypatch, capsys, "test_check:exploding", *SHAPE, "--initializer", given)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--steps", "9"], "--optimizer and --steps are for --width"),
        (["--optimizer", "sgd"], "--optimizer and --steps are for --width"),
        (["--data", "digits", "--classes", "7"], "--data takes no --input, --vocabulary or --classes"),
        (["--data", "digits", "--input", "3,64,64"], "--data takes no --input, --vocabulary or --classes"),
    ],
)
def test_options_that_would_change_nothing_are_refused(monkeypatch, capsys, options, message):
    code, out, err = run(monkeypatch, capsys, "mlp", *options)
    assert (code, out) == (2, "")
    assert message in err


def test_fail_on_decides_the_exit_code(monkeypatch, capsys):
    for kinds, code in (("exploding", 1), ("any", 1), ("vanishing,dead", 0), ("explosion", 2)):
        assert run(monkeypatch, capsys, "test_check:exploding", *SHAPE, "--fail-on", kinds)[0] == code


def test_the_command_writes_json(monkeypatch, capsys):
    _, out, _ = run(monkeypatch, capsys, "test_check:two_heads", "--seeds", "1", "--json")
    assert json.loads(out)["rows"][0]["verdict"]["kind"] == "healthy"


def test_the_command_fits_exponents(monkeypatch, capsys):
    options = ("--width", "width=64,128", "--with", "num_heads=4,8", "--input", "32", "--classes", "10")
    code, out, _ = run(monkeypatch, capsys, "width_models:heads", *options, "--seeds", "1")
    assert code == 0
    assert out.splitlines()[1].startswith("2: the update grows as width^")
    refused = run(monkeypatch, capsys, "width_models:heads", "--width", "width=a,b", "--input", "32")
    assert refused[0] == 2
    assert refused[2] == "initbench: --width width=a,b: must be KEY=VALUES, such as embed_dim=64,128,256\n"


def test_sparklines_show_decades():
    assert sparkline([1.0, 1.0]) == "▅▅"
    assert sparkline([1.0, 1e-2, 1e-4]) == "█▅▁"
    assert sparkline([1.0, 0.0, None, float("nan")]) == "▅xx"
    assert len(sparkline([1.0] * 100)) == 16
    assert sparkline([]) == ""


def test_tokens_of_a_source_need_no_inputs():
    found = check("test_check:two_heads", seeds=1, quotient=False)
    assert found.inputs.vocabulary == 100
    assert found.model == "test_check:two_heads"
    assert TOKENS.vocabulary != 100


def test_a_class_is_built_for_every_seed_and_a_model_cannot_be():
    assert len(check(TwoHeads).rows[0].seeds) == 3
    with pytest.raises(
        InitbenchError, match=r"^test_check:MODEL is a model: name its class, or a function that builds"
    ):
        check("test_check:MODEL")


MODEL = nn.Linear(4, 4)


def test_a_wrong_description_of_inputs_is_refused_and_the_models_error_is_said():
    with pytest.raises(
        ArgumentError, match=r"^inputs must be an initbench\.Inputs, which describes one sample, is dict$"
    ):
        check(nn.Linear(4, 4), inputs={"x": torch.zeros(1, 4)})
    with pytest.raises(InitializationError, match=r"it does not run on inputs of 8 \(.*shapes cannot be multiplied"):
        check(nn.Sequential(nn.Linear(8, 16), nn.Linear(17, 2)))
