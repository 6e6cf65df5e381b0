"""Claims of papers, judged by the trials of a suite: each criterion by rules of its own, and what its numbers are."""
