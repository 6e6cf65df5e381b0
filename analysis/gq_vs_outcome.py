"""Does the gradient quotient (or another probe) at initialization predict the outcome, on each workload?"""

from __future__ import annotations

from dataclasses import replace

from answering import answer, draw, parser, results_of, say

from initbench.reporting import predict


def main() -> None:
    """Draw the outcome against the probe, one mark per trial; print what it tells, and ρ and τ on each workload."""
    options = parser(str(__doc__), each="workload")
    options.add_argument("--probe", default="gradient_quotient", help="default: gradient_quotient")
    arguments = options.parse_args()
    found = predict(results_of(arguments), probe=arguments.probe, workload=arguments.workload)
    name = found.probes[0].probe
    figures = [figure for figure in found.figures if figure.subject]
    draw(arguments, figures, f"no trial has both an outcome and a value of {name} that can be drawn")
    of_each = found.tables[-1]
    own = of_each.frame[of_each.frame["probe"] == name]
    if found.workload:
        own = own[own["workload"] == found.workload]
    # All probes of the ledger were looked at: the sentences are corrected for all, as in the report.
    sentences = [sentence for result in found.probes if result.probe == name for sentence in found.of(result)]
    say(sentences, replace(of_each, frame=own))


if __name__ == "__main__":
    answer(main)
