"""Which initializer has the better outcome, over all workloads of a suite?"""

from __future__ import annotations

from answering import answer, draw, parser, results_of, say

from initbench.reporting import compare, divergence, overview, variance

NAMES = {"overview": "overview", "ranks": "mean-ranks", "differences": "differences"}


def main() -> None:
    """Draw the map of all cells, mean ranks or differences; print the order, who diverges, and what it depends on."""
    options = parser(str(__doc__))
    what = "the map of all cells (default), mean ranks with the critical difference, or differences from the reference"
    options.add_argument("--figure", choices=list(NAMES), default="overview", help=what)
    options.add_argument("--reference", default="", help="compare all with this one; default: the one that ranks best")
    arguments = options.parse_args()
    results = results_of(arguments)
    whole, found = overview(results), compare(results, reference=arguments.reference)
    figures = [figure for figure in (*whole.figures, *found.figures) if figure.name == NAMES[arguments.figure]]
    draw(arguments, figures, " ".join(found.remarks or [str(found.sentences[0])]))
    sentences = list(found.sentences)
    for analysis in (divergence(results), variance(results)):
        sentences += analysis.sentences if analysis is not None else []
    say(sentences, *whole.main_tables, *found.main_tables)


if __name__ == "__main__":
    answer(main)
