"""Work with any `nn.Module`: outputs, norms, preserved state, and calls of user code."""
