"""OnnxEmbedder: texts to vectors by ONNX Runtime, without torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.batched import Batched
from minibert.encoders.encode import (
    DOCUMENT_PROMPTS,
    QUERY_PROMPTS,
    OutputValue,
    Overflow,
    Texts,
    VectorPrecision,
    check_device,
    encode_texts,
    gather_requests,
    resolve_max_length,
    resolve_settings,
    stream_chunks,
    task_prompt_name,
)
from minibert.encoders.search import unit
from minibert.encoders.sentence_folder import read_sentence_folder
from minibert.encoders.token_rows import (
    CHUNK_TEXTS,
    Matrix,
    Pair,
    Rows,
    Settings,
    Vector,
    Vectors,
    check_prompts,
    list_texts,
    named_prompt,
)
from minibert.extras import need
from minibert.inference.batching import BATCH_TOKENS, Report, batches
from minibert.progress import SILENT, Progress
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    import torch

    from minibert.encoders.words import WordVectors


class OnnxGraph:
    """An embedder as `minibert export` has written it.

    Args:
        source: The folder.

    Raises:
        FileNotFoundError: There is no model.onnx.
        ValueError: A damaged file.
        ImportError: onnxruntime is not installed.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.config = BertConfig.from_pretrained(source)
        self.session = open_session(source.require("model.onnx"))
        self.inputs = [node.name for node in self.session.get_inputs()]
        sizes = {node.name: node.shape[-1] for node in self.session.get_outputs()}
        if "sentence_embedding" not in sizes:
            raise ValueError(
                f"{source} was exported from a model with a head. Vectors come from an embedder's "
                "export."
            )
        self.dimension = int(sizes["sentence_embedding"])

    @cached_property
    def steps(self) -> Any:
        """The graph of what follows the pooling, which texts in windows need. None: nothing."""
        path = self.source.file("steps.onnx")
        if path is None:
            return None
        return open_session(path)

    def __reduce__(self) -> Any:
        return OnnxGraph, (self.source,)  # sessions cannot be pickled


