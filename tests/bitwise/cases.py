"""The cases: small suites that together reach every initializer, scheme, recipe field, probe and option.

Each is a suite file as plain data, with a few trials of a few steps. What a pair cannot do (a scheme that an
architecture does not have, a model that an initializer refuses) is a part of what is compared.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from bitwise.case import (
    DATA_DEPENDENT,
    DIGITS,
    FOUR_STEPS,
    GRADINIT,
    INITIALIZERS,
    LSUV,
    METAINIT,
    MLP,
    NOISE,
    PICTURES,
    PLAIN,
    PROBES,
    RESNET,
    RESNET18,
    SCHEMES,
    WRN,
    Case,
    Data,
    case,
)
from bitwise.trees import Exempt

if TYPE_CHECKING:
    from collections.abc import Iterator

_WEIGHT_NORM = "PyTorch's second derivative of weight normalization took ‖v‖ for a constant"
_LAYER_NORM = "PyTorch's third derivative of LayerNorm is wrong"
_CUT = "layer_scale cuts weights off at ±2, as timm's trunc_normal_, and not at two deviations"
_MLP = "weight normalization can be put into an mlp, which no scheme was for"
_FOUND = "residual branches are found by one run of the model, where torch.fx could not trace it"
_FACTORS = "layers that give one factor of a product are of the branch, unless a bounded function makes it a gate"
_GATES = "a scheme takes over the gates that a model has, or sets them to 1: two zero factors never learned"
EXEMPT = [
    Exempt("*", "* weight_norm *", "probes/gradient_quotient*", _WEIGHT_NORM),
    Exempt("*", "* weight_norm metainit *", "*", _WEIGHT_NORM),
    Exempt("*", "* weight_norm gradinit *", "*", _WEIGHT_NORM),
    Exempt("*", "timm/test_vit * metainit *", "*", _LAYER_NORM),
    Exempt("*", "timm/test_convnext * metainit *", "*", _LAYER_NORM),
    Exempt("timm/norm_layer/layernorm2d", "* metainit *", "*", _LAYER_NORM),
    Exempt("*", "* layer_scale *", "*", _CUT),
    Exempt("variants/*/base", "*#5", "*", f"{_CUT}: the base of the fifth"),
    Exempt("timm/test_vit", "*", "outcome", _FOUND),
    Exempt("timm/test_mambaout", "* metainit *", "*", _LAYER_NORM),
    Exempt("timm/test_mambaout", "* fixup *", "*", _GATES),
    Exempt("timm/test_mambaout", "* skipinit *", "*", _GATES),
    Exempt("timm/test_mambaout", "* weight_norm weight_norm *", "*", _FACTORS),
    Exempt("timm/test_convnext", "* fixup *", "*", _GATES),
    Exempt("timm/test_convnext", "* skipinit *", "*", _GATES),
    Exempt("timm/test_nfnet", "* fixup *", "*", _GATES),
    Exempt("timm/test_nfnet", "* skipinit *", "*", _GATES),
    Exempt("*", "mlp-* weight_norm*", "outcome", _MLP),
    Exempt("recipe/search*", "*", "*", "search trials have random streams of their own"),
    Exempt("initializers/*/zero", "* skipinit zero *", "*", "zero, version 2, opens gates beside last weights of 0"),
]
"""The numbers that may differ from version 0.1 since a finding proved those wrong, each with that finding."""
MOVED: list[Exempt] = []
"""Likewise those that may differ from the commit in the file `reference`; they join EXEMPT when that is raised."""


def initializers() -> Iterator[Case]:
    """Yield every initializer on every family with every scheme; the planner says which pairs do not fit."""
    for architecture, initializer in product((PLAIN, WRN, RESNET, MLP), INITIALIZERS):
        name = f"initializers/{architecture['name']}/{initializer['name']}"
        yield case(name, architecture | {"scheme": SCHEMES}, initializer, probes=PROBES)
    # A thousand times as large: one probe, and two samples at a time.
    recipe = {"epochs": 1, "batch_size": 2, "lr": 0.01}
    for initializer in INITIALIZERS:
        yield case(
            f"initializers/{RESNET18['name']}/{initializer['name']}",
            RESNET18 | {"scheme": SCHEMES},
            initializer | ({"batch_size": 2} if "batch_size" in initializer else {}),
            dataset=PICTURES | {"train_size": 4},
            recipe=recipe,
            probes=PROBES[1:2],
            slow=initializer["name"] != "kaiming",
        )
    # Shapes matter for orthogonal and zero, and the bias of a classifier of one input for whoever divides.
    widths = {"name": "mlp", "depth": 4, "width": [1, 5, 16]}
    yield case("initializers/widths", widths, INITIALIZERS, seeds=2, probes=PROBES)
    wide: Data = {"depth": 16, "width": 2}
    for family in (PLAIN | wide, WRN | wide, RESNET | {"depth": 14, "width": 2}, MLP | {"width": 64, "depth": 5}):
        for norm, initializer in product(("none", "batch", "group"), INITIALIZERS):
            name = f"larger/{family['name']}/{norm}/{initializer['name']}"
            recipe = FOUR_STEPS | {"batch_size": 16, "lr": 0.01}
            dataset = PICTURES | {"train_size": 32, "image_size": 16}
            yield case(name, family | {"norm": norm}, initializer, dataset=dataset, recipe=recipe, slow=True)


def schemes() -> Iterator[Case]:
    """Yield the initializers that bring their scheme where the suite does not say, and bases that do."""
    for name in ("fixup", "skipinit", "weight_norm"):
        yield case(f"scheme/{name}", [WRN, RESNET], [{"name": name}, METAINIT | {"base": name}, LSUV | {"base": name}])
    yield case("scheme/data_dependent_weight_norm", [PLAIN, WRN], DATA_DEPENDENT)


def variants() -> Iterator[Case]:
    """Yield every argument of every initializer."""
    gains = ["forward", "backward", "hanin", "pytorch"]
    crossed: dict[str, Data] = {
        "kaiming": {"mode": ["fan_in", "fan_out"], "distribution": ["normal", "uniform"], "gain": [1.0, 1.5]},
        "xavier": {"distribution": ["normal", "uniform"], "gain": [1.0, 0.7]},
        "lecun": {"distribution": ["normal", "uniform"]},
        "gaussian": {"std": [0.01, 0.3]},
        "orthogonal": {"gain": 1.4},
        "delta_orthogonal": {"gain": 1.4},
        "looks_linear": {"gain": 1.4},
        "truncated_normal": {"std": 0.1, "bound": [1.0, 2.5]},
        "fixup": {"mode": ["fan_in", "fan_out"], "nonzero": [False, True], "scalar_learning_rate": [0.1, 1.0]},
        "skipinit": {"alpha": [0.2, "1/sqrt(d)"]},
        "weight_norm": {"gain": gains, "direction": ["orthogonal", "normal"]},
    }
    for name, arguments in crossed.items():
        yield case(f"variants/{name}", [WRN, RESNET], {"name": name, **arguments})
    objectives = {"optimizer": ["signsgd", "adam"], "norm": ["l1", "l2"], "method": ["exact", "finite_difference"]}
    tuners: list[tuple[str, Data]] = [
        ("data", DATA_DEPENDENT | {"data": ["random", "real"], "base": {"name": "weight_norm", "gain": gains}}),
        ("mean", LSUV | {"data": ["random", "real"], "remove_mean": [False, True], "std": [1.0, 0.5]}),
        ("tolerance", LSUV | {"tolerance": 0.5, "batch_size": 2}),
        ("objective", METAINIT | objectives),
        ("batches", METAINIT | {"mode": ["eval", "train"], "data": ["random", "real"], "momentum": [0.9, 0.5]}),
        ("plateau", METAINIT | {"steps": 12, "plateau_window": 3, "plateau_tolerance": 0.5, "lr": 0.05, "eps": 0.0001}),
        ("step", GRADINIT | {"second_order": [False, True], "overlap": [0.5, 0.0, 1.0], "optimizer": ["sgd", "adam"]}),
        ("batches", GRADINIT | {"data": ["random", "real"], "tau": 0.05, "gamma": [0.1, 100.0], "eta": 0.01}),
        ("bounds", GRADINIT | {"floor": 0.1, "clip": 0.1, "tau": 0.3}),
    ]
    for name, tuner in tuners:
        yield case(f"variants/{tuner['name']}/{name}", [WRN, MLP | {"norm": "batch", "width": 16}], tuner)
    for tuner in (METAINIT, GRADINIT, LSUV):
        bases: list[Any] = [i["name"] for i in INITIALIZERS if "batch_size" not in i]
        bases += [{"name": "kaiming", "mode": "fan_out"}, {"name": "xavier", "gain": [0.5, 0.7]}, None]
        # An entry for each: a list of bases would be the list of one argument.
        yield case(f"variants/{tuner['name']}/base", WRN, [tuner | {"base": base} for base in bases])
    optimizers = FOUR_STEPS | {"optimizer": ["sgd", "signsgd", "adam"], "lr": 0.01}
    yield case("variants/gradinit/of_the_recipe", WRN, GRADINIT, recipe=optimizers)
    transformer: Data = {"name": "timm/test_vit"}
    gpt2: Data = {"name": "gpt2", "std": [0.02, 0.1], "residual": ["scaled", "zero"]}
    yield case("variants/gpt2", transformer, [gpt2, METAINIT, LSUV, GRADINIT], dataset=PICTURES, probes=PROBES)
    gated = {"name": "layer_scale", "value": [None, 0.3], "std": [0.02, 0.1]}
    yield case("variants/layer_scale", {"name": "timm/test_convnext"}, [gated, METAINIT], dataset=PICTURES)


def recipes() -> Iterator[Case]:
    """Yield every field of a recipe."""
    fields: dict[str, Data] = {
        "sgd": {"momentum": [0.0, 0.5], "lr": [0.1, 0.01]},
        "nesterov": {"nesterov": True, "momentum": 0.8},
        "signsgd": {"optimizer": "signsgd", "momentum": [0.0, 0.9], "lr": 0.001, "weight_decay": [0.0, 0.1]},
        "adam": {"optimizer": "adam", "lr": 0.01, "betas": [[0.9, 0.999], [0.5, 0.9]], "weight_decay": [0.0, 0.01]},
        "schedule": {"schedule": ["cosine", "constant"], "epochs": 3},
        "step": {"schedule": "step", "epochs": 3, "milestones": [[1, 2], [2]], "step_factor": [0.1, 0.5]},
        "warmup": {"warmup_epochs": [1.0, 1.5], "schedule": ["cosine", "constant"]},
        "warmup_step": {"warmup_epochs": 0.5, "schedule": "step", "milestones": [[1]]},
        "weight_decay": {"weight_decay": 0.01},
        "clip_norm": {"clip_norm": [0.1, 100.0]},
        "crop": {"crop": 2},
        "flip": {"flip": True},
        "cutout": {"cutout": 3},
        "mixup": {"mixup": [0.2, 1.0]},
        "all_augmentation": {"crop": 1, "flip": True, "cutout": 2, "mixup": 0.4, "label_smoothing": 0.1},
        "label_smoothing": {"label_smoothing": 0.1},
        "bf16": {"precision": "bf16"},
        "channels_last": {"channels_last": True},
        "activation_checkpointing": {"activation_checkpointing": True},
        "history_every": {"history_every": [1, 3]},
        "threads": {"threads": 2},
        "all": {
            "nesterov": True, "weight_decay": 0.001, "clip_norm": 1.0, "crop": 1, "flip": True, "mixup": 0.2,
            "label_smoothing": 0.1, "precision": "bf16", "channels_last": True, "activation_checkpointing": True,
            "warmup_epochs": 0.5, "history_every": 1,
        },
    }  # fmt: skip
    # With BatchNorm and dropout: what a step does to buffers, and what it draws, is compared too.
    noisy = WRN | {"norm": "batch", "dropout": 0.2}
    models = [noisy, RESNET | {"norm": "group"}, PLAIN, {"name": "mlp", "width": 16, "norm": "batch", "dropout": 0.3}]
    for name, recipe in fields.items():
        yield case(f"recipe/{name}", models, dataset=DIGITS, recipe=FOUR_STEPS | recipe)
    fixup = {"name": "fixup", "scalar_learning_rate": 0.1}  # a learning rate of their own for some parameters
    groups = {"optimizer": ["sgd", "signsgd", "adam"], "weight_decay": 0.01, "warmup_epochs": 0.5, "clip_norm": 1.0}
    yield case("recipe/parameter_groups", WRN, fixup, dataset=DIGITS, recipe=FOUR_STEPS | groups)
    for size, batch in ((13, 4), (10, 4), (12, 4), (9, 4), (3, 8), (2, 1)):  # a last batch of one joins the one before
        dataset = (DIGITS if size >= 10 else NOISE) | {"train_size": size}
        yield case(
            f"recipe/last_batch/{size}_by_{batch}", noisy, dataset=dataset, recipe=FOUR_STEPS | {"batch_size": batch}
        )
    # Losses are looked at every 50 steps: more than these, and divergence before and behind the first look.
    many = {"batch_size": 1, "epochs": 1, "lr": 0.001}
    yield case("recipe/many_steps", [PLAIN, MLP], dataset=DIGITS | {"train_size": 120}, recipe=many | {"epochs": 2})
    for lr in (1.0, 1e3, 1e30):
        recipe = FOUR_STEPS | {"lr": lr, "history_every": [None, 1], "epochs": 3}
        yield case(f"recipe/diverges/{lr:g}", [PLAIN, MLP, noisy], dataset=DIGITS, recipe=recipe)
        recipe = many | {"lr": lr, "momentum": 0.99}
        yield case(f"recipe/diverges/{lr:g}_late", [PLAIN, MLP], dataset=DIGITS | {"train_size": 120}, recipe=recipe)
    yield case("recipe/no_learning", WRN, dataset=DIGITS, recipe=FOUR_STEPS | {"lr": 0.0})
    yield case("recipe/search", [noisy, MLP], dataset=DIGITS, recipe=FOUR_STEPS | {"history_every": 1}, phase="search")
    yield case("recipe/search_diverges", MLP, dataset=DIGITS, recipe=FOUR_STEPS | {"lr": 1e30}, phase="search")
    yield case("recipe/no_validation", noisy, dataset=NOISE | {"validation_size": 0}, recipe=FOUR_STEPS)
    rules: list[Data] = [
        {"when": {"architecture": "wrn"}, "recipe": {"clip_norm": 0.5, "lr": 0.01}},
        {"when": {"initializer": "metainit"}, "initializer": {"steps": 1}, "recipe": {"momentum": 0.5}},
        {"when": {"initializer": "metainit"}, "initializer": {"base": "kaiming", "batch_size": 6}},
    ]
    exclude = [{"architecture": "mlp", "initializer": "metainit"}]
    yield case("recipe/rules", [WRN, MLP], ["kaiming", METAINIT], rules=rules, exclude=exclude, seeds=2)


def architectures() -> Iterator[Case]:
    """Yield every norm, activation and other option of the architectures."""
    some = ["pytorch_default", "orthogonal", METAINIT, METAINIT | {"mode": "train"}, GRADINIT, LSUV]
    for family in (PLAIN, WRN, RESNET, MLP | {"width": 16}):
        name = family["name"]
        yield case(f"norm/{name}", family | {"norm": ["none", "batch", "group"]}, some, probes=PROBES)
        options = family | {"activation": ["relu", "swish", "beta_swish", "tanh", "linear"]}
        yield case(f"activation/{name}", options, ["kaiming", METAINIT, LSUV, GRADINIT], probes=PROBES)
    for family in (PLAIN, WRN, MLP):
        tuned = ["kaiming", METAINIT, GRADINIT]
        yield case(f"dropout/{family['name']}", family | {"dropout": 0.3}, tuned, probes=PROBES)
    yield case("drop_path", WRN | {"drop_path": [0.3, 0.6], "norm": "batch"}, ["kaiming", GRADINIT], probes=PROBES)
    bottleneck = RESNET | {"depth": 11, "block": "bottleneck", "scheme": SCHEMES}
    yield case("bottleneck", bottleneck, ["kaiming", "fixup", "skipinit", "weight_norm"])
    sizes = [PLAIN | {"depth": [16, 22]}, WRN | {"depth": [16, 22]}, WRN | {"width": 2}, RESNET | {"depth": [14, 20]}]
    yield case("sizes", sizes, ["kaiming", "fixup", "zero", METAINIT])
    harder = [METAINIT | {"mode": "train", "method": "finite_difference"}, GRADINIT | {"second_order": True}]
    yield case("norm/tuners", [family | {"norm": ["batch", "group"]} for family in (WRN, RESNET, PLAIN)], harder)
    for layer in ("none", "groupnorm1", "layernorm2d", "batchnorm2d"):
        models = {"name": "timm/test_resnet", "norm_layer": layer}
        yield case(f"timm/norm_layer/{layer}", models, ["kaiming", METAINIT, "zero"], dataset=PICTURES)
    groups = RESNET18 | {"norm_layer": ["groupnorm", "none"]}
    yield case("timm/norm_layer/groupnorm", groups, "kaiming", dataset=PICTURES | {"train_size": 2}, slow=True)
    rates = {"name": "timm/test_vit", "drop_rate": [0.0, 0.3], "drop_path_rate": [0.0, 0.3]}
    yield case("timm/rates", rates, ["kaiming", "truncated_normal"], dataset=PICTURES)
    yield case("timm/img_size", {"name": "timm/test_vit", "img_size": 32}, "xavier", dataset=PICTURES)
    fitting = ["kaiming", "fixup", "skipinit", "weight_norm", METAINIT, LSUV, GRADINIT]
    for name in ("resnet", "efficientnet", "nfnet", "mambaout", "byobnet", "vit", "convnext"):
        model = {"name": f"timm/test_{name}", "scheme": SCHEMES}
        yield case(f"timm/test_{name}", model, fitting, dataset=PICTURES, slow=name not in {"resnet", "nfnet"})


def probes() -> Iterator[Case]:
    """Yield every argument of every probe, and their order, since one must not move another's numbers."""
    small = {"batch_size": 3, "batches": 2}
    options: Data = {"data": ["random", "real"], "mode": ["eval", "train"]}
    names = ("gradient_quotient", "gradient_norm", "initial_loss")
    measured: list[Data] = [{"name": name} | small | options for name in names]
    measured += [{"name": "parameter_norm"}]
    measured += [{"name": names[0], "eps": 0.001} | small, {"name": names[2], "batches": 1}]
    noisy = {"norm": "batch", "dropout": 0.2}
    models = [WRN | noisy, MLP | {"dropout": 0.2}, PLAIN, RESNET | {"activation": "beta_swish"}]
    some = ["kaiming", "gaussian", "delta_orthogonal", METAINIT]
    yield case("probes/options", models, some, dataset=DIGITS, probes=measured)
    yield case("probes/schemes", WRN | {"scheme": SCHEMES}, some, dataset=DIGITS, probes=measured)
    yield case("probes/usual_sizes", [MLP, WRN], dataset=DIGITS, probes=[*names, "parameter_norm"])
    models = [RESNET18, {"name": "timm/test_vit"}]
    yield case("probes/timm", models, dataset=PICTURES, probes=measured, slow=True)
    extremes = {"name": "gaussian", "std": [1e-8, 1e-30, 1e10]}  # saturated, zero, and not finite
    yield case("probes/not_finite", PLAIN, extremes, dataset=DIGITS, probes=measured)
    for order in (measured[:3], measured[2::-1], measured[1:2]):
        name = "_".join(probe["name"] for probe in order)
        yield case(f"probes/order/{name}", WRN | noisy, dataset=DIGITS, probes=order)


