"""The statistics of the report, one concept per file; imports neither torch nor ray.

A *workload* is what treatments are compared within: all that is not compared, but the seed. A *cell* is a workload and
a treatment; its seeds are replicates. Treatments and workloads are crossed: one treatment runs on many workloads, so
that what is peculiar to it shows on all of them at once. Tables are workloads × treatments. Outcomes are oriented
(`Metric.oriented`), so that lower is better; that of a diverged trial is +∞, a cell that was not run is NaN.
"""
