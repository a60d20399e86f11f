"""The models of a service by name, each with one queue for the texts of all requests."""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from starlette.exceptions import HTTPException

from minibert.checkpoints.source import Source
from minibert.encoders.answerer import LONGEST_ANSWER
from minibert.encoders.arithmetic.scoring import TextScorer, class_activation, label_names
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.folders.kinds import NOUN_OF_KIND
from minibert.encoders.folders.reading import Reading
from minibert.encoders.rows.batched import Batched
from minibert.encoders.rows.token_rows import (
    Pair,
    Rows,
    Settings,
    TokenRow,
    pair_rows,
    tokenize_rows,
    truncate_row,
)
from minibert.encoders.rows.windows import QuestionRow, count_window_tokens
from minibert.encoders.text_models import load_text_model
from minibert.inference.finite import NotFiniteError, check_finite
from minibert.serving.memory import warn_of_memory
from minibert.tokenization.spec import tokenizer_digest

if TYPE_CHECKING:
    from minibert.config import BertConfig
    from minibert.encoders.answerer import Answerer
    from minibert.encoders.tagger import Tagger
    from minibert.encoders.text_encoder import TextEncoder
    from minibert.inference.precisions import Precision
    from minibert.tokenization.encoding import BatchEncoding
    from minibert.tokenization.tokenizer import BertTokenizer

T = TypeVar("T")
Input = str | Pair | list[int]
Request = tuple[Rows, Settings]  # the row of one text

# a request with more characters is tokenized in its own thread, so that others are not delayed
MAX_CHARACTERS_AT_ONCE = 5000
# Tokens that take as long as a token of these: each may become a span, or the end of an answer
TOKENS_OF_A_SPAN = {"tagger": 3, "answerer": 3}
TRAINED_ON_PAIRS = (
    "is a single text, but this model was trained on pairs of texts. /predict takes a pair as a "
    "list of two strings."
)
TRAINED_ON_TEXTS = (
    "is a pair of texts, but this model was trained on single texts. /predict takes several texts "
    "as lists of one string each."
)
WITHOUT_WORD = "has no word in its context, and so no answer. Leave it out."
SURROGATE_FAULT = "holds a lone surrogate (half a character, left by wrong decoding)."


