"""Which probe predicts the outcome best, after a correction for having looked at several?"""

from __future__ import annotations

import math

from answering import answer, parser, records_of, trials_of
from initbench.reporting.answers.probe_results import measure
from initbench.reporting.answers.probes import probe_answers, subject

from initbench.errors import InitbenchError


def main() -> None:
    """Print for each probe, the strongest relation first, all that the report says of it."""
    arguments = parser(str(__doc__)).parse_args()
    trials = trials_of(arguments.folder)
    results = measure(trials.frame, list(records_of(arguments.folder).values()), trials.terms)
    if not results:
        raise InitbenchError(f"{arguments.folder}: no trial has a probe")
    questions = probe_answers(results, trials.terms).questions
    order = sorted(results, key=lambda result: -abs(result.test.statistic) if result.test.workloads else math.inf)
    for result in order:
        print(f"{subject(result)}:")
        for answers in questions.values():
            for verdict in answers:
                if verdict.where == subject(result):
                    print(f"  {verdict.sentence}")


if __name__ == "__main__":
    answer(main)
