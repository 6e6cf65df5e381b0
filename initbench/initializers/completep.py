"""CompleteP and Depth-µP: µP, and branches and rates scaled by depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from initbench.arguments import check_counts
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.branches import required_branches, transformer_blocks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.mup import width_law
from initbench.initializers.parametrization import Heads, Scale, find_network, parametrize, ratio_to_base
from initbench.registry import register_initializer
from initbench.structure.residual import ResidualBranch

_LEAST_ALPHA = 0.5


def _refuses(arguments: Mapping[str, Any], optimizer: str, lr: float) -> str | None:
    del arguments, lr
    return (
        "completep is for adam and adamw, whose rates the paper gives; use mup for sgd" if optimizer == "sgd" else None
    )


@register_initializer(
    "completep",
    reads_optimizer=True,
    refuses=_refuses,
    sets_rates=True,
    smoke={"base_width": 1, "base_depth": 1, "attention_heads": "more"},  # fits the small networks of smoke runs
    reference="Dey et al., Don't be lazy: CompleteP enables compute-efficient deep transformers, 2025, Table 1; "
    "Yang et al., Tensor Programs VI: Feature Learning in Infinite-Depth Neural Networks, 2023 (alpha 0.5)",
)
def completep(
    base_width: int = 64,
    base_depth: int = 2,
    alpha: float = 1.0,
    std: float | None = None,
    gain: float = 1.0,
    embedding_std: float = 0.02,
    zero_readout: bool = False,
    zero_query: bool = False,
    attention_heads: Heads | None = None,
) -> Apply:
    """µP with factors for depth: x + r·f(x) in residual branches, r = (depth / base_depth)^-alpha. For Adam.

    Beside the factors of `mup`, for which m = width / base_width, all parameters within branches (weights, biases,
    norms and gates) have the rate times (depth / base_depth)^(alpha - 1) and ε times r / m. All others have ε times
    1 / m (equation 40 of the paper).

    alpha 1 is CompleteP, and alpha 0.5 is Depth-µP (Tensor Programs VI). The factor r is folded into the last layer of
    each branch: its weight and bias are r times as large, their rate is multiplied by r, and decay and ε are divided by
    it, which gives the same outputs at every step.

    The depth is the number of transformer blocks if there is attention, and the number of residual branches otherwise.
    The law was derived for branches that begin with a norm. Branches that end in a norm or an activation are refused,
    because their last layer cannot hold a factor.

    Args:
        base_width: the width at which the learning rate was chosen, see `mup`.
        base_depth: the depth at which the learning rate was chosen; a divisor of the network's depth.
        alpha: 1 for CompleteP, 0.5 for Depth-µP; the paper covers what lies between.
        std: standard deviation of weights at the base width; null for gain / √fan_in.
        gain: see `std`; √2 suits ReLU.
        embedding_std: standard deviation of embeddings at the base width.
        zero_readout: whether heads start at 0.
        zero_query: whether queries start at 0.
        attention_heads: what grows with the width, more heads or wider ones, see `mup`.

    Raises:
        ArgumentError: base_width or base_depth is below 1, alpha is not between 0.5 and 1, std, gain or embedding_std
            is not a finite number above 0, or std is given with a gain.
    """
    check_counts(base_width=base_width, base_depth=base_depth)
    if not _LEAST_ALPHA <= alpha <= 1:
        raise ArgumentError(f"must be at least {_LEAST_ALPHA} and at most 1, got {alpha}", "alpha")
    scale = Scale(std, gain, embedding_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        refused = _refuses({}, context.optimizer.name, context.optimizer.lr)
        if refused is not None:
            raise InitializationError(refused)
        network = find_network(model, context, base_width)
        branches = _separate_branches(context)
        depth = transformer_blocks(model, context).number if context.structure.attention else len(branches)
        depth_ratio = ratio_to_base(context, "depth", depth, base_depth)
        factor, rate = depth_ratio**-alpha, depth_ratio ** (alpha - 1)
        law, zero = width_law(
            model, context, network, attention_heads, zero_readout=zero_readout, zero_query=zero_query
        )
        within = {name for branch in branches for name in branch.parameters}
        ends = network.parameters_of(end for branch in branches for end in branch.ends)
        for name, factors in law.items():
            if name in within:
                rates = {"learning_rate": rate * factors.learning_rate, "epsilon": factor / network.ratio}
                law[name] = replace(factors, **rates, multiplier=factors.multiplier * (factor if name in ends else 1))
            else:
                law[name] = replace(factors, epsilon=1 / network.ratio)
        parametrize(model, context, network, law, scale, zero)
        context.record.conditions |= {"depth": depth, "depth_ratio": depth_ratio}

    return apply


def _separate_branches(context: InitializationContext) -> tuple[ResidualBranch, ...]:
    """Return the residual branches; refuse a model in which a factor cannot be folded into the ends of each."""
    branches = required_branches(context)
    times = Counter(layer for branch in branches for layer in {*branch.inner, *branch.ends})
    for branch in branches:
        where = branch.block or type(context.model).__name__
        shared = next((layer for layer in (*branch.inner, *branch.ends) if times[layer] > 1), None)
        if shared is not None:
            raise InitializationError(f"completep: {shared} is in several residual branches, so its factor is unknown")
        if not branch.scales:
            raise InitializationError(
                f"completep: the branch of {where} does not end in the weight layer {branch.ends[-1]}, which therefore "
                "cannot hold the branch's factor"
            )
    return branches
