"""The command line, one file per command; `initbench.__main__` imports it after it has set signal handlers."""
