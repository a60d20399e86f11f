"""Keywords of transformers: without effect here, errors that say what to use, or unknown.

The tables are those of the reference's `from_pretrained` and `save_pretrained`. Configs, `forward`
and tokenizers have their own beside their classes.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Mapping
from typing import Any

from minibert.util.checks import refuse_unknown

Refused = Mapping[str, tuple[Any, str]]
"""Name -> the only supported value beside None, and what to do instead of using another one."""

WITHOUT_EFFECT = {
    "trust_remote_code": "no code of a checkpoint is ever run",
    "use_safetensors": "it is for weights, which `from_pretrained` of a model reads",
    "low_cpu_mem_usage": "weights are always mapped and never held twice",
    "offload_folder": "weights are mapped, so what is not used is not in memory",
    "offload_state_dict": "the same",
    "max_memory": "a BERT lies on one device",
    "resume_download": "downloads always resume",
    "weights_only": "pickles never run code",
    "_fast_init": "weights that the file has are never drawn",
    "_from_auto": "there is one architecture",
    "adapter_kwargs": "adapters are peft's business",
    "generation_config": "an encoder generates no text",
    "disable_mmap": "minibert has mmap=False, which reads the same weights",
    "code_revision": "no code of a checkpoint is ever run",
    "mirror": "HF_ENDPOINT in the environment names another Hub",
}
"""Accepted with any value, for the reason beside it."""

CONVERT_TENSORFLOW = (
    "convert it by transformers 4 with TensorFlow installed: python -m "
    "transformers.models.bert.convert_bert_original_tf_checkpoint_to_pytorch "
    "--tf_checkpoint_path bert_model.ckpt --bert_config_file bert_config.json "
    "--pytorch_dump_path pytorch_model.bin. Copy bert_config.json to config.json. Models of "
    "Google are on the Hub in today's format, such as google-bert/bert-base-chinese."
)
"""What to do with a checkpoint of google-research/bert."""

REFUSED: Refused = {
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

SAVING = {
    "save_function": "safetensors are written atomically by this package",
    "max_shard_size": "a BERT is one file",
    "save_peft_format": "adapters are peft's business",
    "token": "nothing is uploaded",
    "save_original_format": "official names are the model's own",
    "repo_id": "nothing is uploaded",
    "private": "nothing is uploaded",
    "commit_message": "nothing is uploaded",
    "commit_description": "nothing is uploaded",
    "create_pr": "nothing is uploaded",
    "tags": "nothing is uploaded",
}
"""As `WITHOUT_EFFECT`, for saving."""


def drop_ignored_keywords(
    options: Mapping[str, Any], ignored: Container[str] = WITHOUT_EFFECT, refused: Refused = REFUSED
) -> dict[str, Any]:
    """Return the options without those that have no effect.

    Raises:
        ValueError: An option asks for something that minibert does not have.

    >>> drop_ignored_keywords({"trust_remote_code": True, "force_download": False, "num_labels": 3})
    {'num_labels': 3}
    """
    for name, value in options.items():
        usual, instead = refused.get(name, (value, ""))
        if value is None or value is usual:
            continue
        # A tensor asks for something, whatever its values are. An empty value asks for nothing if
        # the usual value is empty, too.
        if hasattr(value, "shape") or not (value == usual or (not value and not usual)):
            shown = f"{name}={value!r:.60}" if isinstance(value, str | int | float) else name
            raise ValueError(f"{shown} is not supported: {instead}")
    return {
        name: value
        for name, value in options.items()
        if name not in refused and name not in ignored
    }


def check_saving_keywords(owner: str, options: Mapping[str, Any]) -> None:
    """Check the keywords of a `save_pretrained` that have no effect.

    Raises:
        ValueError: A keyword asks for something that minibert does not have.
        TypeError: A keyword is unknown.
    """
    refuse_unknown(owner, drop_ignored_keywords(options, SAVING), ("save_directory", *SAVING))


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


def one_device(device_map: Any) -> Any:
    """The device that a `device_map` names. "auto" is the first GPU where there is one.

    Raises:
        ValueError: Several devices.
    """
    import torch

    if isinstance(device_map, dict):
        if len(set(device_map.values())) > 1:
            raise ValueError(
                f"device_map should name one device, which a BERT fits on, not {device_map}."
            )
        device_map = next(iter(device_map.values()), None)
    if device_map in ("auto", "balanced", "balanced_low_0", "sequential"):
        return torch.device("cuda") if torch.cuda.is_available() else None
    return device_map
