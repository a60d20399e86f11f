"""SentenceEmbedder: texts to vectors, sorted by length and packed without padding.

An embedder is given its model and its tokenizer. Only `from_pretrained`, `save_pretrained` and
`as_sentence_transformer` know folders, and import `embedder_folder` when they are called: turning
texts into vectors needs no files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.encoders.arithmetic.pooling import Layers, combine_layers, pool, resolve_layers
from minibert.encoders.arithmetic.pooling_names import Pooling, pooling_names
from minibert.encoders.arithmetic.steps import Dense, Truncate
from minibert.encoders.encoder_options import (
    EmbedderKeywords,
    EmbedderOptions,
    TextModelKeywords,
    takes,
)
from minibert.encoders.rows.token_rows import Rows, Settings, Vectors
from minibert.encoders.text_encoder import TextEncoder
from minibert.inference.batching import Report
from minibert.inference.packing import run_packed, weights_of
from minibert.layouts import Layout, PackedLayout
from minibert.model import BertModel
from minibert.util.devices import resolve_device
from minibert.util.errors import Argument, ArgumentError

if TYPE_CHECKING:
    from minibert.checkpoints.source import Source
    from minibert.encoders.folders.checkpoint import Checkpoint
    from minibert.encoders.onnx.onnx_embedder import OnnxEmbedder
    from minibert.tokenization.encoding import BatchEncoding
    from minibert.tokenization.tokenizer import BertTokenizer


class SentenceEmbedder(TextEncoder, nn.Module):
    """A BERT, its tokenizer, and how hidden states become one vector for each text.

    ```python
    embedder = SentenceEmbedder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
    vectors = embedder.encode(["I love Korea", "Paris"])     # numpy (2, 384) float32
    ```

    It is an `nn.Module`, because users move, train, hook and wrap embedders like any other model:

    ```
    ids (tokens,) -> hidden states (tokens, hidden) -> pooled (batch, width) -> steps -> (batch, D)
    ```

    What it shares with `OnnxEmbedder` is in `minibert.encoders.text_encoder`.

    Args:
        model: The BERT, used as it is.
        tokenizer: Its tokenizer.
        pooling: One of `minibert.encoders.arithmetic.pooling_names.POOLINGS`, or several whose
            vectors are concatenated.
        layers: Which hidden states are pooled, as in
            `minibert.encoders.arithmetic.pooling.resolve_layers`.
        layer_weights: Weights of these layers in a sum, as in
            `minibert.encoders.arithmetic.pooling.combine_layers`.
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

    model: BertModel
    layers: list[int]
    steps: nn.Sequential

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
        nn.Module.__init__(self)
        if isinstance(model, str | os.PathLike):
            raise TypeError(
                "SentenceEmbedder takes a BertModel and its tokenizer. "
                f"SentenceEmbedder.from_pretrained({model!r}) loads both."
            )
        if tokenizer is None or not isinstance(model, nn.Module):
            raise TypeError(
                "SentenceEmbedder takes a BertModel and its tokenizer. "
                "SentenceEmbedder.from_pretrained(name) loads both."
            )
        config = model.config
        TextEncoder.__init__(
            self,
            tokenizer,
            config.max_position_embeddings,
            max_length,
            prompts,
            default_prompt_name,
            include_prompt,
        )
        self.model = model
        self.pooling = pooling_names(pooling)
        if "pooler" in self.pooling and model.pooler is None:
            raise ArgumentError(
                Argument("pooling", "pooler"),
                "needs a model with a pooler: BertModel(config, add_pooling_layer=True).",
            )
        depth = config.num_hidden_layers
        self.layers, self.layer_weights = resolve_layers(layers, depth, layer_weights)
        self._needs_hidden_states = self.layers != [depth] or self.layer_weights is not None
        self.width = 0  # of a pooled vector
        for name in self.pooling:
            is_one_state = name == "pooler" or self.layer_weights is not None
            self.width += config.hidden_size * (1 if is_one_state else len(self.layers))
        self._set_steps(steps)
        self.eval()

    @overload
    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source | Checkpoint,
        *,
        backend: Literal["onnx"],
        **options: Unpack[TextModelKeywords],
    ) -> OnnxEmbedder: ...
    @overload
    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source | Checkpoint,
        *,
        backend: Literal["torch"] = ...,
        **options: Unpack[EmbedderKeywords],
    ) -> SentenceEmbedder: ...

    @classmethod
    @takes(EmbedderOptions)
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source | Checkpoint,
        *,
        backend: Literal["torch", "onnx"] = "torch",
        **options: Any,
    ) -> SentenceEmbedder | OnnxEmbedder:
        """Loads a sentence-transformers folder as its files say, or any BERT.

        Args:
            name: Folder, bundled model or Hub id, or a checkpoint whose files may have been read.
            backend: "torch", or "onnx" for an `OnnxEmbedder`, which runs what `minibert export` has
                written by ONNX Runtime on the CPU. The graph then settles pooling, layers,
                layer_weights, normalize, truncate_dim, precision and device.
            options: The fields of `minibert.encoders.encoder_options.EmbedderOptions`, which
                describes them.

        Returns:
            The embedder.

        Raises:
            FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
            ValueError: A damaged file, or something in the folder that minibert does not have. The
                error names it.
            TypeError: An option that does not exist.
        """
        from minibert.encoders.folders.embedder_folder import load_embedder

        chosen = EmbedderOptions(**options)
        embedder: SentenceEmbedder | OnnxEmbedder = load_embedder(cls, name, backend, chosen)
        return embedder

    def extra_repr(self) -> str:
        """What the representation says besides the layers."""
        return f"pooling={list(self.pooling)}, max_length={self.max_length}"

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

    def pooled_rows(
        self,
        ids: list[list[int]],
        types: list[list[int]] | None,
        settings: Settings,
        with_steps: bool,
        report: Report | None = None,
    ) -> Vectors:
        """Vectors of rows of token ids, as `TextEncoder` describes it.

        Args:
            ids: Token ids of each row.
            types: Token types of each row.
            settings: How many tokens of a row are not pooled, and of a batch.
            with_steps: Whether the vectors go through the steps.
            report: Progress callback.

        Returns:
            (rows, width), or (rows, D) with the steps.
        """
        compute = self.forward if with_steps else self.pooled

        def run(input_ids: Tensor, layout: PackedLayout, token_types: Tensor | None) -> Tensor:
            return compute(input_ids, None, token_types, layout, settings.skip).float()

        parts = run_packed(
            self.model,
            run,
            ids,
            types,
            sizes=[1] * len(ids),
            batch_tokens=settings.batch_tokens,
            report=report,
        )
        if not parts:
            return np.empty((0, self.dimension if with_steps else self.width), np.float32)
        vectors: Vectors = (parts[0] if len(parts) == 1 else torch.cat(parts)).cpu().numpy()
        return vectors

    def apply_steps(self, pooled: Vectors) -> Vectors:
        """The vectors behind the steps, (N, D).

        Args:
            pooled: Pooled vectors, (N, width).
        """
        tensor = torch.from_numpy(pooled).to(self.device)
        with torch.inference_mode(), torch.autocast(tensor.device.type, enabled=False):
            vectors: Vectors = self.steps(tensor).float().cpu().numpy()
        return vectors

    def normalized(self, vectors: Vectors) -> Vectors:
        """The vectors, L2-normalized as by a `Normalize` among the steps, to the bit.

        Args:
            vectors: (N, D).
        """
        normalized: Vectors = F.normalize(torch.from_numpy(vectors), dim=-1).numpy()
        return normalized

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Tensor]:
        """Features of the tokens of each sequence, (tokens, features), before pooling.

        Args:
            rows: The tokenized texts.
            batch_tokens: Tokens of a batch.
        """

        def run(input_ids: Tensor, layout: PackedLayout, token_types: Tensor | None) -> Tensor:
            features, _ = self.features(input_ids, None, token_types, layout)
            return features.float()

        return run_packed(self.model, run, rows.ids, rows.token_types, batch_tokens=batch_tokens)

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
        from minibert.encoders.folders.embedder_folder import save_embedder

        save_embedder(self, Path(path))

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
        from minibert.encoders.folders.embedder_folder import as_sentence_transformer

        return as_sentence_transformer(self)

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
            yield from weights_of(module)

    def move_to(self, device: Any) -> None:
        """Moves the model to a device, and leaves it there.

        Args:
            device: One device.
        """
        self.to(resolve_device(device))

    def _scores(self, scores: Vectors) -> Tensor:
        return torch.from_numpy(scores)

    def _set_steps(self, steps: Iterable[nn.Module]) -> None:
        """Sets the steps, and `dimension` to that of the vectors behind them."""
        self.steps = nn.Sequential(*steps).to(self.device)
        self.dimension = self.width
        for step in self.steps:
            if isinstance(step, Truncate):
                self.dimension = min(self.dimension, step.dimension)
            elif isinstance(step, Dense):
                if step.linear.in_features != self.dimension:
                    raise ArgumentError(
                        "layers",
                        "and ",
                        Argument("pooling"),
                        f" give vectors of {self.dimension} dimensions, but the "
                        f"Dense layer of this model takes {step.linear.in_features}.",
                    )
                self.dimension = step.linear.out_features