class Served:
    """A model with its queue.

    Args:
        name: Name of the model in requests.
        kind: "embedding", "reranker", "classifier", "tagger" or "answerer".
        encoder: Computes vectors or logits (N, D) of rows, in one thread, or spans or answers.
        about: Fields of `GET /v1/models`.
        activation: What turns the logits of a classifier or reranker into scores.
        reading: How the model reads its inputs. None: not decided in training.
        queue: `max_wait_ms`, `max_tokens` and `max_pending` as in `Batched`.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        encoder: TextEncoder | TextScorer | Tagger | Answerer,
        about: dict[str, Any],
        activation: str = "Identity",
        reading: Reading | None = None,
        **queue: Any,
    ) -> None:
        self.name = name
        self.kind = kind
        self.about = about
        self.activation = activation
        self._reading = reading or Reading()
        self.max_length = encoder.max_length
        self.vocab_size = len(encoder.tokenizer)
        self._tokenizer = encoder.tokenizer
        self._tokenizer_of = cache(self._truncating_at)
        self._encoder = encoder
        self._settings_of = cache(lambda prompt_name: encoder.settings(prompt_name=prompt_name))
        encode_rows: Any = encoder.encode_rows  # spans of a tagger, answers of an answerer
        self.batched = Batched(self._read, encode_rows, **queue)

    async def read(
        self,
        inputs: Sequence[Input],
        prompt_name: str | None = None,
        side: str | None = None,
        max_tokens: int = sys.maxsize,
    ) -> list[Request]:
        """Tokenize texts and pairs of texts, or check token ids.

        Args:
            inputs: Texts, pairs of texts, or token ids. Of an answerer, a question and a context.
            prompt_name: Name of the prompt. None: the default prompt.
            side: Side on which long texts are truncated. None: the model's.
            max_tokens: Maximum tokens of all of them, after truncation, or of all windows.

        Raises:
            HTTPException: A pair for a model of single texts or the other way round, a text with a
                lone surrogate, a prompt or token id that the model does not have, too many tokens,
                a question that leaves no room for its context, or a context without a word.
        """
        for index, text in enumerate(inputs):
            if not self._reading.accepts(isinstance(text, tuple)):
                raise _invalid(index, TRAINED_ON_PAIRS if self._reading.pairs else TRAINED_ON_TEXTS)

        most_tokens = max_tokens // TOKENS_OF_A_SPAN.get(self.kind, 1)

        def read(stopped: Event) -> list[Request]:
            requests = []
            tokens = 0
            for rows in self._rows(inputs, prompt_name, side, most_tokens):
                _check_tokens(tokens := tokens + rows[0].tokens, most_tokens)
                if stopped.is_set():
                    break
                requests.append(rows)
            if requests:
                settings = requests[0][1]
                of_all = [row for one, _ in requests for row in one.rows]
                self._encoder.warn_of_unread(Rows(of_all, range(len(of_all))), settings)
            return requests

        if sum(map(_size, inputs)) < MAX_CHARACTERS_AT_ONCE:
            return read(Event())
        return await in_thread(read)

    async def tokens(
        self,
        texts: Sequence[str],
        add_special_tokens: bool,
        prompt_name: str | None = None,
        max_tokens: int = sys.maxsize,
    ) -> list[list[dict[str, Any]]]:
        """Return the tokens of texts with their ids and characters `[start, stop)`, as TEI does.

        Args:
            texts: The texts.
            add_special_tokens: Whether [CLS] and [SEP] are among the tokens.
            prompt_name: Name of the prompt that is put before each text, and counts as a part of
                it. None: no prompt.
            max_tokens: Maximum tokens of all texts.

        Raises:
            HTTPException: A text with a lone surrogate, a prompt that the model does not have, or
                too many tokens.
        """
        prompt = "" if prompt_name is None else self._settings(prompt_name).prompt

        def read(stopped: Event) -> list[list[dict[str, Any]]]:
            result: list[list[dict[str, Any]]] = []
            count = 0
            for index, text in enumerate(texts):
                whole = prompt + text
                try:
                    batch = self._tokenizer(
                        [whole],
                        add_special_tokens=add_special_tokens,
                        truncation=False,
                        verbose=False,
                    )
                except ValueError:
                    raise _invalid(index, SURROGATE_FAULT) from None
                # ids alone take less memory than the tokens, which may be too many
                _check_tokens(count := count + len(batch["input_ids"][0]), max_tokens)
                if stopped.is_set():
                    break
                result.append(self._tokens_of(whole, batch))
            return result

        return await in_thread(read)

    def _tokens_of(self, text: str, batch: BatchEncoding) -> list[dict[str, Any]]:
        (encoding,) = batch.encodings
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
        return tokens

    def token_names(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens of the vocabulary with these ids."""
        names: list[str] = self._tokenizer.convert_ids_to_tokens(list(ids))
        return names

    def characters(self, inputs: Sequence[Input], prompt_name: str | None = None) -> int:
        """Characters of texts as they are tokenized, with prompts. Token ids have none.

        One outside ASCII counts as six. The first text of several pairs, such as a query, is
        tokenized once, but the windows of each question are made of its own texts.

        Raises:
            HTTPException: A prompt that the model does not have.
        """
        prompt = self._settings(prompt_name).prompt
        with_prompt = [text for text in inputs if isinstance(text, str)]
        pairs = [text for text in inputs if isinstance(text, tuple)]
        read_once = list if self.kind == "answerer" else set
        with_prompt += read_once(first for first, _ in pairs)
        seconds = read_once(second for _, second in pairs)
        count = sum(map(_weight, with_prompt)) + len(with_prompt) * _weight(prompt)
        return count + sum(map(_weight, seconds))

    async def run(self, requests: Sequence[Request]) -> Any:
        """Compute rows in batches with those of other requests.

        Returns:
            Vectors or logits, (N, D), or the list of spans of each text from a tagger, or the
            answer to each question from an answerer.

        Raises:
            BusyError: As `Batched.submit_rows`.
            HTTPException: A value is NaN or infinite, which JSON does not have.
        """
        futures = self.batched.submit_rows(requests)
        values: list[Any] = []
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
        results: Any = values
        if self.kind == "tagger":
            numbers: Any = [span["score"] for spans in values for span in spans]
        elif self.kind == "answerer":
            numbers = [
                answer[name]
                for answer in values
                for name in ("score", "no_answer_score")
                if name in answer
            ]
        else:
            results = numbers = np.stack(values)
        try:
            check_finite(numbers)
        except NotFiniteError as error:
            raise HTTPException(500, str(error)) from None
        return results

    def _read(self, text: str, prompt: str | None, prompt_name: str | None) -> Request:
        """The row of a text, for `Batched`. An answerer is asked for the text itself."""
        one = (text, text) if self.kind == "answerer" else text
        (request,) = self._rows([one], prompt_name, None)
        return request

    def _rows(
        self,
        inputs: Sequence[Input],
        prompt_name: str | None,
        side: str | None,
        most_tokens: int = sys.maxsize,
    ) -> Iterator[Request]:
        """Yield the row of each text, pair of texts, or list of token ids.

        Long contexts become many windows, which are not made if they have too many tokens.
        """
        settings = self._settings(prompt_name)
        tokenizer = self._tokenizer_of(side)
        # a tagger splits long texts into windows of its own
        limit = sys.maxsize if self.kind == "tagger" else self.max_length
        pairs = (text for text in inputs if isinstance(text, tuple))
        rows_of_pairs = pair_rows(tokenizer, pairs, limit, settings)
        count = cache(lambda text: len(tokenizer.rows([text])[0]) - 2)
        for index, text in enumerate(inputs):
            try:
                if isinstance(text, list):
                    yield self._row_of_ids(text, tokenizer, settings), settings
                elif isinstance(text, tuple) and self.kind == "answerer":
                    self._check_windows(index, count(text[0]), count(text[1]), most_tokens)
                    yield Rows([QuestionRow.of(tokenizer, *text, self.max_length)], [0]), settings
                elif isinstance(text, tuple):
                    yield Rows([next(rows_of_pairs)], [0]), settings
                else:
                    yield tokenize_rows(tokenizer, [text], limit, settings), settings
            except _UnknownIdError:
                most = len(tokenizer) - 1
                reason = f"holds token ids that this model lacks: they lie between 0 and {most}."
                raise _invalid(index, reason) from None
            except ValueError:
                raise _invalid(index, SURROGATE_FAULT) from None

    def _check_windows(self, index: int, question: int, context: int, most_tokens: int) -> None:
        """HTTPException for texts of so many tokens that have no answer, or too many windows."""
        tokens = count_window_tokens(question, context, self.max_length)
        if tokens == 0:
            raise _invalid(
                index,
                f"has a question that leaves no room for its context in the {self.max_length} "
                "tokens of this model: shorten it.",
            )
        if context == 0:
            raise _invalid(index, WITHOUT_WORD)
        _check_tokens(tokens, most_tokens)

    def _row_of_ids(self, ids: list[int], tokenizer: BertTokenizer, settings: Settings) -> Rows:
        """The row that the text of these tokens has: with [CLS], the prompt's tokens and [SEP]."""
        if not all(0 <= token_id < len(tokenizer) for token_id in ids):
            raise _UnknownIdError
        *start, end = tokenizer.rows([settings.prompt])[0]
        if ids[:1] == start[:1]:
            ids = ids[1:]
        if ids[-1:] == [end]:
            ids = ids[:-1]
        ids = [*start, *ids, end]
        is_overlong = len(ids) > self.max_length
        if is_overlong:
            ids = truncate_row(ids, self.max_length, tokenizer.truncation_side)
        return Rows([TokenRow("token ids", [ids], is_overlong=is_overlong)], [0])

    def _settings(self, prompt_name: str | None) -> Settings:
        """The settings with a prompt. None: the default prompt."""
        try:
            return self._settings_of(prompt_name)
        except ValueError:
            raise HTTPException(
                422,
                "the prompt does not exist in this model. GET /v1/models lists those that it has.",
            ) from None

    def _truncating_at(self, side: str | None) -> BertTokenizer:
        """The tokenizer, or one that truncates at another side than the model's."""
        if side is None:
            return self._tokenizer
        tokenizer = copy.copy(self._tokenizer)
        tokenizer.truncation_side = side
        return tokenizer


