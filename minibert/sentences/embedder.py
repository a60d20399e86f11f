"""SentenceEmbedder: texts to vectors, sorted by length and packed, so that no time goes into padding."""

from __future__ import annotations

import inspect
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, overload

import numpy as np
import torch
from torch import Tensor, nn

from minibert.checkpoints.source import Source, split_source
from minibert.compatibility.keywords import refuse_unknown
from minibert.inference.batching import BATCH_TOKENS
from minibert.inference.optimize import optimize
from minibert.model import BertModel
from minibert.progress import SILENT, Progress
from minibert.sentences.batched import Batched
from minibert.sentences.familiar import FamiliarNames
from minibert.sentences.folder import read_sentence_folder
from minibert.sentences.model import SentenceModel, WordVectors, check_finite, merge_pieces
from minibert.sentences.options import (
    ChunkOptions,
    EncodeOptions,
    Matrix,
    OutputOptions,
    Vector,
    signature_of,
)
from minibert.sentences.pooling import Layers, resolve_layers
from minibert.sentences.rows import CHUNK_TEXTS, Pair, Rows, Vectors, check_inputs, check_texts, iter_texts, rows_of
from minibert.sentences.saving import save_sentence_folder
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack


# what models call the prompt for texts that are searched; for the text that is searched for, all say "query"
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


class Encoded(NamedTuple):
    """Vectors of some texts (N, D), how many tokens went through the model, and how many texts did not fit."""

    vectors: Vectors
    tokens: int
    overlong: int


