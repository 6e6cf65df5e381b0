"""How large are the weights of each layer, and how far does their gradient scatter over mini-batches?"""

from __future__ import annotations

from answering import answer, draw_layers, measurement, parser, results_of

QUANTITIES = {"gradients": "gradient_deviation.per_layer", "weights": "weight_magnitude.per_layer"}


def main() -> None:
    """Draw one of them by layer for all initializers, as Figures 4 to 8 of GradInit do; print levels."""
    options = parser(str(__doc__), each="workload")
    which = "the standard deviation of their gradients over mini-batches (default), or the mean size of the weights"
    options.add_argument("--of", choices=list(QUANTITIES), default="gradients", help=which)
    arguments = options.parse_args()
    results = results_of(arguments)
    draw_layers(arguments, results, measurement(results, QUANTITIES[arguments.of]))


if __name__ == "__main__":
    answer(main)
