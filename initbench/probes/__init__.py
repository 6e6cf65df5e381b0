"""Probes: what is measured on a model at initialization, before any training step."""
