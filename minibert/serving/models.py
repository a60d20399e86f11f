"""The models of a service by name, each with one queue for the texts of all requests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from starlette.exceptions import HTTPException

from minibert.checkpoints.source import Source
from minibert.encoders.batched import Batched
from minibert.encoders.sentence_folder import is_embedder
from minibert.encoders.token_rows import (
    Pair,
    Row,
    Rows,
    Settings,
    Vectors,
    tokenize_rows,
    truncate_row,
)
from minibert.inference.batching import BATCH_TOKENS

if TYPE_CHECKING:
    from minibert.base import PreTrainedModel
    from minibert.encoders.encode import TextEncoder
    from minibert.encoders.onnx_heads import OnnxHead
    from minibert.encoders.rerank import CrossEncoder
    from minibert.inference.optimize import Precision
    from minibert.tasks.entities import Entity, TokenClassifier
    from minibert.tokenization.tokenizer import BertTokenizer

Input = str | Pair | list[int]
Request = tuple[Rows, Settings]  # the row of one text

SERVED_KINDS = (
    "minibert serve takes embedders, rerankers, classifiers and regressions of texts, and taggers."
)
# a request with more characters is tokenized in its own thread, so that others are not delayed
MAX_CHARACTERS_AT_ONCE = 5000


class Served:
    """A model with its queue.

    Args:
        name: Name of the model in requests.
        kind: "embedding", "reranker", "classifier" or "tagger".
        encoder: Computes vectors or logits (N, D) of rows, in one thread.
        settings_of: Returns how texts with the prompt of a name (None: the default prompt) are
            encoded. Raises ValueError for a name that the model does not have.
        about: Fields of `GET /v1/models`.
        activation: Computes the scores of a classifier from its logits, (N, labels).
        predict_activation: The same for `/predict`, where it differs. None: `activation`.
        reads_windows: The model splits long texts into windows, so that none is truncated.
        queue: `max_wait_ms`, `max_tokens` and `max_pending` as in `Batched`.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        encoder: TextEncoder | CrossEncoder | OnnxHead | Tagger,
        settings_of: Callable[[str | None], Settings],
        about: dict[str, Any],
        activation: Callable[[Vectors], Vectors] = lambda logits: logits,
        predict_activation: Callable[[Vectors], Vectors] | None = None,
        reads_windows: bool = False,
        **queue: Any,
    ) -> None:
        self.name = name
        self.kind = kind
        self.about = about
        self.activation = activation
        self.predict_activation = predict_activation or activation
        self.max_length = encoder.max_length
        self._row_length = encoder.max_length
        if reads_windows:
            self._row_length = sys.maxsize
        self._tokenizer = encoder.tokenizer
        self._encoder = encoder
        self._settings_of = cache(settings_of)
        self.observe_batch: Callable[[float], object] = lambda texts: None
        self.batched = Batched(self._read, self._encode, **queue)

    async def read(
        self, inputs: Sequence[Input], prompt_name: str | None = None, side: str | None = None
    ) -> list[Request]:
        """Tokenize texts and pairs of texts, or check token ids.

        Args:
            inputs: Texts, pairs of texts, or token ids.
            prompt_name: Name of the prompt. None: the default prompt.
            side: Side on which long texts are truncated. None: the model's.

        Raises:
            HTTPException: A text with a lone surrogate, or a prompt or token id that the model does
                not have.
        """

        def read() -> list[Request]:
            return [self._read(text, None, prompt_name, side) for text in inputs]

        if sum(map(_size, inputs)) < MAX_CHARACTERS_AT_ONCE:
            return read()
        return await asyncio.to_thread(read)

    def tokens(self, texts: Sequence[str], add_special_tokens: bool) -> list[list[dict[str, Any]]]:
        """Return the tokens of texts with their ids and characters `[start, stop)`, as TEI does."""
        batch = self._tokenizer(
            list(texts), add_special_tokens=add_special_tokens, truncation=False, verbose=False
        )
        result = []
        for text, encoding in zip(texts, batch.encodings, strict=True):
            tokens = []
            for token_id, word, (start, stop) in zip(
                encoding.ids, encoding.word_ids, encoding.offsets, strict=True
            ):
                token: dict[str, Any] = {"id": token_id, "text": text[start:stop]}
                token |= {"special": False, "start": start, "stop": stop}
                if word is None:
                    name = self._tokenizer.convert_ids_to_tokens(token_id)
                    token |= {"text": name, "special": True, "start": None, "stop": None}
                tokens.append(token)
            result.append(tokens)
        return result

    async def run(self, requests: Sequence[Request]) -> Any:
        """Compute rows in batches with those of other requests.

        Returns:
            Vectors or logits, (N, D), or the list of spans of each text from a tagger.

        Raises:
            BusyError: As `Batched.submit_rows`.
        """
        futures = self.batched.submit_rows(requests)
        values = []
        try:
            for future in futures:
                # most are done once the first one is, and waiting for each costs 20 microseconds
                if not future.done():
                    await asyncio.wrap_future(future)
                values.append(future.result())
        except BaseException:  # also when the client has disconnected
            for future in futures:
                future.cancel()
            raise
        if self.kind == "tagger":
            return values
        return np.stack(values)

    def _encode(self, rows: Rows, settings: Settings) -> Any:
        self.observe_batch(len(rows.ids))
        return self._encoder.encode_rows(rows, settings)

    def _read(
        self, text: Input, prompt: str | None, prompt_name: str | None, side: str | None = None
    ) -> Request:
        """The row of a text. Token ids get [CLS] and [SEP], unless they have them."""
        try:
            settings = self._settings_of(prompt_name)
        except ValueError:
            raise HTTPException(
                422,
                "the prompt does not exist in this model. GET /v1/models lists those that it has.",
            ) from None
        if isinstance(text, list):
            return self._row_of_ids(text, side), settings
        try:
            rows = tokenize_rows(self._tokenizer, [text], self._row_length, settings, side)
        except ValueError:
            raise HTTPException(
                422, "a text holds a lone surrogate (half a character, left by wrong decoding)."
            ) from None
        return rows, settings

    def _row_of_ids(self, ids: list[int], side: str | None) -> Rows:
        if not all(0 <= token_id < len(self._tokenizer) for token_id in ids):
            raise HTTPException(
                422, f"token ids of this model lie between 0 and {len(self._tokenizer) - 1}."
            )
        if ids[:1] != [self._tokenizer.cls_token_id]:
            ids = [self._tokenizer.cls_token_id, *ids, self._tokenizer.sep_token_id]
        is_overlong = len(ids) > self.max_length
        if is_overlong:
            side = side or self._tokenizer.truncation_side
            ids = truncate_row(ids, self.max_length, side)
        return Rows([Row("token ids", [ids], is_overlong=is_overlong)], [0])


