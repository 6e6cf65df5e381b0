"""How trials are compared: treatments and workloads, their labels, conditions, and the chance level; no torch."""
