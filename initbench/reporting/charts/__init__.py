"""Drawings: each function takes a frame and gives the Vega-Lite specification of a `figure.Figure`.

Frames hold display texts (short names of treatments and workloads), so that a chart says what the page says.
"""
