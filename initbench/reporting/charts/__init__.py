"""Drawings: each takes a frame and gives a `Figure`."""
