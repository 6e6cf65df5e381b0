"""Handling an `nn.Module` of anybody: outputs, norms, state that is kept, and calls of user code."""
