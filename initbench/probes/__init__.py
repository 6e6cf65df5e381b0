"""Probes: measurements of a model at initialization, before any training step."""