class SentenceEmbedder(FamiliarNames, SentenceModel):
    """A BERT, its tokenizer, and how hidden states become one vector for each text.

    ```python
    embedder = SentenceEmbedder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
    vectors = embedder.encode(["I love Korea", "Paris"])     # numpy (2, 384) float32
    ```

    Args:
        model: the BERT; used as it is.
        tokenizer: its tokenizer.
        pooling: one of `minibert.sentences.pooling.POOLINGS`, or several to be put side by side.
        layers: which layers, and
        layer_weights: with what weights; as in `minibert.sentences.pooling.combine_layers`.
        steps: modules that the pooled vectors (batch, hidden) go through: `Dense`, `Normalize`, `Truncate`.
        max_length: tokens of the longest text, [CLS] and [SEP] included; never more than the model has positions.
            None: what the tokenizer says.
        prompts: texts to put before every text, by name.
        default_prompt_name: the prompt that is used when a call names none.
        include_prompt: whether a prompt's tokens take part in pooling.

    Raises:
        ValueError: a pooling, layer or prompt that is not there, or vectors that do not fit the first `Dense`.
    """

    def __init__(
        self,
        model: BertModel,
        tokenizer: BertTokenizer,
        *,
        pooling: str | Sequence[str] = "mean",
        layers: Layers = "last",
        layer_weights: Sequence[float] | None = None,
        steps: Iterable[nn.Module] = (),
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        include_prompt: bool = True,
    ) -> None:
        super().__init__(model, pooling, layers, layer_weights, steps)
        self.tokenizer = tokenizer
        positions = model.config.max_position_embeddings
        if max_length is not None and (type(max_length) is not int or max_length < 1):
            raise ValueError(f"max_length should be a whole number of 1 or more, not {max_length!r}.")
        self.max_length = min(positions, tokenizer.model_max_length if max_length is None else max_length)
        self.prompts = dict(prompts or {})
        self.default_prompt_name = default_prompt_name
        self.include_prompt = include_prompt
        self.precision: str | None = None  # what `from_pretrained` made of the model
        self._named_prompt(None)  # the default one must exist

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        pooling: str | Sequence[str] | None = None,
        layers: Layers | None = None,
        layer_weights: Sequence[float] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        precision: str | None = "fp32",
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        device: torch.device | str | None = None,
        mmap: bool = True,
        **options: Any,
    ) -> SentenceEmbedder:
        """Loads a sentence-transformers folder as it says, or any BERT.

        Args:
            name: folder, bundled model or Hub id.
            pooling: None follows the folder's modules.json; a plain BERT has none and gets `"mean"`.
            layers: one of `minibert.sentences.pooling.LAYER_CHOICES` or layer numbers; None: `"last"`. Layers above
                the highest one that is needed are not kept.
            layer_weights: as in `minibert.sentences.pooling.combine_layers`.
            normalize: make vectors of length 1 at the end, or leave them as they are; None follows the folder, and
                leaves a plain BERT's as they are.
            truncate_dim: keep the first so many numbers of each vector, before it is made of length 1 by
                `normalize=True`; None follows the folder.
            precision: "fp32", "bf16" or "int8" as in `minibert.optimize`; None runs the model unchanged, whose float32
                results equal the reference's bit for bit.
            max_length: as in the class; None: what the folder says.
            prompts: None: the folder's.
            default_prompt_name: None: the folder's.
            device: where to run; None: the CPU.
            mmap: as in `BertModel.from_pretrained`; an optimised model has its weights in memory anyway.
            options: `revision`, `cache_dir`, `local_files_only` and `token` as in `minibert.checkpoints.source.Source`.

        Raises:
            FileNotFoundError: no such checkpoint, or a file of it is missing.
            ValueError: a damaged file, or something in the folder that minibert does not have, named.
        """
        source, unknown = split_source(name, options)
        if unknown:
            known = [name for name in inspect.signature(cls.from_pretrained).parameters if name != "options"]
            refuse_unknown("SentenceEmbedder.from_pretrained", unknown, known)
        folder = read_sentence_folder(source)
        pooling = folder.pooling if pooling is None else [pooling] if isinstance(pooling, str) else list(pooling)
        # with its pooler only where that is used: sentence models come without one
        model = BertModel.from_pretrained(
            folder.transformer, dtype=torch.float32, device=device, mmap=mmap, add_pooling_layer="pooler" in pooling
        )
        numbers, weights = resolve_layers(
            "last" if layers is None else layers, model.config.num_hidden_layers, layer_weights
        )
        if "pooler" not in pooling and max(numbers) < model.config.num_hidden_layers:
            del model.encoder.layer[max(numbers) :]
            model.config = model.config.replace(num_hidden_layers=max(numbers))
        if precision is not None:
            model = optimize(model, precision=precision)
        embedder = cls(
            model,
            folder.load_tokenizer(),
            pooling=pooling,
            layers=numbers,
            layer_weights=weights,
            steps=folder.final_steps(normalize, truncate_dim),
            max_length=folder.max_length if max_length is None else max_length,
            prompts=folder.prompts if prompts is None else prompts,
            default_prompt_name=default_prompt_name or folder.default_prompt_name,
            include_prompt=folder.include_prompt,
        )
        embedder.precision = precision
        embedder.similarity_fn_name = folder.similarity_fn_name
        return embedder

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Writes a folder that `from_pretrained` and sentence-transformers load.

        An optimised model is saved with the weights that it computes with. A single layer below the last becomes the
        last of a shorter model, and `pooling="pooler"` a `Dense` layer on [CLS].

        Raises:
            ValueError: layers or poolings that the format has no place for; nothing is written then.
            OSError: a file cannot be written.
        """
        prompts = {"prompts": self.prompts, "default_prompt_name": self.default_prompt_name}
        settings = {**prompts, "similarity_fn_name": self.similarity_fn_name}
        save_sentence_folder(self, Path(path), self.tokenizer, self.max_length, self.include_prompt, settings)

    def batched(self, *, max_wait_ms: float = 2.0, max_tokens: int = BATCH_TOKENS, max_pending: int = 1024) -> Batched:
        """Gathers the single texts of many threads or tasks into packed batches; the options are those of `Batched`."""

        def tokenize(text: str, prompt: str | None, prompt_name: str | None) -> tuple[Rows, int]:
            settings = self.chunk_options(prompt, prompt_name)
            rows = self._rows(check_texts([text]), settings["prompt"], "truncate")
            self._report_cut(len(rows.overlong), 1, "truncate")
            return rows, self._skip(settings["prompt"])

        def encode(texts: list[str], rows: Rows, skip: int) -> Vectors:
            return check_finite(self.encode_rows(rows, skip, max_tokens), texts)

        return Batched(tokenize, encode, max_wait_ms, max_tokens, max_pending)

    # a string is an iterable of strings, too, and the first signature that fits counts
    @overload
    def encode(self, texts: str, **options: Unpack[EncodeOptions]) -> Vector: ...  # type: ignore[overload-overlap]
    @overload
    def encode(self, texts: Iterable[str | Pair], **options: Unpack[EncodeOptions]) -> Matrix: ...
    @overload
    def encode(
        self, texts: str | Iterable[str | Pair], *, convert_to_tensor: Literal[True], **options: Unpack[EncodeOptions]
    ) -> Tensor: ...
    @overload
    def encode(
        self,
        texts: str | Iterable[str | Pair],
        *,
        convert_to_tensor: bool = ...,
        convert_to_numpy: bool = ...,
        precision: Literal["float32", "binary", "ubinary"] = ...,
        output_value: Literal["sentence_embedding", "token_embeddings"] = ...,
        **options: Unpack[EncodeOptions],
    ) -> Any: ...

    def encode(
        self,
        texts: str | Iterable[str | Pair],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        overflow: Literal["truncate", "mean"] = "truncate",
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool = False,
        **options: Any,
    ) -> Any:
        """Vectors of texts, in the order of the texts.

        Args:
            texts: one text, or any number of texts or of pairs of texts. Equal texts go through the model once.
            prompt: put before every text.
            prompt_name: the prompt of this name in `prompts`; None: `default_prompt_name`.
            overflow: what to do with a text of more than `max_length` tokens. "truncate" leaves the rest out and says
                for how many texts; "mean" cuts it into windows, each with the prompt, and takes the mean of their
                vectors before normalisation, each window counting as many times as it has tokens.
            batch_tokens: tokens of one pass through the model.
            show_progress: a bar with tokens per second and the time left.
            options: those of `minibert.sentences.options.OutputOptions`, such as `normalize_embeddings`,
                `convert_to_tensor` and `truncate_dim`.

        Returns:
            (N, D) float32; (D,) for a single text; (0, D) for none.

        Raises:
            ValueError: something that is not a text, an impossible value of an option, or a vector that is not finite.
            TypeError: an option that does not exist.
        """
        output = OutputOptions.of(options)
        if output.device is not None:
            self.to(output.device)
        single = isinstance(texts, str)
        every: list[Any] = [texts] if isinstance(texts, str) else list(texts)
        settings = self.chunk_options(prompt, prompt_name, overflow, batch_tokens)
        overlong = 0
        if output.output_value == "token_embeddings":
            rows = self._rows(check_inputs(every), settings["prompt"], "truncate")
            overlong, found = len(rows.overlong), self.token_states(rows, batch_tokens)
        else:
            vectors = np.empty((len(every), self.dimension), dtype=np.float32)
            with Progress(output.show_progress_bar or show_progress, total=len(every)) as progress:
                for start in range(0, len(every), CHUNK_TEXTS):
                    encoded = self.encode_chunk(every[start : start + CHUNK_TEXTS], **settings, progress=progress)
                    vectors[start : start + CHUNK_TEXTS] = encoded.vectors
                    overlong += encoded.overlong
            found = output.finish(vectors, self.device)
        self._report_cut(overlong, len(every), overflow)
        return found[0] if single else found

    @signature_of(encode)
    def encode_query(self, texts: Any, **options: Any) -> Any:
        """As `encode`, with the prompt that the model has for queries unless another is asked for."""
        return self.encode(texts, **self._with_prompt(options, "query"))

    @signature_of(encode)
    def encode_document(self, texts: Any, **options: Any) -> Any:
        """As `encode`, with the first of `DOCUMENT_PROMPTS` that the model has unless another is asked for."""
        return self.encode(texts, **self._with_prompt(options, *DOCUMENT_PROMPTS))

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
        if chunk_size < 1:
            raise ValueError(f"chunk_size should be 1 or more, not {chunk_size}.")
        texts = iter_texts(texts)
        settings = self.chunk_options(**options)
        count = overlong = 0
        while chunk := list(islice(texts, chunk_size)):
            encoded = self.encode_chunk(chunk, **settings, progress=progress)
            count, overlong = count + len(chunk), overlong + encoded.overlong
            yield chunk, encoded.vectors
        self._report_cut(overlong, count, settings["overflow"])

    def chunk_options(
        self,
        prompt: str | None = None,
        prompt_name: str | None = None,
        overflow: str = "truncate",
        batch_tokens: int = BATCH_TOKENS,
        **unknown: NoReturn,
    ) -> dict[str, Any]:
        """Checks the options of every way to encode, and looks the prompt up: arguments for `encode_chunk`.

        Raises:
            ValueError: an impossible value, or a prompt that is unknown or leaves no room for a text.
            TypeError: an option that does not exist.
        """
        refuse_unknown("encoding in chunks", unknown, ChunkOptions.__annotations__)
        if prompt is not None and prompt_name is not None:
            raise ValueError("pass prompt or prompt_name, not both.")
        if overflow not in ("truncate", "mean"):
            raise ValueError(f'overflow should be "truncate" or "mean", not {overflow!r}.')
        if not isinstance(batch_tokens, int) or batch_tokens < 1:
            raise ValueError(f"batch_tokens should be a whole number of 1 or more, not {batch_tokens!r}.")
        if prompt is None:
            prompt = self._named_prompt(prompt_name)
        if (head := self._head(prompt)) + 2 > self.max_length:
            raise ValueError(f"max_length is {self.max_length} tokens, but [CLS], prompt and [SEP] take {head + 1}.")
        return {"prompt": prompt, "overflow": overflow, "batch_tokens": batch_tokens}

    def encode_chunk(
        self, texts: Sequence[str | Pair], *, prompt: str, overflow: str, batch_tokens: int, progress: Progress = SILENT
    ) -> Encoded:
        """Encodes texts that are sorted together, and counts; what every way to encode is made of.

        The result depends on the texts and the options (see `chunk_options`) alone, not on what was encoded before.
        """
        if not texts:
            return Encoded(np.empty((0, self.dimension), dtype=np.float32), 0, 0)
        copies = Counter(check_inputs(texts))  # of each text, which is encoded once
        unique, counts = list(copies), list(copies.values())
        rows = self._rows(unique, prompt, overflow)
        done = rows.texts_done(counts)

        def report(batch: list[int]) -> None:
            progress.add(sum(done[row] for row in batch), sum(len(rows.ids[row]) for row in batch))

        vectors = check_finite(self.encode_rows(rows, self._skip(prompt), batch_tokens, report), unique)
        if len(unique) < len(texts):
            place = {text: number for number, text in enumerate(unique)}
            vectors = vectors[[place[text] for text in texts]]
        return Encoded(vectors, sum(map(len, rows.ids)), sum(counts[number] for number in rows.overlong))

    @overload
    def words(  # type: ignore[overload-overlap]
        self, texts: str, *, merge: Literal["mean", "first"] = ..., batch_tokens: int = ...
    ) -> WordVectors: ...
    @overload
    def words(
        self, texts: Sequence[str], *, merge: Literal["mean", "first"] = ..., batch_tokens: int = ...
    ) -> list[WordVectors]: ...

    def words(self, texts: str | Sequence[str], *, merge: str = "mean", batch_tokens: int = BATCH_TOKENS) -> Any:
        """Vectors of the words of texts, from the chosen layers, without prompt, pooling and normalisation.

        Words are the tokenizer's: cut at white space and around punctuation. Those past `max_length` tokens are left
        out, and a warning says of how many texts.

        Args:
            texts: one text or several.
            merge: how the WordPieces of a word become one vector: their "mean", or the "first" of them.
            batch_tokens: tokens of one pass through the model.

        Returns:
            `WordVectors` of each text in a list; of a single text, just its own.
        """
        if merge not in ("mean", "first"):
            raise ValueError(f'merge should be "mean" or "first", not {merge!r}.')
        every = check_texts([texts] if isinstance(texts, str) else texts)
        if not every:
            return []
        rows = self._rows(every, "", "truncate")
        self._report_cut(len(rows.overlong), len(every), "truncate", advice="words past it have no vector.")
        encodings = self.tokenizer(every, truncation=True, max_length=self.max_length).encodings
        states = self.token_states(rows, batch_tokens)
        found = [merge_pieces(*one, merge) for one in zip(every, encodings, states, strict=True)]
        return found[0] if isinstance(texts, str) else found

    def _report_cut(
        self, overlong: int, count: int, overflow: str, advice: str = 'overflow="mean" takes all of them in.'
    ) -> None:
        if overlong and overflow == "truncate":
            warnings.warn(
                f"{overlong} of {count} texts have more than {self.max_length} tokens and were cut there; {advice}",
                stacklevel=3,
            )

    def _named_prompt(self, name: str | None) -> str:
        name = name or self.default_prompt_name
        if name is not None and name not in self.prompts:
            raise ValueError(f"there is no prompt {name!r}; this model has {', '.join(self.prompts) or 'none'}.")
        return "" if name is None else self.prompts[name]

    def _with_prompt(self, options: dict[str, Any], *names: str) -> dict[str, Any]:
        """The options with the first of these prompts that the model has, if they ask for none."""
        if options.get("prompt") is None and options.get("prompt_name") is None:
            options["prompt_name"] = next((name for name in names if name in self.prompts), None)
        return options

    def _head(self, prompt: str) -> int:
        """Tokens that begin every window: [CLS] and the prompt's."""
        return len(self.tokenizer(prompt, verbose=False)["input_ids"]) - 1 if prompt else 1

    def _skip(self, prompt: str) -> int:
        """Tokens at the start of every row that pooling leaves out."""
        return 0 if self.include_prompt or not prompt else self._head(prompt)

    def _rows(self, texts: Sequence[Any], prompt: str, overflow: str) -> Rows:
        """Rows of texts or pairs that have been checked."""
        return rows_of(self.tokenizer, texts, prompt, self.max_length, overflow, self._head(prompt))
