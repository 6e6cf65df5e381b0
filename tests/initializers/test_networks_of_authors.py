"""Our networks against those that authors published: outputs for equal weights, and GradInit's scales.

The numbers come from two repositories, in float64 and on the CPU. github.com/zhuchen03/gradinit at
777c4070c86bdf575c8df6254dbbab983173ef4f: `vgg19` of models/vgg.py with a quarter of its channels and a classifier that
fits, `densenet100` of models/densenet.py, `GradInitDenseNet` with a growth of 4 and three blocks of two layers,
`Wide_ResNet` of models/wide_resnet.py, and `gradinit` of gradinit_utils.py, as in test_gradinit_authors.py.
github.com/hongyi-zhang/Fixup at f3fa449fbb8906ccb7143cea822f8b964b3d9258: `FixupResNet` of
imagenet/models/fixup_resnet_imagenet.py with two and with three convolutions in a block. Parameters are set as
`set_to_numbers` does under the authors' names.
"""

from __future__ import annotations

import math
import re

import pytest
import torch
from authors import numbers
from torch.nn.functional import cross_entropy

from initbench.architectures.create import create_model
from initbench.initializers.initialize import initialize

FIXUP = {"name": "imagenet_resnet", "norm": "none", "scheme": "fixup", "stem": "imagenet"}
VGG = {"name": "vgg", "depth": 19, "width": 0.25, "conv_bias": True}
DENSENET = {"name": "densenet", "depth": 100}
SMALL_DENSENET = {"name": "densenet", "depth": 16, "growth": 4}
WRN = {
    "name": "wrn",
    "depth": 16,
    "width": 2,
    "projection_of": "input",
    "stride_in": "second",
    "conv_bias": True,
}
SMALL_WRN = WRN | {"depth": 10, "width": 1}
WITHOUT = {"norm": "none", "conv_bias": True}
WITHOUT_MULTIPLIER = WITHOUT | {"multiplier": False}


def above(match, index):
    """One more than what a group matched: the authors count from 1, or from 0 where we count from 1."""
    return int(match[index]) + 1


NAMES = {
    "vgg": [
        (r"convolution(\d+)", lambda match: f"conv{int(match[1]) - 1}"),
        (r"norm(\d+)", lambda match: f"bn{int(match[1]) - 1}"),
    ],
    "densenet": [
        (r"^stem", "features.conv0"),
        (r"^norm", "features.norm_final"),
        (
            r"^blocks\.(\d)\.(\d+)\.units\.(\d)\.(norm|conv)(olution)?",
            lambda m: f"features.denseblock{above(m, 1)}.denselayer{above(m, 2)}.{m[4]}{above(m, 3)}",
        ),
        (r"^transitions\.(\d)\.(norm|conv)(olution)?", lambda m: f"features.transition{above(m, 1)}.{m[2]}"),
    ],
    "wrn": [
        (r"^stem", "conv1"),
        (r"^norm", "bn1"),
        (r"^classifier", "linear"),
        (r"^groups\.(\d)", lambda m: f"layer{above(m, 1)}"),
        (r"\.norm", ".bn"),
        (r"projection", "shortcut.0"),
    ],
    "imagenet_resnet": [
        (r"^stem", "conv1"),
        (r"^classifier", "fc"),
        (r"^bias(\d)\.bias", r"bias\1"),
        (r"^stages\.(\d)", lambda m: f"layer{above(m, 1)}"),
        (r"layers\.(\d)\.convolution", lambda m: f"conv{above(m, 1)}"),
        (r"layers\.(\d)\.bias_(.)\.bias", lambda m: f"bias{above(m, 1)}{m[2]}"),
        (r"multiplier\.scale", "scale"),
        (r"projection", "downsample"),
    ],
}


def parameters_of(model, name, depth):
    """Return a network's parameters by the authors' names, in which a block's last bias has the number of layers."""
    found = {}
    for own, parameter in model.named_parameters():
        theirs = own
        for pattern, replacement in NAMES[name]:
            theirs = re.sub(pattern, replacement, theirs)
        found[re.sub(r"(layer\d\.\d+)\.bias\.bias", rf"\1.bias{2 if depth < 50 else 3}b", theirs)] = own, parameter
    return found


@torch.no_grad()
def set_to_numbers(parameters, zero=""):
    """Set parameters to numbers ~ N(0, 2 / fan_in), 1 + N(0, .01) for gains and N(0, .01) for biases.

    Those whose names match `zero` are 0: in front of BatchNorm a bias has no derivative.
    """
    for name, parameter in parameters.items():
        values = numbers(name, tuple(parameter.shape))
        if parameter.dim() > 1:
            values = values * math.sqrt(2 / parameter[0].numel())
        else:
            values = 0.1 * values + name.endswith(("scale", ".weight"))
        parameter.copy_(0 * values if zero and re.search(zero, name) else values)


