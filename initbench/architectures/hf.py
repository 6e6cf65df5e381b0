"""Model types of Hugging Face's transformers as ``hf/NAME``, built from their configurations without any download."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from initbench.architectures.size import size_of, too_large
from initbench.arguments import types_of
from initbench.errors import ArgumentError
from initbench.extras import needed_by
from initbench.inputs import Inputs
from initbench.models.calls import tensor_of
from initbench.registry import Member, register_architecture

_PLAIN = (bool, int, float, str, list, tuple, dict, type(None))
# Determined by the data.
_OF_THE_DATA = {"vocab_size", "image_size", "num_channels"}
# Settings for a model without a cache, an encoder or special tokens, if its configuration has them. A padding token
# would be one of the data's tokens, whose embedding would then get no gradient.
_TOLD: dict[str, Any] = {
    "use_cache": False,
    "add_cross_attention": False,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
_PROBED = 8  # tokens: a model that looks ahead does so at any length
_ROUNDING = 1e-6  # relative, in float32


def _auto_mappings() -> dict[str, Mapping[str, Any]]:
    """Return model type → class name for each task."""
    with needed_by("architectures hf/NAME"):
        from transformers.models.auto import modeling_auto
    images: Mapping[str, Any] = modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    return {
        "language_modelling": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        # Models of timm have their own names here, and the wrapper would ask the hub for them.
        "classification": {name: model for name, model in images.items() if name != "timm_wrapper"},
    }


def _members() -> Iterable[str]:
    return sorted(set().union(*_auto_mappings().values()))


def _configuration_class(model_type: str) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type]


def _fields(model_type: str) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields that a configuration's class declares beyond the common ones."""
    from transformers import PreTrainedConfig

    common = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    return {f.name: f for f in dataclasses.fields(_configuration_class(model_type)) if f.name not in common}


@functools.cache
def _arguments(model_type: str) -> tuple[inspect.Parameter, ...]:
    """Return the arguments that a user may set: plain values that neither data nor task determine."""
    fixed = {*_OF_THE_DATA, *_TOLD, "is_decoder"}
    parameters = []
    for name, field in _fields(model_type).items():
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        types = types_of(field.type)
        plain = sorted({*types, type(default)} & {*_PLAIN}, key=_PLAIN.index)
        part_of_several = any(isinstance(t, type) and hasattr(t, "model_type") for t in types)
        if name in fixed or name.startswith("_") or name.endswith("token_id") or part_of_several:
            continue
        if type(default) not in _PLAIN or not name.isidentifier():
            continue
        annotation = functools.reduce(operator.or_, plain)
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    return tuple(parameters)


def _member(model_type: str) -> Member:
    tasks = tuple(task for task, names in _auto_mappings().items() if model_type in names)
    return Member(tasks, _arguments(model_type))


@register_architecture(
    "hf/*",
    tasks=("classification", "language_modelling"),
    members=_members,
    member=_member,
    example="gpt2",
    reference="Wolf et al., Transformers: State-of-the-Art Natural Language Processing, EMNLP 2020",
)
def hf_model(
    model_type: str, *, inputs: Inputs = Inputs((3, 32, 32)), outputs: int = 10, **arguments: Any
) -> nn.Module:
    """A model type of Hugging Face's transformers, untrained: a causal language model or an image classifier.

    It is built from its configuration without any download. Its arguments are the configuration's, under their own
    names (``n_layer`` or ``num_hidden_layers``, ...); the defaults are the published model's, which is often large. The
    data determine the size of the vocabulary, the number of classes, and the size and channels of images. There are no
    special tokens for padding or for the beginning or end of a text.

    Args:
        model_type: its name in transformers.
        inputs: tokens for a causal language model, at most as many as the configuration has positions; otherwise
            images.
        outputs: number of classes, or the size of the vocabulary.
        arguments: the configuration's own, see above.

    Raises:
        ArgumentError: the model type does not take such inputs, the configuration or the model refuses an argument, or
            the model does not fit into memory.
    """
    text = inputs.vocabulary is not None
    task = "language_modelling" if text else "classification"
    if model_type not in _auto_mappings()[task]:
        kind = "causal language model" if text else "image classifier"
        raise ArgumentError(f"are {inputs}, and hf/{model_type} is no {kind}", "inputs")
    fields = _fields(model_type)
    defaults = {parameter.name: parameter.default for parameter in _arguments(model_type)}
    # Values at their defaults are left out, so that the configuration can derive them from other values.
    chosen = {name: value for name, value in arguments.items() if value != defaults[name]}
    told = {n: value for n, value in _TOLD.items() if n in fields and type(value) in types_of(fields[n].type)}
    told |= _of_text(model_type, fields, inputs, outputs) if text else _of_images(model_type, fields, inputs, outputs)
    configuration = _configuration(model_type, chosen, told)
    if text:
        _check_context(model_type, configuration, inputs)
    on_meta = torch.get_default_device().type == "meta"
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = _build(model_type, configuration, text=text)
    if on_meta:
        return model
    reason = too_large(f"hf/{model_type}", {**defaults, **arguments}, size_of(model))
    if reason is not None:
        raise ArgumentError(reason)
    model = _build(model_type, configuration, text=text)
    if text and next(model.parameters()).device.type == "cpu":
        _check_causal(model_type, model, inputs)
    return model


