"""What the models are made of: their sizes, and how much of which text they read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from minibert import BertConfig, BertForPreTraining, BertTokenizer
from minibert.files import write_json

NO_DROPOUT = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}  # so small a model has nothing to spare


@dataclass(frozen=True)
class Corpus:
    """A text of a model.

    Attributes:
        name: of the file.
        tokens: how many of it an epoch takes.
        next_sentence: pairs of texts, and whether they belong together; else single texts.
        max_length: tokens of an example at most.
    """

    name: str
    tokens: int
    next_sentence: bool = False
    max_length: int = 128


@dataclass(frozen=True)
class Model:
    """What differs between the models.

    Attributes:
        language: en or ko.
        folder: of its texts in DATA.
        vocabulary: whose word pieces it has.
        corpora: the texts.
        sentences: of the teacher's, how many an epoch takes.
        positions: tokens of the longest text.
        pair_weight: of next sentences; their loss is by far the noisiest.
        layers: which layers of minibert-en it begins with; a file of 24 MB has room for five.
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
            Corpus(
                "wikipedia", 100_000, next_sentence=True, max_length=64
            ),  # twice as many pairs as with 128
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
            Corpus("nsmc-reviews", 15_000),  # with more of them every gap is a film
            Corpus("everyday", 60_000, max_length=64),
        ),
        sentences=6000,
        positions=300,
        layers=(0, 1, 2, 3, 5),
        pair_weight=0.4,
    ),
}


def give_away(model: BertForPreTraining, tokenizer: BertTokenizer, folder: Path) -> None:
    """Writes the folder of a model, in bf16; config.json asks for float32, which is faster and is measured."""
    model.to(torch.bfloat16).save_pretrained(folder)
    config = model.config.replace(
        dtype="float32",
        architectures=["BertForPreTraining"],
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    config.save_pretrained(folder)  # dropout for those who fine-tune
    tokenizer.save_pretrained(folder)
    for repeated in (
        "tokenizer.json",
        "special_tokens_map.json",
    ):  # vocab.txt and tokenizer_config.json say it all
        (folder / repeated).unlink(missing_ok=True)
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
