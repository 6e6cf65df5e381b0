"""Does the gradient quotient (or another probe) at initialization predict the outcome, within each workload?"""

from __future__ import annotations

import math

from answering import answer, named_column, parser, records_of, trials_of
from initbench.reporting.answers.probe_results import measure
from initbench.reporting.answers.probes import probe_answers, subject


def main() -> None:
    """Print ρ and τ-b of each workload, and the report's verdicts, with saturated values and without them."""
    options = parser(str(__doc__))
    options.add_argument("--probe", default="gradient_quotient", help="default: gradient_quotient")
    arguments = options.parse_args()
    trials = trials_of(arguments.folder)
    column = named_column(trials.frame, arguments.probe)
    results = measure(trials.frame, list(records_of(arguments.folder).values()), trials.terms)
    # All probes of the ledger were looked at: the verdicts are corrected for all, as in the report.
    questions = probe_answers(results, trials.terms).questions
    for result in results:
        if result.column != column:
            continue
        print(f"{subject(result)}:")
        for row in result.by_workload.to_dict("records"):
            text = trials.terms.say(row["remark"])
            if not math.isnan(row["rho"]):
                text = f"ρ {row['rho']:+.2f} (95 % interval {row['rho_low']:+.2f} to {row['rho_high']:+.2f}), "
                text += f"τ-b {row['tau']:+.2f} ({row['tau_low']:+.2f} to {row['tau_high']:+.2f}), n = {row['n']}"
            print(f"  {row['workload']}: {text}")
        for answers in questions.values():
            for verdict in answers:
                if verdict.where == subject(result):
                    print(verdict.sentence)


if __name__ == "__main__":
    answer(main)
