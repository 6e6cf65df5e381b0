"""Losses that can be differentiated three times, and their derivatives.

The gradient quotient takes a second derivative of the loss, and MetaInit a third one. PyTorch has these for most of its
operations; where it lacks one, gets one wrong, or takes long, a function here computes the operation in another way,
with the reason, and with the test in `tests/differentiation/test_still_needed.py` that fails once the reason is gone.
`loss.differentiable_loss` is the one place where they are used.
"""
