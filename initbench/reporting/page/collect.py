"""From analyses to what a page says: the title, the line of facts, the notices, and all that stands behind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from initbench.comparing.labels import with_contents
from initbench.reporting.conditions import conditions, differing, effective, fields_text
from initbench.reporting.facts_line import facts_line
from initbench.reporting.notices import notices
from initbench.reporting.page.contents import Contents, OverviewView
from initbench.reporting.page.methods import methods
from initbench.reporting.page.trial_table import trial_table
from initbench.reporting.sharing import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.reporting.answer import Answer
    from initbench.reporting.results import Results
    from initbench.reporting.source import Source

_MOST_TRACEBACKS = 50


def collect(
    results: Results,
    overview: Answer,
    analyses: Sequence[Answer],
    title: str | None = None,
    description: str | None = None,
) -> Contents:
    """Return what a report says.

    Args:
        results: that it is of.
        overview: what happened.
        analyses: in the order of the page.
        title: its heading; the suites' names by default.
        description: what the suites ask; by default as their files say.
    """
    source, trials, names = results.source, results.trials, results.names
    each = trials.drop_duplicates("trial_id")
    failed = [{str(k): v for k, v in row.items()} for row in each[each["status"] == "failed"].to_dict("records")]
    quotients = _quotient_conditions(results.records)
    table = conditions(results.records)
    written = [table_of.name for analysis in analyses for table_of in analysis.tables if table_of.is_written]
    return Contents(
        title=", ".join(sorted(set(results.frame["suite"]))) if title is None else title,
        description=_description(source) if description is None else description,
        line=facts_line(results),
        notices=notices(results),
        overview=OverviewView(overview.sentences, overview.facts.map),
        analyses=analyses,
        trials=trial_table(results),
        conditions=table,
        differing=differing(table),
        facts=_compared(results)
        | _facts(results.records)
        | {f"Measured: {name}": text for name, text in quotients.items()},
        methods=methods(results, quotients),
        failures=[
            trial
            | {
                "treatment": names.treatments[trial["treatment"]].text,
                "workload": names.workloads[trial["workload"]].text,
                "error": results.by_id[trial["trial_id"]].error or {},
            }
            for trial in failed[:_MOST_TRACEBACKS]
        ],
        failures_left=len(failed[_MOST_TRACEBACKS:]),
        terms=results.terms,
        key=list(results.palette),
        files=[f"{name}.csv" for name in ("results", *dict.fromkeys(written), "conditions")],
    )


def _description(source: Source) -> str:
    """Return what the suites ask, each under its name where there are several."""
    # A suite whose trials all stand in another one too has a description, but no record of its name.
    suites = {record.spec["suite"] for record in source.records} | set(source.descriptions)
    if len(suites) == 1:
        return "".join(source.descriptions.values())
    return "\n".join(f"{name}: {text}" for name, text in sorted(source.descriptions.items()))


def _compared(results: Results) -> dict[str, str]:
    """Return which factors make a treatment, where that is not the initializer alone."""
    compared = results.source.compare
    return {} if results.terms.treatment == "initializer" else {"Compared": ", ".join(compared)}


def _facts(records: Sequence[TrialRecord]) -> dict[str, str]:
    """Return what holds for the whole report, by name, ready to print."""
    recipe: dict[str, list[Any]] = defaultdict(list)
    environment: dict[str, list[Any]] = defaultdict(list)
    datasets: dict[str, None] = {}
    for dataset in with_contents(distinct(record.spec["dataset"] for record in records)):
        arguments = {name: [value] for name, value in dataset["arguments"].items()}
        datasets[fields_text({"": [dataset["name"]]} | arguments)] = None
    recipes = map(effective, distinct(record.spec["recipe"] for record in records))
    for kind, each in ((recipe, recipes), (environment, distinct(record.environment for record in records))):
        for name, value in (item for values in each for item in values.items()):
            if value not in kind[name]:
                kind[name].append(value)
    return {
        "Seeds": ", ".join(map(str, sorted({record.spec["seed"] for record in records}))),
        "Dataset": "; ".join(sorted(datasets)),
        "Recipe": fields_text({name: values for name, values in recipe.items() if len(values) == 1}),
        "Environment": fields_text(dict(sorted(environment.items()))),
    }


def _quotient_conditions(records: Sequence[TrialRecord]) -> dict[str, str]:
    """Return under what conditions each form of the gradient quotient was measured."""
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for probe in record.probes:
            if probe["name"].startswith("gradient_quotient"):
                for key in ("eps", "batch_size", "batches", "data", "mode"):
                    value = probe.get("conditions", {}).get(key, "not recorded")
                    if value not in found[probe["name"]][key]:
                        found[probe["name"]][key].append(value)
    words: Mapping[str, str] = {"eps": "ε", "batch_size": "batch size"}
    return {
        name: fields_text({words.get(key, key): sorted(values, key=str) for key, values in own.items()})
        for name, own in sorted(found.items())
    }
