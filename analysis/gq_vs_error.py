"""Does the gradient quotient (or another probe) at initialization predict the test error, within each workload?"""

from __future__ import annotations

import math

from answering import answer, named_column, parser, trials_of

from initbench.reporting.statistics.association import associations
from initbench.reporting.statistics.cells import cells, table
from initbench.reporting.statistics.permutation import permutation_test
from initbench.reporting.statistics.pooled import crossed
from initbench.reporting.statistics.selection import selection
from initbench.reporting.statistics.verdicts import prediction_verdict, regret_verdict


def main() -> None:
    """Print ρ and τ-b of each workload, and the verdicts, with saturated values and without them."""
    options = parser(str(__doc__))
    options.add_argument("--probe", default="gradient_quotient", help="default: gradient_quotient")
    arguments = options.parse_args()
    trials = trials_of(arguments.folder)
    column = named_column(trials, arguments.probe)
    compared = cells(trials, [column])
    outcome, probe = table(compared), table(compared, column)
    saturated = table(compared, f"{column}.saturated") > 0
    number = int(saturated.to_numpy().sum())
    titles = {"All values": probe}
    if number:
        titles |= {f"Without the {number} saturated of {len(compared)} values": probe.mask(saturated)}
    for title, values in titles.items():
        print(f"{title}:")
        for row in associations(values, outcome).to_dict("records"):
            text = row["remark"]
            if not math.isnan(row["rho"]):
                text = f"ρ {row['rho']:+.2f} (95 % interval {row['rho_low']:+.2f} to {row['rho_high']:+.2f}), "
                text += f"τ-b {row['tau']:+.2f} ({row['tau_low']:+.2f} to {row['tau_high']:+.2f}), n = {row['n']}"
            print(f"  {row['group']}: {text}")
        test = permutation_test(values, outcome)
        print(prediction_verdict(arguments.probe, test, crossed(values, outcome)))
        print(regret_verdict(arguments.probe, selection(values, outcome)))


if __name__ == "__main__":
    answer(main)
