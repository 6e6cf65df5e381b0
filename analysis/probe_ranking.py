"""Which probe predicts the test error best, after a correction for having looked at several?"""

from __future__ import annotations

import math

from answering import answer, architectures_of, parser, probe_columns, trials_of

from initbench.errors import InitbenchError
from initbench.reporting.statistics.agreement import mean_seed_agreement, seed_agreement
from initbench.reporting.statistics.cells import cells, table
from initbench.reporting.statistics.gain import gain
from initbench.reporting.statistics.multiplicity import adjust
from initbench.reporting.statistics.permutation import permutation_test
from initbench.reporting.statistics.pooled import crossed
from initbench.reporting.statistics.verdicts import agreement_verdict, gain_verdict, prediction_verdict

TRIVIAL = ("parameters", "architecture.depth", "probe.initial_loss", "probe.gradient_norm", "first_epoch_accuracy")


def main() -> None:
    """Print for each probe, the strongest relation first, what it predicts, adds, and how it agrees with itself."""
    arguments = parser(str(__doc__)).parse_args()
    trials = trials_of(arguments.folder)
    probes = probe_columns(trials)
    if not probes:
        raise InitbenchError(f"{arguments.folder}: no trial has a probe")
    trivial = [column for column in TRIVIAL if column in trials]
    compared = cells(trials, list(dict.fromkeys([*probes, *trivial])))
    outcome = table(compared)
    tests = {probe: permutation_test(table(compared, probe), outcome) for probe in probes}
    holm = dict(zip(probes, adjust([tests[probe].pvalue for probe in probes], "holm"), strict=True))
    order = sorted(probes, key=lambda probe: -abs(tests[probe].statistic) if tests[probe].workloads else math.inf)
    for probe in order:
        name, values = probe.removeprefix("probe."), table(compared, probe)
        corrected = None if math.isnan(holm[probe]) else float(holm[probe])
        print(prediction_verdict(name, tests[probe], crossed(values, outcome), corrected))
        saturated = table(compared, f"{probe}.saturated") > 0
        if saturated.to_numpy().any():
            left = values.mask(saturated)
            alone = prediction_verdict(name, permutation_test(left, outcome), crossed(left, outcome))
            print(f"  Without the {int(saturated.to_numpy().sum())} saturated of {len(compared)} values: {alone}")
        others = {short_name(column): table(compared, column) for column in trivial if column != probe}
        print("  " + gain_verdict(name, gain(values, outcome, others, architectures=architectures_of(trials))))
        print("  " + agreement_verdict(name, mean_seed_agreement(seed_agreement(trials, probe))))


def short_name(column: str) -> str:
    """Return the name of a predictor as a reader knows it: ``depth``, ``gradient norm``."""
    return column.rpartition(".")[2].replace("_", " ")


if __name__ == "__main__":
    answer(main)