class OnnxEmbedder:
    """An exported embedder: the vectors of a `SentenceEmbedder`, on the CPU and without torch.

    ```python
    embedder = OnnxEmbedder.from_pretrained("exported")     # written by `minibert export`
    vectors = embedder.encode(["I love Korea", "Paris"])
    ```

    Layers, pooling and steps are parts of the graph.

    Args:
        model: The graph.
        tokenizer: Its tokenizer.
        pooling: The names of the poolings in the graph.
        max_length: Tokens of the longest row, [CLS] and [SEP] included. None: what the tokenizer
            says, as far as the model has positions.
        prompts: Texts to put before every text, by name.
        default_prompt_name: The prompt that is used when a call names none.
        include_prompt: Whether a prompt's tokens are pooled.

    Raises:
        ValueError: A prompt that does not exist, or a `max_length` beyond the positions.
    """

    def __init__(
        self,
        model: OnnxGraph,
        tokenizer: BertTokenizer,
        *,
        pooling: str | Sequence[str] = "mean",
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        include_prompt: bool = True,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = [pooling] if isinstance(pooling, str) else list(pooling)
        self.dimension = model.dimension
        positions = model.config.max_position_embeddings
        self._max_length = resolve_max_length(max_length, tokenizer, positions)
        self.prompts = check_prompts(prompts)
        self.default_prompt_name = default_prompt_name
        named_prompt(self.prompts, default_prompt_name)  # it must exist
        self.include_prompt = include_prompt
        self.precision: str | None = None
        self.layers: list[int] | None = None
        self.layer_weights: list[float] | None = None
        self.steps = ()
        self.device = "cpu"
        self.model_name: str | None = None  # where it was loaded from

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        revision: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        subfolder: str | None = None,
    ) -> OnnxEmbedder:
        """Loads a folder that `minibert export` has written.

        Args:
            name: Folder or Hub id.
            max_length: As in the class. None: what the folder says.
            prompts: None: the folder's.
            default_prompt_name: None: the folder's.
            revision: Branch, tag or commit on the Hub.
            cache_dir: Where the Hub's files are cached.
            local_files_only: Never download.
            token: For private repositories.
            subfolder: A folder inside the repository.

        Returns:
            The embedder.

        Raises:
            FileNotFoundError: The folder does not exist, or a file of it is missing.
            ValueError: A damaged file, or the export of a model with a head.
            ImportError: onnxruntime is not installed.
        """
        source = Source.of(
            name,
            subfolder=subfolder,
            revision=revision,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            token=token,
        )
        folder = read_sentence_folder(source)
        folder.override_prompts(prompts, default_prompt_name)
        model = OnnxGraph(folder.transformer)
        if max_length is None:
            max_length = folder.length_within(model.config.max_position_embeddings)
        embedder = cls(
            model,
            folder.load_tokenizer(),
            pooling=folder.pooling,
            max_length=max_length,
            prompts=folder.prompts,
            default_prompt_name=folder.default_prompt_name,
            include_prompt=folder.include_prompt,
        )
        embedder.model_name = str(source)
        return embedder

    @overload
    def encode(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Vector: ...
    @overload
    def encode(
        self,
        texts: Iterable[str | Pair],
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Matrix: ...
    @overload
    def encode(
        self,
        texts: Texts,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        convert_to_tensor: Literal[True],
        convert_to_numpy: bool = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> torch.Tensor: ...
    @overload
    def encode(
        self,
        texts: Texts,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        precision: VectorPrecision | None = ...,
        convert_to_tensor: bool = ...,
        convert_to_numpy: bool = ...,
        output_value: OutputValue = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Any: ...

    def encode(
        self,
        texts: Texts,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int = 32,
        batch_tokens: int = BATCH_TOKENS,
        overflow: Overflow = "truncate",
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        precision: VectorPrecision | None = "float32",
        convert_to_tensor: bool = False,
        convert_to_numpy: bool = True,
        output_value: OutputValue = "sentence_embedding",
        device: torch.device | str | None = None,
        show_progress_bar: bool | None = False,
    ) -> Any:
        """Vectors of texts, in the order of the texts. Equal texts go through the model once.

        Args:
            texts: One text, or several texts or pairs of texts in a list, an array, a column of a
                table or any other iterable.
            prompt: Put before every text.
            prompt_name: The prompt of this name in `prompts`. None: `default_prompt_name`.
            batch_size: Accepted for code written for sentence-transformers, without effect:
                `batch_tokens` decides which texts go through the model together.
            batch_tokens: Tokens of one pass through the model.
            overflow: What happens to a text of more than `max_length` tokens. "truncate" drops the
                rest and warns. "mean" splits the text into windows, each with the prompt, and takes
                the mean of their vectors before normalization, weighted by their tokens.
            normalize_embeddings: L2-normalize the vectors, after truncating them.
            truncate_dim: Truncate each vector to its first N dimensions.
            precision: Of the components that are returned, as in
                `minibert.encoders.quantization.quantize`, with the ranges of these vectors. None
                means "float32".
            convert_to_tensor: Return one tensor.
            convert_to_numpy: False returns a list of tensors, one for each text.
            output_value: "sentence_embedding", or "token_embeddings" for a list with the features
                of each text's tokens, (tokens, D), before pooling.
            device: Has no effect: ONNX Runtime runs on the CPU. Others raise an error.
            show_progress_bar: Show a bar with tokens per second and the time left.

        Returns:
            (N, D) float32, (D,) for a single text, (0, D) for no texts.

        Raises:
            ValueError: Something that is not a text, an option with a value that it cannot have, or
                a vector that is not finite.
        """
        check_device(device)
        if device is not None:
            self.to(device)
        settings = self.settings(
            prompt=prompt,
            prompt_name=prompt_name,
            overflow=overflow,
            batch_tokens=batch_tokens,
            truncate_dim=truncate_dim,
            normalize_embeddings=normalize_embeddings,
        )
        return encode_texts(
            self,
            texts,
            settings,
            batch_size=batch_size,
            precision=precision,
            convert_to_tensor=convert_to_tensor,
            convert_to_numpy=convert_to_numpy,
            output_value=output_value,
            show_progress_bar=show_progress_bar,
        )

    @overload
    def encode_query(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Vector: ...
    @overload
    def encode_query(
        self,
        texts: Iterable[str | Pair],
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Matrix: ...
    @overload
    def encode_query(
        self,
        texts: Texts,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        convert_to_tensor: Literal[True],
        convert_to_numpy: bool = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> torch.Tensor: ...
    @overload
    def encode_query(
        self,
        texts: Texts,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        precision: VectorPrecision | None = ...,
        convert_to_tensor: bool = ...,
        convert_to_numpy: bool = ...,
        output_value: OutputValue = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Any: ...

    def encode_query(
        self,
        texts: Texts,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int = 32,
        batch_tokens: int = BATCH_TOKENS,
        overflow: Overflow = "truncate",
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        precision: VectorPrecision | None = "float32",
        convert_to_tensor: bool = False,
        convert_to_numpy: bool = True,
        output_value: OutputValue = "sentence_embedding",
        device: torch.device | str | None = None,
        show_progress_bar: bool | None = False,
    ) -> Any:
        """As `encode`, with the prompt "query" where the model has it and the call names none.

        All arguments are those of `encode`.

        Returns:
            As `encode`, (N, D) or (D,).
        """
        prompt_name = task_prompt_name(self.prompts, QUERY_PROMPTS, prompt, prompt_name)
        return self.encode(
            texts,
            prompt=prompt,
            prompt_name=prompt_name,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            overflow=overflow,
            normalize_embeddings=normalize_embeddings,
            truncate_dim=truncate_dim,
            precision=precision,
            convert_to_tensor=convert_to_tensor,
            convert_to_numpy=convert_to_numpy,
            output_value=output_value,
            device=device,
            show_progress_bar=show_progress_bar,
        )

    @overload
    def encode_document(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Vector: ...
    @overload
    def encode_document(
        self,
        texts: Iterable[str | Pair],
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Matrix: ...
    @overload
    def encode_document(
        self,
        texts: Texts,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        convert_to_tensor: Literal[True],
        convert_to_numpy: bool = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> torch.Tensor: ...
    @overload
    def encode_document(
        self,
        texts: Texts,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        batch_size: int = ...,
        batch_tokens: int = ...,
        overflow: Overflow = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
        precision: VectorPrecision | None = ...,
        convert_to_tensor: bool = ...,
        convert_to_numpy: bool = ...,
        output_value: OutputValue = ...,
        device: torch.device | str | None = ...,
        show_progress_bar: bool | None = ...,
    ) -> Any: ...

    def encode_document(
        self,
        texts: Texts,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_size: int = 32,
        batch_tokens: int = BATCH_TOKENS,
        overflow: Overflow = "truncate",
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        precision: VectorPrecision | None = "float32",
        convert_to_tensor: bool = False,
        convert_to_numpy: bool = True,
        output_value: OutputValue = "sentence_embedding",
        device: torch.device | str | None = None,
        show_progress_bar: bool | None = False,
    ) -> Any:
        """As `encode`, with a document's prompt if the call names none.

        It is the first of `minibert.encoders.encode.DOCUMENT_PROMPTS` that the model has. All
        arguments are those of `encode`.

        Returns:
            As `encode`, (N, D) or (D,).
        """
        prompt_name = task_prompt_name(self.prompts, DOCUMENT_PROMPTS, prompt, prompt_name)
        return self.encode(
            texts,
            prompt=prompt,
            prompt_name=prompt_name,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            overflow=overflow,
            normalize_embeddings=normalize_embeddings,
            truncate_dim=truncate_dim,
            precision=precision,
            convert_to_tensor=convert_to_tensor,
            convert_to_numpy=convert_to_numpy,
            output_value=output_value,
            device=device,
            show_progress_bar=show_progress_bar,
        )

    def encode_stream(
        self,
        texts: Iterable[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        overflow: Overflow = "truncate",
        batch_tokens: int = BATCH_TOKENS,
        chunk_size: int = CHUNK_TEXTS,
        progress: Progress = SILENT,
    ) -> Iterator[tuple[list[str], Vectors]]:
        """Encodes any number of texts, never holding more than `chunk_size` of them.

        Args:
            texts: Read as far as vectors are needed.
            prompt: As in `encode`.
            prompt_name: As in `encode`.
            overflow: As in `encode`.
            batch_tokens: As in `encode`.
            chunk_size: Texts that are sorted and encoded together.
            progress: Counts them.

        Yields:
            The next texts and their vectors (chunk_size, D), in the order of the texts.

        Raises:
            ValueError: As `encode`, and for a single string or a chunk size below 1.
        """
        settings = self.settings(
            prompt=prompt, prompt_name=prompt_name, overflow=overflow, batch_tokens=batch_tokens
        )
        yield from stream_chunks(self, texts, settings, chunk_size, progress)

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
        return gather_requests(self, max_wait_ms, max_tokens, max_pending)

    def settings(
        self,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        overflow: Overflow = "truncate",
        batch_tokens: int = BATCH_TOKENS,
        truncate_dim: int | None = None,
        normalize_embeddings: bool = False,
    ) -> Settings:
        """The settings that these options of `encode` mean for this model.

        Args:
            prompt: As in `encode`, like all other arguments.
            prompt_name: Name of one of the model's prompts.
            overflow: "truncate" or "mean".
            batch_tokens: Tokens of a batch.
            truncate_dim: Dimensions of each vector to keep.
            normalize_embeddings: L2-normalize the vectors.

        Returns:
            The settings, for `encode_rows`.

        Raises:
            ValueError: An option with a value that it cannot have.
        """
        return resolve_settings(
            self,
            prompt=prompt,
            prompt_name=prompt_name,
            overflow=overflow,
            batch_tokens=batch_tokens,
            truncate_dim=truncate_dim,
            normalize_embeddings=normalize_embeddings,
        )

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
        from minibert.encoders.words import word_vectors  # it needs torch

        return word_vectors(self, texts, merge, batch_tokens)

    @property
    def max_length(self) -> int:
        """Tokens of the longest row, [CLS] and [SEP] included."""
        return self._max_length

    @max_length.setter
    def max_length(self, length: int) -> None:
        positions = self.model.config.max_position_embeddings
        self._max_length = resolve_max_length(length, self.tokenizer, positions)

    @property
    def max_seq_length(self) -> int:
        """`max_length`, under sentence-transformers' name."""
        return self.max_length

    @max_seq_length.setter
    def max_seq_length(self, length: int) -> None:
        self.max_length = length

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

    def to(self, device: object) -> OnnxEmbedder:
        """The embedder itself.

        Args:
            device: The CPU.

        Raises:
            ValueError: Another device than the CPU.
        """
        if str(device) != "cpu":
            raise ValueError(f'backend="onnx" runs on the CPU, not on {device}.')
        return self

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Raise an error that names the exported folder, which can be copied.

        Args:
            path: Where the folder was to be written.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            f"an exported model cannot be saved to {path}: copy its folder, {self.model.source}."
        )

    @property
    def threads(self) -> int:
        """Threads at work in one pass through the model, as `open_session` sets them."""
        return openmp_threads() or os.cpu_count() or 1

    def weights(self) -> Iterator[Any]:
        """The bytes of the graph, which holds all weights."""
        with self.model.source.require("model.onnx").open("rb") as file:
            while part := file.read(1 << 20):
                yield part

    def encode_rows(self, rows: Rows, settings: Settings, report: Report | None = None) -> Vectors:
        """Vectors of the inputs, (N, D), in their order.

        Args:
            rows: Of all inputs. Those of a text's windows are merged.
            settings: How.
            report: Progress callback. Receives the indices of finished rows.

        Raises:
            ValueError: A vector is not finite.
        """
        ids = rows.ids
        has_windows = len(ids) > len(rows.rows)
        output = "pooled" if has_windows else "sentence_embedding"
        parts = self._run(
            output, ids, rows.token_types, settings.batch_tokens, settings.skip, report
        )
        vectors: Any = np.concatenate(parts)
        if has_windows:
            # the mean of a text's windows, weighted by their tokens
            lengths = np.array([len(row) for row in ids], dtype=np.float32)[:, None]
            starts = np.cumsum([0, *rows.window_counts[:-1]])
            sums = np.add.reduceat(vectors * lengths, starts)
            vectors = sums / np.add.reduceat(lengths, starts)
            if self.model.steps is not None:
                (vectors,) = self.model.steps.run(None, {"pooled": vectors})
        vectors = vectors[:, : settings.truncate_dim]
        if settings.normalize:
            vectors = unit(vectors)
        return rows.in_input_order(vectors)

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Vectors]:
        """Features of the tokens of each sequence, (tokens, features), before pooling.

        Args:
            rows: The tokenized texts.
            batch_tokens: Tokens of a batch.
        """
        ids = rows.ids
        parts = self._run("token_embeddings", ids, rows.token_types, batch_tokens)
        return [states[0, : len(row)] for states, row in zip(parts, ids, strict=True)]

    def _run(
        self,
        output: str,
        ids: list[list[int]],
        token_types: list[list[int]] | None,
        batch_tokens: int,
        skip: int = 0,
        report: Report | None = None,
    ) -> list[NDArray[np.float32]]:
        """An output of the graph for each row, (1, ...).

        Rows of about the same length are padded and run together.
        """
        lengths = [len(row) for row in ids]
        results: list[Any] = [None] * len(lengths)
        for batch in batches(lengths, batch_tokens):
            shape = (len(batch), lengths[batch[0]])  # the longest comes first
            inputs = {name: np.zeros(shape, np.int64) for name in self.model.inputs}
            for place, index in enumerate(batch):
                length = lengths[index]
                inputs["input_ids"][place, :length] = ids[index]
                inputs["attention_mask"][place, :length] = 1
                if token_types is not None:
                    inputs["token_type_ids"][place, :length] = token_types[index]
            if "pooling_mask" in inputs:
                inputs["pooling_mask"][:, skip:] = inputs["attention_mask"][:, skip:]
            (values,) = self.model.session.run([output], inputs)
            for place, index in enumerate(batch):
                results[index] = values[place : place + 1]
            if report is not None:
                report(batch)
        return results


def open_session(path: Path) -> Any:
    """A graph, ready to run on the CPU with as many threads as `openmp_threads` says.

    Raises:
        ImportError: onnxruntime is not installed.
        ValueError: onnxruntime cannot run the file.
    """
    runtime = need("onnxruntime", "onnx", "Running a model without torch")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = openmp_threads()
    try:
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class in common but this
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{path} is damaged, or not for this onnxruntime ({reason:.200})."
        ) from None


def refuse_settled(**options: Any) -> None:
    """Refuses options of `SentenceEmbedder.from_pretrained` that an exported graph settles.

    Raises:
        ValueError: One of them has another value than None, or than "fp32" for the precision.
    """
    for name, value in options.items():
        if value is not None and value != "fp32":
            raise ValueError(
                f'leave {name} out with backend="onnx": the exported graph settles it.'
            )


def openmp_threads() -> int:
    """The first number of OMP_NUM_THREADS, which may list one for each nested level. 0: not set.

    Raises:
        ValueError: It is not a whole number.
    """
    value = os.environ.get("OMP_NUM_THREADS", "").strip()
    if not value:
        return 0
    first = value.split(",")[0].strip()
    if not first.isdecimal() or int(first) == 0:
        raise ValueError(
            f"OMP_NUM_THREADS should be a whole number of threads, such as 4, not {value!r}."
        )
    return int(first)
