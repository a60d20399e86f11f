"""Keywords of the reference's `from_pretrained` and `save_pretrained`, and what each means here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

WITHOUT_EFFECT = {
    "trust_remote_code": "no code of a checkpoint is ever run",
    "use_safetensors": "safetensors are read where there are any, and pickles without running code",
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
}
"""Accepted with any value, for the reason beside it."""

REFUSED = {
    "force_download": "delete the repository from the Hub's cache (`hf cache`) to have it downloaded again.",
    "proxies": "set HTTPS_PROXY in the environment.",
    "variant": "only files without a variant in their names are read and written.",
    "quantization_config": "load the model and call minibert.optimize(model, precision='int8').",
    "load_in_8bit": "load the model and call minibert.optimize(model, precision='int8').",
    "load_in_4bit": "minibert.optimize(model, precision='int8') is the smallest there is.",
    "from_tf": "convert TensorFlow's checkpoints to safetensors first.",
    "from_flax": "convert Flax's checkpoints to safetensors first.",
    "gguf_file": "get the checkpoint as safetensors.",
    "push_to_hub": "save_pretrained(folder), then `hf upload NAME folder`.",
}
"""Refused when their value asks for something."""

SAVING = {
    "save_function": "safetensors are written atomically by this package",
    "max_shard_size": "a BERT is one file",
    "save_peft_format": "adapters are peft's business",
    "token": "nothing is uploaded",
    "save_original_format": "official names are the model's own",
}
"""As `WITHOUT_EFFECT`, for saving."""


def drop_ignored_keywords(
    function: str, options: dict[str, Any], without_effect: dict[str, str] = WITHOUT_EFFECT
) -> dict[str, Any]:
    """The options that are left when those without effect are taken out.

    Raises:
        ValueError: one that asks for what there is not, with what to do instead.
    """
    for name, instead in REFUSED.items():
        if options.get(name):
            raise ValueError(f"{function} does not take {name}={options[name]!r:.60}: {instead}")
    return {name: value for name, value in options.items() if name not in REFUSED and name not in without_effect}


def one_device(device_map: Any) -> torch.device | None:
    """The device that a `device_map` names; "auto" is the first GPU where there is one.

    Raises:
        ValueError: several devices.
    """
    import torch

    if isinstance(device_map, dict):
        if len(set(device_map.values())) > 1:
            raise ValueError(f"device_map should name one device, which a BERT fits on, not {device_map}.")
        device_map = next(iter(device_map.values()), None)
    if device_map in ("auto", "balanced", "balanced_low_0", "sequential"):
        return torch.device("cuda") if torch.cuda.is_available() else None
    return None if device_map is None else torch.device(device_map)
