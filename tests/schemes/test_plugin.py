"""A scheme and its initializer from one plug-in file: nothing in the core knows them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import timm
import torch
from branches import residual_branches
from small_gpt import gpt, tokens

import initbench
from initbench.architectures.create import create_model
from initbench.cli.command_line import main
from initbench.errors import ArgumentError, InitbenchError, SuiteError
from initbench.ledger import Ledger
from initbench.plugins import load_file, read_file
from initbench.registry import SCHEMES
from suites import planned, the_trial

PLUGIN = Path(__file__).with_name("gates.py")
NETWORK = {"name": "resnet", "depth": 8, "norm": "none"}
SUITE = """
name: gates
dataset: {name: digits, train_size: 24}
architectures: [{name: resnet, depth: 8, norm: none}, {name: mlp, width: 8}]
initializers: [kaiming, small_gates]
recipe: {epochs: 1, batch_size: 12, lr: 0.05}
probes: [parameter_norm]
"""


@pytest.fixture(scope="module")
def plugin():
    """The plug-in's module, imported as `--plugin` does."""
    file = read_file(PLUGIN)
    load_file(file)
    return sys.modules[file.module_name]


def gates(model):
    return {name: p.item() for name, p in model.named_parameters() if name.endswith(".value")}


def test_gates_go_into_a_model_of_timm(plugin):
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=10)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    gated = initbench.rewrite(model.double(), "half_gates", inputs=images.double(), start=0.25)
    assert list(gates(gated).values()) == [0.25] * 8
    assert {p.dtype for p in gated.parameters()} == {torch.float64}
    assert not gates(model)
    # Norms stay: it does not stand in their place. With gates of 1 it is the network that it was.
    for module in gated.modules():
        if isinstance(module, plugin.Gate):
            module.value.data.fill_(1.0)
    with torch.no_grad():
        assert torch.equal(gated.eval()(images.double()), model.eval()(images.double()))


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_gates_go_into_gpt_at_the_places_that_it_keeps(norm):
    model = gpt(norm=norm)
    gated = initbench.rewrite(model, "half_gates", inputs=tokens()[0])
    ends = [f"h.{block}.{part}.multiplier.value" for block in (0, 1) for part in ("attn", "mlp")]
    assert gates(gated) == dict.fromkeys(ends, 0.5)
    others = [name for name, _ in gated.named_parameters() if name not in ends]
    assert others == [name for name, _ in model.named_parameters()]


@pytest.mark.usefixtures("plugin")
def test_a_network_built_under_a_scheme_is_drawn_as_the_one_without():
    without, gated = (create_model(**NETWORK, scheme=scheme, seed=3) for scheme in ("standard", "half_gates"))
    assert gated.groups[1][0].multiplier.value.item() == 0.5
    for model in (without, gated):
        initbench.initialize(model, "kaiming", seed=5)
    kept = gated.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in without.state_dict().items())
    assert len(gates(gated)) == len(residual_branches(without)) == 3


