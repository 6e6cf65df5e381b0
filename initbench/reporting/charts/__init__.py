"""Figures: `specifications.yaml` declares their layers, `chart.py` binds columns, axes and a legend to them.

Frames hold display texts (short names of treatments and workloads), so that a figure says what the page says.
"""
