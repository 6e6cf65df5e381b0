"""Initializers: they set the values of a model's parameters before training."""
