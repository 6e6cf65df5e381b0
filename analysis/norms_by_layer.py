"""What did the network look like at initialization, layer by layer, and how far is that from a good initializer's?"""

from __future__ import annotations

from answering import answer, draw_layers, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import layers


def main() -> None:
    """Draw a measurement by layer, medians over the seeds with bands; print its level for each initializer."""
    options = parser(str(__doc__), each="workload")
    help_of_probe = (
        "what was measured in every layer, such as gradient_norm.per_layer; default: the first that the suite has"
    )
    options.add_argument("--probe", default="", help=help_of_probe)
    other = "print how far the others are from this initializer, by the name that the report gives it"
    options.add_argument("--reference", default="", metavar="NAME", help=other)
    arguments = options.parse_args()
    results = results_of(arguments)
    tables = []
    which = {"probe": arguments.probe, "workload": arguments.workload, "reference": arguments.reference}
    if arguments.reference and (found := layers(results, **which)):
        tables = [table for table in found.tables if table.name == "distances"]
        if not len(tables[0].frame):
            raise InitbenchError(f"{arguments.reference}: nothing was measured by layer of it and of others beside it")
    draw_layers(arguments, results, arguments.probe)
    say([], *tables)


if __name__ == "__main__":
    answer(main)
