"""Reports from ledgers; imports neither torch nor ray."""