OUTPUTS = [
    (
        VGG,
        1_256_922,
        [
            0.3549882136214244,
            -0.6714716060651061,
            -1.5240112925494735,
            2.1485290229878196,
            0.7027283701842655,
            0.5119775452884052,
            -2.2288804985581128,
            -1.7409625633000456,
            -0.16850286687513927,
            0.90132904109371,
        ],
        2.9346018682201658,
        3.1902001668053344,
    ),
    (
        VGG | WITHOUT,
        1_254_170,
        [
            1.1344697014687106,
            -0.9244660375113218,
            -0.8577535190099383,
            0.7930269360269695,
            -0.11503682419736275,
            -0.1083581998359202,
            -1.313144864145741,
            -0.06859104776452137,
            -0.4898499681881356,
            0.583777690278481,
        ],
        2.0497849396956997,
        2.4167386211538084,
    ),
    (
        DENSENET,
        769_162,
        [
            -0.31009355163941144,
            0.30584078784830643,
            -0.8971651138548357,
            0.2358373187297791,
            1.3706998938984283,
            -0.23447024796489246,
            0.21674396970460513,
            -0.024629671085042104,
            -0.7381638889593163,
            0.1351156008745177,
        ],
        -1.2031651744294056,
        2.678338559492961,
    ),
    (
        DENSENET | WITHOUT,
        748_336,
        [
            0.38483944063559317,
            -0.4927460856470929,
            -1.5472640695327933,
            -0.694344189584146,
            1.9286442630948109,
            -0.48903243213693215,
            -0.24351693432425392,
            -0.2996844841904778,
            -0.40310862068698927,
            0.9412159988267593,
        ],
        -5.0308821052601065,
        3.316157342461721,
    ),
    (
        FIXUP | {"depth": 18},
        11_172_084,
        [
            -9.055402714111404,
            8.658473854369532,
            -8.62591747811204,
            1.6273869753632493,
            17.114347286216585,
            29.715139734927213,
            1.8640521192105357,
            -7.033216453036683,
            -28.098685829288417,
            -18.76197780617992,
        ],
        -28.319409834774376,
        30.781136277815563,
    ),
    (
        FIXUP | {"depth": 50},
        23_475_516,
        [
            168.91610143972554,
            584.4780126990173,
            -373.5481070698129,
            -10.028047964657283,
            260.2040905610801,
            -106.96949849590851,
            172.11674252009396,
            210.87529532378971,
            -65.14871796833272,
            -163.47118826422434,
        ],
        1528.6654771344056,
        527.1938582276409,
    ),
    (
        WRN,
        692_810,
        [
            0.6096788482304879,
            0.5170770064387018,
            -1.2545094493153148,
            0.4174064329629912,
            0.8544065052603665,
            -0.6491035129074573,
            0.23816061028768737,
            -0.4315530622183547,
            0.745161371496977,
            -0.338792873608276,
        ],
        0.4694762503569181,
        2.654216634006727,
    ),
    (
        WRN | WITHOUT_MULTIPLIER,
        690_986,
        [
            -1.8152618516714554,
            7.196119746499756,
            -36.17200701086072,
            8.822936625346985,
            32.64907919938218,
            -12.138885498989465,
            -0.6322403011616928,
            -14.73820128192715,
            -9.159593445418695,
            -17.1034673715624,
        ],
        -13.476573010757384,
        40.38143926120606,
    ),
]


@pytest.mark.parametrize(("arguments", "count", "first", "logits", "loss"), OUTPUTS)
def test_outputs(arguments, count, first, logits, loss):
    """The logits of the first of four images, the sum of all times `numbers`, and the loss, in training mode."""
    model = create_model(**arguments).double()
    parameters = {
        name: parameter for name, (_, parameter) in parameters_of(model, arguments["name"], arguments["depth"]).items()
    }
    assert sum(parameter.numel() for parameter in parameters.values()) == count
    set_to_numbers(parameters)
    with torch.no_grad():
        found = model(numbers("images", (4, 3, 32, 32)))
    # Rounding errors of float64 over up to a hundred layers, of which some divide by a standard deviation.
    assert found[0].tolist() == pytest.approx(first, rel=1e-9, abs=1e-9)
    assert (found * numbers("logits", (4, 10))).sum().item() == pytest.approx(logits, rel=1e-9)
    assert cross_entropy(found, torch.arange(4)).item() == pytest.approx(loss, rel=1e-9)


