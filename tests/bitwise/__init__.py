"""Proofs that a redesign changes nothing: the same numbers, plans and reports by two versions; see README.md."""
