"""Numbers and claims of papers, and how they are judged from trials."""
