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
    prediction = predict(results_of(arguments), probe=arguments.probe, workload=arguments.workload)
    name = prediction.facts.probes[0].probe
    figures = [figure for figure in prediction.figures if figure.subject]
    draw(arguments, figures, f"no trial has both an outcome and a value of {name} that can be drawn")
    correlations = prediction.tables[-1]
    own = correlations.frame[correlations.frame["probe"] == name]
    if prediction.facts.workload:
        own = own[own["workload"] == prediction.facts.workload]
    # All probes of the ledger were looked at: the sentences are corrected for all, as in the report.
    subjects = ["", *(result.subject for result in prediction.facts.probes if result.probe == name)]
    say((one for one in prediction.sentences if one.subject in subjects), replace(correlations, frame=own))


if __name__ == "__main__":
    answer(main)
