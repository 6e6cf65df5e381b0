"""What does initialization cost, and what reaches a target with the least compute in all?"""

from __future__ import annotations

from answering import answer, draw, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import cost


def main() -> None:
    """Draw the steps until a target is met with those that the initializer cost, or profiles; print all of them."""
    options = parser(str(__doc__), each="workload")
    what = "steps to the target on each workload (default), or a performance profile over all workloads"
    options.add_argument("--figure", choices=["steps", "profile"], default="steps", help=what)
    target = "an outcome, errors as a fraction; default: each workload has its own"
    options.add_argument("--target", type=float, help=target)
    arguments = options.parse_args()
    found = cost(results_of(arguments), target=arguments.target, workload=arguments.workload)
    if found is None:
        raise InitbenchError(f"{arguments.workload or arguments.folders[0]}: no trial has a result")
    figures = [figure for figure in found.figures if bool(figure.subject) == (arguments.figure == "steps")]
    reason = "a profile is over two workloads or more" if arguments.figure == "profile" else "no target is met anywhere"
    draw(arguments, figures, reason)
    say(found.sentences, *found.main_tables)


if __name__ == "__main__":
    answer(main)
