"""Schemes: the parts that some initialization methods need in a network, one file per scheme, put into any model.

A scheme is registered by `initbench.register_scheme`. An architecture may state the network of a scheme itself, as the
authors of Fixup wrote theirs.
"""
