"""What a model starts from: `audit` of its tensors, `diff` of two laws, `check` of its signals and gradients."""
