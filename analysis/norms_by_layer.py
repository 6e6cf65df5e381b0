"""What did the network look like at initialization, layer by layer?"""

from __future__ import annotations

from answering import answer, draw_layers, parser, results_of


def main() -> None:
    """Draw a measurement by layer, medians over the seeds with bands; print its level for each initializer."""
    options = parser(str(__doc__), each="workload")
    which = "what was measured in every layer, such as gradient_norm.per_layer; default: the first that the suite has"
    options.add_argument("--probe", default="", help=which)
    arguments = options.parse_args()
    draw_layers(arguments, results_of(arguments), arguments.probe)


if __name__ == "__main__":
    answer(main)
