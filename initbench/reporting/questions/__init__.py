"""The questions of a report, a file each; `every_question` lists them."""
