"""What the tuners write in the record of each parameter, on models that have all that is easily forgotten."""

from __future__ import annotations

import itertools

import pytest
import torch
from cases import batch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from initbench.initializers.initialize import initialize


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
NO_LAYER = "not scaled: it is no weight of a convolution or linear layer"
UNUSED = "untouched: the loss does not use it"
# Of a note "scaled by 0.43" the number is left out.
WORDS = {
    "position": {"lsuv": NO_LAYER, "metainit": "scaled", "gradinit": "not scaled: zero"},
    "scale": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled"},
    "embedding.weight": {"lsuv": "scaled", "metainit": "scaled", "gradinit": "scaled"},
    "head.weight": dict.fromkeys(("lsuv", "metainit", "gradinit"), "tied to embedding.weight"),
    "head.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled"},
    "attention.in_proj_weight": {"lsuv": NO_LAYER, "metainit": "scaled", "gradinit": "scaled"},
    "attention.in_proj_bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "not scaled: zero"},
    "attention.out_proj.weight": {
        "lsuv": "not scaled: attention.out_proj puts out nothing in the forward pass",
        "metainit": "scaled",
        "gradinit": "scaled",
    },
    "attention.out_proj.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "not scaled: zero"},
    "norm.weight": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled"},
    "norm.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "not scaled: zero"},
    "shared.weight": {
        "lsuv": "scaled; its layer runs 2 times, this is for the first",
        "metainit": "scaled",
        "gradinit": "scaled",
    },
    "shared.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled"},
    "again.weight": dict.fromkeys(("lsuv", "metainit", "gradinit"), "tied to shared.weight"),
    "again.bias": dict.fromkeys(("lsuv", "metainit", "gradinit"), "tied to shared.bias"),
    "frozen.weight": dict.fromkeys(("lsuv", "metainit", "gradinit"), "untouched: frozen"),
    "frozen.bias": dict.fromkeys(("lsuv", "metainit", "gradinit"), "untouched: frozen"),
    "unused.weight": {
        "lsuv": "not scaled: unused puts out nothing in the forward pass",
        "metainit": UNUSED,
        "gradinit": UNUSED,
    },
    "unused.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": UNUSED},
}
GAIN, SHIFT = "set to 1/σ of each channel", "set to -μ/σ of each channel"
DEPENDENT = "data_dependent_weight_norm"
IMAGES = {
    "stem" + G: {"lsuv": "scaled", "metainit": "scaled", "gradinit": "scaled", DEPENDENT: GAIN},
    "stem" + V: {"lsuv": "untouched", "metainit": "scaled", "gradinit": "scaled", DEPENDENT: "untouched"},
    "stem.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled", DEPENDENT: SHIFT},
    "norm.weight": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled", DEPENDENT: "untouched"},
    "norm.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "not scaled: zero", DEPENDENT: "untouched"},
    "grouped.weight": {"lsuv": "scaled", "metainit": "scaled", "gradinit": "scaled", DEPENDENT: "untouched"},
    "up.weight": {"lsuv": "scaled", "metainit": "scaled", "gradinit": "scaled", DEPENDENT: "untouched"},
    "up.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled", DEPENDENT: "untouched"},
    "held" + G: dict.fromkeys(("lsuv", "metainit", "gradinit", DEPENDENT), "untouched: frozen"),
    "held" + V: {"lsuv": "untouched", "metainit": "scaled", "gradinit": "scaled", DEPENDENT: "untouched"},
    "held.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled", DEPENDENT: SHIFT},
    "unused" + G: {
        "lsuv": "not scaled: unused puts out nothing in the forward pass",
        "metainit": UNUSED,
        "gradinit": UNUSED,
        DEPENDENT: "not set: unused has not run",
    },
    "unused" + V: {"lsuv": "untouched", "metainit": UNUSED, "gradinit": UNUSED, DEPENDENT: "untouched"},
    "unused.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": UNUSED, DEPENDENT: "untouched"},
    "classifier.weight": {"lsuv": "scaled", "metainit": "scaled", "gradinit": "scaled", DEPENDENT: "untouched"},
    "classifier.bias": {"lsuv": "untouched", "metainit": "untouched", "gradinit": "scaled", DEPENDENT: "untouched"},
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


@pytest.mark.filterwarnings("ignore:lsuv. .*the standard deviation is not within")
@pytest.mark.parametrize(("make", "tuner"), CASES)
def test_every_parameter_has_its_note(make, tuner):
    model, before, record = initialized(make, tuner, base=None)
    notes = {}
    for name, done in record.tensors.items():
        assert len(done) == 1, name
        start, number, rest = done[0].partition(" by ")
        notes[name] = start + rest.partition(";")[1] + rest.partition(";")[2] if number else done[0]
    assert notes == {name: expected[tuner] for name, expected in (WORDS if make is Words else IMAGES).items()}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        changed = not torch.equal(parameter, before[name])
        first = notes[name].removeprefix("tied to ") if notes[name].startswith("tied to") else name
        assert changed == notes[first].startswith(("scaled", "set")), name


@pytest.mark.filterwarnings("ignore:lsuv. .*the standard deviation is not within")
@pytest.mark.filterwarnings("ignore:delta_orthogonal does not keep the norm")
@pytest.mark.parametrize("base", ["kaiming", "pytorch_default", "delta_orthogonal"])
@pytest.mark.parametrize(("make", "tuner"), CASES)
def test_after_a_base_too(make, tuner, base):
    """The notes of the base come first, and no parameter is without one."""
    model, before, record = initialized(make, tuner, base)
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert sorted(record.tensors) == sorted(names)
    for name, parameter in model.named_parameters():
        done = record.tensors[name]
        said = [note for note in done if not note.startswith(("untouched", "not ", "tied"))]
        assert said or torch.equal(parameter, before[name]), name
        if make is Words and name.startswith("frozen"):
            assert done == ["untouched: frozen"]
    if make is Words:
        assert record.tensors["head.weight"] == ["tied to embedding.weight"]
        assert record.tensors["shared.weight"][0].startswith("drawn: ")
    else:
        assert record.tensors["stem" + V][0].startswith("drawn: ")
        assert record.tensors["held" + V][0] == "untouched: its gain is frozen"


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
