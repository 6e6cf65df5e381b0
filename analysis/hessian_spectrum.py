"""How does the Hessian's spectrum at initialization change with a tuner's steps, and between initializers?"""

from __future__ import annotations

from answering import answer, draw, draw_layers, measurement, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import tuner_steps

NUMBERS = ["largest_eigenvalue", "gradient_share"]
CURVES = ["eigenvalues", "positive_density", "negative_density"]


def main() -> None:
    """Draw single numbers by the tuner's steps, or eigenvalues by rank and densities; print the numbers behind."""
    options = parser(str(__doc__), each="workload")
    which = "the largest eigenvalue's size (default) or the gradient's share in the span of the largest, by steps; "
    which += "the eigenvalues by rank; or the share of the eigenvalues in each half of a decade"
    options.add_argument("--of", choices=[*NUMBERS, *CURVES], default=NUMBERS[0], help=which)
    options.add_argument("--probe", default="hessian_spectrum", help="as the suite names it; default: hessian_spectrum")
    arguments = options.parse_args()
    results = results_of(arguments)
    probe = measurement(results, f"{arguments.probe}.{arguments.of}")
    if arguments.of in NUMBERS:
        steps = tuner_steps(results, probe=probe, workload=arguments.workload)
        if steps is None:
            raise InitbenchError(f"{arguments.folders[0]}: no tuner ran with several numbers of steps")
        draw(arguments, steps.figures, "no value is finite")
        say(steps.sentences, *steps.main_tables)
    else:
        draw_layers(arguments, results, probe)


if __name__ == "__main__":
    answer(main)
