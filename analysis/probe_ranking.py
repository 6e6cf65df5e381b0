"""Which probe predicts the outcome best, after a correction for having looked at several?"""

from __future__ import annotations

from answering import answer, draw, parser, results_of, say

from initbench.errors import InitbenchError
from initbench.reporting import predict


def main() -> None:
    """Draw the mean ρ of every probe with its interval; print what each tells, the strongest relation first."""
    arguments = parser(str(__doc__)).parse_args()
    prediction = predict(results_of(arguments))
    if not prediction.facts.probes:
        raise InitbenchError(f"{arguments.folders[0]}: no trial has a probe")
    figures = [figure for figure in prediction.figures if figure.name == "probes"]
    draw(arguments, figures, f"no two probes have a mean ρ. {prediction.sentences[0]}")
    order = sorted(prediction.facts.probes, key=lambda result: -abs(result.rho.value) if result.test.is_testable else 0)
    places = {result.subject: place for place, result in enumerate(order)}
    say(sorted(prediction.sentences, key=lambda one: places[one.subject]), prediction.tables[0])


if __name__ == "__main__":
    answer(main)
