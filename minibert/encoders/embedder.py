"""SentenceEmbedder: texts to vectors, sorted by length and packed without padding."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.checkpoints.source import Source
from minibert.devices import resolve_device
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
from minibert.encoders.loading import load_bert, load_steps
from minibert.encoders.onnx import OnnxEmbedder, refuse_settled
from minibert.encoders.pooling import (
    POOLINGS,
    Dense,
    Layers,
    Pooling,
    Truncate,
    combine_layers,
    merge_windows,
    pool,
    resolve_layers,
)
from minibert.encoders.search import Metric, pairwise_similarity, similarity
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
from minibert.encoders.words import WordVectors, word_vectors
from minibert.extras import need
from minibert.inference.batching import BATCH_TOKENS, Report
from minibert.inference.optimize import Precision, resolve_precision
from minibert.inference.packing import run_packed
from minibert.layouts import Layout, PackedLayout
from minibert.model import BertModel
from minibert.progress import SILENT, Progress
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    from minibert.tokenization.encoding import BatchEncoding


class SentenceEmbedder(nn.Module):
    """A BERT, its tokenizer, and how hidden states become one vector for each text.

    ```python
    embedder = SentenceEmbedder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
    vectors = embedder.encode(["I love Korea", "Paris"])     # numpy (2, 384) float32
    ```

    It is an `nn.Module`, because users move, train, hook and wrap embedders like any other model:

    ```
    ids (tokens,) -> hidden states (tokens, hidden) -> pooled (batch, width) -> steps -> (batch, D)
    ```

    What it shares with `OnnxEmbedder` are the functions of `minibert.encoders.encode`.

    Args:
        model: The BERT, used as it is.
        tokenizer: Its tokenizer.
        pooling: One of `minibert.encoders.pooling.POOLINGS`, or several whose vectors are
            concatenated.
        layers: Which hidden states are pooled, as in `minibert.encoders.pooling.resolve_layers`.
        layer_weights: Weights of these layers in a sum, as in
            `minibert.encoders.pooling.combine_layers`.
        steps: Modules that the pooled vectors (batch, width) go through: `Dense`, `Normalize`,
            `Truncate`.
        max_length: Tokens of the longest row, [CLS] and [SEP] included. None: what the tokenizer
            says, as far as the model has positions.
        prompts: Texts to put before every text, by name.
        default_prompt_name: The prompt that is used when a call names none.
        include_prompt: Whether a prompt's tokens are pooled.

    Raises:
        TypeError: A name instead of a model, or no tokenizer.
        ValueError: A pooling, layer or prompt that does not exist, vectors that do not fit the
            first `Dense`, or a `max_length` beyond the positions.
    """

    def __init__(
        self,
        model: BertModel,
        tokenizer: BertTokenizer | None = None,
        *,
        pooling: Pooling | Sequence[Pooling] = "mean",
        layers: Layers = "last",
        layer_weights: Sequence[float] | None = None,
        steps: Iterable[nn.Module] = (),
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        include_prompt: bool = True,
    ) -> None:
        super().__init__()
        if isinstance(model, str | os.PathLike):
            raise TypeError(
                "SentenceEmbedder takes a BertModel and its tokenizer. "
                f"SentenceEmbedder.from_pretrained({model!r}) loads both."
            )
        if tokenizer is None:
            raise TypeError(
                "SentenceEmbedder takes a BertModel and its tokenizer. "
                "SentenceEmbedder.from_pretrained(name) loads both."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = _check_poolings(pooling, model)
        config = model.config
        depth = config.num_hidden_layers
        self.layers, self.layer_weights = resolve_layers(layers, depth, layer_weights)
        self._needs_hidden_states = self.layers != [depth] or self.layer_weights is not None
        self.width = 0  # of a pooled vector
        for name in self.pooling:
            is_one_state = name == "pooler" or self.layer_weights is not None
            self.width += config.hidden_size * (1 if is_one_state else len(self.layers))
        self._set_steps(steps)
        self._max_length = resolve_max_length(max_length, tokenizer, config.max_position_embeddings)
        self.prompts = check_prompts(prompts)
        self.default_prompt_name = default_prompt_name
        named_prompt(self.prompts, default_prompt_name)  # it must exist
        self.include_prompt = include_prompt
        self.precision: str | None = None  # that of `optimize`, set by `from_pretrained`
        self.similarity_fn_name: Metric = "cosine"
        self.model_name: str | None = None  # where it was loaded from
        self.eval()

    @overload
    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        backend: Literal["onnx"],
        max_length: int | None = ...,
        prompts: dict[str, str] | None = ...,
        default_prompt_name: str | None = ...,
        revision: str | None = ...,
        cache_dir: str | os.PathLike[str] | None = ...,
        local_files_only: bool = ...,
        token: str | bool | None = ...,
        subfolder: str | None = ...,
    ) -> OnnxEmbedder: ...
    @overload
    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        backend: Literal["torch"] = ...,
        pooling: Pooling | Sequence[Pooling] | None = ...,
        layers: Layers | None = ...,
        layer_weights: Sequence[float] | None = ...,
        normalize: bool | None = ...,
        truncate_dim: int | None = ...,
        precision: Precision | None = ...,
        max_length: int | None = ...,
        prompts: dict[str, str] | None = ...,
        default_prompt_name: str | None = ...,
        device: torch.device | str | None = ...,
        mmap: bool = ...,
        revision: str | None = ...,
        cache_dir: str | os.PathLike[str] | None = ...,
        local_files_only: bool = ...,
        token: str | bool | None = ...,
        subfolder: str | None = ...,
    ) -> SentenceEmbedder: ...

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        backend: Literal["torch", "onnx"] = "torch",
        pooling: Pooling | Sequence[Pooling] | None = None,
        layers: Layers | None = None,
        layer_weights: Sequence[float] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        precision: Precision | None = "fp32",
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        device: torch.device | str | None = None,
        mmap: bool = True,
        revision: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        subfolder: str | None = None,
    ) -> SentenceEmbedder | OnnxEmbedder:
        """Loads a sentence-transformers folder as its files say, or any BERT.

        Args:
            name: Folder, bundled model or Hub id.
            backend: "torch", or "onnx" for an `OnnxEmbedder`, which runs what `minibert export` has
                written by ONNX Runtime on the CPU. The graph then settles pooling, layers,
                layer_weights, normalize, truncate_dim, precision and device.
            pooling: None follows the folder's modules.json. A plain BERT has none and gets "mean".
            layers: As in `minibert.encoders.pooling.resolve_layers`. None: "last". Layers above
                the highest one that is needed are dropped.
            layer_weights: As in `minibert.encoders.pooling.combine_layers`.
            normalize: Whether vectors are L2-normalized at the end. None follows the folder. A
                plain BERT's are not.
            truncate_dim: Truncate each vector to its first N dimensions, before `normalize=True`
                normalizes it. None follows the folder.
            precision: "fp32", "bf16" or "int8" as in `minibert.optimize`. "exact" (or None) runs
                the model unchanged: the vector of a single text equals that of transformers bit
                for bit. Several texts are packed without padding, so products have other shapes
                and last bits may differ.
            max_length: As in the class. None: what the folder says.
            prompts: None: the folder's.
            default_prompt_name: None: the folder's.
            device: Where to run. None: the CPU.
            mmap: As in `BertModel.from_pretrained`. An optimized model has its weights in memory
                in any case.
            revision: Branch, tag or commit on the Hub.
            cache_dir: Where the Hub's files are cached.
            local_files_only: Never download.
            token: For private repositories.
            subfolder: A folder inside the repository.

        Returns:
            The embedder.

        Raises:
            FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
            ValueError: A damaged file, or something in the folder that minibert does not have. The
                error names it.
        """
        source = Source.of(
            name,
            subfolder=subfolder,
            revision=revision,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            token=token,
        )
        if backend == "onnx":
            refuse_settled(
                pooling=pooling,
                layers=layers,
                layer_weights=layer_weights,
                normalize=normalize,
                truncate_dim=truncate_dim,
                device=device,
                precision=precision,
            )
            return OnnxEmbedder.from_pretrained(
                source,
                max_length=max_length,
                prompts=prompts,
                default_prompt_name=default_prompt_name,
            )
        if backend != "torch":
            raise ValueError(f'backend should be "torch" or "onnx", not {backend!r}.')
        folder = read_sentence_folder(source)
        if pooling is not None:
            folder.pooling = [pooling] if isinstance(pooling, str) else list(pooling)
        if truncate_dim is not None:
            folder.truncate_dim = truncate_dim
        folder.override_prompts(prompts, default_prompt_name)
        precision_name = resolve_precision(precision)
        model, indices, weights = load_bert(
            folder,
            "last" if layers is None else layers,
            layer_weights,
            precision=precision_name,
            device=device,
            mmap=mmap,
        )
        if max_length is None:
            max_length = folder.length_within(model.config.max_position_embeddings)
        embedder = cls(
            model,
            folder.load_tokenizer(),
            pooling=folder.pooling,  # type: ignore[arg-type]
            layers=indices,
            layer_weights=weights,
            steps=load_steps(folder, normalize),
            max_length=max_length,
            prompts=folder.prompts,
            default_prompt_name=folder.default_prompt_name,
            include_prompt=folder.include_prompt,
        )
        embedder.precision = precision_name
        embedder.model_name = str(source)
        embedder.similarity_fn_name = folder.similarity_fn_name  # type: ignore[assignment]
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
            convert_to_tensor: Return one tensor on the model's device.
            convert_to_numpy: False returns a list of tensors, one for each text.
            output_value: "sentence_embedding", or "token_embeddings" for a list with the features
                of each text's tokens, (tokens, D), before pooling.
            device: Moves the model there first, and leaves it there.
            show_progress_bar: Show a bar with tokens per second and the time left.

        Returns:
            (N, D) float32, (D,) for a single text, (0, D) for no texts.

        Raises:
            ValueError: Something that is not a text, an option with a value that it cannot have, or
                a vector that is not finite.
        """
        check_device(device)
        if device is not None:
            self.to(resolve_device(device))
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

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        layout: PackedLayout | None = None,
        skip: int = 0,
    ) -> Tensor:
        """Vectors of sequences of token ids, with gradients: what training and exports call.

        Args:
            input_ids: (batch, seq), as `tokenize` gives them, or (tokens,), all sequences in a row,
                with a `layout`.
            attention_mask: 1 for tokens, 0 for padding behind them, (batch, seq). None: no padding.
            token_type_ids: Like `input_ids`. None: all 0.
            layout: Where each of the sequences in a row begins and ends.
            skip: Tokens at the start of every sequence that pooling leaves out, such as a prompt's.

        Returns:
            (batch, D).
        """
        pooled = self.pooled(input_ids, attention_mask, token_type_ids, layout, skip)
        vectors: Tensor = self.steps(pooled)
        return vectors

    def pooled(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        layout: PackedLayout | None,
        skip: int,
    ) -> Tensor:
        """Vectors as `forward` gives them, but before the steps that follow pooling.

        Args:
            input_ids: As in `forward`, (batch, seq) or (tokens,).
            attention_mask: As in `forward`, (batch, seq).
            token_type_ids: As in `forward`, like `input_ids`.
            layout: As in `forward`.
            skip: As in `forward`.

        Returns:
            (batch, width).
        """
        features, pooler_output = self.features(input_ids, attention_mask, token_type_ids, layout)
        lengths: Sequence[int] | Tensor
        if layout is not None:
            lengths = layout.lengths
        elif attention_mask is not None:
            lengths = attention_mask
        else:
            lengths = torch.ones_like(input_ids)
        return pool(features, lengths, self.pooling, skip=skip, pooler_output=pooler_output)

    def features(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        layout: Layout | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Features of the tokens, and the pooler's output.

        Args:
            input_ids: As in `forward`, (batch, seq) or (tokens,).
            attention_mask: As in `forward`, (batch, seq).
            token_type_ids: As in `forward`, like `input_ids`.
            layout: As in `forward`.

        Returns:
            The features (..., features), and the pooler's output (batch, hidden) or None.
        """
        output = self.model(
            input_ids,
            attention_mask,
            token_type_ids,
            layout=layout,
            output_hidden_states=self._needs_hidden_states,
            return_dict=True,
        )
        features = output.last_hidden_state
        if output.hidden_states is not None:
            features = combine_layers(output.hidden_states, self.layers, self.layer_weights)
        return features, output.pooler_output

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
        compute = self.pooled if has_windows else self.forward

        def forward(input_ids: Tensor, layout: PackedLayout, types: Tensor | None) -> Tensor:
            return compute(input_ids, None, types, layout, settings.skip).float()

        parts = run_packed(
            self.model,
            forward,
            ids,
            rows.token_types,
            sizes=[1] * len(ids),
            batch_tokens=settings.batch_tokens,
            report=report,
        )
        vectors = parts[0] if len(parts) == 1 else torch.cat(parts)
        if has_windows:
            with torch.inference_mode(), torch.autocast(vectors.device.type, enabled=False):
                lengths = [len(row) for row in ids]
                vectors = self.steps(merge_windows(vectors, lengths, rows.window_counts))
        if settings.truncate_dim is not None:
            vectors = vectors[:, : settings.truncate_dim]
        if settings.normalize:
            vectors = F.normalize(vectors, dim=-1)
        array: Vectors = vectors.cpu().numpy()
        return rows.in_input_order(array)

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Tensor]:
        """Features of the tokens of each sequence, (tokens, features), before pooling.

        Args:
            rows: The tokenized texts.
            batch_tokens: Tokens of a batch.
        """

        def forward(input_ids: Tensor, layout: PackedLayout, types: Tensor | None) -> Tensor:
            features, _ = self.features(input_ids, None, types, layout)
            return features.float()

        return run_packed(
            self.model, forward, rows.ids, rows.token_types, batch_tokens=batch_tokens
        )

    def tokenize(self, texts: Sequence[Any]) -> BatchEncoding:
        """Padded rows of texts or pairs, as PyTorch tensors (batch, seq): what `forward` takes.

        Args:
            texts: Strings, or pairs of strings.
        """
        first = []
        second = []
        for text in texts:
            if isinstance(text, str):
                first.append(text)
            else:
                first.append(text[0])
                second.append(text[1])
        return self.tokenizer(
            first,
            second or None,
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_tensors="pt",
        )

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Similarity of every two vectors by `similarity_fn_name`: (n, D) and (m, D) to (n, m).

        Args:
            embeddings1: Vectors, (n, D) or (D,).
            embeddings2: Vectors, (m, D) or (D,).

        Returns:
            (n, m), float32.
        """
        return torch.from_numpy(similarity(embeddings1, embeddings2, self.similarity_fn_name))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Similarity of vectors with the same index: (n, D) and (n, D) to (n,).

        Args:
            embeddings1: Vectors, (n, D).
            embeddings2: Vectors, (n, D).

        Returns:
            (n,), float32.
        """
        scores = pairwise_similarity(embeddings1, embeddings2, self.similarity_fn_name)
        return torch.from_numpy(scores)

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Writes a folder that `from_pretrained` and sentence-transformers load.

        An optimized model is saved with the weights that it computes with. A single layer below the
        last becomes the last of a shorter model, and `pooling="pooler"` a `Dense` layer on [CLS].

        Args:
            path: Folder, which is created if it does not exist.

        Raises:
            ValueError: Layers or poolings that the format cannot express. Nothing is written then.
            OSError: A file cannot be written.
        """
        from minibert.encoders.saving import save_sentence_folder

        save_sentence_folder(self, Path(path))

    def as_sentence_transformer(self) -> Any:
        """A `sentence_transformers.SentenceTransformer` that runs this model.

        For libraries that check the type. KeyBERT and BERTopic, for example, silently use another
        model in place of an embedder of another type. It encodes, trains, is evaluated and saved by
        sentence-transformers' own code, and the model inside is this embedder's. Training it needs
        an embedder that was loaded with `precision="exact"`.

        Raises:
            ImportError: sentence-transformers is not installed.
            ValueError: Layers or poolings that sentence-transformers does not have.
        """
        library = need("sentence_transformers", "parity", "as_sentence_transformer()")
        # a SentenceTransformer is loaded from files, which Windows does not remove while mapped
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "minibert")
            self.save_pretrained(path)
            # for the BERT that gives way to this embedder's own
            unused = {"add_pooling_layer": False}
            transformer = library.SentenceTransformer(
                path, device=str(self.device), model_kwargs=unused
            )
            is_saved_as_it_is = self.layers == [self.model.config.num_hidden_layers]
            if is_saved_as_it_is and self.pooling != ["pooler"]:
                step = transformer[0]
                attribute, _ = next(step.named_children())  # "auto_model" before version 6
                setattr(step, attribute, self.model)
                # what other steps add to the features, such as token_embeddings, is not for a model
                # that refuses what it does not know
                step.model_forward_params = set(inspect.signature(self.model.forward).parameters)
        return transformer

    @property
    def truncate_dim(self) -> int | None:
        """Dimensions of each vector that the last step keeps. None: all. It may be set."""
        if len(self.steps) and isinstance(self.steps[-1], Truncate):
            return self.steps[-1].dimension
        return None

    @truncate_dim.setter
    def truncate_dim(self, dimension: int | None) -> None:
        steps = list(self.steps)
        if self.truncate_dim is not None:
            steps.pop()
        if dimension is not None:
            steps.append(Truncate(dimension))
        self._set_steps(steps)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    @property
    def threads(self) -> int:
        """Threads at work in one pass through the model: torch's."""
        return torch.get_num_threads()

    def weights(self) -> Iterator[Any]:
        """The bytes of all weights, always in the same order."""
        for module in (self.model, self.steps):
            # optimized models have them in another order
            for name, tensor in sorted(module.state_dict().items()):
                yield name.encode()
                yield tensor.detach().cpu().contiguous().view(torch.uint8).numpy()

    def _set_steps(self, steps: Iterable[nn.Module]) -> None:
        """Sets the steps, and `dimension` to that of the vectors behind them."""
        self.steps = nn.Sequential(*steps).to(self.device)
        self.dimension = self.width
        for step in self.steps:
            if isinstance(step, Truncate):
                self.dimension = min(self.dimension, step.dimension)
            elif isinstance(step, Dense):
                if step.linear.in_features != self.dimension:
                    raise ValueError(
                        f"layers and pooling give vectors of {self.dimension} dimensions, but the "
                        f"Dense layer of this model takes {step.linear.in_features}."
                    )
                self.dimension = step.linear.out_features


def _check_poolings(pooling: str | Sequence[str], model: BertModel) -> list[str]:
    """The poolings as a list.

    Raises:
        ValueError: An unknown one, none at all, or "pooler" for a model without it.
    """
    poolings = [pooling] if isinstance(pooling, str) else list(pooling)
    unknown = [name for name in poolings if name not in POOLINGS]
    if unknown or not poolings:
        raise ValueError(
            f"pooling should be one or more of {', '.join(POOLINGS)}, not {unknown or pooling!r}."
        )
    if "pooler" in poolings and model.pooler is None:
        raise ValueError(
            'pooling="pooler" needs a model with a pooler: BertModel(config, '
            "add_pooling_layer=True)."
        )
    return poolings
