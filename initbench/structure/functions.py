"""Torch's functions under one name each: ``x + y``, ``x.add_(y)`` and ``torch.add`` are ``add``."""

from __future__ import annotations

from typing import Any

ArgumentKey = int | str | tuple[int | str, ...]
"""An argument of a function: its position or name, followed by its place in a list or dictionary."""

ADDITIONS = {"add"}
# Functions that multiply, and their factors, which may be scalars or tensors.
FACTORS: dict[str, tuple[ArgumentKey, ...]] = {"mul": (0, 1, "other"), "addcmul": (1, 2, "tensor1", "tensor2")}

# Functions that only move entries: scaling the input scales the output.
MOVES = {
    *["transpose", "permute", "reshape", "view", "flatten", "unflatten", "contiguous", "roll", "squeeze", "unsqueeze"],
    *["swapaxes", "movedim", "t", "to", "type_as", "float", "clone", "expand"],
    *["swapdims", "adjoint", "T", "mT", "H", "mH", "data", "real", "imag"],
}

# Functions that choose entries or put them together again.
SELECTIONS = {
    *["item", "getitem", "select", "gather", "index_select", "topk", "sort", "chunk", "split", "unbind", "repeat"],
    *["max", "amax", "expand_as", "view_as", "reshape_as", "repeat_interleave", "interpolate"],
}

# Functions and the values that they choose from, group or replace; the other arguments say which.
CHOSEN: dict[str, tuple[ArgumentKey, ...]] = {
    **dict.fromkeys(["getitem", "gather", "index_select", "masked_fill"], (0, "input")),
    "setitem": (0, 2),
    "where": (1, 2, "input", "other"),
    **dict.fromkeys(["index_add", "scatter", "scatter_add"], (0, 3, "input", "source", "src")),
    "grouped_mm": (0, 1, "mat2"),
}

# Functions with bounded values, as gates have.
BOUNDED = {"sigmoid", "hardsigmoid", "softmax", "tanh", "hardtanh", "relu6", "clamp"}

# Softmax of the scaled product of queries and keys, times the values.
FUSED_ATTENTION = "scaled_dot_product_attention"

# Functions of layers, the kind of layer, and the position of the weight.
_CONVOLUTIONS = [f"{kind}{dims}d" for kind in ("conv", "conv_transpose") for dims in (1, 2, 3)]
WEIGHTS: dict[str, tuple[str, tuple[ArgumentKey, ...]]] = {
    "linear": ("linear", (1, "weight")),
    "bilinear": ("bilinear", (2, "weight")),
    "embedding": ("embedding", (1, "weight")),
    "embedding_bag": ("embedding", (1, "weight")),
    **dict.fromkeys(_CONVOLUTIONS, ("convolution", (1, "weight"))),
}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}

# Products of two matrices, and the matrices' positions. A matrix made only from parameters is a weight.
MATRIX_PRODUCTS: dict[str, tuple[ArgumentKey, ...]] = {
    **dict.fromkeys(["matmul", "mm", "bmm", "mv"], (0, 1, "other", "mat2")),
    **dict.fromkeys(["addmm", "baddbmm", "addbmm", "addmv"], (1, 2, "mat1", "mat2", "batch1", "batch2")),
    "tensordot": (0, 1, "a", "b"),
    "einsum": (1, 2, (1, 0), (1, 1)),
    "grouped_mm": (0, 1, "mat2"),
}

NORMS = {
    *["layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm", "native_layer_norm", "native_batch_norm"],
    *["fused_rms_norm", "local_response_norm"],
}
# Functions by whose result a custom norm divides or multiplies.
DEVIATIONS = {"rsqrt", "sqrt", "std", "var", "var_mean", "std_mean", "norm", "vector_norm"}

# Weight layers and these functions are one linear map (ignoring the statistics of norms).
LINEAR = {
    *MOVES,
    *NORMS,
    *ADDITIONS,
    *WEIGHTS,
    *["item", "getitem", "sub", "cat", "stack", "split", "chunk", "unbind", "narrow", "pad", "mean", "sum"],
    *["avg_pool1d", "avg_pool2d"],
    *["adaptive_avg_pool1d", "adaptive_avg_pool2d", "dropout", "interpolate", "pixel_unshuffle", "pixel_shuffle"],
}

# Functions whose result has the shape or type of a tensor, but none of its values.
FACTORIES = {
    *["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones"],
    *["new_empty", "new_full", "new_tensor"],
}

_OTHER_NAMES = {"multiply": "mul", "iadd": "add", "radd": "add", "imul": "mul", "rmul": "mul", "rmatmul": "matmul"}


def name_of(function: Any) -> str:
    """Return the name of a torch function or method, without underscores and the same for in-place versions.

    Reading an attribute, as in ``x.T``, has the attribute's name.
    """
    name = str(getattr(function, "__name__", type(function).__name__)).strip("_")
    if name == "get":
        name = str(getattr(function.__self__, "__name__", name))
    return _OTHER_NAMES.get(name, name)


def writes(function: Any) -> bool:
    """Return whether a function may write into its first argument: ``add_``, ``__iadd__``, ``__setitem__``, ``set``."""
    name = str(getattr(function, "__name__", ""))
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")