async def in_thread(work: Callable[[Event], T]) -> T:
    """Await work in a thread, which gets an event that is set when nobody waits for it anymore.

    A thread cannot be canceled. Threads whose clients have disconnected, or whose time is over,
    would fill the pool if they did not look at the event.
    """
    stopped = Event()
    try:
        return await asyncio.to_thread(work, stopped)
    finally:
        stopped.set()


class _UnknownIdError(Exception):
    """A token id that the model does not have."""


def _invalid(index: int, reason: str) -> HTTPException:
    return HTTPException(422, f"the text at index {index} {reason}")


def _check_tokens(tokens: int, most: int) -> None:
    """HTTPException for too many tokens. Those of the remaining texts are not counted."""
    if tokens > most:
        raise HTTPException(
            422, f"a request has at most {most} tokens: send fewer texts, or shorter ones."
        )


def _weight(text: str) -> int:
    """Characters of a text, where one outside ASCII counts as six, as it takes to tokenize."""
    if text.isascii():
        return len(text)
    return 6 * len(text) - 5 * len(text.encode("ascii", "ignore"))


def _size(text: Input) -> int:
    """Characters of a text or pair of texts, or the number of token ids."""
    if isinstance(text, tuple):
        return len(text[0]) + len(text[1])
    return len(text)


