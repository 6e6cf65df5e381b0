"""The pairs that cannot run."""
