"""Sizes and training texts of the models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from minibert import BertConfig, BertForPreTraining, BertTokenizer
from minibert.util.files import write_json

# models of this size have no capacity to spare
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@dataclass(frozen=True)
class Corpus:
    """A training text of a model.

    Attributes:
        name: Name of the file.
        tokens: Number of its tokens in an epoch.
        next_sentence: Whether examples are pairs for next-sentence prediction, or single texts.
        max_length: Maximum number of tokens of an example.
    """

    name: str
    tokens: int
    next_sentence: bool = False
    max_length: int = 128


@dataclass(frozen=True)
class Model:
    """Settings that differ between the models.

    Attributes:
        language: "en" or "ko".
        folder: Folder of its texts in DATA.
        vocabulary: Model whose vocabulary it uses.
        corpora: Training texts.
        sentences: Number of sentences with teacher vectors in an epoch.
        positions: Maximum number of tokens of a text.
        layers: Layers of minibert-en that it starts from. A file of 24 MB has room for five.
        pair_weight: Weight of the next-sentence loss, which is by far the noisiest.
    """

    language: str
    folder: str
    vocabulary: str
    corpora: tuple[Corpus, ...]
    sentences: int
    positions: int
    layers: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    pair_weight: float = 0.8

    @property
    def config(self) -> BertConfig:
        """The architecture."""
        return BertConfig(
            vocab_size={"en": 30522, "ko": 30000}[self.language],
            hidden_size=256,
            num_hidden_layers=len(self.layers),
            num_attention_heads=8,
            intermediate_size=1024,
            max_position_embeddings=self.positions,
            **NO_DROPOUT,
        )


MODELS = {
    "en": Model(
        language="en",
        folder="english",
        vocabulary="bert-base-uncased",
        corpora=(
            # 64 tokens give twice as many pairs as 128
            Corpus("wikipedia", 100_000, next_sentence=True, max_length=64),
            Corpus("books", 20_000, next_sentence=True, max_length=64),
            Corpus("everyday", 25_000),
        ),
        sentences=8000,
        positions=512,
    ),
    "ko": Model(
        language="ko",
        folder="korean",
        vocabulary="kcbert-base",
        corpora=(
            Corpus("wikipedia", 20_000, next_sentence=True, max_length=64),
            Corpus("wikipedia", 20_000),
            Corpus("nsmc-reviews", 15_000),  # with more, all predictions are about films
            Corpus("everyday", 60_000, max_length=64),
        ),
        sentences=6000,
        positions=300,
        layers=(0, 1, 2, 3, 5),
        pair_weight=0.4,
    ),
}


def save_release(model: BertForPreTraining, tokenizer: BertTokenizer, folder: Path) -> None:
    """Writes the folder of a released model, with weights in bf16.

    config.json sets dtype to float32, which is faster on CPUs and which the scores are measured
    with. It also sets dropout, for fine-tuning.
    """
    model.to(torch.bfloat16).save_pretrained(folder)
    config = model.config.replace(
        dtype="float32",
        architectures=["BertForPreTraining"],
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # vocab.txt and tokenizer_config.json already contain everything in these files
    for redundant in ("tokenizer.json", "special_tokens_map.json"):
        (folder / redundant).unlink(missing_ok=True)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": config.hidden_size, "pooling_mode_mean_tokens": True}
    write_json(folder / "1_Pooling" / "config.json", pooling)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    kinds = [(path, f"sentence_transformers.models.{kind}") for path, kind in modules]
    content = [
        {"idx": i, "name": str(i), "path": path, "type": kind}
        for i, (path, kind) in enumerate(kinds)
    ]
    write_json(folder / "modules.json", content)
