"""The record of what an initializer did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from initbench.initializers.events import describe
from initbench.initializers.summary import summary
from initbench.json_values import json_values

if TYPE_CHECKING:
    from torch import nn

    from initbench.initializers.coverage import Coverage
    from initbench.initializers.events import Event


@dataclass
class InitializationRecord:
    """What an initialization did; printed, it is a short table.

    Attributes:
        initializer: registered name.
        arguments: all its arguments, as plain data.
        seed: the trial's seed.
        tensors: what was done to each parameter, in order, see `initbench.initializers.events`.
        history: per step of a tuner, its objective and the like.
        conditions: under which a tuner worked.
        coverage: which of the model's weights were set; None until that is known.
        cost: numbers of ``forward`` and ``backward`` passes over a batch.
        seconds: wall-clock time.
        learning_rate_multipliers: by parameter name; 1 where there is none.
    """

    initializer: str
    arguments: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    tensors: dict[str, list[Event]] = field(default_factory=dict)
    history: list[dict[str, float | None]] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)
    coverage: Coverage | None = None
    cost: dict[str, int] = field(default_factory=lambda: {"forward": 0, "backward": 0})
    seconds: float = 0.0
    learning_rate_multipliers: dict[str, float] = field(default_factory=dict)
    _parameters: dict[str, nn.Parameter] = field(default_factory=dict, repr=False, compare=False)

    def drawn(self, name: str, law: str, **numbers: Any) -> None:
        """Say that a parameter's values were drawn.

        Args:
            name: the parameter's.
            law: from which law, such as ``normal``.
            numbers: the law's, such as ``std``.
        """
        self._add(name, "drawn", law=law, **numbers)

    def filled(self, name: str, value: float, **further: Any) -> None:
        """Say that all entries of a parameter were set to one value."""
        self._add(name, "filled", value=value, **further)

    def scaled(self, name: str, factor: float, runs: int = 1) -> None:
        """Say that a parameter was multiplied.

        Args:
            name: the parameter's.
            factor: by which number.
            runs: how often the layer runs that the factor is for; it is for the first time.
        """
        self._add(name, "scaled", factor=factor, **({"runs": runs} if runs > 1 else {}))

    def shifted(self, name: str, by: float) -> None:
        """Say that a number was added to all entries of a parameter."""
        self._add(name, "shifted", by=by)

    def set_to(self, name: str, to: str, **further: Any) -> None:
        """Say that a parameter was set to values that have a name, see `events.SET_TO`."""
        self._add(name, "set_to", to=to, **further)

    def set_by(self, name: str, initializer: str) -> None:
        """Say that a parameter was set by an initializer that did not say how."""
        self._add(name, "set_by", initializer=initializer)

    def left(self, name: str, reason: str | None = None, layer: str | None = None) -> None:
        """Say that a parameter was left as it is.

        Args:
            name: the parameter's.
            reason: one of `events.REASONS`, or words; None where there was nothing to do.
            layer: which the reason is about.
        """
        self._add(name, "left", reason=reason, **({} if layer is None else {"layer": layer}))

    def tied(self, name: str, to: str) -> None:
        """Say that a name is one more of a parameter that was set under another."""
        self._add(name, "tied", to=to)

    def _add(self, name: str, event: str, **fields: Any) -> None:
        self.tensors.setdefault(name, []).append({"event": event, **fields})

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Return parameter groups for an optimizer, one per learning-rate multiplier, frozen parameters left out.

        Args:
            lr: the learning rate of parameters without a multiplier.
        """
        groups: dict[float, list[nn.Parameter]] = {}
        for name, parameter in self._parameters.items():
            if parameter.requires_grad:
                groups.setdefault(self.learning_rate_multipliers.get(name, 1.0), []).append(parameter)
        return [{"params": parameters, "lr": lr * multiplier} for multiplier, parameters in groups.items()]

    def lines(self) -> list[str]:
        """Return a line for each parameter: its name, and in words what was done to it."""
        width = max(map(len, self.tensors), default=0)
        return [f"{name:{width}}  {'; '.join(map(describe, events))}" for name, events in self.tensors.items()]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; non-finite numbers are None with a reason beside them (see `json_values`)."""
        fields = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        fields["coverage"] = None if self.coverage is None else vars(self.coverage)
        result: dict[str, Any] = json_values(fields)
        return result

    def __str__(self) -> str:
        return summary(self)
