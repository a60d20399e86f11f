"""Keywords of transformers: without effect here, errors that say what to use, or unknown.

The tables are those of `from_pretrained`, `save_pretrained` and `forward`. Configs and tokenizers
have their own beside their classes. A model that is passed none of them runs without this module.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from minibert.util.errors import ArgumentError

ANYTHING = object()
"""In place of the only value of a keyword: it has no effect whatever its value, and why."""

Keywords = Mapping[str, tuple[Any, str]]
"""Name -> the only supported value beside None, and what to do instead of using another one."""

CONVERT_TENSORFLOW = (
    "convert it by transformers 4 with TensorFlow installed: python -m "
    "transformers.models.bert.convert_bert_original_tf_checkpoint_to_pytorch "
    "--tf_checkpoint_path bert_model.ckpt --bert_config_file bert_config.json "
    "--pytorch_dump_path pytorch_model.bin. Copy bert_config.json to config.json. Models of "
    "Google are on the Hub in today's format, such as google-bert/bert-base-chinese."
)
"""What to do with a checkpoint of google-research/bert."""

FILE_KEYWORDS: Keywords = {
    "force_download": (
        None,
        "delete the repository from the Hub's cache (`hf cache`) to have it downloaded again.",
    ),
    "use_auth_token": (None, "pass token=, its newer name."),
    "key_mapping": (None, "rename the tensors and pass them as state_dict=."),
    "tp_plan": (None, "a BERT lies on one device."),
    "tp_size": (None, "a BERT lies on one device."),
    "device_mesh": (None, "a BERT lies on one device."),
    "distributed_config": (None, "a BERT lies on one device."),
    "use_kernels": (False, "call minibert.optimize(model), which has kernels of its own."),
    "fusion_config": (None, "call minibert.optimize(model), which fuses operators."),
    "distributed_checkpoint": (False, "a BERT is one file."),
    "proxies": (None, "set HTTPS_PROXY in the environment."),
    "variant": (None, "only files without a variant in their names are read and written."),
    "quantization_config": (
        None,
        "load the model and call minibert.optimize(model, precision='int8').",
    ),
    "load_in_8bit": (False, "load the model and call minibert.optimize(model, precision='int8')."),
    "load_in_4bit": (False, "minibert.optimize(model, precision='int8') is the smallest there is."),
    "from_tf": (False, CONVERT_TENSORFLOW),
    "from_flax": (
        False,
        "transformers 4 converts Flax's checkpoints: BertModel.from_pretrained(folder, "
        "from_flax=True).save_pretrained(another_folder).",
    ),
    "gguf_file": (None, "get the checkpoint as safetensors."),
    "save_config": (True, "the config is always written beside the weights."),
    "push_to_hub": (False, "save_pretrained(folder), then `hf upload NAME folder`."),
    "safe_serialization": (
        True,
        "safetensors only are written: pickles can run code when they are read.",
    ),
}
"""Of loading and saving."""

LOADING: Keywords = {
    **FILE_KEYWORDS,
    "trust_remote_code": (ANYTHING, "no code of a checkpoint is ever run"),
    "use_safetensors": (ANYTHING, "it is for weights, which `from_pretrained` of a model reads"),
    "low_cpu_mem_usage": (ANYTHING, "weights are always mapped and never held twice"),
    "offload_folder": (ANYTHING, "weights are mapped, so what is not used is not in memory"),
    "offload_state_dict": (ANYTHING, "the same"),
    "max_memory": (ANYTHING, "a BERT lies on one device"),
    "resume_download": (ANYTHING, "downloads always resume"),
    "weights_only": (ANYTHING, "pickles never run code"),
    "_fast_init": (ANYTHING, "weights that the file has are never drawn"),
    "_commit_hash": (ANYTHING, "a revision names what is loaded"),
    "_from_auto": (ANYTHING, "there is one architecture"),
    "adapter_kwargs": (ANYTHING, "adapters are peft's business"),
    "generation_config": (ANYTHING, "an encoder generates no text"),
    "disable_mmap": (ANYTHING, "minibert has mmap=False, which reads the same weights"),
    "code_revision": (ANYTHING, "no code of a checkpoint is ever run"),
    "mirror": (ANYTHING, "HF_ENDPOINT in the environment names another Hub"),
}

SAVING: Keywords = {
    **FILE_KEYWORDS,
    "save_function": (ANYTHING, "safetensors are written atomically by this package"),
    "max_shard_size": (ANYTHING, "a BERT is one file, and saving warns where it would be several"),
    "save_peft_format": (ANYTHING, "adapters are peft's business"),
    "token": (ANYTHING, "nothing is uploaded"),
    "save_original_format": (ANYTHING, "official names are the model's own"),
    "repo_id": (ANYTHING, "nothing is uploaded"),
    "private": (ANYTHING, "nothing is uploaded"),
    "commit_message": (ANYTHING, "nothing is uploaded"),
    "commit_description": (ANYTHING, "nothing is uploaded"),
    "create_pr": (ANYTHING, "nothing is uploaded"),
    "tags": (ANYTHING, "nothing is uploaded"),
}

MODEL: Keywords = {
    "use_cache": (ANYTHING, "an encoder computes a text once and has nothing to keep"),
    "num_items_in_batch": (
        ANYTHING,
        "the Trainer's count of labels, but BERT's losses are means of a batch",
    ),
    "past_key_values": (None, "it is for decoders, but an encoder computes every text at once."),
    "encoder_hidden_states": (None, "it is for decoders, but minibert is an encoder."),
    "encoder_attention_mask": (None, "it is for decoders, but minibert is an encoder."),
    "head_mask": (
        None,
        "nor is it by transformers since version 5. Trace.switch_off_head switches a head off.",
    ),
}
"""Of the `forward` of models."""

PARTS: Keywords = {
    **MODEL,
    "past_key_value": MODEL["past_key_values"],
    "layer_head_mask": MODEL["head_mask"],
    "output_attentions": (False, "pass attend=eager_attention, which returns the probabilities."),
    "output_hidden_states": (ANYTHING, "a layer has only its own"),
    "return_dict": (ANYTHING, "what a part returns has one form"),
    "cache_position": (None, "an encoder computes a text once and has nothing to keep."),
    "position_ids": (None, "positions are added by the embeddings."),
}
"""Of the `forward` of the encoder, of layers and of their attention."""

FOR_DECODERS = ("encoder_hidden_states", "encoder_attention_mask", "past_key_values", "use_cache")
"""Arguments of transformers that follow the mask of a part, by position."""

LAYERS: Keywords = {
    "is_causal": (False, "minibert is an encoder."),
    "is_cross_attention": (False, "minibert is an encoder."),
}
"""With which transformers builds layers and their attention."""

EMBEDDINGS: Keywords = {
    **MODEL,
    "past_key_values_length": (0, "it is for decoders. Pass position_ids to count from elsewhere."),
}
"""Of the `forward` of the embeddings."""


def drop_unused(options: Mapping[str, Any], known: Keywords = LOADING) -> dict[str, Any]:
    """Return the options without those that have no effect.

    Args:
        options: Keywords with their values.
        known: Those that have no effect, or raise an error.

    Raises:
        ValueError: An option asks for something that minibert does not have.

    >>> drop_unused({"trust_remote_code": True, "force_download": False, "num_labels": 3})
    {'num_labels': 3}
    """
    rest = {}
    for name, value in options.items():
        if name not in known:
            rest[name] = value
            continue
        usual, instead = known[name]
        if usual is not ANYTHING and not _asks_for_nothing(value, usual):
            shown = f"{name}={value!r:.60}" if isinstance(value, str | int | float) else name
            raise ValueError(f"{shown} is not supported: {instead}")
    return rest


def _asks_for_nothing(value: Any, usual: Any) -> bool:
    """Whether a value is None, the usual one, or empty as that, such as a `head_mask` of Nones."""
    if value is None or value is usual:
        return True
    if hasattr(value, "shape"):  # a tensor asks for something, whatever its values are
        return False
    if isinstance(value, list) and all(x is None for x in value):
        return not usual
    return value == usual or (not value and not usual)


def check_unused(owner: str, options: Mapping[str, Any], known: Keywords) -> None:
    """Check keywords that a function takes as long as they ask for nothing.

    Args:
        owner: The function, as the error should call it.
        options: The keywords with their values.
        known: Those that have no effect, or raise an error.

    Raises:
        ValueError: An option asks for something that minibert does not have.
        TypeError: A keyword is unknown.
    """
    for name in drop_unused(options, known):
        raise TypeError(f"{owner}() got an unexpected keyword argument {name!r}")


def refuse_fields(owner: str, unknown: Iterable[str], names: Iterable[str]) -> None:
    """Raise a TypeError for keywords of a config's `__init__` that it does not have.

    Args:
        owner: The class, as the error should call it.
        unknown: The keywords.
        names: Those that it has.
    """
    name = next(iter(unknown))
    # "model_type", which every config.json has, is no misspelling of "dtype".
    similar = difflib.get_close_matches(name, list(names), n=1, cutoff=0.7)
    advice = f" Did you mean {similar[0]!r}?" if similar else ""
    raise TypeError(
        f"{owner} got an unexpected keyword argument {name!r}.{advice} {owner}.from_dict(values) "
        "takes the content of any config.json, and extra={...} holds fields of your own."
    )


def warn_of_code(source: str, auto_map: Any, kind: str, instead: str) -> None:
    """Warn that a checkpoint has code of its own, which is never run.

    Args:
        source: The checkpoint.
        auto_map: The field of its files that names classes in files of Python, if there is one.
        kind: How the names of the Auto classes begin that stand for what is loaded.
        instead: What is loaded.
    """
    from minibert.util.checks import warn

    if not isinstance(auto_map, Mapping):
        return
    classes = [auto_map[name] for name in sorted(auto_map) if name.startswith(kind)]
    if classes:
        names = [str(x) for y in classes for x in (y if isinstance(y, list) else [y]) if x]
        warn(
            f"{source} has code of its own, {', '.join(names):.200}, which minibert does not run: "
            f"this is {instead}. Load it by transformers with trust_remote_code=True if its "
            "results should be those of that code."
        )


def one_device(device_map: Any) -> Any:
    """The device that a `device_map` names. "auto" is the first GPU where there is one.

    Raises:
        ValueError: Several devices.
    """
    import torch

    if isinstance(device_map, dict):
        if len(set(device_map.values())) > 1:
            raise ArgumentError(
                "device_map", f"should name one device, which a BERT fits on, not {device_map}."
            )
        device_map = next(iter(device_map.values()), None)
    if device_map in ("auto", "balanced", "balanced_low_0", "sequential"):
        return torch.device("cuda") if torch.cuda.is_available() else None
    return device_map
