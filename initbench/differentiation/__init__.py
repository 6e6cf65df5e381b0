"""Losses that can be differentiated three times, and their derivatives.

The gradient quotient takes a second derivative of the loss, and MetaInit a third. PyTorch has these for most of its
operations. If it lacks one, computes it wrongly or slowly, a function here computes the operation in another way; it
gives the reason, and a test in `tests/differentiation/test_still_needed.py` fails once the reason is gone. They are
used only by `loss.differentiable_loss`.
"""
