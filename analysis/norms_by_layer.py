"""What did the network look like at initialization, layer by layer?"""

from __future__ import annotations

from answering import answer, draw, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import layers


def main() -> None:
    """Draw a measurement by layer, medians over the seeds with bands; print its level for each initializer."""
    options = parser(str(__doc__), each="workload")
    which = "what was measured in every layer, such as gradient_norm.per_layer; default: the first that the suite has"
    options.add_argument("--probe", default="", help=which)
    arguments = options.parse_args()
    found = layers(results_of(arguments), probe=arguments.probe, workload=arguments.workload)
    if found is None:
        raise InitbenchError(f"{arguments.workload or arguments.folders[0]}: nothing was measured by layer")
    first = str(found.profiles["probe"].iloc[0])
    if not arguments.probe:
        found = layers(found.results, probe=first, workload=arguments.workload) or found
    draw(arguments, found.figures, " ".join(found.remarks))
    say(found.sentences, *found.main_tables)


if __name__ == "__main__":
    answer(main)
