"""``python -m initbench`` is the command line."""

from initbench.cli import main

main()