def _size(text: Input) -> int:
    """Characters of a text or pair of texts, or the number of token ids."""
    if isinstance(text, tuple):
        return len(text[0]) + len(text[1])
    return len(text)


class Tagger:
    """A token classifier that encodes texts to the spans of `find_entities`."""

    def __init__(self, model: TokenClassifier, tokenizer: BertTokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer
        positions = model.config.max_position_embeddings
        self.max_length = min(tokenizer.model_max_length, positions)

    def encode_rows(self, rows: Rows, settings: Settings) -> list[list[Entity]]:
        """Return the spans of each text."""
        from minibert.tasks.entities import find_entities

        texts = [str(rows.rows[index].text) for index in rows.indices]
        return find_entities(self.model, self.tokenizer, texts)


def load(
    name: str,
    source: Source,
    *,
    backend: Literal["torch", "onnx"] = "torch",
    precision: Precision | None = "fp32",
    device: str = "cpu",
    **queue: Any,
) -> Served:
    """Load the model of a folder, whose files determine the kind of model.

    It is an embedder, a reranker (a classifier with one label), a classifier or a tagger.

    Args:
        name: Name of the model in requests.
        source: Folder of the checkpoint. Its files are not memory-mapped, so that the folder may
            change while the service runs.
        backend: "torch" or "onnx".
        precision: As in `minibert.optimize`. None runs the model unchanged.
        device: Where the model computes. ONNX Runtime runs on the CPU.
        queue: `max_wait_ms`, `max_tokens` and `max_pending` as in `Batched`.

    Raises:
        FileNotFoundError: The checkpoint does not exist, or one of its files is missing.
        ValueError: A damaged file, or another kind of model.
    """
    if not is_embedder(source):
        if backend == "onnx":
            return _load_exported_head(name, source, queue)
        classifier = _load_classifier(name, source, precision, device, queue)
        if classifier is not None:
            return classifier
    embedder: TextEncoder
    if backend == "onnx":
        from minibert.encoders.onnx import OnnxEmbedder

        embedder = OnnxEmbedder.from_pretrained(source)
    else:
        from minibert.encoders.embedder import SentenceEmbedder

        embedder = SentenceEmbedder.from_pretrained(
            source, precision=precision, device=device, mmap=False
        )
        _warm_up(embedder.model)
    prompts = {
        "prompts": list(embedder.prompts),
        "default_prompt_name": embedder.default_prompt_name,
    }
    pooling = ",".join(embedder.pooling)
    about = {"dimension": embedder.dimension, "pooling": pooling, "precision": precision, **prompts}

    def settings_of(name: str | None) -> Settings:
        return embedder.settings(prompt_name=name)

    return Served(name, "embedding", embedder, settings_of, about, **queue)


def _warm_up(model: PreTrainedModel) -> None:
    """Compile what the first batches would. On a GPU nothing is compiled by size."""
    from minibert.inference.packing import warm_up

    if model.device.type == "cpu":
        warm_up(model)


def _load_classifier(
    name: str,
    source: Source,
    precision: Precision | None,
    device: str,
    queue: dict[str, Any],
) -> Served | None:
    """A classifier of texts or tokens. None for a pre-trained BERT, which serves as an embedder."""
    import torch

    from minibert.auto import class_for_tensors
    from minibert.checkpoints.tensors import read_tensors
    from minibert.encoders.rerank import CrossEncoder
    from minibert.tasks.sequence import class_scores

    kind = class_for_tensors(source, read_tensors(source))
    if kind.__name__ in (
        "BertModel",
        "BertForPreTraining",
        "BertForMaskedLM",
        "BertForNextSentencePrediction",
    ):
        return None
    if kind.__name__ == "BertForTokenClassification":
        return _load_tagger(name, source, precision, device, queue)
    if kind.__name__ != "BertForSequenceClassification":
        raise ValueError(f"{source} is a {kind.__name__}. {SERVED_KINDS}")
    encoder = CrossEncoder.from_pretrained(source, precision=precision, device=device, mmap=False)
    _warm_up(encoder.model)
    config = encoder.model.config
    is_reranker = config.num_labels == 1

    def activation(logits: Vectors) -> Vectors:
        scores: Vectors
        if is_reranker:
            scores = encoder.activation(torch.from_numpy(logits)).numpy()
        else:
            scores = class_scores(config, torch.from_numpy(logits)).numpy()
        return scores

    about = {
        "labels": [config.id2label[number] for number in range(config.num_labels)],
        "precision": precision,
    }

    def predict_activation(logits: Vectors) -> Vectors:
        if is_reranker and config.problem_type != "regression":
            return activation(logits)
        scores: Vectors = class_scores(config, torch.from_numpy(logits)).numpy()
        return scores

    return Served(
        name,
        _kind(config.num_labels),
        encoder,
        partial(encoder.settings, None),
        about,
        activation,
        predict_activation,
        **queue,
    )


def _load_exported_head(name: str, source: Source, queue: dict[str, Any]) -> Served:
    """An exported classifier, reranker or tagger."""
    from minibert.encoders.onnx_heads import OnnxHead

    head = OnnxHead.from_pretrained(source)
    if head.tags_tokens:
        return _served_tagger(name, Tagger(head, head.tokenizer), None, queue)
    if not head.classifies_texts:
        raise ValueError(f"{source} has the outputs {', '.join(head.outputs)}. {SERVED_KINDS}")
    config = head.config
    labels = [config.id2label[index] for index in range(config.num_labels)]
    about = {"labels": labels, "precision": None}

    def predict_activation(logits: Vectors) -> Vectors:
        return logits if config.problem_type == "regression" else head.activation(logits)

    kind = _kind(config.num_labels)
    return Served(
        name, kind, head, head.settings, about, head.activation, predict_activation, **queue
    )


def _kind(num_labels: int) -> str:
    if num_labels == 1:
        return "reranker"
    return "classifier"


def _load_tagger(
    name: str,
    source: Source,
    precision: Precision | None,
    device: str,
    queue: dict[str, Any],
) -> Served:
    import torch

    from minibert.heads import BertForTokenClassification
    from minibert.inference.optimize import optimize, resolve_precision
    from minibert.tokenization.tokenizer import BertTokenizer

    model = BertForTokenClassification.from_pretrained(
        source, dtype=torch.float32, device=device, mmap=False
    )
    resolved = resolve_precision(precision)
    if resolved is not None:
        model = optimize(model, precision=resolved)
    _warm_up(model)
    tagger = Tagger(model.eval(), BertTokenizer.from_pretrained(source))
    return _served_tagger(name, tagger, precision, queue)


def _served_tagger(
    name: str, tagger: Tagger, precision: Precision | None, queue: dict[str, Any]
) -> Served:
    config = tagger.model.config
    labels = [config.id2label[index] for index in range(config.num_labels)]
    settings = Settings("", "truncate", BATCH_TOKENS)

    def settings_of(prompt_name: str | None) -> Settings:
        if prompt_name is not None:
            raise ValueError("a tagger has no prompts.")
        return settings

    about = {"labels": labels, "precision": precision}
    return Served(name, "tagger", tagger, settings_of, about, reads_windows=True, **queue)
