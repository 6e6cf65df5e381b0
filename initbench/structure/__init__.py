"""The structure of a network: what is known of it from one run (`initbench.find_structure`)."""