def fingerprint_of(encoder: Any) -> str:
    """The beginning of a digest of the weights and the tokenizer.

    Two services with the same fingerprint give the same answers, up to the last bits.

    Args:
        encoder: An embedder, a classifier, a reranker, a tagger or an answerer, exported or not.
    """
    digest = tokenizer_digest(encoder.tokenizer)
    for part in encoder.weights():
        digest.update(part)
    return digest.hexdigest()[:16]


def load_served(
    name: str,
    source: Source,
    *,
    backend: Literal["torch", "onnx"] = "torch",
    precision: Precision | None = "fp32",
    device: str = "cpu",
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    truncate_dim: int | None = None,
    **queue: Any,
) -> Served:
    """Load the model of a folder, whose files determine the kind of model.

    It is an embedder, a reranker (a classifier with one label), a classifier, a tagger or a
    question answerer.

    Args:
        name: Name of the model in requests.
        source: Folder of the checkpoint. Its files are not memory-mapped, so that the folder may
            change while the service runs.
        backend: "torch" or "onnx".
        precision: As in `minibert.optimize`. None runs the model unchanged.
        device: Where the model computes. ONNX Runtime runs on the CPU.
        query_prompt: As in `TextModel.set_prompts`, for an embedder.
        document_prompt: The same.
        truncate_dim: Dimensions that the vectors of an embedder keep. None: what the folder says.
        queue: `max_wait_ms`, `max_tokens` and `max_pending` as in `Batched`.

    Raises:
        FileNotFoundError: The checkpoint does not exist, or one of its files is missing.
        ValueError: A damaged file, or another kind of model.
    """
    checkpoint = Checkpoint(source, backend, mmap=False)
    kind = checkpoint.kind
    if backend == "torch" and kind in ("base", "masked", "next_sentence"):
        kind = "embedder"  # their hidden states are pooled
    if kind not in ("embedder", "reranker", "classifier", "tagger", "answers"):
        raise ValueError(
            f"{source} is {NOUN_OF_KIND[kind]}. minibert serve takes embedders, rerankers, "
            "classifiers and regressions of texts, taggers, and question answerers."
        )
    if backend == "torch" and device == "cpu":
        warn_of_memory(str(source), checkpoint.config)
    model = load_text_model(
        checkpoint,
        kind,
        precision=precision,
        device=device,
        dtype="float32",
        truncate_dim=truncate_dim,
    )
    fingerprint = fingerprint_of(model)
    if backend == "torch":
        from minibert.inference.optimize import warm_up

        if model.model.device.type == "cpu":  # on a GPU nothing is compiled by size
            warm_up(model.model)
    precision = None if backend == "onnx" else precision
    if kind == "embedder":
        model.set_prompts(query_prompt, document_prompt)
        about = {
            "dimension": model.dimension,
            "pooling": ",".join(model.pooling),
            "precision": precision,
            "fingerprint": fingerprint,
            "prompts": list(model.prompts),
            "default_prompt_name": model.default_prompt_name,
        }
        return Served(name, "embedding", model, about, **queue)
    config: BertConfig = model.config
    reading = Reading.of(config)
    if kind == "answers":
        about = {
            "precision": precision,
            "fingerprint": fingerprint,
            "max_answer_length": reading.max_answer_length or LONGEST_ANSWER,
            "no_answer": bool(reading.no_answer),
            "no_answer_threshold": reading.no_answer_threshold or 0.0,
        }
        # an answerer reads questions with contexts, whatever its folder says
        reading = replace(reading, pairs=True)
        return Served(name, "answerer", model, about, reading=reading, **queue)
    labels = label_names(config)
    about = {"labels": labels, "precision": precision, "fingerprint": fingerprint}
    if kind == "tagger":
        # a tagger reads single texts, whatever its folder says
        reading = replace(reading, pairs=False)
        return Served(name, kind, model, about, reading=reading, **queue)
    if config.problem_type == "multi_label_classification":
        from minibert.tasks.thresholds import thresholds_of

        about["thresholds"] = dict(zip(labels, thresholds_of(config).tolist(), strict=True))
    if config.num_labels > 1:
        return Served(name, "classifier", model, about, class_activation(config), reading, **queue)
    # as text-embeddings-inference, whatever the folder of the model says
    activation = "Identity" if config.problem_type == "regression" else "Sigmoid"
    return Served(name, "reranker", model, about, activation, reading, **queue)


def __getattr__(name: str) -> Any:
    """`load`, as `load_served` was called before version 0.2."""
    if name == "load":
        return load_served
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
