"""Small suites that have every component, argument and recipe field with a value other than its default."""

from pathlib import Path

NOISE = {"name": "gaussian", "train_size": 8, "image_size": 8, "validation_size": 4, "test_size": 4}
TEXT = {"name": "text_file", "files": str(Path(__file__).parents[2] / "README.md"), "context": 8, "train_size": 8}
TEXT |= {"validation_size": 4, "test_size": 4}
STEP = {"epochs": 1, "batch_size": 8, "lr": 0.01}
WRN = {"name": "wrn", "depth": 10, "width": 1, "norm": "none"}
WITH_NORM = WRN | {"norm": "batch"}
MLP = {"name": "mlp", "width": 8}
RESIDUAL = {"name": "residual_mlp", "width": 8}
GPT = {"name": "gpt", "depth": 1, "width": 8, "heads": 2}
SENTENCES = {"name": "number_words", "train_size": 8, "validation_size": 4, "test_size": 4}
TRANSFORMER = {"name": "transformer", "depth": 1, "width": 8, "heads": 2}
METAINIT = {"name": "metainit", "steps": 2, "batch_size": 4}
GRADINIT = {"name": "gradinit", "iterations": 3, "batch_size": 4}
LSUV = {"name": "lsuv", "batch_size": 8}
COMPLETEP = {"base_depth": 1, "alpha": 0.5}
SMALL = {"batch_size": 4, "batches": 2}

DRAWN = [
    {"name": "delta_orthogonal", "gain": 1.4},
    {"name": "fixup", "mode": ["fan_in", "fan_out"], "nonzero": True, "scalar_learning_rate": 0.3},
    {"name": "gaussian", "std": 0.3},
    {"name": "kaiming", "mode": "fan_out", "distribution": ["uniform", "normal"], "gain": 1.0, "classifier_std": 0.1},
    {"name": "lecun", "distribution": ["normal", "uniform"]},
    {"name": "looks_linear", "gain": 1.4},
    {"name": "orthogonal", "gain": 1.4},
    "pytorch_default",
    {"name": "skipinit", "alpha": [0.2, "1/sqrt(d)"]},
    {"name": "truncated_normal", "std": 0.1, "bound": 2.5},
    {"name": "weight_norm", "gain": "backward", "direction": "normal", "stem": 0.5},
    {"name": "xavier", "distribution": "normal", "gain": 0.7},
    "zero",
]
TUNED = [
    {"name": "data_dependent_weight_norm", "batch_size": 8, "data": "random"}
    | {"base": {"name": "weight_norm", "gain": "backward"}},
    LSUV | {"base": "kaiming", "std": 0.5, "tolerance": 0.5, "data": "random", "remove_mean": True},
    METAINIT | {"base": "kaiming", "optimizer": "sgd", "lr": 0.01, "momentum": 0.5, "eps": 1e-4},
    METAINIT | {"optimizer": "adam", "data": "real", "norm": "l2", "method": "finite_difference", "clip": 0.1},
    METAINIT | {"steps": 6, "plateau_window": 2, "plateau_tolerance": 0.5, "parametrization": "scale"},
    METAINIT | {"zeros": "keep", "micro_batch_size": 2, "input_size": 16, "base": "zero"},
    GRADINIT | {"base": "xavier", "optimizer": ["sgd", "adam"], "tau": 0.1, "gamma": 0.5, "eta": 0.01},
    GRADINIT | {"second_order": True, "overlap": 0.0, "floor": 0.1, "clip": 0.1, "data": "random"},
    GRADINIT | {"micro_batch_size": 2},
    GRADINIT | {"betas": [[0.9, 0.98]], "second_moment": "own", "norm_ceiling": 1.5},
]
BOTH = {"data": ["random", "real"], "mode": ["eval", "train"]}
PROBES = [
    {"name": "batch_norm_magnification", "data": "random"} | SMALL,
    {"name": "coordinates", "data": "random", "batch_size": 2, "steps": 1},
    {"name": "gradient_deviation", "data": "random", "mode": "eval"} | SMALL,
    {"name": "gradient_norm"} | BOTH | SMALL,
    {"name": "gradient_quotient", "eps": 1e-3} | BOTH | SMALL,
    {"name": "initial_loss"} | BOTH | SMALL,
    "parameter_norm",
    {"name": "signal_by_depth", "data": "random", "mode": "eval"} | SMALL,
    "weight_magnitude",
]
HESSIAN = {"name": "hessian_spectrum", "eigenvalues": 1, "most_products": 4, "lanczos_steps": 2, "lanczos_vectors": 2}
HESSIAN |= {"tolerance": 0.1, "mode": "train", "data": "random", "batch_size": 4, "batches": 2}
WITH_MICRO_BATCHES = {"name": "gradient_quotient", "micro_batch_size": 2} | SMALL
RECIPES = [
    {"nesterov": True, "momentum": 0.8, "weight_decay": 0.01, "clip_norm": 0.1, "history_every": 1},
    {"optimizer": "signsgd", "weight_decays": {"bias": 0.1}, "evaluate_every": 1, "label_smoothing": 0.1},
    {"optimizer": "adam", "betas": [0.5, 0.9], "lr_multipliers": {"bias": 0.1}, "mixup": 1.0, "cutout": 3},
    {"optimizer": "adamw", "schedule": "linear", "crop": 2, "flip": True, "warmup_epochs": 0.5, "batch_size": 4},
    {"schedule": "step", "epochs": 2, "milestones": [1], "step_factor": 0.5, "random_resized_crop": [0.2, 1.0]},
    {"schedule": "inverse_square_root", "warmup_steps": 1, "batch_size": 4, "accumulate": 2}
    | {"batch_norm": "micro_batch"},
    {"schedule": "inverse_square_root", "shift_steps": 2},
    {"schedule": "constant", "precision": "bf16", "channels_last": True},
    {"activation_checkpointing": True, "threads": 2, "deterministic": True},
]
DROPPED = [WITH_NORM | {"dropout": 0.2, "activation": "beta_swish"}, MLP | {"norm": "batch", "dropout": 0.2}]

