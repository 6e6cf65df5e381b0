"""The command line, one file per command; imported at first use, so that signal handlers are set before all else."""
