"""The statistics of the report, one concept per file; imports neither torch nor ray.

A *workload* is everything except the compared treatment and the seed. A *cell* is a workload and a treatment; its seeds
are replicates. Treatments and workloads are crossed: one treatment runs on many workloads, so anything peculiar to it
shows on all of them at once. Tables are workloads × treatments. Outcomes are oriented (`Metric.oriented`), so that
lower is better; a diverged trial has +∞, a cell that was not run has NaN.
"""
