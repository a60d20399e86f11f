"""TextEncoder: `encode` and all that is made of it, whatever it is that turns rows of token ids into vectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast, overload

import numpy as np

from minibert.checks import check_count, refuse_unknown
from minibert.inference.batching import BATCH_TOKENS, Report
from minibert.progress import SILENT, Progress
from minibert.sentences.batched import Batched
from minibert.sentences.quantization import PRECISIONS, quantize
from minibert.sentences.rows import (
    CHUNK_TEXTS,
    Matrix,
    Pair,
    Rows,
    Settings,
    Vector,
    Vectors,
    iter_texts,
    named_prompt,
    rows_of,
)
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

Texts = str | Iterable[str | Pair]
Method = TypeVar("Method", bound=Callable[..., Any])

# what models call the prompt for texts that are searched; for the text that is searched for, all say "query"
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


class ChunkOptions(TypedDict, total=False):
    """Options of every way to encode: `encode`, `encode_stream`, `encode_to_file`, `encode_to_shards`."""

    prompt: str | None
    prompt_name: str | None
    overflow: Literal["truncate", "mean"]
    batch_tokens: int


class EncodeOptions(ChunkOptions, total=False):
    """Options of `encode` that leave the type of its result alone."""

    show_progress: bool
    normalize_embeddings: bool
    truncate_dim: int | None
    # sentence-transformers has these
    batch_size: int
    chunk_size: int | None
    pool: None
    task: str | None
    show_progress_bar: bool | None
    device: torch.device | str | None


class ResultOptions(EncodeOptions, total=False):
    """All options of `encode`."""

    sentences: Any
    inputs: Any
    precision: Literal["float32", "int8", "uint8", "binary", "ubinary"] | None
    convert_to_numpy: bool
    convert_to_tensor: bool
    output_value: Literal["sentence_embedding", "token_embeddings"] | None


_DEFAULTS = {
    **dict.fromkeys(
        ResultOptions.__annotations__
    ),  # None, which for what is true or false is false
    "overflow": "truncate",
    "batch_tokens": BATCH_TOKENS,
    "batch_size": 32,
    "convert_to_numpy": True,
    "output_value": "sentence_embedding",
}


def completed(
    function: str, options: Mapping[str, Any], kind: type = ResultOptions
) -> ResultOptions:
    """The options of a call of `function`, which has those of `kind`, and the defaults of all others.

    Raises:
        TypeError: an option that does not exist.
        ValueError: an impossible value.
    """
    found = cast(ResultOptions, {**_DEFAULTS, **options})
    if not options:
        return found
    refuse_unknown(function, options, kind.__annotations__)
    if found["prompt"] is not None and found["prompt_name"] is not None:
        raise ValueError("pass prompt or prompt_name, not both.")
    if found["overflow"] not in ("truncate", "mean"):
        raise ValueError(f'overflow should be "truncate" or "mean", not {found["overflow"]!r}.')
    for name in ("batch_tokens", "batch_size", "truncate_dim"):
        if name != "truncate_dim" or found[name] is not None:
            check_count(name, found[name])
    if found["precision"] not in (None, *PRECISIONS):
        raise ValueError(
            f"precision is that of the result, one of {', '.join(PRECISIONS)}, not {found['precision']!r}; "
            "SentenceEmbedder.from_pretrained(precision=...) is that of the model."
        )
    if found["output_value"] not in ("sentence_embedding", "token_embeddings", None):
        raise ValueError(
            f'output_value should be "sentence_embedding", "token_embeddings" or None, not {found["output_value"]!r}.'
        )
    if found["pool"] is not None:
        raise ValueError(
            "pool should be None: minibert encodes in threads; encode_to_shards(processes=) has processes."
        )
    return found


def signature_of(method: Method) -> Callable[[Callable[..., Any]], Method]:
    """A decorator for what takes and returns the same as `method`, overloads included."""
    return lambda function: cast(Method, function)


class TextEncoder:
    """Texts to vectors; what inherits it has `encode_rows`, `token_states` and the attributes of `SentenceEmbedder`."""

    tokenizer: BertTokenizer
    dimension: int  # D, the length of a vector
    max_length: int
    prompts: dict[str, str]
    default_prompt_name: str | None
    include_prompt: bool

    if (
        TYPE_CHECKING
    ):  # what `minibert.sentences.model` does in torch, and `minibert.sentences.onnx` without

        def encode_rows(
            self, rows: Rows, settings: Settings, report: Report | None = None
        ) -> Vectors:
            """Vectors (N, D) of the texts that were given, in their order.

            Args:
                rows: of all texts; those of a text's windows are merged.
                settings: how.
                report: is told the numbers of the rows that are done.

            Raises:
                ValueError: a vector is not finite.
            """

        @property
        def threads(self) -> int:
            """At work in one pass through the model."""

        def weights(self) -> Iterator[Any]:
            """The bytes of all that was learned, always in the same order."""

        def token_states(self, rows: Rows, batch_tokens: int) -> list[torch.Tensor]:
            """Features of the tokens of each row, (tokens, D), without pooling and what follows it."""

    # a string is an iterable of strings, too, and the first signature that fits counts
    @overload
    def encode(self, texts: str, **options: Unpack[EncodeOptions]) -> Vector: ...  # type: ignore[overload-overlap]
    @overload
    def encode(self, texts: Iterable[str | Pair], **options: Unpack[EncodeOptions]) -> Matrix: ...
    @overload
    def encode(
        self, texts: Texts, *, convert_to_tensor: Literal[True], **options: Unpack[EncodeOptions]
    ) -> torch.Tensor: ...
    @overload
    def encode(self, texts: Texts | None = ..., **options: Unpack[ResultOptions]) -> Any: ...

    def encode(self, texts: Texts | None = None, **options: Any) -> Any:
        """Vectors of texts, in the order of the texts.

        Args:
            texts: one text, or any number of texts or of pairs of texts, such as an array of them. Equal texts go
                through the model once. sentence-transformers calls them `inputs`, and before that `sentences`.
            options: any of these.

                - prompt: put before every text.
                - prompt_name: the prompt of this name in `prompts`; None: `default_prompt_name`.
                - overflow: what to do with a text of more than `max_length` tokens. "truncate" leaves the rest out
                  and says for how many texts; "mean" cuts it into windows, each with the prompt, and takes the mean
                  of their vectors before normalisation, each window counting as many times as it has tokens.
                - batch_tokens: tokens of one pass through the model.
                - show_progress, show_progress_bar: a bar with tokens per second and the time left.
                - truncate_dim: keep the first so many numbers of each vector.
                - normalize_embeddings: make every vector one of length 1, after that.
                - precision: of the numbers that are returned, as in `minibert.sentences.quantization.quantize`, with
                  the ranges of these very vectors.
                - convert_to_tensor: return one tensor, on the model's device.
                - convert_to_numpy: False returns a list of tensors, one a text.
                - output_value: "token_embeddings" for a list of tensors (tokens, D); None for a list of dicts with
                  both, and the token ids.
                - device: moves the model there first, and leaves it there.
                - batch_size, chunk_size: have no effect: `batch_tokens` says what goes through the model together.
                - task: has none either: a BERT encodes queries and documents in one way.
                - pool: only None.

        Returns:
            (N, D) float32; (D,) for a single text; (0, D) for none.

        Raises:
            ValueError: something that is not a text, an impossible value of an option, or a vector that is not finite.
            TypeError: an option that does not exist.
        """
        chosen = completed("encode", options)
        given = _texts(texts, chosen)
        if given is None:
            raise TypeError("encode needs texts.")
        if isinstance(given, np.ndarray):
            given = given.tolist()
        if chosen["device"] is not None:
            self.to(chosen["device"])  # type: ignore[attr-defined]
        single = isinstance(given, str)
        every: list[Any] = [given] if single else list(given)
        settings = self.settings(chosen)
        find = self._vectors if chosen["output_value"] == "sentence_embedding" else self._states
        found, overlong = find(every, settings, chosen)
        self._report_cut(overlong, len(every), settings.overflow)
        return found[0] if single else found

    @signature_of(encode)
    def encode_query(self, texts: Any = None, **options: Any) -> Any:
        """As `encode`, with the prompt that the model has for queries unless another is asked for."""
        return self.encode(**self._for_task("query", texts, options, ["query"]))

    @signature_of(encode)
    def encode_document(self, texts: Any = None, **options: Any) -> Any:
        """As `encode`, with the first of `DOCUMENT_PROMPTS` that the model has unless another is asked for."""
        return self.encode(**self._for_task("document", texts, options, DOCUMENT_PROMPTS))

    def encode_stream(
        self,
        texts: Iterable[str],
        *,
        chunk_size: int = CHUNK_TEXTS,
        progress: Progress = SILENT,
        **options: Unpack[ChunkOptions],
    ) -> Iterator[tuple[list[str], Vectors]]:
        """Encodes any number of texts, never holding more than `chunk_size` of them.

        Args:
            texts: read as far as the vectors are asked for.
            chunk_size: texts that are sorted and encoded together.
            progress: counts them.
            options: `prompt`, `prompt_name`, `overflow` and `batch_tokens` as in `encode`.

        Yields:
            The next texts and their vectors (chunk_size, D), in the order of the texts.

        Raises:
            ValueError: as `encode`; a single string, or a chunk size below 1.
        """
        check_count("chunk_size", chunk_size)
        texts = iter_texts(texts)
        settings = self.chunk_settings(options)
        count = overlong = 0
        while chunk := list(islice(texts, chunk_size)):
            vectors, rows = self.encode_chunk(chunk, settings, progress)
            count, overlong = count + len(chunk), overlong + rows.overlong
            yield chunk, vectors
        self._report_cut(overlong, count, settings.overflow)

    def batched(
        self, *, max_wait_ms: float = 2.0, max_tokens: int = BATCH_TOKENS, max_pending: int = 1024
    ) -> Batched:
        """Gathers the single texts of many threads or tasks into packed batches; the options are those of `Batched`."""

        def read(text: str, prompt: str | None, prompt_name: str | None) -> tuple[Rows, Settings]:
            settings = self.chunk_settings(
                {"prompt": prompt, "prompt_name": prompt_name, "batch_tokens": max_tokens}
            )
            rows = rows_of(self.tokenizer, [text], self.max_length, settings)
            self._report_cut(rows.overlong, 1, settings.overflow)
            return rows, settings

        return Batched(read, self.encode_rows, max_wait_ms, max_tokens, max_pending)

    def chunk_settings(self, options: Mapping[str, Any]) -> Settings:
        """The settings that `ChunkOptions` describe; raises as `settings`, and TypeError for another option."""
        return self.settings(completed("encoding in chunks", options, ChunkOptions))

    def settings(self, options: ResultOptions) -> Settings:
        """The settings that the options mean for this model: the prompt is looked up and counted once for all texts.

        Raises:
            ValueError: a prompt that is unknown or leaves no room for a text.
        """
        prompt, name = options["prompt"], options["prompt_name"] or self.default_prompt_name
        if prompt is None:
            prompt = "" if name is None else named_prompt(self.prompts, name)
        head = len(self.tokenizer.rows([prompt])[0]) - 1 if prompt else 1
        if head + 2 > self.max_length:
            raise ValueError(
                f"max_length is {self.max_length} tokens, but [CLS], prompt and [SEP] take {head + 1}."
            )
        skip = 0 if self.include_prompt or not prompt else head
        own = options["truncate_dim"], options["normalize_embeddings"]
        return Settings(prompt, options["overflow"], options["batch_tokens"], head, skip, *own)

    def encode_chunk(
        self, texts: list[Any], settings: Settings, progress: Progress = SILENT
    ) -> tuple[Vectors, Rows]:
        """Vectors (N, D) of one or more texts that are sorted together, and their rows; every way to encode uses it.

        The result depends on the texts and the settings alone, not on what was encoded before.
        """
        rows = rows_of(self.tokenizer, texts, self.max_length, settings)
        report = None if progress is SILENT else rows.counter(progress)
        return self.encode_rows(rows, settings, report), rows

    def _vectors(
        self, texts: list[Any], settings: Settings, options: ResultOptions
    ) -> tuple[Any, int]:
        """The vectors in the type that the options want, and how many texts did not fit."""
        vectors = np.empty(
            (len(texts), min(self.dimension, settings.truncate_dim or self.dimension)), np.float32
        )
        overlong = 0
        show = options["show_progress_bar"] or options["show_progress"]
        with Progress(True, len(texts)) if show else nullcontext(SILENT) as progress:
            for start in range(0, len(texts), CHUNK_TEXTS):
                chunk = slice(start, start + CHUNK_TEXTS)
                vectors[chunk], rows = self.encode_chunk(texts[chunk], settings, progress)
                overlong += rows.overlong
        found: Any = (
            vectors if options["precision"] is None else quantize(vectors, options["precision"])
        )
        if options["convert_to_tensor"] or not options["convert_to_numpy"]:
            import torch

            tensor = torch.from_numpy(found)
            found = tensor.to(self.device) if options["convert_to_tensor"] else list(tensor)  # type: ignore[attr-defined]
        return found, overlong

    def _states(
        self, texts: list[Any], settings: Settings, options: ResultOptions
    ) -> tuple[list[Any], int]:
        """Features of the tokens of each text, or all that there is of it, and how many texts did not fit."""
        import torch

        rows = rows_of(
            self.tokenizer, texts, self.max_length, settings._replace(overflow="truncate")
        )
        states = self.token_states(rows, settings.batch_tokens)
        found: list[Any] = [states[place] for place in rows.places]
        if options["output_value"] is None:
            vectors, ids = (
                torch.from_numpy(self.encode_rows(rows, settings)),
                [torch.tensor(row) for row in rows.ids],
            )
            found = [
                {
                    "input_ids": ids[place],
                    "token_embeddings": states[place],
                    "sentence_embedding": vector,
                }
                for place, vector in zip(rows.places, vectors, strict=True)
            ]
        return found, rows.overlong

    def _report_cut(
        self,
        overlong: int,
        count: int,
        overflow: str,
        advice: str = 'overflow="mean" takes all of them in.',
    ) -> None:
        if overlong and overflow == "truncate":
            warnings.warn(
                f"{overlong} of {count} texts have more than {self.max_length} tokens and were cut there; {advice}",
                stacklevel=3,
            )

    def _for_task(
        self, task: str, texts: Any, options: dict[str, Any], names: Iterable[str]
    ) -> dict[str, Any]:
        """Arguments for `encode`, with the first of these prompts that the model has if the options ask for none.

        They have the names by which sentence-transformers passes them on, as its tests ask.
        """
        asked = {"prompt": None, "prompt_name": None, **options}
        if asked["prompt"] is None and asked["prompt_name"] is None:
            asked["prompt_name"] = next((name for name in names if name in self.prompts), None)
        given = _texts(texts, asked)
        asked.pop("sentences", None)
        return {**asked, "inputs": given, "task": task}


def _texts(texts: Any, options: Mapping[str, Any]) -> Any:
    """The texts by whichever of their three names they were given."""
    return next(
        (
            own
            for own in (texts, options.get("inputs"), options.get("sentences"))
            if own is not None
        ),
        None,
    )
