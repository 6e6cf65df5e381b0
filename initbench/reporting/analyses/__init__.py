"""The questions of a report, one per file: each finds facts, as an object with frames, sentences and figures."""
