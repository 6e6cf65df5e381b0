"""Does the signal keep its size from layer to layer, forwards and back?"""

from __future__ import annotations

from answering import answer, draw_layers, measurement, parser, results_of

LAYERS = ["mean_square", "standard_deviation", "squared_norm_ratio", "gradient_mean_square"]
BRANCHES = ["skip_deviation", "branch_deviation", "skip_gradient", "branch_gradient"]


def main() -> None:
    """Draw what the probe signal_by_depth measured for every layer, or residual branch, in order; print levels."""
    options = parser(str(__doc__), each="workload")
    which = "of the layers' outputs, inputs and gradients, or of both paths of residual blocks; default: mean_square"
    options.add_argument("--of", choices=[*LAYERS, *BRANCHES], default="mean_square", help=which)
    options.add_argument("--probe", default="signal_by_depth", help="as the suite names it; default: signal_by_depth")
    arguments = options.parse_args()
    results = results_of(arguments)
    draw_layers(arguments, results, measurement(results, f"{arguments.probe}.{arguments.of}"))


if __name__ == "__main__":
    answer(main)
