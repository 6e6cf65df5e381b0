"""Initializers: what sets the values of a model's parameters before training."""