def half_batches():
    index = 0
    while True:
        yield numbers(f"inputs {index}", (6, 3, 32, 32)), (torch.arange(6) + index) % 10
        index += 1


SCALES = [
    (
        VGG,
        3.0,
        56.967372852485255,
        69.79389744621676,
        {
            "features.conv0.weight": 1.4993201236793672,
            "features.bn5.weight": 0.8831575716077397,
            "features.bn8.weight": 0.8198802502833465,
            "classifier.weight": 0.5000000050000009,
        },
    ),
    (
        VGG | WITHOUT,
        0.5,
        26.669348791439084,
        22.986727464094823,
        {
            "features.conv0.weight": 0.6179158785733426,
            "features.conv5.bias": 0.6341900220428363,
            "features.conv8.bias": 1.246385617852275,
            "classifier.weight": 0.5269147081302318,
        },
    ),
    (
        VGG | WITHOUT,
        math.inf,
        26.21644814961966,
        21.443739709906374,
        {
            "features.conv0.weight": 0.6354721320903403,
            "features.conv5.bias": 0.9455346097483931,
            "features.conv8.bias": 1.1373264645229921,
            "classifier.weight": 0.634787981413536,
        },
    ),
    (
        SMALL_DENSENET,
        0.5,
        53.42973327564468,
        65.04111051379891,
        {
            "features.conv0.weight": 1.3571109397097731,
            "features.transition1.conv.weight": 1.3750662888426788,
            "features.denseblock2.denselayer2.norm1.bias": 1.3459479273723183,
            "classifier.weight": 0.6225421145055566,
        },
    ),
    (
        SMALL_DENSENET | WITHOUT,
        0.5,
        27.344772667014432,
        24.754073447613436,
        {
            "features.conv0.weight": 0.7031122686783209,
            "features.transition1.conv.weight": 0.7128705351190899,
            "features.denseblock2.denselayer2.conv1.weight": 0.8252024763994732,
            "classifier.weight": 0.6503544913519005,
        },
    ),
    (
        SMALL_DENSENET | WITHOUT,
        math.inf,
        31.219502243590448,
        31.361204686904642,
        {
            "features.conv0.weight": 0.7820712091653438,
            "features.transition1.conv.weight": 0.7929418888401057,
            "features.denseblock2.denselayer2.conv1.weight": 0.9510716343779189,
            "classifier.weight": 0.6921033799290305,
        },
    ),
    (
        SMALL_WRN,
        1.0,
        23.64199128941164,
        23.236717671615587,
        {
            "conv1.weight": 1.0933648858653207,
            "layer2.0.bn1.bias": 0.8908308672902135,
            "layer2.0.conv2.weight": 0.9390427453401601,
            "linear.weight": 0.8103140900612029,
        },
    ),
    (
        SMALL_WRN | WITHOUT_MULTIPLIER,
        1.0,
        14.980889782783114,
        12.813340256932436,
        {
            "conv1.weight": 0.5277351149097286,
            "layer2.0.conv1.weight": 0.5397144522119031,
            "layer2.0.shortcut.0.weight": 0.5403259813978226,
            "linear.weight": 0.5250311256868372,
        },
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "gamma", "total", "squares", "some"), SCALES)
def test_the_scales_of_gradinit_after_ten_iterations(arguments, gamma, total, squares, some):
    """Of some parameters, and the sum and the sum of squares of all. Biases in front of BatchNorm are 0 and stay so."""
    model = create_model(**arguments).double()
    named = parameters_of(model, arguments["name"], arguments["depth"])
    zero = r"(conv\d+|shortcut\.0)\.bias" if arguments.get("norm") != "none" else ""
    set_to_numbers({name: parameter for name, (_, parameter) in named.items()}, zero)
    start = {name: parameter.detach().norm() for name, (_, parameter) in named.items()}
    options = {"optimizer": "sgd", "eta": 1.0, "gamma": gamma, "tau": 0.05, "clip": 1.0}
    initialize(model, "gradinit", base=None, iterations=10, batches=half_batches(), **options)
    found = {name: (p.detach().norm() / start[name]).item() for name, (_, p) in named.items() if start[name]}
    assert {name: found[name] for name in some} == pytest.approx(some, rel=1e-8)
    assert sum(found.values()) == pytest.approx(total, rel=1e-8)
    assert sum(scale**2 for scale in found.values()) == pytest.approx(squares, rel=1e-8)
