"""The statistics of the report, one concept per file; imports neither torch nor ray.

A *workload* is what treatments are compared within: the frame's `workload`, architecture × scheme × dataset × recipe. A
*cell* is a workload and a treatment; its seeds are replicates. Treatments and workloads are crossed: one
treatment runs on many workloads, so that what is peculiar to it shows on all of them at once. Tables are workloads ×
treatments; an error of a diverged trial is +∞, a cell that was not run is NaN.
"""
