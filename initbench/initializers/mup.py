"""The maximal update parametrization, µP."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from initbench.arguments import check_counts
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.parametrization import (
    Factors,
    Heads,
    Network,
    Role,
    Scale,
    find_network,
    parametrize,
    separate_queries,
)
from initbench.registry import register_initializer


@register_initializer(
    "mup",
    reads_optimizer=True,
    sets_rates=True,
    smoke={"base_width": 1, "attention_heads": "more"},  # fits the small networks of smoke runs
    reference="Yang et al., Tensor Programs V: Tuning Large Neural Networks via Zero-Shot Hyperparameter Transfer, "
    "2022, Tables 3 and 8",
)
def mup(
    base_width: int = 64,
    std: float | None = None,
    gain: float = 1.0,
    embedding_std: float = 0.02,
    zero_readout: bool = False,
    zero_query: bool = False,
    attention_heads: Heads | None = None,
) -> Apply:
    """µP: weights and rates for which a learning rate chosen at `base_width` is meant to suit larger widths, too.

    With m = width / base_width, the variance of hidden weights is 1/m of the base's, and the forward pass multiplies
    what enters a head by 1/m. With Adam (and ``signsgd``) the rate of hidden weights is 1/m of the recipe's and their
    weight decay m times as large. With SGD the rate of all but hidden weights is m times as large, and their weight
    decay 1/m: embeddings, first layers, heads, hidden biases and norms. This is the paper's Table 8 for Adam, and the
    equivalent of its Table 3 for SGD, as in the authors' package.

    The 1/m of the heads is folded into their weights, rate, decay and ε, which gives the same outputs at every step, so
    the network stays as it is. At width `base_width` everything is the standard parametrization.

    Some networks multiply their embeddings by √width, a factor that fairseq and Hugging Face call ``embed_scale``.
    Relative to the base it grows as √m, which a factor of 1/√m cancels, folded into the embeddings' weights, rate,
    decay and ε. A factor with another name is not seen.

    The width is the number of inputs of the heads. All hidden sizes are taken to be m times those of the base, and the
    numbers of inputs, outputs, positions and layers to be equal. Positions that are plain parameters stay as built. A
    recipe keeps the multipliers: one with `lr_multipliers`, `weight_decays` or `clip_norm` is refused.

    Args:
        base_width: the width at which the recipe's learning rate was chosen; a divisor of the network's width.
        std: standard deviation of weights at the base width; null for gain / √fan_in.
        gain: see `std`; √2 suits ReLU.
        embedding_std: standard deviation of embeddings at the base width.
        zero_readout: whether heads start at 0: otherwise the outputs of wider networks start smaller.
        zero_query: whether queries start at 0.
        attention_heads: more, if wider networks have more heads, or wider, if they have wider heads: then scores are
            divided by the heads' size instead of its root, relative to the base, by a factor folded into the queries;
            null for networks without attention.

    Raises:
        ArgumentError: base_width is below 1, std, gain or embedding_std is not a finite number above 0, or std is
            given with a gain.
    """
    check_counts(base_width=base_width)
    scale = Scale(std, gain, embedding_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        network = find_network(model, context, base_width)
        law, zero = width_law(
            model, context, network, attention_heads, zero_readout=zero_readout, zero_query=zero_query
        )
        parametrize(model, context, network, law, scale, zero)

    return apply


def width_law(
    model: nn.Module,
    context: InitializationContext,
    network: Network,
    attention_heads: Heads | None,
    *,
    zero_readout: bool,
    zero_query: bool,
) -> tuple[dict[str, Factors], list[str]]:
    """Return the factors of all parameters by name, and the layers that start at 0; for the arguments see `mup`."""
    ratio = network.ratio
    queries = separate_queries(model, context, ratio, heads=attention_heads, zero_query=zero_query)
    law = {name: _factors(role, ratio, context.optimizer.name) for name, role in network.roles.items()}
    wider = queries if attention_heads == "wider" else ()
    for name in network.parameters_of(wider) | network.scaled_embeddings:
        law[name] = replace(law[name], multiplier=ratio**-0.5)
    return law, [*(context.structure.heads if zero_readout else ()), *(queries if zero_query else ())]


def _factors(role: Role, ratio: int, optimizer: str) -> Factors:
    multiplier = 1 / ratio if role == "output" else 1.0
    if optimizer == "sgd":
        grows = role in {"input", "output", "vector"}
        return Factors(multiplier, ratio, 1 / ratio) if grows else Factors(multiplier)
    return Factors(multiplier, 1 / ratio, ratio) if role == "hidden" else Factors(multiplier)
