"""How does the outcome of each initializer change with depth?"""

from __future__ import annotations

from answering import answer, draw, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import depth_profile


def main() -> None:
    """Draw the outcome by depth for each family of networks that differ in depth alone; print medians and ranges."""
    arguments = parser(str(__doc__), each="family").parse_args()
    found = depth_profile(results_of(arguments), family=arguments.family)
    if found is None:
        raise InitbenchError(f"{arguments.folders[0]}: no two networks differ in depth alone")
    draw(arguments, found.figures, str(found.sentences[0]))
    say(found.sentences, *found.main_tables)


if __name__ == "__main__":
    answer(main)
