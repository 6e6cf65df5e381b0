"""What the datasets of a suite are: described once by the driver, before the plan, because that may read files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from initbench.data.load import describe_dataset
from initbench.errors import ArgumentError, DataError, UnknownNameError
from initbench.registry import TASKS
from initbench.suite.spec import DatasetSpec

if TYPE_CHECKING:
    from initbench.suite.load import Suite


@dataclass(frozen=True)
class Awaited:
    """A dataset whose files are absent, and which says without them what it asks of a model.

    Attributes:
        spec: with what it asks; its content is not known, and so no trial's id.
        reason: what is missing, and what to put where.
    """

    spec: DatasetSpec
    reason: DataError


Described = DatasetSpec | Awaited | DataError
"""A dataset with what it asks of a model, or why that is not known: its files are absent."""


def describe_datasets(suite: Suite) -> tuple[Described, ...]:
    """Return each dataset of a suite, in its order, with what it asks of a model.

    Raises:
        SuiteError: a dataset refuses an argument, or its task is unknown.
    """
    described: list[Described] = []
    for choice in suite.datasets:
        try:
            found = describe_dataset(choice.spec.name, choice.spec.arguments | choice.reading)
            task = found.task or choice.component.traits.task
            TASKS.get(task)
        except ArgumentError as error:
            raise suite.document.argument_error(choice.key, error) from error
        except UnknownNameError as error:
            raise suite.document.error(choice.key, str(error)) from error
        except DataError as error:
            described.append(error)
        else:
            spec = DatasetSpec(
                **dict(choice.spec),
                task=task,
                inputs=found.inputs,
                outputs=found.outputs,
                content=found.content,
                reading=choice.reading,
            )
            described.append(spec if found.absent is None else Awaited(spec, DataError(found.absent)))
    return tuple(described)
