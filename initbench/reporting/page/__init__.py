"""The report as HTML, Markdown, LaTeX and JSON, each a pure function of `Contents`."""
