"""The statistics of the report, one concept per file; imports neither torch nor ray.

A *workload* is what initializers are compared within: the frame's `group`, architecture × scheme × dataset × recipe. A
*cell* is a workload and an initializer; its seeds are replicates. Initializers and workloads are crossed: one
initializer runs on many workloads, so that what is peculiar to it shows on all of them at once. Tables are workloads ×
initializers; an error of a diverged trial is +∞, a cell that was not run is NaN.
"""
