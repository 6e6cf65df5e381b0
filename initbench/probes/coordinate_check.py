"""How a coordinate check judges exponents: of layers' outputs, and of their change by the first training steps."""

TOLERANCE = 0.25
"""Exponents closer to 0 than this count as stable: at widths of 64 to 512, correct muP is within it."""
NOT_MOVED = "does not change, because its input or what follows it is still zero; take more steps"
"""Said of a layer whose outputs the steps have not changed, so that it has no exponent."""
