"""What papers printed and said, and how it is judged from trials."""
