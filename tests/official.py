"""Folders with the tensor names, shapes and configs of official checkpoints, and random weights.

The names come from transformers' BertForPreTraining, so they do not depend on the code under test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from conftest import shared_data
from safetensors.torch import save_file

BERT_BASE_UNCASED = {
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "transformers_version": "4.6.0.dev0",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": 30522,
}
SMALL = {
    **BERT_BASE_UNCASED,
    "vocab_size": 99,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
}


def pretraining_tensors(config: dict[str, Any], legacy: bool) -> dict[str, torch.Tensor]:
    """Return the tensors of an official file: prefix `bert.`, `cls.*` heads, no tied decoder.

    Args:
        config: fields of config.json.
        legacy: name LayerNorm's tensors gamma and beta, and add the position_ids buffer.
    """
    model = transformers.BertForPreTraining(transformers.BertConfig(**config))
    tensors = {
        name: tensor.detach().clone()
        for name, tensor in model.state_dict().items()
        if ".decoder." not in name
    }
    for name in [name for name in tensors if "LayerNorm" in name]:
        # The initial ones and zeros would hide swapped tensors.
        tensors[name] += torch.randn_like(tensors[name]) * 0.1
        if legacy:
            legacy_name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            legacy_name = legacy_name.replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[legacy_name] = tensors.pop(name)
    if legacy:
        positions = torch.arange(config["max_position_embeddings"])
        tensors["bert.embeddings.position_ids"] = positions[None]
    return tensors


def write_folder(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Path:
    """Write a checkpoint of one safetensors file and its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    return folder


def bert_base_uncased(folder: Path, minilm: str, **smaller: Any) -> Path:
    """Write google-bert/bert-base-uncased's layout: legacy LayerNorm names, 30,522 tokens."""
    config = {**BERT_BASE_UNCASED, **smaller}
    write_folder(folder, config, pretraining_tensors(config, legacy=True))
    (folder / "vocab.txt").write_bytes(Path(minilm, "vocab.txt").read_bytes())
    (folder / "tokenizer_config.json").write_text(
        '{"do_lower_case": true, "model_max_length": 512}', encoding="utf-8"
    )
    return folder


def kcbert_base(folder: Path, **smaller: Any) -> Path:
    """Write beomi/kcbert-base's layout: its real vocabulary of 30,000 tokens and its config."""
    source = shared_data("data", "kcbert-base")
    config = {**json.loads((source / "config.json").read_text(encoding="utf-8")), **smaller}
    write_folder(folder, config, pretraining_tensors(config, legacy=False))
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    return folder
