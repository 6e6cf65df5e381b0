"""The rules of a suite: what depends on the pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.arguments import show
from initbench.comparing.conditions import Matcher, properties
from initbench.errors import SuiteError
from initbench.registry import INITIALIZERS
from initbench.suite.load import checked_spec
from initbench.suite.schema import recipe_of

if TYPE_CHECKING:
    from initbench.arguments import Key
    from initbench.suite.load import Suite
    from initbench.suite.spec import ComponentSpec, TrialDraft


class Rules:
    """The rules of a suite, and which of them were ever met.

    Args:
        suite: whose rules.
    """

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.conditions = [Matcher(rule.when) for rule in suite.rules]
        self._initializers: dict[tuple[str, int], ComponentSpec] = {}

    def apply(self, trial: TrialDraft, recipe: dict[str, Any]) -> TrialDraft:
        """Return the trial with the rules applied in their order; each is matched against the trial before all of them.

        Args:
            trial: as the suite says it.
            recipe: the fields of its recipe that the suite sets.

        Raises:
            SuiteError: what a rule sets is refused.
        """
        found = properties(trial)
        initializer, made = trial.initializer, trial.recipe
        set_by_rules: set[str] = set()
        for index, (condition, rule) in enumerate(zip(self.conditions, self.suite.rules, strict=True)):
            if not condition(found):
                continue
            if rule.recipe:
                recipe = {**recipe, **rule.recipe}
                made = recipe_of(self.suite.document, recipe, ("rules", index, "recipe"))
            if rule.initializer:
                initializer = self._changed(initializer, index)
            set_by_rules |= {f"recipe.{name}" for name in rule.recipe}
            set_by_rules |= {f"initializer.{name}" for name in rule.initializer}
        if not set_by_rules:
            return trial
        return trial.model_copy(
            update={"initializer": initializer, "recipe": made, "set_by_rules": tuple(sorted(set_by_rules))}
        )

    def _changed(self, initializer: ComponentSpec, index: int) -> ComponentSpec:
        """Return an initializer with the values that a rule sets."""
        known = (initializer.model_dump_json(), index)
        if known not in self._initializers:
            self._initializers[known] = self._check(initializer, index, ("rules", index, "initializer"))
        return self._initializers[known]

    def _check(self, initializer: ComponentSpec, index: int, key: Key) -> ComponentSpec:
        component = INITIALIZERS.get(initializer.name)
        values = self.suite.rules[index].initializer
        for name, value in values.items():
            if isinstance(value, list) and not component.takes_a_list(name):
                raise self.suite.document.error((*key, name), f"a rule sets one value, got {show(value)}")
        try:
            return checked_spec(self.suite.document, component, initializer.arguments | values, key)
        except SuiteError as error:
            problem = f"{error.problem}; the rule matches {initializer.name}"
            raise SuiteError(problem, error.where, error.line, error.key) from error