def datasets() -> Iterator[Case]:
    """Yield the datasets' options."""
    shapes: Data = {"channels": [1, 2], "num_classes": [2, 7], "image_size": [7, 12]}
    yield case("dataset/gaussian", [MLP, WRN], dataset=NOISE | shapes)
    yield case("dataset/digits", MLP, dataset={"name": "digits", "train_size": [None, 30], "image_size": [None, 6]})
    clothes: Data = {"name": "fashion_mnist", "train_size": 16, "validation_size": [0, 20]}
    augmented = FOUR_STEPS | {"crop": 4, "flip": True}
    yield case("dataset/fashion_mnist", [MLP, PLAIN], dataset=clothes, recipe=augmented)
    small = clothes | {"image_size": 12}
    yield case("dataset/fashion_mnist/resized", MLP, dataset=small, recipe=augmented, probes=PROBES)
    yield case("seeds", [WRN, MLP], ["kaiming", METAINIT, LSUV], dataset=DIGITS, probes=PROBES, seeds=[0, 1, 12345])


TRANSFORMERS = "98acea912cb24d4a682e590575d640465418f2fe"
"""The first commit that has the initializers for Transformers and translation."""


def languages() -> Iterator[Case]:
    """Yield language models, translation, and the initializers for Transformers with their arguments."""
    text: Data = {"name": "python_library", "context": 8, "train_size": 16, "validation_size": 4, "test_size": 4}
    gpt: Data = {"name": "gpt", "depth": 4, "width": 32, "heads": 2, "tied": False}
    llama: Data = {"norm_type": "rms", "activation": "swiglu", "positions": "rotary", "bias": False}
    adam = {"epochs": 1, "batch_size": 4, "optimizer": "adam", "lr": 0.01, "weight_decay": 0.01}
    laws: list[Data] = [
        {"name": "gpt2", "residual": ["scaled", "unscaled", "zero"]},
        {"name": "small_init", "residual": ["wang", "small"]},
        *({"name": name} for name in ("mitchell", "fairseq", "fairseq_0_9", "pytorch_default", "kaiming")),
    ]
    blocks = gpt | {"norm": ["pre", "post", "none"]}
    yield case("language/gpt", [blocks, gpt | llama], laws, dataset=text, recipe=adam, since=TRANSFORMERS)
    yield case("language/llama", gpt | llama, "llama", dataset=text, recipe=adam, since=TRANSFORMERS)
    widths: list[Data] = [
        {"name": "mup", "base_width": 16, "zero_readout": [False, True], "zero_query": [False, True]},
        {"name": "completep", "base_width": 16, "base_depth": 2, "alpha": [0.5, 1.0]},
    ]
    optimizers = adam | {"optimizer": ["sgd", "adam"]}
    measured: list[Data] = [{"name": "coordinates"}, {"name": "gradient_deviation", "batch_size": 2, "batches": 3}]
    yield case("language/widths", gpt, widths, dataset=text, recipe=optimizers, probes=measured, since=TRANSFORMERS)
    words: Data = {"name": "number_words", "train_size": 12, "validation_size": 4, "test_size": 4}
    transformer: Data = {"name": "transformer", "depth": 2, "width": 16, "heads": 2}
    tuned: Data = GRADINIT | {"base": "fairseq", "clip": None, "betas": [0.9, 0.98], "norm_ceiling": 10.0}
    starts: list[Data] = [
        *({"name": name} for name in ("fairseq", "fairseq_0_9", "admin", "deepnorm", "pytorch_default", "lecun")),
        tuned | {"second_moment": ["own", "shared"]},
        METAINIT,
    ]
    joint: Data = {"dataset": words, "since": TRANSFORMERS}
    yield case("translation/post", transformer, starts, recipe=adam, probes=measured[1:], **joint)
    yield case("translation/none", transformer | {"norm": "none"}, ["tfixup", "fixup"], recipe=adam, **joint)
    yield case("translation/pre", transformer | {"norm": "pre", "dropout": 0.1}, recipe=adam, **joint)
    fields: dict[str, Data] = {
        "tokens": {name: value for name, value in adam.items() if name != "batch_size"} | {"batch_tokens": 60},
        "smoothing": adam | {"label_smoothing": 0.1},
        "accumulate": adam | {"accumulate": 2},
        "warmup": adam | {"schedule": "inverse_square_root", "warmup_steps": 1},
        "shifted": adam | {"schedule": "inverse_square_root", "shift_steps": 2},
    }
    for name, recipe in fields.items():
        yield case(f"translation/{name}", transformer, recipe=recipe, **joint)


CASES: list[Case] = [
    *initializers(), *schemes(), *variants(), *recipes(), *architectures(), *probes(), *datasets(), *languages(),
]  # fmt: skip
