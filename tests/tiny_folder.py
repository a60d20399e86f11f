"""Small complete checkpoints: a random BERT, its tokenizer, and sentence-transformers' files."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from conftest import tiny_config

from minibert import BertForSequenceClassification, BertModel, BertPreTrainedModel
from minibert.util.files import write_json

WORDS = ["hello", "world", "query", "how", "do", "tall", "trees", "grow", "in", "korea"]
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *string.ascii_lowercase,
    *(f"##{letter}" for letter in string.ascii_lowercase),
    *(".", ",", ":", "!", "?"),
    *WORDS,
]
LINES = [" ".join(random.Random(number).choices(WORDS, k=number % 13)) for number in range(47)]


def tiny_folder(folder: Path, **config: Any) -> Path:
    """Write a BERT with random weights and a vocabulary of letters and a few words."""
    torch.manual_seed(1)
    model = BertModel(tiny_config(vocab_size=len(VOCABULARY), **config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    settings = {"do_lower_case": True, "tokenizer_class": "BertTokenizer", "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def classifier_folder(folder: Path, labels: int, **config: Any) -> Path:
    """Write a sequence classifier in the format of the Hub."""
    names = {n: f"LABEL_{n}" for n in range(labels)}
    return head_folder(folder, BertForSequenceClassification, id2label=names, **config)


def head_folder(folder: Path, model_class: type[BertPreTrainedModel], **config: Any) -> Path:
    """Write a BERT of one layer with a head in the format of the Hub.

    Heads of a class with as many labels are equal, so that `shared_graphs` traces one of them,
    which takes two seconds for a further layer.
    """
    tiny_folder(folder)
    torch.manual_seed(3)
    sizes = {"vocab_size": len(VOCABULARY), "num_hidden_layers": 1}
    model = model_class(tiny_config(**{**sizes, **config}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return the name and content of each file in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def sentence_folder(
    folder: Path, *steps: tuple[str, dict[str, Any]], layers: int = 2, **files: dict[str, Any]
) -> Path:
    """Write a tiny checkpoint in the format of sentence-transformers.

    Args:
        folder: where to write.
        steps: kind and config of each module after the Transformer, such as `("Pooling", {...})`.
        layers: number of layers. Each takes two seconds when the model is exported.
        files: content of further JSON files, by name without the suffix.
    """
    tiny_folder(folder, num_hidden_layers=layers)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    ]
    for number, (kind, config) in enumerate(steps, start=1):
        path = f"{number}_{kind}"
        modules.append(
            {
                "idx": number,
                "name": str(number),
                "path": path,
                "type": f"sentence_transformers.models.{kind}",
            }
        )
        (folder / path).mkdir(exist_ok=True)
        (folder / path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def two_poolings(folder: Path, **files: dict[str, Any]) -> Path:
    """Write an embedder whose poolings, two of them, leave out the prompt.

    Its graph depends on `truncate_dim` of `files` alone, so that `shared_graphs` traces one.
    """
    pooling = {
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": True,
        "include_prompt": False,
    }
    return sentence_folder(folder, ("Pooling", pooling), ("Normalize", {}), layers=1, **files)


def as_if_stopped(folder: Path, missing: Iterable[int] = ()) -> None:
    """Make a finished folder of vectors one whose run was killed before its last steps."""
    manifest = json.loads((folder / ".manifest").read_text(encoding="utf-8"))
    records = manifest.pop("shards")
    for name in ("lines", "tokens", "overlong", "dimension", "unit"):
        del manifest[name]
    for number, record in enumerate(records):
        if number not in missing:
            write_json(folder / f".shard-{number:06d}", record)
    write_json(folder / ".manifest", manifest)
