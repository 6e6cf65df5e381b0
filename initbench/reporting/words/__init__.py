"""Facts in words: every sentence of a report is made here, of at most 25 words; what it states is found elsewhere."""
