"""Layers that run within `nn.MultiheadAttention`, which reads their weights and never calls them."""

from __future__ import annotations

from torch import nn


def attention_layers(model: nn.Module) -> set[nn.Module]:
    """Return the modules within a model's `nn.MultiheadAttention`: nothing can be put before or into them."""
    attentions = [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
    return {part for attention in attentions for part in attention.modules()}
