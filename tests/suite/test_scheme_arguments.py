"""Arguments of schemes in suites: their trials, ids, labels, conditions and errors."""

import pytest

import initbench
from initbench.architectures.create import create_model
from initbench.architectures.scalars import ScalarMultiplier
from initbench.comparing.conditions import properties_of_spec
from initbench.comparing.labels import Labels, architecture_labels
from initbench.comparing.names import short_names
from initbench.comparing.treatments import standings
from initbench.errors import ArgumentError, SuiteError
from initbench.execution.trial import run_trial
from initbench.suite.spec import TrialSpec, digest
from suites import planned, the_trial

NETWORK = {"name": "wrn", "depth": 10, "width": 1, "norm": "none"}


@pytest.fixture(autouse=True)
def _scheme(scratch_registry):
    @initbench.register_scheme("gates")
    def gates(model, structure, start: float = 1.0, kind: str = "scalar"):
        if start <= 0:
            raise ArgumentError(f"must be above 0, got {start}", "start")
        initbench.end_branches(model, structure, lambda: ScalarMultiplier(start))
        return model


def with_scheme(*schemes, **keys):
    return {"architectures": [NETWORK | {"scheme": [*schemes]}]} | keys


def test_the_arguments_reach_the_network():
    trial = the_trial(**with_scheme({"name": "gates", "start": 0.25}, recipe={"epochs": 1, "lr": 1e-30}))
    assert (trial.scheme, trial.scheme_arguments) == ("gates", {"start": 0.25})
    record = run_trial(trial)
    assert record.spec["scheme_arguments"] == {"start": 0.25}
    model = create_model("wrn", depth=10, width=1, norm="none", scheme="gates", scheme_arguments={"start": 0.25})
    gates = [module.scale.item() for module in model.modules() if isinstance(module, ScalarMultiplier)]
    assert gates == [0.25] * 3


def test_arguments_at_their_defaults_change_neither_id_nor_record():
    plain, *written = (
        the_trial(**with_scheme(scheme))
        for scheme in ("gates", {"name": "gates"}, {"name": "gates", "start": 1}, {"name": "gates", "kind": "scalar"})
    )
    assert {trial.id for trial in written} == {plain.id}
    assert "scheme_arguments" not in plain.model_dump()
    assert "arguments" not in plain.identity["scheme"]
    other = the_trial(**with_scheme({"name": "gates", "start": 2}))
    assert (other.id, other.cell) != (plain.id, plain.cell)
    assert other.identity["scheme"] == plain.identity["scheme"] | {"arguments": {"start": 2.0}}
    assert digest(TrialSpec.model_validate_json(other.model_dump_json()).identity) == other.id


def test_lists_are_crossed_within_a_scheme_and_beside_it():
    plan = planned(**with_scheme("standard", {"name": "gates", "start": [0.5, 1, 2]}))
    assert [trial.scheme_arguments.get("start") for trial in plan.trials] == [None, 0.5, None, 2.0]
    specs = [trial.model_dump(mode="json") for trial in plan.trials]
    network = "wrn[depth=10, width=1]"
    ends = ["", " + gates[start=0.5]", " + gates", " + gates[start=2]"]
    assert architecture_labels(specs) == [network + end for end in ends]
    workloads = [Labels().workload(standing.workload) for standing in standings(specs)]
    assert workloads == [network + end for end in ends]
    compared = [Labels(("scheme",)).treatment(standing.treatment) for standing in standings(specs, ("scheme",))]
    assert compared == ["scheme=standard", "scheme=gates[start=0.5]", "scheme=gates", "scheme=gates[start=2]"]
    names = Labels()
    labels = [names.workload(standing.workload) for standing in standings(specs)]
    short = short_names(names, [], labels).workloads
    assert [short[label].detail for label in labels] == ["", "gates[start=0.5]", "gates", "gates[start=2]"]


def test_conditions_name_them():
    network = with_scheme("standard", {"name": "gates", "start": [0.5, 2]})
    plan = planned(**network, only=["scheme.start=0.5"])
    [trial] = plan.trials
    assert trial.scheme_arguments == {"start": 0.5}
    assert properties_of_spec(trial.model_dump(mode="json"))["scheme.start"] == 0.5
    plan = planned(**network, exclude=[{"scheme.start": 2}])
    assert len(plan.trials) == 2
    plan = planned(**network, rules=[{"when": {"scheme.start": 0.5}, "recipe": {"lr": 0.7}}])
    assert [trial.recipe.lr for trial in plan.trials] == [0.1, 0.7, 0.1]


def test_the_command_line_sets_them():
    plan = planned(architectures=[NETWORK | {"scheme": "gates"}], assignments=["architectures.scheme.start=[2, 3]"])
    assert [trial.scheme_arguments for trial in plan.trials] == [{"start": 2.0}, {"start": 3.0}]
    with pytest.raises(SuiteError, match=r"wrn has no scheme\.strat \(did you mean 'start'\?\)"):
        planned(architectures=[NETWORK | {"scheme": "gates"}], assignments=["architectures.scheme.strat=2"])


def test_the_same_scheme_twice():
    with pytest.raises(SuiteError, match="the same wrn is given twice"):
        planned(**with_scheme("gates", {"name": "gates", "start": 1.0}))


@pytest.mark.parametrize(
    ("scheme", "key", "problem"),
    [
        ({"name": "gates", "strat": 2}, "architectures[0].scheme.strat", "is an unknown key (did you mean 'start'?)"),
        ({"name": "gates", "start": "two"}, "architectures[0].scheme.start", "must be a number, got 'two'"),
        # The scheme itself refuses this one, when it is given a network.
        ({"name": "gates", "start": -1}, "architectures[0].scheme.start", "must be above 0, got -1.0"),
        ([{"name": "gates", "start": [1, -1]}], "architectures[0].scheme[0].start", "must be above 0, got -1.0"),
        ({"start": 2}, "architectures[0].scheme", "must be a name or a mapping {name: ...}, got {start: 2}"),
        ({"name": "fixup", "gain": 2}, "architectures[0].scheme.gain", "fixup is built by wrn itself"),
    ],
)
def test_refused(scheme, key, problem):
    with pytest.raises(SuiteError) as refused:
        planned(architectures=[NETWORK | {"scheme": scheme}])
    assert (refused.value.key, refused.value.problem[: len(problem)]) == (key, problem)


def test_refused_in_python():
    with pytest.raises(ArgumentError, match=r"^scheme\.start must be above 0, got -1\.0$"):
        create_model("wrn", depth=10, width=1, scheme="gates", scheme_arguments={"start": -1})
    with pytest.raises(ArgumentError, match=r"^scheme\.strat is an unknown key"):
        create_model("wrn", depth=10, width=1, scheme="gates", scheme_arguments={"strat": 1})