def test_the_function_is_what_the_gates_say(plugin):
    """Every block x + f(x) with the activation behind becomes relu(x + f(x) / 2)."""
    gated = initbench.rewrite(create_model(**NETWORK, scheme="half_gates"), "half_gates", start=1.0)
    block = gated.groups[0][0]
    x = torch.randn(2, 16, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(block(x), torch.relu(0.5 * block.layers(x) + x))
    # The second gate has no place left, and follows what gives the branch's result.
    found = {name for name, module in block.named_modules() if isinstance(module, plugin.Gate)}
    assert found == {"multiplier", "bias.gate"}


@pytest.mark.usefixtures("plugin")
def test_in_a_suite():
    result = planned(
        architectures=[NETWORK, NETWORK | {"scheme": "half_gates"}, {"name": "mlp", "width": 8}],
        initializers=["kaiming", "small_gates"],
    )
    assert [(t.architecture.name, t.scheme, t.initializer.name) for t in result.trials] == [
        ("resnet", "standard", "kaiming"),
        ("resnet", "half_gates", "small_gates"),
        ("resnet", "half_gates", "kaiming"),
        ("mlp", "standard", "kaiming"),
    ]
    [pair] = result.incompatible
    assert pair.reason == "mlp: half_gates: no residual branches are found in Sequential"


@pytest.mark.usefixtures("plugin")
def test_a_trial_knows_the_scheme_by_its_source_and_those_of_the_library_by_their_names():
    identities = [
        the_trial(architectures=[NETWORK | {"scheme": scheme}]).identity["scheme"]
        for scheme in ("standard", "skipinit", "half_gates")
    ]
    assert identities[:2] == ["standard", "skipinit"]
    source = SCHEMES.get("half_gates").source
    assert identities[2] == {"name": "half_gates", "version": 1, "source": source}
    assert len(source) == 64


@pytest.mark.usefixtures("plugin")
def test_what_it_refuses():
    model = create_model(**NETWORK)
    with pytest.raises(ArgumentError) as refused:
        initbench.rewrite(model, "half_gates", start=2.0)
    assert str(refused.value) == "start must be above 0 and at most 1, got 2.0"
    with pytest.raises(ArgumentError) as refused:
        initbench.rewrite(model, "half_gates", begin=0.1)
    assert refused.value.argument == "begin"
    with pytest.raises(SuiteError, match=r"must be one of standard, .*half_gates.*; got 'half_gate'"):
        planned(architectures=[NETWORK | {"scheme": "half_gate"}])


@pytest.mark.usefixtures("scratch_registry")
def test_what_is_no_scheme():
    with pytest.raises(InitbenchError, match="'standard': the name is reserved for \"no scheme\""):
        initbench.register_scheme("standard")
    initbench.register_scheme("forgets")(lambda model: None)
    with pytest.raises(InitbenchError, match=r"^scheme forgets must return a model, returned NoneType$"):
        create_model(**NETWORK, scheme="forgets")

    @initbench.register_scheme("breaks")
    def breaks(model):
        raise IndexError("no such layer")

    result = planned(architectures=[NETWORK | {"scheme": "breaks"}])
    assert [(pair.reason, pair.blames) for pair in result.incompatible] == [
        ("resnet fails in scheme breaks: no such layer", None)
    ]


@pytest.mark.usefixtures("scratch_registry")
def test_an_architecture_builds_the_network_of_a_scheme_itself():
    initbench.register_scheme("marked")(lambda model: pytest.fail("the architecture states this network"))
    asked = []

    @initbench.register_architecture("own", schemes=("marked",))
    def own(*, inputs, outputs, scheme):
        asked.append(scheme)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(inputs.shape[0] * 64, outputs))

    create_model("own", scheme="marked", input_shape=(1, 8, 8))
    normalized = create_model("own", scheme="weight_norm", input_shape=(1, 8, 8))
    assert asked == ["marked", "weight_norm"]
    assert [name for name, _ in normalized.named_parameters()] == ["1.weight", "1.bias"]  # a classifier alone


@pytest.mark.usefixtures("scratch_registry")
def test_a_version_above_1_makes_another_trial():
    def trial(version):
        initbench.register_scheme("grows", version)(grows)
        return the_trial(architectures=[NETWORK | {"scheme": "grows"}])

    def grows(model):
        return model

    assert trial(1).id != trial(2).id


def run(folder, monkeypatch, *options):
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["initbench", "run", "suite.yaml", "--plugin", str(PLUGIN), *options])
    main()
    return folder / "runs" / "gates"


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--executor", "in-process"), ()], ids=["in process", "ray"])
def test_a_suite_runs_and_is_reported(options, tmp_path, monkeypatch, capsys):
    folder = run(tmp_path, monkeypatch, "--json", *options)
    assert json.loads(capsys.readouterr().out)
    records = {(r.spec["architecture"]["name"], r.spec["initializer"]["name"]): r for r in Ledger(folder).records()}
    assert {pair: r.status for pair, r in records.items()} == {
        ("resnet", "kaiming"): "finished",
        ("resnet", "small_gates"): "finished",
        ("mlp", "kaiming"): "finished",
    }
    record = records["resnet", "small_gates"]
    assert (record.spec["scheme"], record.identity["scheme"]["name"]) == ("half_gates", "half_gates")
    gates = [events for name, events in record.initialization["tensors"].items() if name.endswith(".value")]
    assert gates == [[{"event": "set_by", "initializer": "small_gates"}]] * 3
    page = (folder / "report" / "index.html").read_text("utf-8")
    assert "small_gates" in page
    assert "no residual branches are found in Sequential" in page


def test_list_and_describe(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["initbench", "describe", "half_gates", "--plugin", str(PLUGIN)])
    main()
    out = capsys.readouterr().out
    assert out.startswith("half_gates (scheme, version 1)\nA learnable gate behind every residual branch.")
    assert "  - {name: timm/resnet18, scheme: {name: half_gates, start: 0.5}}" in out
    assert "start: float = 0.5" in out
    monkeypatch.setattr(sys, "argv", ["initbench", "list", "--json", "--plugin", str(PLUGIN)])
    main()
    found = {card["name"]: card for card in json.loads(capsys.readouterr().out)["scheme"]}
    assert set(found) == {"half_gates", *SCHEMES.builtins}
    assert [argument["name"] for argument in found["half_gates"]["arguments"]] == ["start"]
