"""How does a tuner's objective fall with its steps, and by what does it multiply the weights of each layer?"""

from __future__ import annotations

from answering import answer, draw, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import tuning

PREFIXES = {"objective": "tuning-", "factors": "factors-"}


def main() -> None:
    """Draw the objective by step, or scale factors by layer; print both ends of every tuning."""
    options = parser(str(__doc__), each="workload")
    which = "what the tuner descends, such as the gradient quotient, by step (default), or its scale factors by layer"
    options.add_argument("--of", choices=list(PREFIXES), default="objective", help=which)
    arguments = options.parse_args()
    found = tuning(results_of(arguments), workload=arguments.workload)
    if found is None:
        raise InitbenchError(f"{arguments.workload or arguments.folders[0]}: no initializer is a tuner")
    figures = [one for one in found.figures if one.subject and one.name.startswith(PREFIXES[arguments.of])]
    draw(arguments, figures, "no tuner has a history" if arguments.of == "objective" else "no tuner scales weights")
    say(found.sentences, *found.main_tables)


if __name__ == "__main__":
    answer(main)
