"""From texts to vectors, whatever computes them. Nothing here imports torch.

A `TextModel` has a tokenizer, a limit of tokens and prompts: embedders, rerankers and exported
heads are such models. A `TextEncoder` is an embedder:

    texts -> prompts -> rows of token ids -> pooled vectors -> windows merged -> steps -> vectors

Only the pooled vectors and the steps come from a backend: torch in `SentenceEmbedder`, ONNX Runtime
in `OnnxEmbedder`. Tokenizers and folders are not imported: an encoder is given its tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from minibert.encoders.arithmetic.quantization import quantize
from minibert.encoders.arithmetic.search import (
    Metric,
    check_metric,
    pairwise_similarity,
    similarity,
    unit,
)
from minibert.encoders.encoder_options import (
    METHODS_ELSEWHERE,
    VECTOR_PRECISIONS,
    ArrayKeywords,
    EncodeKeywords,
    EncodeOptions,
    VectorKeywords,
    VectorOptions,
    takes,
    typed_as,
)
from minibert.encoders.rows.batched import Batched
from minibert.encoders.rows.token_rows import (
    CHUNK_TEXTS,
    Matrix,
    Pair,
    Rows,
    Settings,
    Vector,
    Vectors,
    check_texts,
    iter_texts,
    list_texts,
    tokenize_rows,
)
from minibert.encoders.rows.unread import UnreadTexts
from minibert.encoders.rows.words import WordVectors, merge_tokens
from minibert.inference.batching import BATCH_TOKENS, Report
from minibert.util.checks import check_count, warn, warn_of_truncation
from minibert.util.errors import Argument, ArgumentError, Message
from minibert.util.progress import SILENT, Progress

if TYPE_CHECKING:
    import torch

    from minibert.tokenization.coverage import Coverage
    from minibert.tokenization.tokenizer import BertTokenizer

TextsOrPairs = str | Iterable[str | Pair]
Side = Literal["query", "document"]

# advice for texts that are truncated
USE_WINDOWS = Message("Pass ", Argument("overflow", "mean"), " to encode them in windows.")

# names under which models have the prompt of each task
PROMPT_NAMES: dict[str, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}


class TextModel:
    """A model of texts: its tokenizer, the tokens of its longest row, and its prompts.

    Args:
        tokenizer: The tokenizer.
        positions: Position embeddings of the model.
        max_length: Tokens of the longest row, [CLS] and [SEP] included. None: what the tokenizer
            says, as far as there are positions.
        prompts: TextsOrPairs to put before every text, by name.
        default_prompt_name: The prompt that is used when a call names none.
        include_prompt: Whether a prompt's tokens are pooled.

    Raises:
        ValueError: A prompt that does not exist, or a `max_length` beyond the positions.
    """

    _coverage: Coverage | None = None  # made for the first texts
    _has_warned_of_unread = False
    model: Any
    truncate_dim: int | None = None  # dimensions that an embedder's vectors keep. None: all
    prompts_without_words: tuple[str, ...] = ()  # names that stand for "" where no prompt has them

    def __init__(
        self,
        tokenizer: BertTokenizer,
        positions: int,
        max_length: int | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        include_prompt: bool = True,
    ) -> None:
        self.tokenizer = tokenizer
        self._positions = positions
        if max_length is None:
            max_length = _length_of_files(tokenizer, positions)
        self.max_length = max_length
        self.prompts = check_prompts(prompts)
        self.default_prompt_name = default_prompt_name
        self.include_prompt = include_prompt
        self._prompt_of(default_prompt_name)  # it must exist

    @property
    def max_length(self) -> int:
        """Tokens of the longest row, [CLS] and [SEP] included."""
        return self._max_length

    @max_length.setter
    def max_length(self, length: int) -> None:
        self._max_length = check_max_length(length, self._positions)

    @property
    def max_seq_length(self) -> int:
        """`max_length`, under sentence-transformers' name."""
        return self.max_length

    @max_seq_length.setter
    def max_seq_length(self, length: int) -> None:
        self.max_length = length

    def weights(self) -> Iterator[Any]:
        """The bytes of all weights, always in the same order."""
        if hasattr(self.model, "weights"):  # an export
            yield from self.model.weights()
        else:
            from minibert.inference.packing import weights_of

            yield from weights_of(self.model)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in METHODS_ELSEWHERE:
                kind = type(self).__name__
                raise AttributeError(f"{kind} has no {name}: {METHODS_ELSEWHERE[name]}")
            of_torch = getattr(super(), "__getattr__", None)
            if of_torch is not None:
                return of_torch(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def prompt_for(self, task: Side) -> str:
        """The prompt of queries or of documents. All that encodes either takes it from here.

        Args:
            task: "query" or "document". A document's prompt is the first of "document", "passage"
                and "corpus" that the model has.

        Returns:
            The prompt, or that of `default_prompt_name`, or "".
        """
        for name in PROMPT_NAMES[task]:
            if name in self.prompts:
                return self.prompts[name]
        return self._prompt_of(self.default_prompt_name)

    def set_prompts(self, query: str | None = None, document: str | None = None) -> None:
        """Set the prompts of queries and of documents.

        Args:
            query: The name of a prompt of the model, or the words of a new one. None leaves it.
            document: The same for documents.
        """
        chosen = {"query": query, "document": document}
        self.prompts |= {
            name: self.prompts.get(prompt, prompt)
            for name, prompt in chosen.items()
            if prompt is not None
        }

    def with_prompt_for(self, task: Side, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a call, with `prompt_for(task)` where they name no prompt.

        Args:
            task: As in `prompt_for`.
            options: Those of the call.
        """
        if options.get("prompt") is None and options.get("prompt_name") is None:
            return {**options, "prompt": self.prompt_for(task)}
        return dict(options)

    @takes(VectorOptions)
    def settings(self, **options: Unpack[VectorKeywords]) -> Settings:
        """The settings that options mean for this model. The prompt is looked up and counted once.

        Args:
            options: The fields of `VectorOptions`, which describes them.

        Returns:
            The settings, for `encode_rows`.

        Raises:
            TypeError: An option that does not exist.
            ValueError: A value that an option cannot have, a prompt that does not exist or leaves
                no room for a text, or more dimensions than the vectors are truncated to.
        """
        return self._settings(VectorOptions(**options))

    def _settings(self, chosen: Any) -> Settings:
        """As `settings`, of the options themselves."""
        prompt = chosen.prompt
        if prompt is not None and not isinstance(prompt, str):
            raise ArgumentError("prompt", f"should be a string, not {prompt!r:.80}.")
        if prompt is not None and chosen.prompt_name is not None:
            warn(
                Message(
                    Argument("prompt"),
                    f" is {prompt!r:.80}, so ",
                    Argument("prompt_name"),
                    f" {chosen.prompt_name!r:.80} has no effect: drop one.",
                )
            )
        if chosen.overflow not in ("truncate", "mean"):
            raise ArgumentError(
                "overflow", f'should be "truncate" or "mean", not {chosen.overflow!r}.'
            )
        check_count("batch_tokens", chosen.batch_tokens)
        truncate_dim = self.truncate_dim
        if chosen.truncate_dim is not None:
            check_count("truncate_dim", chosen.truncate_dim)
            if truncate_dim is not None and chosen.truncate_dim > truncate_dim:
                raise ArgumentError(
                    "truncate_dim",
                    f"is {chosen.truncate_dim}, but the vectors of this model are "
                    f"truncated to {truncate_dim} dimensions: load it with another truncate_dim, "
                    "or set its attribute of that name.",
                )
            truncate_dim = chosen.truncate_dim
        if prompt is None:
            prompt = self._prompt_of(chosen.prompt_name or self.default_prompt_name)
        prefix_length = 1
        if prompt:
            prefix_length = len(self.tokenizer.rows([prompt])[0]) - 1  # without [SEP]
        if prefix_length + 2 > self.max_length:
            raise ArgumentError(
                "max_length",
                f"is {self.max_length} tokens, but [CLS], prompt and [SEP] take "
                f"{prefix_length + 1}.",
            )
        return Settings(
            prompt,
            chosen.overflow,
            chosen.batch_tokens,
            prefix_length,
            skip=0 if self.include_prompt or not prompt else prefix_length,
            truncate_dim=truncate_dim,
            normalize=chosen.normalize_embeddings,
        )

    def rows(
        self, texts: Sequence[Any], settings: Settings, unread: UnreadTexts | None = None
    ) -> Rows:
        """The token ids of texts, or of pairs of texts.

        Args:
            texts: TextsOrPairs, or pairs of texts.
            settings: Their prompt, and what happens to long ones.
            unread: Counts those that the vocabulary cannot read, where the texts are a part of an
                input. None: they are all, so a warning reports them.
        """
        rows = tokenize_rows(self.tokenizer, list(texts), self.max_length, settings)
        if unread is None:
            self.warn_of_unread(rows, settings)
        else:
            self._count_unread(rows, settings, unread)
        return rows

    def warn_of_unread(self, rows: Rows, settings: Settings) -> None:
        """Warn once of texts that the vocabulary cannot read.

        The text itself stands in no message: a service writes them into its log.

        Args:
            rows: The tokenized texts.
            settings: How they were tokenized.
        """
        if not self._has_warned_of_unread:
            unread = UnreadTexts()
            self._count_unread(rows, settings, unread)
            self.report_unread(unread)

    def warn_of_unread_ids(self, texts: Iterable[str], ids: Iterable[Sequence[int]]) -> None:
        """As `warn_of_unread`, of texts and their token ids.

        Args:
            texts: Distinct texts.
            ids: The token ids of each, or of its beginning.
        """
        if not self._has_warned_of_unread:
            unread = UnreadTexts()
            self._count_unread_ids(texts, ids, None, unread)
            self.report_unread(unread)

    def report_unread(self, unread: UnreadTexts, is_beginning: bool = False) -> None:
        """Warn of texts that the vocabulary cannot read.

        Args:
            unread: The texts. Those that were reported alone need no other warning.
            is_beginning: Whether other texts of the input may follow. Of a long input the beginning
                is reported as soon as it has such texts, because a run may take days.
        """
        if is_beginning and (unread.reported or unread.total < CHUNK_TEXTS):
            return
        if unread.count > unread.reported:
            unread.reported = unread.count
            self._has_warned_of_unread = True
            coverage = self._known_coverage()
            warn(coverage.warning(unread.sample, unread.count, unread.total, is_beginning))

    def _count_unread(self, rows: Rows, settings: Settings, unread: UnreadTexts) -> None:
        """Add the inputs of rows that the vocabulary cannot read."""
        texts = (row.text if isinstance(row.text, str) else " ".join(row.text) for row in rows.rows)
        ids = (row.windows[0][settings.prefix_length :] for row in rows.rows)
        self._count_unread_ids(texts, ids, rows.indices, unread)

    def _count_unread_ids(
        self,
        texts: Iterable[str],
        ids: Iterable[Sequence[int]],
        indices: Sequence[int] | None,
        unread: UnreadTexts,
    ) -> None:
        """Add the texts that the vocabulary cannot read.

        Args:
            texts: Distinct texts.
            ids: The token ids of each, or of its beginning.
            indices: The index of the text of each input. None: each text is an input.
            unread: What they are added to.
        """
        coverage = self._known_coverage()
        unread_texts: dict[int, str] = {}  # by the index of the text
        count = 0
        for index, (text, row) in enumerate(zip(texts, ids, strict=True)):
            count = index + 1
            if not coverage.surely_reads(text) and not coverage.can_read(row):
                unread_texts[index] = text
        inputs = range(count) if indices is None else indices
        affected = sum(index in unread_texts for index in inputs) if unread_texts else 0
        unread.add(affected, len(inputs), list(unread_texts.values()))

    def _known_coverage(self) -> Coverage:
        if self._coverage is None:
            from minibert.tokenization.coverage import Coverage

            self._coverage = Coverage(self.tokenizer)
        return self._coverage

    def _prompt_of(self, name: str | None) -> str:
        """The prompt of this name, "" for None.

        Raises:
            ValueError: There is no prompt of this name.
        """
        if name is None:
            return ""
        if name not in self.prompts and name in self.prompts_without_words:
            return ""
        if name not in self.prompts:
            available = ", ".join(self.prompts) or "none"
            raise ValueError(f"there is no prompt {name!r:.80}. This model has {available}.")
        return self.prompts[name]


class TextEncoder(TextModel):
    """An embedder of texts. Subclasses say how rows of token ids become pooled vectors.

    They have a `model` with a config, `pooling` (names), `layers`, `layer_weights`, `steps`, a
    `dimension`, a `device` and `threads`, and the four methods that raise `NotImplementedError`
    here.
    """

    model: Any
    pooling: list[str]
    layers: list[int] | None  # which hidden states are pooled. None: a graph has settled it
    layer_weights: list[float] | None
    steps: Any  # what follows the pooling
    dimension: int  # D, the length of a vector
    precision: str | None = None  # that of the model's arithmetic
    prompts_without_words = ("query", "document")  # as in sentence-transformers
    model_name: str | None = None  # where it was loaded from
    _similarity_fn_name: Metric = "cosine"

    @property
    def similarity_fn_name(self) -> Metric:
        """What `similarity` computes, and what is saved: one of `METRICS`.

        It takes a name, a `SimilarityFunction` of sentence-transformers, or None for "cosine".
        """
        return self._similarity_fn_name

    @similarity_fn_name.setter
    def similarity_fn_name(self, metric: Any) -> None:
        name: Any = getattr(metric, "value", "cosine" if metric is None else metric)
        check_metric("similarity_fn_name", name)
        self._similarity_fn_name = name

    @property
    def device(self) -> Any:
        """Where the model is."""
        raise NotImplementedError

    @property
    def threads(self) -> int:
        """Threads at work in one pass through the model."""
        raise NotImplementedError

    def move_to(self, device: Any) -> object:
        """Moves the model to a device.

        Args:
            device: One device.
        """
        raise NotImplementedError

    def pooled_rows(
        self,
        ids: list[list[int]],
        types: list[list[int]] | None,
        settings: Settings,
        with_steps: bool,
        report: Report | None = None,
    ) -> Vectors:
        """Vectors of rows of token ids.

        Args:
            ids: Token ids of each row.
            types: Token types of each row. None: all 0.
            settings: How many tokens of a row are not pooled, and of a batch.
            with_steps: Whether the vectors go through the steps.
            report: Progress callback. Receives the indices of finished rows.

        Returns:
            (rows, width), or (rows, D) with the steps.
        """
        raise NotImplementedError

    def apply_steps(self, pooled: Vectors) -> Vectors:
        """The vectors behind the steps, (N, D).

        Args:
            pooled: Pooled vectors, (N, width).
        """
        raise NotImplementedError

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Any]:
        """Features of the tokens of each row, (tokens, features), before pooling.

        Args:
            rows: The tokenized texts.
            batch_tokens: Tokens of a batch.
        """
        raise NotImplementedError

    def normalized(self, vectors: Vectors) -> Vectors:
        """The vectors, L2-normalized.

        Args:
            vectors: (N, D).
        """
        return unit(vectors)

    @overload
    def encode(self, texts: str, **options: Unpack[ArrayKeywords]) -> Vector: ...  # type: ignore[overload-overlap]
    @overload
    def encode(self, texts: Iterable[str | Pair], **options: Unpack[ArrayKeywords]) -> Matrix: ...
    @overload
    def encode(
        self,
        texts: TextsOrPairs,
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[ArrayKeywords],
    ) -> torch.Tensor: ...
    @overload
    def encode(self, texts: TextsOrPairs, **options: Unpack[EncodeKeywords]) -> Any: ...

    @takes(EncodeOptions)
    def encode(self, texts: TextsOrPairs, **options: Any) -> Any:
        """Vectors of texts, in the order of the texts. Equal texts go through the model once.

        Args:
            texts: One text, or several texts or pairs of texts in a list, an array, a column of a
                table or any other iterable. `inputs=` and `sentences=` of sentence-transformers are
                the same.
            options: The fields of `EncodeOptions`, which describes them.

        Returns:
            (N, D) float32, (D,) for a single text, (0, D) for no texts.

        Raises:
            TypeError: An option that does not exist.
            ValueError: Something that is not a text, an option with a value that it cannot have, or
                a vector that is not finite.
        """
        chosen = EncodeOptions(**options)
        if chosen.device is not None:
            self.move_to(chosen.device)
        settings = self._settings(chosen)
        check_count("batch_size", chosen.batch_size)
        if chosen.precision not in (None, *VECTOR_PRECISIONS):
            raise ArgumentError(
                "precision",
                f"is that of the vectors, one of {', '.join(VECTOR_PRECISIONS)}, not "
                f"{chosen.precision!r}. SentenceEmbedder.from_pretrained(precision=...) is that of "
                "the model.",
            )
        if chosen.output_value not in ("sentence_embedding", "token_embeddings"):
            raise ArgumentError(
                "output_value",
                'should be "sentence_embedding" or "token_embeddings", '
                f"not {chosen.output_value!r}.",
            )
        if isinstance(texts, np.ndarray) and texts.ndim == 0:
            texts = texts.item()
        if chosen.output_value == "token_embeddings" and chosen.precision not in (None, "float32"):
            raise ArgumentError(
                "precision",
                f"is {chosen.precision!r}, but it is that of sentence vectors: drop it. The "
                "vectors of tokens are float32.",
            )
        single = isinstance(texts, str)
        inputs: list[Any] = [texts] if single else list_texts(texts)
        results: Any
        if chosen.output_value == "token_embeddings":
            truncated = Settings(settings.prompt, "truncate", settings.batch_tokens)
            rows = self.rows(inputs, truncated)
            states = self.token_states(rows, settings.batch_tokens)
            results = [states[index] for index in rows.indices]
            warn_of_truncation(rows.overlong, len(inputs), self.max_length)
        else:
            dimension = min(self.dimension, settings.truncate_dim or self.dimension)
            vectors = np.empty((len(inputs), dimension), np.float32)
            start = 0
            with Progress(True, len(inputs)) if chosen.show_progress_bar else SILENT as progress:
                for chunk, part in self._chunks(iter(inputs), CHUNK_TEXTS, settings, progress):
                    vectors[start : start + len(chunk)] = part
                    start += len(chunk)
            results = quantize(vectors, chosen.precision or "float32")
            if chosen.convert_to_tensor or not chosen.convert_to_numpy:
                import torch

                tensor = torch.from_numpy(results).to(self.device)
                results = tensor if chosen.convert_to_tensor else list(tensor)
        return results[0] if single else results

    @typed_as(encode)
    @takes(EncodeOptions)
    def encode_query(self, texts: TextsOrPairs, **options: Any) -> Any:
        """As `encode`, with `prompt_for("query")` if the call names no prompt.

        Args:
            texts: As in `encode`.
            options: As in `encode`.

        Returns:
            As `encode`, (N, D) or (D,).
        """
        return self.encode(texts, **self.with_prompt_for("query", options))

    @typed_as(encode)
    @takes(EncodeOptions)
    def encode_document(self, texts: TextsOrPairs, **options: Any) -> Any:
        """As `encode`, with `prompt_for("document")` if the call names no prompt.

        Args:
            texts: As in `encode`.
            options: As in `encode`.

        Returns:
            As `encode`, (N, D) or (D,).
        """
        return self.encode(texts, **self.with_prompt_for("document", options))

    @takes(VectorOptions)
    def encode_stream(
        self,
        texts: Iterable[str],
        *,
        chunk_size: int = CHUNK_TEXTS,
        progress: Progress = SILENT,
        **options: Unpack[VectorKeywords],
    ) -> Iterator[tuple[list[str], Vectors]]:
        """Encodes any number of texts, never holding more than `chunk_size` of them.

        Args:
            texts: Read as far as vectors are needed.
            chunk_size: TextsOrPairs that are sorted and encoded together.
            progress: Counts them.
            options: The fields of `VectorOptions`.

        Returns:
            An iterator over the next texts and their vectors (chunk_size, D), in their order.

        Raises:
            ValueError: As `encode`, and for a single string or a chunk size below 1.
        """
        settings = self.settings(**options)
        check_count("chunk_size", chunk_size)
        # a generator would check its arguments only when it is first asked
        return self._chunks(iter_texts(texts), chunk_size, settings, progress)

    def _chunks(
        self, texts: Iterator[Any], size: int, settings: Settings, progress: Progress
    ) -> Iterator[tuple[list[Any], Vectors]]:
        """The next `size` texts and their vectors, and at the end warnings that count all texts."""
        count = 0
        overlong = 0
        unread = None if self._has_warned_of_unread else UnreadTexts()
        while chunk := list(islice(texts, size)):
            vectors, rows = self.encode_chunk(chunk, settings, progress, unread)
            count += len(chunk)
            overlong += rows.overlong
            if unread is not None:
                self.report_unread(unread, is_beginning=True)
            yield chunk, vectors
        if unread is not None:
            self.report_unread(unread)
        if settings.overflow == "truncate":
            warn_of_truncation(overlong, count, self.max_length, USE_WINDOWS)

    def encode_chunk(
        self,
        texts: list[Any],
        settings: Settings,
        progress: Progress = SILENT,
        unread: UnreadTexts | None = None,
    ) -> tuple[Vectors, Rows]:
        """Vectors (N, D) of texts that are sorted together, and their rows. All encoding uses it.

        The result depends on the texts and the settings alone, not on what was encoded before.

        Args:
            texts: TextsOrPairs or pairs of texts.
            settings: How.
            progress: Counts them.
            unread: As in `rows`.
        """
        rows = self.rows(texts, settings, unread)
        return self.encode_rows(rows, settings, rows.progress_callback(progress)), rows

    def encode_rows(self, rows: Rows, settings: Settings, report: Report | None = None) -> Vectors:
        """Vectors of the inputs, (N, D), in their order, without gradients.

        Args:
            rows: Of all inputs. Those of a text's windows are merged.
            settings: How.
            report: Progress callback. Receives the indices of finished rows.

        Raises:
            ValueError: A vector is not finite.
        """
        ids = rows.ids
        has_windows = len(ids) > len(rows.rows)
        vectors = self.pooled_rows(ids, rows.token_types, settings, not has_windows, report)
        if has_windows:
            lengths = [len(row) for row in ids]
            vectors = self.apply_steps(merge_windows(vectors, lengths, rows.window_counts))
        vectors = vectors[:, : settings.truncate_dim]
        if settings.normalize:
            vectors = self.normalized(vectors)
        return rows.in_input_order(vectors)

    def batched(
        self, *, max_wait_ms: float = 2.0, max_tokens: int = BATCH_TOKENS, max_pending: int = 1024
    ) -> Batched:
        """Gathers single texts of many threads or tasks into packed batches. See `Batched`.

        Args:
            max_wait_ms: How long the first text waits for others when the model is idle.
            max_tokens: Tokens of one batch. A longer text goes alone.
            max_pending: How many texts may wait at most.

        Returns:
            The queue, to be used in a `with` block.
        """

        def read(text: str, prompt: str | None, prompt_name: str | None) -> tuple[Rows, Settings]:
            settings = self.settings(
                prompt=prompt, prompt_name=prompt_name, batch_tokens=max_tokens
            )
            rows = self.rows([text], settings)
            warn_of_truncation(rows.overlong, 1, self.max_length)
            return rows, settings

        return Batched(read, self.encode_rows, max_wait_ms, max_tokens, max_pending)

    @overload
    def words(  # type: ignore[overload-overlap]
        self, texts: str, *, merge: Literal["mean", "first"] = ..., batch_tokens: int = ...
    ) -> WordVectors: ...
    @overload
    def words(
        self,
        texts: Iterable[str],
        *,
        merge: Literal["mean", "first"] = ...,
        batch_tokens: int = ...,
    ) -> list[WordVectors]: ...

    def words(
        self,
        texts: str | Iterable[str],
        *,
        merge: Literal["mean", "first"] = "mean",
        batch_tokens: int = BATCH_TOKENS,
    ) -> WordVectors | list[WordVectors]:
        """Vectors of the words of texts, from the chosen layers, without pooling and prompt.

        Words are the tokenizer's: separated by white space and around punctuation. Those past
        `max_length` tokens are left out, and a warning counts the texts that lose any.

        Args:
            texts: One text or several.
            merge: How the tokens of a word become one vector: their "mean", or the "first".
            batch_tokens: Tokens of one pass through the model.

        Returns:
            `WordVectors` of each text in a list, or of a single text only its own.
        """
        if merge not in ("mean", "first"):
            raise ArgumentError("merge", f'should be "mean" or "first", not {merge!r}.')
        single = isinstance(texts, str)
        inputs = check_texts([texts] if isinstance(texts, str) else list_texts(texts))
        if not inputs:
            return []
        settings = self.settings(prompt="", batch_tokens=batch_tokens)
        rows = self.rows(inputs, settings)
        advice = "words past that have no vector."
        warn_of_truncation(rows.overlong, len(inputs), self.max_length, advice)
        distinct = [str(row.text) for row in rows.rows]
        encodings = self.tokenizer(distinct, truncation=True, max_length=self.max_length).encodings
        states = self.token_states(rows, batch_tokens)
        results = []
        for text, encoding, features in zip(distinct, encodings, states, strict=True):
            results.append(merge_tokens(text, encoding, features, merge))
        return results[0] if single else [results[index] for index in rows.indices]

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Similarity of every two vectors by `similarity_fn_name`: (n, D) and (m, D) to (n, m).

        Args:
            embeddings1: Vectors, (n, D) or (D,).
            embeddings2: Vectors, (m, D) or (D,).

        Returns:
            (n, m), float32: a tensor from a `SentenceEmbedder`, an array from an `OnnxEmbedder`,
            which does not import torch.
        """
        return self._scores(similarity(embeddings1, embeddings2, self.similarity_fn_name))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Similarity of vectors with the same index: (n, D) and (n, D) to (n,).

        Args:
            embeddings1: Vectors, (n, D).
            embeddings2: Vectors, (n, D).

        Returns:
            (n,), float32, as in `similarity`.
        """
        return self._scores(pairwise_similarity(embeddings1, embeddings2, self.similarity_fn_name))

    def get_embedding_dimension(self) -> int:
        """`dimension`, under sentence-transformers' name."""
        return self.dimension

    def get_sentence_embedding_dimension(self) -> int:
        """`dimension`, under the name of sentence-transformers before version 5."""
        return self.dimension

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """`encode_document` as lists of floats, as LangChain and many stores call it.

        Args:
            texts: The texts.

        Returns:
            A list of D floats for each text.
        """
        vectors: list[list[float]] = self.encode_document(list_texts(texts)).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """`encode_query` as a list of floats, as LangChain and many stores call it.

        Args:
            text: A single text.

        Returns:
            D floats.
        """
        vector: list[float] = self.encode_query(text).tolist()
        return vector

    def _scores(self, scores: Vectors) -> Any:
        """Similarities in the form that the backend's users expect."""
        return scores


def merge_windows(pooled: Vectors, lengths: Sequence[int], counts: Sequence[int]) -> Vectors:
    """The vector of each text: the mean of its windows' vectors, weighted by their tokens.

    Args:
        pooled: Vectors of all windows, (windows, D).
        lengths: Tokens of each window.
        counts: Windows of each text.

    Returns:
        (texts, D).
    """
    weights = np.array(lengths, np.float32)[:, None]
    merged = np.empty((len(counts), pooled.shape[1]), np.float32)
    start = 0
    for index, count in enumerate(counts):
        windows = slice(start, start + count)
        if count == 1:
            merged[index] = pooled[start]
        else:
            merged[index] = (pooled[windows] * weights[windows]).sum(axis=0) / weights[
                windows
            ].sum()
        start += count
    return merged


def check_prompts(prompts: Any) -> dict[str, str]:
    """A copy of the prompts by name. None has none.

    Raises:
        ValueError: Not a dict, or something in it that is not a string.
    """
    if prompts is None:
        return {}
    if not isinstance(prompts, Mapping):
        raise ArgumentError(
            "prompts",
            'should be a dict of names and texts, such as {"query": "query: "}, not '
            f"{prompts!r:.80}.",
        )
    for name, prompt in prompts.items():
        if not isinstance(name, str) or not isinstance(prompt, str):
            raise ValueError(f"prompts[{name!r}] should be a string, not {prompt!r:.80}.")
    return dict(prompts)


def _length_of_files(tokenizer: BertTokenizer, positions: int) -> int:
    """Tokens of the longest row by the files of a model.

    Raises:
        ValueError: [CLS] and [SEP] leave no room for a text.
    """
    length: int = min(positions, tokenizer.model_max_length)
    if length < 3:
        raise ValueError(
            Message(
                f"{tokenizer.name_or_path or 'The model'} takes {length} tokens (model_max_length "
                "of the tokenizer, max_position_embeddings of the model), which leave no room for "
                "a text beside [CLS] and [SEP]. Pass ",
                Argument("max_length"),
                ", or correct the files.",
            )
        )
    return length


def check_max_length(length: int, positions: int) -> int:
    """The tokens of the longest row, as far as the model has positions for them.

    Raises:
        ValueError: Not a whole number, or more than the position embeddings.
    """
    check_count("max_length", length)
    if length > positions:
        raise ArgumentError(
            "max_length",
            f"(max_seq_length) is {length} tokens, but the model has {positions} positions: set it "
            f"to {positions} or less.",
        )
    return int(length)  # not NumPy's, which JSON cannot hold
