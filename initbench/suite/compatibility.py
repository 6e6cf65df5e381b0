"""Whether an architecture can be built for the data and the scheme that a trial asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.errors import ArgumentError
from initbench.plugins import first_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.registry import Component, DatasetTraits
    from initbench.suite.document import Document
    from initbench.suite.load import Choice
    from initbench.training.recipe import Recipe


class Compatibility:
    """Why a pair cannot run; each architecture is tried once.

    Args:
        document: for messages.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.tried: dict[tuple[int, int, str], tuple[str | None, bool]] = {}

    def reason(
        self, dataset: Choice, architecture: Choice, initializer: Choice, scheme: str, recipe: Recipe
    ) -> str | None:
        """Return the reason in one line, None where the pair can run.

        Args:
            dataset: gives the input's shape and the number of classes.
            architecture: what is built.
            initializer: what may need a scheme.
            scheme: the trial's.
            recipe: the trial's, which may ask for a model with blocks.

        Raises:
            SuiteError: the architecture refuses an argument that the suite gives.
        """
        if initializer.scheme is not None and scheme != initializer.scheme:
            return f"{initializer.spec.name} needs scheme {initializer.scheme}, the suite says {scheme}"
        offered = architecture.component.traits.schemes
        if scheme not in offered:
            return f"{architecture.spec.name} has no scheme {scheme} (it has {', '.join(offered)})"
        key = (id(dataset), id(architecture), scheme)
        if key not in self.tried:
            self.tried[key] = self._try(dataset, architecture, scheme)
        reason, has_blocks = self.tried[key]
        if reason is None and recipe.activation_checkpointing and not has_blocks:
            return f"activation_checkpointing needs a model with blocks, {architecture.spec.name} has none"
        return reason

    def _try(self, dataset: Choice, architecture: Choice, scheme: str) -> tuple[str | None, bool]:
        """Build the model and run it on two samples; return why that cannot be, and whether the model has blocks.

        On the CPU: on the meta device it would cost nothing, but the first operation there imports PyTorch's compiler,
        which takes longer than a forward pass of a large network.
        """
        import torch

        from initbench.training.checkpointing import find_blocks

        try:
            shape, classes = dataset_shape(dataset.component, dataset.spec.arguments)
        except ArgumentError as error:
            raise self.document.argument_error(dataset.key, error) from error
        name = architecture.spec.name
        asked = "×".join(map(str, shape))
        try:
            with torch.random.fork_rng(devices=[]), torch.inference_mode():
                model = architecture.component.build(
                    architecture.spec.arguments, input_shape=shape, num_classes=classes, scheme=scheme
                )
                output = model.eval()(torch.zeros(2, *shape))
        except ArgumentError as error:
            # What the standard scheme takes is no mistake of the suite: the scheme does not go with it.
            if scheme != "standard" and self._try(dataset, architecture, "standard")[0] is None:
                return f"{name}: {error}", False
            given = self.document.has((*architecture.key, error.argument)) if error.argument else True
            if given:
                raise self.document.argument_error(architecture.key, error) from error
            return f"{name} cannot be built for inputs of {asked}: {error}", False
        except Exception as error:  # noqa: BLE001  # a model may raise anything at a shape that it is not made for
            return f"{name} refuses inputs of {asked}: {first_line(error) or type(error).__name__}", False
        if not isinstance(output, torch.Tensor) or output.shape != (2, classes):
            got = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
            return f"{name} must give outputs of {(2, classes)} for two samples, gives {got}", False
        return None, bool(find_blocks(model))


def dataset_shape(
    component: Component[DatasetTraits], arguments: Mapping[str, Any]
) -> tuple[tuple[int, int, int], int]:
    """Return ((channels, height, width), number of classes) of a dataset without reading it.

    What was declared at registration, unless the arguments ``image_size``, ``channels`` or ``num_classes`` say else.

    Raises:
        ArgumentError: one of these is below 1.
    """
    declared = component.traits
    sizes = {
        name: arguments[name] for name in ("channels", "image_size", "num_classes") if arguments.get(name) is not None
    }
    for name, size in sizes.items():
        if size < 1:
            raise ArgumentError(f"{name} must be at least 1, got {size}", name)
    channels, height, width = declared.input_shape
    side = sizes.get("image_size")
    shape = (sizes.get("channels", channels), side or height, side or width)
    return shape, sizes.get("num_classes", declared.num_classes)
