"""Cross-encoders: a query and a document go through BERT together, and a classifier scores the pair.

Slower than comparing vectors, and better: score the hundred nearest of a search again, and show the best ten.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from minibert.checkpoints.source import Source
from minibert.checks import check_count
from minibert.config import BertConfig
from minibert.heads import BertForSequenceClassification
from minibert.inference.batching import BATCH_TOKENS
from minibert.inference.logits import logits_of_rows
from minibert.inference.optimize import optimize
from minibert.sentences.folder import SentenceFolder, read_sentence_folder
from minibert.sentences.pooling import ACTIVATIONS, activation_name
from minibert.sentences.rows import (
    Pair,
    Rows,
    Settings,
    Vectors,
    check_pairs,
    named_prompt,
    tokenize_rows,
)
from minibert.tokenization.tokenizer import BertTokenizer


class Ranked(TypedDict):
    """A document, its number among those that were given, and its score."""

    corpus_id: int
    score: float
    text: str


class CrossEncoder:
    """A sequence classifier over pairs of texts, its tokenizer, and what becomes of its logits.

    ```python
    reranker = CrossEncoder.from_pretrained("cross-encoder/ms-marco-MiniLM-L6-v2")
    reranker.rank("How tall do trees grow?", documents, top_k=3)
    ```

    Args:
        model: the classifier.
        tokenizer: its tokenizer.
        activation: what the logits go through; None: a sigmoid for one label, nothing for several.
        max_length: tokens of the longest pair; None: what the tokenizer and the positions allow.
        prompts: texts to put before every query, by name.
        default_prompt_name: the prompt that is used when a call names none.
    """

    def __init__(
        self,
        model: BertForSequenceClassification,
        tokenizer: BertTokenizer,
        activation: nn.Module | None = None,
        max_length: int | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
    ) -> None:
        self.prompts, self.default_prompt_name = dict(prompts or {}), default_prompt_name
        named_prompt(self.prompts, default_prompt_name)  # it must exist
        self.model, self.tokenizer = model.eval(), tokenizer
        self.activation = activation or (
            nn.Sigmoid() if model.config.num_labels == 1 else nn.Identity()
        )
        longest = tokenizer.model_max_length if max_length is None else max_length
        self.max_length = min(longest, model.config.max_position_embeddings)

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        precision: str | None = "fp32",
        max_length: int | None = None,
        device: torch.device | str | None = None,
        mmap: bool = True,
        **options: Any,
    ) -> CrossEncoder:
        """Loads a cross-encoder's folder with the activation that it names, as sentence-transformers does.

        Args:
            name: folder or Hub id.
            precision: as in `minibert.optimize`; None runs the model unchanged.
            max_length: as in the class; None: what the folder says.
            device: where to run; None: the CPU.
            mmap: as in `BertModel.from_pretrained`.
            options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for `Source.of`.

        Raises:
            FileNotFoundError: no such checkpoint, or a file of it is missing.
            ValueError: a damaged file, or an activation or module that minibert does not have, named.
        """
        source = Source.of(name, **options)
        folder = read_sentence_folder(source, cross_encoder=True)
        options = {"device": device, "dtype": torch.float32, "mmap": mmap}
        model = BertForSequenceClassification.from_pretrained(folder.transformer, **options)
        activation = _activation(source, folder, model.config)
        if precision is not None:
            model = optimize(model, precision=precision)
        max_length = folder.max_length if max_length is None else max_length
        prompts = folder.prompts, folder.default_prompt_name
        return cls(model, folder.load_tokenizer(), activation, max_length, *prompts)

    def predict(
        self,
        pairs: Sequence[Pair] | Pair,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: Literal[True] = True,
    ) -> NDArray[np.float32]:
        """Scores of pairs of texts.

        Args:
            pairs: pairs, whose longer text is cut where the pair is too long; or a single one.
            prompt: put before the first text of every pair.
            prompt_name: the prompt of this name in `prompts`; None: `default_prompt_name`.
            batch_size: has no effect, like the other options that sentence-transformers has:
            show_progress_bar: there is none.
            convert_to_numpy: the result is an array.

        Returns:
            (N,) for a model with one label, (N, labels) for several; without the first axis for a single pair.

        Raises:
            ValueError: something that is not a pair of strings, or an unknown prompt.
        """
        single, settings = (
            bool(pairs) and isinstance(pairs[0], str),
            self.settings(prompt, prompt_name),
        )
        rows = tokenize_rows(
            self.tokenizer, check_pairs([pairs] if single else pairs), self.max_length, settings
        )
        scores = self.activation(torch.from_numpy(self.encode_rows(rows, settings)))
        found: NDArray[np.float32] = (scores[:, 0] if scores.shape[1] == 1 else scores).numpy()
        return found[0] if single else found

    def settings(self, prompt: str | None = None, prompt_name: str | None = None) -> Settings:
        """How pairs are encoded, with a prompt as in `predict`; ValueError for one that is not there."""
        if prompt is None:
            prompt = named_prompt(self.prompts, prompt_name or self.default_prompt_name)
        return Settings(prompt, "truncate", BATCH_TOKENS)

    def encode_rows(self, rows: Rows, settings: Settings) -> Vectors:
        """Logits (N, labels) of the pairs or texts that were given, in their order."""
        return rows.in_input_order(logits_of_rows(self.model, rows.ids, rows.token_types).numpy())

    def score(self, text_pairs: Sequence[Pair]) -> list[float]:
        """`predict`, as LangChain asks for it."""
        scores: list[float] = self.predict(text_pairs).tolist()
        return scores

    def rank(self, query: str, documents: Sequence[str], top_k: int | None = None) -> list[Ranked]:
        """Documents by how well they answer a query, best first; ties in the order of the documents.

        Args:
            query: goes first in each pair.
            documents: go second.
            top_k: how many; None: all.

        Raises:
            ValueError: a model with several labels, or something that is not a text.
        """
        if self.model.config.num_labels != 1:
            raise ValueError(
                f"ranking needs a model with one label; this one has {self.model.config.num_labels}."
            )
        if top_k is not None:
            check_count("top_k", top_k)
        scores = self.predict([(query, document) for document in documents])
        best = np.argsort(-scores, kind="stable")[:top_k].tolist()
        return [Ranked(corpus_id=i, score=float(scores[i]), text=documents[i]) for i in best]


def rerank(
    model: BertForSequenceClassification,
    tokenizer: BertTokenizer,
    query: str,
    documents: Sequence[str],
    top: int | None = None,
) -> list[Ranked]:
    """`CrossEncoder(model, tokenizer).rank(query, documents, top)`: scores are the sigmoid of the model's logit."""
    return CrossEncoder(model, tokenizer).rank(query, documents, top)


def _activation(source: Source, folder: SentenceFolder, config: BertConfig) -> nn.Module | None:
    """The activation that a folder names, in the places where the versions of sentence-transformers look for it."""
    places = [
        ("config_sentence_transformers.json", folder.activation_fn),
        ("config.json", dict(config.extra.get("sentence_transformers") or {}).get("activation_fn")),
        ("config.json", config.extra.get("sbert_ce_default_activation_function")),
    ]
    named = ((file, name) for file, name in places if name is not None)
    return next(
        (ACTIVATIONS[activation_name(f"{source}/{file}", name)]() for file, name in named), None
    )
