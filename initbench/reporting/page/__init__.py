"""What a report says, written down: as HTML, Markdown, LaTeX and JSON, each a pure function of one `Contents`."""
