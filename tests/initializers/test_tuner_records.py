"""What the tuners write in the record of each parameter, on models that have all that is easily forgotten."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
from cases import batch
from recorded import FROZEN, UNTOUCHED, UNUSED, left, set_to, tied
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from initbench.initializers.initialize import initialize
from initbench.initializers.record import changes


class Words(nn.Module):
    """A classifier tied to the embedding, attention, bare parameters, a layer that runs twice, one that never does."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(1, 5, 8))
        self.scale = nn.Parameter(torch.ones(1))
        self.embedding = nn.Embedding(7, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.shared = nn.Linear(8, 8)
        self.again = self.shared
        self.frozen = nn.Linear(8, 8).requires_grad_(requires_grad=False)
        self.unused = nn.Linear(3, 2)
        self.head = nn.Linear(8, 7)
        self.head.weight = self.embedding.weight

    def forward(self, words):
        x = self.embedding(words) + self.position
        x = x + self.scale * self.attention(x, x, x, need_weights=False)[0]
        x = self.frozen(self.again(self.shared(self.norm(x)).tanh()).tanh())
        return self.head(x.mean(1))


class Images(nn.Module):
    """Weight normalization, with frozen gains too; grouped and transposed convolutions, and BatchNorm."""

    def __init__(self):
        super().__init__()
        self.stem = weight_norm(nn.Conv2d(3, 4, 3, padding=1))
        self.norm = nn.BatchNorm2d(4)
        self.grouped = nn.Conv2d(4, 4, 3, groups=2, padding=1, bias=False)
        self.up = nn.ConvTranspose2d(4, 4, 2)
        self.held = weight_norm(nn.Conv2d(4, 4, 1))
        self.held.parametrizations.weight.original0.requires_grad_(requires_grad=False)
        self.unused = weight_norm(nn.Linear(2, 2))
        self.classifier = nn.Linear(4, 7)

    def forward(self, images):
        x = self.grouped(self.norm(self.stem(images)).tanh())
        return self.classifier(self.held(self.up(x.tanh()).tanh()).tanh().mean((2, 3)))


G, V = ".parametrizations.weight.original0", ".parametrizations.weight.original1"
NO_LAYER, NOT_RUN, ZERO = left("no_layer_weight"), partial(left, "not_run"), left("zero")
SCALED = {"event": "scaled"}  # without the number
WORDS = {
    "position": {"lsuv": NO_LAYER, "metainit": SCALED, "gradinit": ZERO},
    "scale": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED},
    "embedding.weight": {"lsuv": left("shared", layer="head"), "metainit": SCALED, "gradinit": SCALED},
    "head.weight": dict.fromkeys(("lsuv", "metainit", "gradinit"), tied("embedding.weight")),
    "head.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED},
    "attention.in_proj_weight": {"lsuv": left("not_called", layer="attention"), "metainit": SCALED, "gradinit": SCALED},
    "attention.in_proj_bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": ZERO},
    "attention.out_proj.weight": {
        "lsuv": left("not_called", layer="attention.out_proj"),
        "metainit": SCALED,
        "gradinit": SCALED,
    },
    "attention.out_proj.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": ZERO},
    "norm.weight": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED},
    "norm.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": ZERO},
    "shared.weight": {
        "lsuv": SCALED | {"runs": 2},
        "metainit": SCALED,
        "gradinit": SCALED,
    },
    "shared.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED},
    "again.weight": dict.fromkeys(("lsuv", "metainit", "gradinit"), tied("shared.weight")),
    "again.bias": dict.fromkeys(("lsuv", "metainit", "gradinit"), tied("shared.bias")),
    "frozen.weight": dict.fromkeys(("lsuv", "metainit", "gradinit"), FROZEN),
    "frozen.bias": dict.fromkeys(("lsuv", "metainit", "gradinit"), FROZEN),
    "unused.weight": {
        "lsuv": NOT_RUN(layer="unused"),
        "metainit": UNUSED,
        "gradinit": UNUSED,
    },
    "unused.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": UNUSED},
}
GAIN, SHIFT = set_to("inverse_deviations"), set_to("standardizing_shifts")
DEPENDENT = "data_dependent_weight_norm"
IMAGES = {
    "stem" + G: {"lsuv": SCALED, "metainit": SCALED, "gradinit": SCALED, DEPENDENT: GAIN},
    "stem" + V: {"lsuv": UNTOUCHED, "metainit": SCALED, "gradinit": SCALED, DEPENDENT: UNTOUCHED},
    "stem.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED, DEPENDENT: SHIFT},
    "norm.weight": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED, DEPENDENT: UNTOUCHED},
    "norm.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": ZERO, DEPENDENT: UNTOUCHED},
    "grouped.weight": {"lsuv": SCALED, "metainit": SCALED, "gradinit": SCALED, DEPENDENT: UNTOUCHED},
    "up.weight": {"lsuv": SCALED, "metainit": SCALED, "gradinit": SCALED, DEPENDENT: UNTOUCHED},
    "up.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED, DEPENDENT: UNTOUCHED},
    "held" + G: dict.fromkeys(("lsuv", "metainit", "gradinit", DEPENDENT), FROZEN),
    "held" + V: {"lsuv": UNTOUCHED, "metainit": SCALED, "gradinit": SCALED, DEPENDENT: UNTOUCHED},
    "held.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED, DEPENDENT: SHIFT},
    "unused" + G: {
        "lsuv": NOT_RUN(layer="unused"),
        "metainit": UNUSED,
        "gradinit": UNUSED,
        DEPENDENT: NOT_RUN(layer="unused"),
    },
    "unused" + V: {"lsuv": UNTOUCHED, "metainit": UNUSED, "gradinit": UNUSED, DEPENDENT: UNTOUCHED},
    "unused.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": UNUSED, DEPENDENT: UNTOUCHED},
    "classifier.weight": {"lsuv": SCALED, "metainit": SCALED, "gradinit": SCALED, DEPENDENT: UNTOUCHED},
    "classifier.bias": {"lsuv": UNTOUCHED, "metainit": UNTOUCHED, "gradinit": SCALED, DEPENDENT: UNTOUCHED},
}
ARGUMENTS = {"lsuv": {}, "metainit": {"steps": 2}, "gradinit": {"iterations": 2}, DEPENDENT: {}}
CASES = [(Words, tuner) for tuner in ("lsuv", "metainit", "gradinit")] + [(Images, tuner) for tuner in ARGUMENTS]


