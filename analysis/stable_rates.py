"""How far below the largest stable learning rate is the best one, and how does that change with the batch size?"""

from __future__ import annotations

from answering import answer, draw, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import stable_rates


def main() -> None:
    """Draw both rates by batch size, for networks that differ in nothing else; print the ratio of every cell."""
    arguments = parser(str(__doc__)).parse_args()
    found = stable_rates(results_of(arguments))
    if found is None:
        raise InitbenchError(f"{arguments.folders[0]}: no search over learning rates trained")
    draw(arguments, found.figures, "no two workloads differ in batch size alone")
    say(found.sentences, *found.main_tables)


if __name__ == "__main__":
    answer(main)
