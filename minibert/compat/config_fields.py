"""How a config.json is read: older names of fields, and fields that minibert does not have."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

from minibert.compat.config_methods import RENAMED, UNUSED, current_names, own_attributes
from minibert.compat.keywords import Keywords, drop_unused
from minibert.util.checks import check_kind, refuse_unknown

REFUSED: Keywords = {
    "model_type": (
        "bert",
        "minibert loads BERT checkpoints only, and a class of your own by its own from_pretrained.",
    ),
    "is_encoder_decoder": (False, "minibert is an encoder."),
    "use_bfloat16": (False, "pass dtype='bfloat16' to from_pretrained."),
    "pruned_heads": (
        {},
        "nor is it by transformers since version 5. See Trace.switch_off_head.",
    ),
    "per_layer_config": (None, "all layers have one size."),
    "quantization_config": (
        None,
        "the weights of this checkpoint are quantized. Get the checkpoint it was made from, and "
        "call minibert.optimize(model, precision='int8').",
    ),
}
"""Fields of which only one value is supported, with that value and what to say of others."""

LABELS = ("num_labels", "id2label", "label2id")


def translate(
    content: Mapping[str, Any], changes: Mapping[str, Any], config_class: Any
) -> dict[str, Any]:
    """Return the constructor's arguments for the content of a config.json.

    Null means that a file does not say, except for `pad_token_id`: there it means that no token is
    padding. Fields that the constructor does not name are passed by their names if it takes any
    keyword, as that of a user's class may, and else as `extra`.

    Args:
        content: Fields by name, older names among them.
        changes: Fields that replace those of the content.
        config_class: `BertConfig` or a subclass.

    Raises:
        ValueError: A field asks for what minibert does not support.
        TypeError: The content is not a dict.
    """
    check_kind("config", content, Mapping, "a dict of fields by name")
    content = current_names(content, config_class)
    changes = current_names(changes, config_class)
    names = field_names(config_class)
    extra = dict(changes.get("extra") or {})
    changes = {name: value for name, value in changes.items() if name != "extra"}
    values = replace_labels({**content, **extra}, changes)
    extra = values.pop("extra", None) or {}
    if not isinstance(extra, Mapping):
        raise ValueError(f"config field extra should be an object, not {extra!r:.80}.")
    extra = dict(extra)
    arguments = {}
    for name, value in values.items():
        if name not in names:
            extra[name] = value
        elif value is not None or name == "pad_token_id":
            arguments[name] = value
    if extra.get("model_type") == config_class.model_type:
        del extra["model_type"]
    drop_unused(extra, REFUSED)
    extra.pop("model_type", None)
    if takes_any_field(config_class):
        return {**extra, **arguments}
    return {**arguments, "extra": extra}


def field_names(config_class: Any) -> set[str]:
    """Return the fields of a config class.

    Those of the dataclass, what `__init__` names, and what a user's class has as attributes.
    """
    parameters = _signature(config_class).parameters.values()
    named = {p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD}
    fields = (f.name for f in dataclasses.fields(config_class))
    return {*named, *fields, *LABELS, *own_attributes(config_class)}


def takes_any_field(config_class: Any) -> bool:
    """Whether `__init__` of a config class takes any keyword."""
    parameters = _signature(config_class).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


@functools.lru_cache(64)
def _signature(config_class: Any) -> inspect.Signature:
    return inspect.signature(config_class)  # it takes a tenth of the time of loading


def unused_changes(
    config_class: Any, content: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the changes that are fields neither of a config class nor of the content."""
    fields = {*field_names(config_class), *content, *RENAMED, *config_class.attribute_map}
    return {name: value for name, value in changes.items() if name not in fields}


def check_changes(config: Any, content: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
    """Check that changes have names that some BERT config has, or that the config has used.

    The `__init__` of a user's class may take any keyword, so that what is unknown shows only now.

    Args:
        config: The config that was made.
        content: The fields that were changed, which may have any name.
        changes: The changes.

    Raises:
        TypeError: A name is unknown. The error suggests the most similar one.
    """
    unused = changes.keys() & config.extra.keys() - content.keys() - vars(config).keys()
    names = [name for name in changes if name in unused and not name.startswith("_")]
    valid_names = {*field_names(type(config)), *content, *REFUSED, *UNUSED, *RENAMED}
    advice = "Keep fields of your own in extra={...}."
    refuse_unknown(type(config).__name__, names, valid_names, advice, kind="field")


def replace_labels(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the changes.

    Other labels, or another number of them, replace all fields that name labels.
    """
    named = values.get("id2label") or values.get("label2id")
    if isinstance(named, Mapping):
        count = len(named)
    else:
        count = values.get("num_labels", 2)
    names_labels = bool(changes.keys() & {"id2label", "label2id"})
    changes_count = changes.get("num_labels") not in (None, count)
    if names_labels or changes_count:
        values = {name: value for name, value in values.items() if name not in LABELS}
    return {**values, **changes}


def fields_of(config: Any) -> dict[str, Any]:
    """Return the fields of a config of transformers.

    Raises:
        TypeError: Not a config.
    """
    if not (hasattr(config, "to_dict") and hasattr(config, "model_type")):
        raise TypeError(
            f"config should be a minibert.BertConfig, not {type(config).__name__}. "
            "Pass BertConfig.from_pretrained(name), or use from_pretrained(name) of the model."
        )
    values = {**config.to_dict(), "model_type": config.model_type}
    attention = getattr(config, "_attn_implementation", None)
    if attention is not None:
        values["attn_implementation"] = attention
    return values