def batches(model):
    for seed in itertools.count():
        inputs, targets = batch((8, 3, 6, 6), classes=7, seed=seed)
        words = torch.randint(7, (8, 5), generator=torch.Generator().manual_seed(seed))
        yield words if isinstance(model, Words) else inputs, targets


def initialized(make, tuner, base):
    torch.manual_seed(0)
    model = make().double()
    if make is Words and tuner == "metainit":  # which refuses zeros
        nn.init.constant_(model.position, 0.1)
    before = {name: p.detach().clone() for name, p in model.named_parameters(remove_duplicate=False)}
    record = initialize(model, tuner, base=base, batches=batches(model), **ARGUMENTS[tuner])
    return model, before, record


@pytest.mark.filterwarnings("ignore:lsuv passes over 2 of 5 weights. attention")
@pytest.mark.filterwarnings("ignore:lsuv. .*the standard deviation is not within")
@pytest.mark.parametrize(("make", "tuner"), CASES)
def test_every_parameter_has_its_event(make, tuner):
    model, before, record = initialized(make, tuner, base=None)
    said = {}
    for name, events in record.tensors.items():
        assert len(events) == 1, name
        said[name] = {key: value for key, value in events[0].items() if key != "factor"}
    assert said == {name: expected[tuner] for name, expected in (WORDS if make is Words else IMAGES).items()}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        changed = not torch.equal(parameter, before[name])
        event = said[said[name]["to"] if said[name]["event"] == "tied" else name]
        assert changed == changes(event), name


@pytest.mark.filterwarnings("ignore:lsuv passes over 2 of 5 weights. attention")
@pytest.mark.filterwarnings("ignore:lsuv. .*the standard deviation is not within")
@pytest.mark.filterwarnings("ignore:delta_orthogonal does not keep the norm")
@pytest.mark.parametrize("base", ["kaiming", "pytorch_default", "delta_orthogonal"])
@pytest.mark.parametrize(("make", "tuner"), CASES)
def test_after_a_base_too(make, tuner, base):
    """The events of the base come first, and no parameter is without one."""
    model, before, record = initialized(make, tuner, base)
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert sorted(record.tensors) == sorted(names)
    for name, parameter in model.named_parameters():
        events = record.tensors[name]
        assert any(map(changes, events)) or torch.equal(parameter, before[name]), name
        if make is Words and name.startswith("frozen"):
            assert events == [FROZEN]
    if make is Words:
        assert record.tensors["head.weight"] == [tied("embedding.weight")]
        assert record.tensors["shared.weight"][0]["event"] == "drawn"
    else:
        assert record.tensors["stem" + V][0]["event"] == "drawn"
        assert record.tensors["held" + V][0] == left("frozen_gain")


class Twice(nn.Module):
    """A layer that runs twice, under one name or under two."""

    def __init__(self, names):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.last = self.first if names == 2 else None
        self.head = nn.Linear(6, 7)

    def forward(self, x):
        return self.head((self.last or self.first)(self.first(x).tanh()).tanh())


@pytest.mark.parametrize(
    ("tuner", "arguments"),
    [
        ("metainit", {"steps": 3}),
        ("metainit", {"steps": 3, "method": "finite_difference"}),
        ("gradinit", {"iterations": 3, "gamma": 1e6}),
    ],
)
def test_a_module_under_two_names_is_one(tuner, arguments):
    models = []
    for names in (1, 2):
        models.append(Twice(names).double())
        initialize(models[-1], "kaiming")
        data = (batch((8, 6), classes=7, seed=seed) for seed in itertools.count())
        before = models[-1].first.weight.detach().clone()
        initialize(models[-1], tuner, base=None, batches=data, **arguments)
        assert not torch.equal(models[-1].first.weight, before)
    assert all(map(torch.equal, models[0].parameters(), models[1].parameters()))
