"""Schemes add the parts that some initialization methods need to any model, one file per scheme.

A scheme is registered by `initbench.register_scheme`. An architecture may also build a scheme's network itself, as the
authors of Fixup did.
"""