SUITES = {
    "drawn": {"architectures": [WRN, MLP], "initializers": DRAWN},
    "tuned": {"architectures": WRN, "initializers": TUNED},
    "tuned_with_norm": {"architectures": WITH_NORM, "initializers": METAINIT | {"mode": "train"}},
    "transformer": {
        "dataset": TEXT,
        "architectures": GPT | {"dropout": 0.1},
        "initializers": [{"name": "gpt2", "std": 0.1, "residual": "zero"}, METAINIT, GRADINIT, LSUV]
        + [{"name": name, "embedding_std": 0.1} for name in ("kaiming", "xavier", "orthogonal", "zero")]
        + [{"name": "gpt2", "position_std": 0.1}, {"name": "small_init", "residual": "small"}, "mitchell"]
        + [{"name": "llama", "std": 0.1, "depth": "model", "cut": 3.0}]
        + ["fairseq", "fairseq_0_9"],
    },
    "translation": {
        "dataset": SENTENCES,
        "architectures": [
            TRANSFORMER | {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1},
            TRANSFORMER | {"norm": ["pre", "none"], "tied": "none", "hidden": 12, "decoder_depth": 2},
        ],
        "initializers": ["fairseq", METAINIT, GRADINIT, LSUV],
        "probes": [{"name": name} | SMALL for name in ("gradient_quotient", "signal_by_depth", "initial_loss")],
    },
    "batches_of_tokens": {
        "dataset": SENTENCES,
        "architectures": TRANSFORMER,
        "recipe": {"epochs": 1, "lr": 0.01, "batch_tokens": 24},
    },
    "probes_of_gpt": {
        "dataset": TEXT,
        "architectures": GPT,
        "probes": [{"name": name} | SMALL for name in ("gradient_quotient", "signal_by_depth", "initial_loss")],
        "recipe": STEP | {"epochs": 0},
    },
    "parametrizations": {
        "dataset": TEXT,
        "architectures": GPT | {"tied": False},
        "initializers": [
            {"name": name, "zero_readout": True, "zero_query": True, "attention_heads": heads, "embedding_std": 0.1}
            | base
            | scale
            for name, base in (("mup", {"base_width": 4}), ("completep", {"base_width": 4, **COMPLETEP}))
            for heads, scale in (("more", {"std": 0.1}), ("wider", {"gain": 1.4}))
        ],
        "recipe": STEP | {"optimizer": "adamw", "weight_decay": 0.1},
    },
    "post_norm": {
        "dataset": TEXT,
        "architectures": GPT | {"norm": "post", "scheme": [{"name": "deepnorm", "alpha": [1.5, 2.0]}, "admin"]},
        "initializers": [{"name": "deepnorm", "beta": 0.5}]
        + [{"name": "admin", "base": "gpt2", "data": data, "batch_size": 4} for data in ("random", "real")],
    },
    "without_norm": {
        "dataset": SENTENCES,
        "architectures": TRANSFORMER | {"norm": "none"},
        "initializers": "tfixup",
    },
    "options_of_gpt": {
        "dataset": TEXT,
        "architectures": GPT | {"positions": "rotary", "activation": "swiglu", "norm_type": "rms"},
        "initializers": "pytorch_default",
    },
    "layer_scale": {
        "architectures": RESIDUAL | {"scheme": "skipinit"},
        "initializers": {"name": "layer_scale", "value": 0.3, "std": 0.1},
    },
    "schemes": {
        "architectures": [
            WRN | {"scheme": ["fixup", "skipinit", "weight_norm"]},
            WITH_NORM | {"scheme": ["weight_norm_beside_norm", "channel_bias"]},
        ],
        "initializers": "kaiming",
    },
    "rewritten": {
        "architectures": [
            {"name": "torchvision/resnet18", "scheme": ["fixup", "skipinit", "weight_norm", "channel_bias"]},
        ],
        "initializers": "kaiming",
        "recipe": STEP | {"epochs": 0},
    },
    "hessian": {"architectures": MLP, "probes": [HESSIAN], "recipe": STEP | {"epochs": 0}},
    "probes": {"architectures": WITH_NORM, "probes": PROBES, "recipe": STEP | {"epochs": 0}},
    "micro_batched_probe": {"architectures": WRN, "probes": [WITH_MICRO_BATCHES], "recipe": STEP | {"epochs": 0}},
} | {f"recipe_{n}": {"architectures": DROPPED, "recipe": STEP | recipe} for n, recipe in enumerate(RECIPES)}
DEFAULTS = {"name": "pretend", "dataset": NOISE, "initializers": "kaiming", "recipe": STEP, "probes": []}
