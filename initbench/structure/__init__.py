"""The structure of a network, found by running it once (`initbench.find_structure`)."""
