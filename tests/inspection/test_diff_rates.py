"""How often `diff` is wrong: false alarms between equal laws, and misses of a factor of 1.1."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from initbench import diff, fingerprint, initialize
from initbench.inspection.fingerprint import Fingerprint, write_fingerprint
from initbench.inspection.source import model_source

pytestmark = pytest.mark.slow
PAIRS, SEEDS = 200, 5
MOST_ALARMS = math.floor(PAIRS * (0.05 + 3 * math.sqrt(0.05 * 0.95 / PAIRS)))


class EveryLaw(nn.Module):
    """A layer for each law: normal, uniform, truncated normal, orthogonal, delta-orthogonal and constant."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.delta = nn.Conv2d(16, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.cut = nn.Linear(16, 32)
        self.orthogonal = nn.Linear(32, 32)
        self.head = nn.Linear(32, 10)
        nn.init.trunc_normal_(self.cut.weight, std=0.02, a=-0.04, b=0.04)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.orthogonal_(self.orthogonal.weight)
        nn.init.zeros_(self.delta.weight)
        nn.init.orthogonal_(self.delta.weight[:, :, 1, 1])

    def forward(self, images):
        x = torch.relu(self.norm(self.delta(torch.relu(self.stem(images)))))
        return self.head(torch.relu(self.orthogonal(torch.relu(self.cut(x.mean((2, 3)))))))


def tuned(initializer, **arguments):
    def build():
        model = EveryLaw()
        initialize(
            model, initializer, input_shape=(8, 3, 8, 8), num_classes=10, seed=torch.initial_seed() % 2**32, **arguments
        )
        return model

    return build


LAWS = {
    "drawn": EveryLaw,
    "delta_orthogonal": tuned("delta_orthogonal"),
    "lsuv": tuned("lsuv", data="random"),
    "metainit": tuned("metainit", steps=3),
}


def later(build, start):
    """What builds other models of the same law."""

    def built(seed):
        torch.manual_seed(start + seed)
        return build()

    return built


@pytest.mark.parametrize("law", LAWS)
def test_equal_laws_seldom_alarm(law):
    alarms = []
    for pair in range(PAIRS):
        start = 10 * pair * SEEDS
        one, other = (fingerprint(later(LAWS[law], at), seeds=SEEDS) for at in (start, start + SEEDS))
        difference = diff(one, other)
        alarms += [] if difference.same else [str(difference)]
    print(f"{law}: {len(alarms)} of {PAIRS}; at most {MOST_ALARMS} are allowed", *alarms, sep="\n")
    assert len(alarms) <= MOST_ALARMS


@pytest.fixture(scope="module")
def resnet50():
    source = model_source("torchvision/resnet50")
    return tuple(fingerprint(later(lambda: source.build(torch.initial_seed()), at)) for at in (0, SEEDS))


def test_a_fingerprint_of_resnet50_is_small(resnet50, tmp_path):
    write_fingerprint(tmp_path / "resnet50.json", resnet50[0])
    assert (tmp_path / "resnet50.json").stat().st_size <= 200_000


def test_a_factor_in_any_convolution_of_resnet50_is_seen(resnet50):
    """Scaling a tensor scales its means and standard deviations, and nothing else of its fingerprint."""
    one, other = resnet50
    assert diff(one, other).same
    convolutions = [t for t in other.tensors if "convolution" in t.role and t.entries >= 4096]
    assert len(convolutions) == 53
    for tensor in convolutions:
        larger = replace(tensor, means=scaled(tensor.means), stds=scaled(tensor.stds))
        assert {one.a: one.kinds for one in diff(one, with_tensor(other, larger)).tensors if one.kinds} == {
            tensor.name: ("scale",)
        }


def scaled(values):
    return tuple(1.1 * value for value in values)


def with_tensor(whole, changed):
    return replace(whole, tensors=tuple(changed if t.name == changed.name else t for t in whole.tensors))


def test_power_in_the_smallest_convolution(resnet50):
    """Of 100 draws of 4,096 entries, among the 161 tensors of ResNet-50, 95 are seen."""
    one, other = resnet50
    name = "layer1.0.conv1.weight"

    def drawn(whole: Fingerprint, start, factor):
        def build():
            weight = nn.Conv2d(64, 64, 1, bias=False)
            nn.init.kaiming_normal_(weight.weight, mode="fan_out")
            weight.weight.data.mul_(factor)
            return weight

        (tensor,) = fingerprint(later(build, start), inputs=torch.zeros(1, 64, 1, 1)).tensors
        return with_tensor(whole, replace(tensor, name=name))

    seen = 0
    for draw in range(100):
        difference = diff(drawn(one, 10 * draw, 1.0), drawn(other, 10 * draw + SEEDS, 1.1))
        seen += any(pair.a == name and "scale" in pair.kinds for pair in difference.tensors)
    print(f"a factor of 1.1 in 4,096 entries: {seen} of 100 draws are seen")
    assert seen >= 95
