"""What trials are compared by: treatments and workloads, their labels, conditions, and the chance level; no torch."""
