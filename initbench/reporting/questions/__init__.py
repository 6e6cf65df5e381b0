"""The questions of a report, each a function from results to an `Answer`."""
