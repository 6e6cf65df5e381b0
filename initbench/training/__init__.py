"""Training of a model."""