def _of_text(model_type: str, fields: Mapping[str, Any], inputs: Inputs, outputs: int) -> dict[str, Any]:
    """Return the configuration's settings for tokens."""
    if len(inputs.shape) != 1 or outputs != inputs.vocabulary:
        raise ArgumentError(f"must be (positions,) of tokens with as many outputs, got {inputs}, {outputs}", "inputs")
    if "vocab_size" not in fields:
        raise ArgumentError(f"hf/{model_type} is made of several models: it has no vocabulary of its own")
    # A model that can be a decoder is bidirectional by default.
    return {"vocab_size": inputs.vocabulary} | ({"is_decoder": True} if "is_decoder" in fields else {})


def _of_images(model_type: str, fields: Mapping[str, Any], inputs: Inputs, outputs: int) -> dict[str, Any]:
    """Return the configuration's settings for images."""
    if not inputs.is_image:
        raise ArgumentError(f"must be images for hf/{model_type}, got {inputs}", "inputs")
    channels, height, width = inputs.shape
    told: dict[str, Any] = {"num_labels": outputs}
    if "num_channels" in fields:
        told["num_channels"] = channels
    elif channels != 3:
        raise ArgumentError(f"must be images of 3 channels for hf/{model_type}, got {inputs}", "inputs")
    if "image_size" in fields:
        if height != width and types_of(fields["image_size"].type).isdisjoint({list, tuple}):
            raise ArgumentError(f"must be square images for hf/{model_type}, got {inputs}", "inputs")
        told["image_size"] = height if height == width else (height, width)
    return told


def _configuration(model_type: str, chosen: Mapping[str, Any], told: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.for_model(model_type, **chosen, **told)
    except Exception as error:  # a configuration's own checks may raise anything
        raise _refused(model_type, chosen, error) from error


def _check_context(model_type: str, configuration: Any, inputs: Inputs) -> None:
    positions = getattr(configuration, "max_position_embeddings", None)
    if isinstance(positions, int) and 0 < positions < inputs.shape[0]:
        name = configuration.attribute_map.get("max_position_embeddings", "max_position_embeddings")
        problem = f"of hf/{model_type} must be at least the context of the data, {inputs.shape[0]}, got {positions}"
        raise ArgumentError(problem, name)


def _build(model_type: str, configuration: Any, *, text: bool) -> nn.Module:
    """Build the model; attention is PyTorch's own, whose kernel can be chosen, or is written out."""
    from transformers import AutoModelForCausalLM, AutoModelForImageClassification

    made = AutoModelForCausalLM if text else AutoModelForImageClassification
    # Of several classes for a type, as for deit, transformers looks here for the one to take, or takes the first.
    configuration.architectures = configuration.architectures or []
    try:
        model: nn.Module = made.from_config(configuration)
    except Exception as error:  # a model may raise anything at sizes that it does not support
        raise _refused(model_type, {}, error) from error
    return model.train()


def _refused(model_type: str, chosen: Mapping[str, Any], error: Exception) -> ArgumentError:
    """Return the error of a configuration or model in one line; it is about an argument if it names one."""
    reason = " ".join(str(error).split()) or type(error).__name__
    named = [name for name in chosen if f"'{name}'" in reason or f"`{name}`" in reason]
    if len(named) == 1:
        return ArgumentError(f"is refused by hf/{model_type}: {reason}", named[0])
    return ArgumentError(f"hf/{model_type} cannot be built: {reason}")


def _check_causal(model_type: str, model: nn.Module, inputs: Inputs) -> None:
    """Raise an ArgumentError if logits depend on later tokens, which would give the targets away.

    It runs two texts that differ in their last token, one after the other so that sums are taken in the same order; the
    logits before that token must not differ.
    """
    length, vocabulary = min(_PROBED, inputs.shape[0]), inputs.vocabulary or 1
    if length < 2 or vocabulary < 2:
        return
    text = torch.zeros(1, length, dtype=torch.int64)
    other = text.clone()
    other[0, -1] = 1
    with torch.no_grad():  # not inference mode: tensors that the model keeps must be usable in training
        try:
            logits, others = (tensor_of(model.eval()(tokens))[:, :-1] for tokens in (text, other))
        except Exception as error:  # see `_build`
            raise _refused(model_type, {}, error) from error
        finally:
            model.train()
    if float((logits - others).abs().max()) > _ROUNDING * float(logits.abs().max()):
        raise ArgumentError(f"hf/{model_type} is not a causal language model: its logits depend on later tokens")
