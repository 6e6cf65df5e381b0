"""How a test's own pytest gets the plug-in, which an environment installed before it had one lacks."""

from importlib.metadata import entry_points

PLUGIN = "initbench.testing.pytest_plugin"
INSTALLED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
OPTIONS = [] if INSTALLED else ["-p", PLUGIN]
