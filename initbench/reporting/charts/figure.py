"""A drawing with its words."""
