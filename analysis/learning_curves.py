"""How did training go, on test and on training data?"""

from __future__ import annotations

from answering import answer, draw, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import training_curves

PREFIXES = {"steps": "steps-", "compute": "compute-"}


def main() -> None:
    """Draw medians over the seeds with bands from the smallest to the largest; print where the curves end."""
    options = parser(str(__doc__), each="workload")
    axis = "training steps (default), or compute, which begins with what the initializer spent"
    options.add_argument("--by", choices=list(PREFIXES), default="steps", help=f"the horizontal axis: {axis}")
    arguments = options.parse_args()
    found = training_curves(results_of(arguments), workload=arguments.workload)
    if found is None:
        raise InitbenchError(
            f"{arguments.workload or arguments.folders[0]}: nothing was trained, or every trial failed"
        )
    figures = [figure for figure in found.figures if figure.name.startswith(PREFIXES[arguments.by])]
    draw(arguments, figures, str(found.sentences[0]))
    say(found.sentences, *found.main_tables)


if __name__ == "__main__":
    answer(main)
