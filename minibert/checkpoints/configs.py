"""Find and read config.json of a checkpoint. Implausible sizes raise an error."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source, split_source
from minibert.compat.config_fields import unused_changes
from minibert.compat.config_methods import BERTS_ATTENTION, Config
from minibert.compat.keywords import drop_unused, warn_of_code
from minibert.util.errors import ArgumentError
from minibert.util.files import prefix_errors, read_json

LIMITS = {
    "num_hidden_layers": 1000,
    "num_labels": 1_000_000,
    "parameters": 4_000_000_000,
}
"""Larger sizes are a mistake or an attack, unless the caller says otherwise."""

_MAX_SHOWN = 10**40

USUAL_SIZES = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "num_labels": 2,
}
"""Sizes of bert-base-uncased, which a config has unless it says otherwise."""


def read_config(
    name: str | os.PathLike[str] | Source,
    options: Mapping[str, Any],
    limits: Mapping[str, int] | None = None,
) -> tuple[dict[str, Any], dict[str, Any], Path, str]:
    """Read the config.json of a checkpoint.

    Args:
        name: Folder, bundled model, Hub id, or a `Source`.
        options: Keywords of `from_pretrained`: those of a `Source`, ignored ones, and changes of
            fields.
        limits: Limits to use instead of those of `LIMITS`.

    Returns:
        The content of the file, the changes of fields, the path of the file and the name of the
        checkpoint.

    Raises:
        FileNotFoundError: There is no such checkpoint, or it has no config.json.
        ValueError: The file is damaged, or a size is above its limit.
    """
    source, changes = split_source(name, drop_unused(options))
    path = source.require("config.json")
    content = read_json(path)
    with prefix_errors(str(path)):
        check_sizes({**content, **changes}, limits)
    return content, changes, path, str(source)


def load_config(
    config_class: type[Config],
    name: str | os.PathLike[str] | Source,
    options: Mapping[str, Any],
    limits: Mapping[str, int] | None,
    keeps_unused: bool,
) -> tuple[Config, dict[str, Any]]:
    """Return the config of a checkpoint, and the options that are no fields.

    Args:
        config_class: `BertConfig` or a subclass.
        name: As in `read_config`, like the next two, and the errors.
        options: See `name`.
        limits: See `name`.
        keeps_unused: Whether options that are no fields are returned. They are errors otherwise.
    """
    content, changes, path, label = read_config(name, options, limits)
    unused = unused_changes(config_class, content, changes) if keeps_unused else {}
    changes = {name: value for name, value in changes.items() if name not in unused}
    with prefix_errors(str(path)):
        check_attention(content.get("attn_implementation"), changes)
        config = config_class.from_dict(content, **changes)
    if not config.name_or_path or "name_or_path" not in changes:
        config.name_or_path = label
    if options.get("trust_remote_code") and config_class.__module__.startswith("minibert."):
        warn_of_code(label, content.get("auto_map"), "AutoConfig", "the config of a plain BERT")
    return config, unused


def check_attention(saved: Any, changes: Mapping[str, Any]) -> None:
    """Refuse to load a model with an attention function of its own as if it were BERT's.

    Args:
        saved: The function that the config of the checkpoint names.
        changes: Changes of the config.

    Raises:
        ValueError: The changes name one of BERT's.
    """
    wanted = changes.get("attn_implementation") or changes.get("_attn_implementation")
    if saved not in (None, *BERTS_ATTENTION) and wanted in BERTS_ATTENTION:
        raise ArgumentError(
            "attn_implementation",
            f"is {wanted!r}, but the model was saved with the function {saved!r:.80}, which is "
            "part of it. Load it without this argument. To try the weights with BERT's attention, "
            "call model.set_attn_implementation afterwards.",
        )


def check_sizes(content: Mapping[str, Any], limits: Mapping[str, int] | None = None) -> None:
    """Refuse sizes that no BERT has, before anything is built with them.

    Args:
        content: Fields of a config by name. Values that are not whole numbers are left to
            `BertConfig.validate`.
        limits: Limits to use instead of those of `LIMITS`.

    Raises:
        ValueError: A size is above its limit.
    """
    sizes = {}
    for name, usual in USUAL_SIZES.items():
        value = content.get(name)
        sizes[name] = value if type(value) is int else usual
    for name in ("id2label", "label2id"):
        names = content.get(name)
        if isinstance(names, Mapping | list):
            sizes["num_labels"] = max(sizes["num_labels"], len(names))
    sizes["parameters"] = count_parameters(sizes)
    allowed = {**LIMITS, **(limits or {})}
    for name in LIMITS:
        if sizes[name] <= allowed[name]:
            continue
        reason = ""
        if name == "parameters":
            # not divided as floats, which a size of 400 digits is too large for
            unusual = max(USUAL_SIZES, key=lambda size: sizes[size] // USUAL_SIZES[size])
            reason = f" for {unusual} {_shown(sizes[unusual])}"
        advice = ""
        if sizes[name] < _MAX_SHOWN:
            advice = f" Pass limits={ {name: sizes[name]} } if that is meant."
        raise ValueError(
            f"config: {name} would be {_shown(sizes[name])}{reason}, more than "
            f"{allowed[name]:,}.{advice}"
        )


def _shown(size: int) -> str:
    """A size as people read it: no 400 digits."""
    if size < _MAX_SHOWN:
        return f"{size:,}"
    return f"more than {_MAX_SHOWN:,}"


def count_parameters(sizes: Mapping[str, int]) -> int:
    """Return about how many parameters a model has, without biases and LayerNorms.

    Args:
        sizes: The sizes of a config, by the names of `USUAL_SIZES`.
    """
    rows = (
        sizes["vocab_size"]
        + sizes["max_position_embeddings"]
        + sizes["type_vocab_size"]
        + sizes["num_labels"]
    )
    rows_per_layer = 4 * sizes["hidden_size"] + 2 * sizes["intermediate_size"]
    return sizes["hidden_size"] * (rows + sizes["num_hidden_layers"] * rows_per_layer)
