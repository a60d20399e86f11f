"""SentenceEmbedder: texts to vectors, sorted by length and packed without padding."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.checkpoints.source import Source
from minibert.devices import resolve_device
from minibert.encoders.pooling import (
    POOLINGS,
    Layers,
    Pooling,
    combine_layers,
    pool,
    resolve_layers,
)
from minibert.encoders.sentence_folder import (
    SentenceFolder,
    read_sentence_folder,
    write_sentence_folder,
)
from minibert.encoders.steps import Dense, Truncate, load_steps, without_truncate, write_dense
from minibert.encoders.text_encoder import TextEncoder
from minibert.encoders.token_rows import Rows, Settings, Vectors
from minibert.extras import need
from minibert.files import replacing
from minibert.inference.batching import Report
from minibert.inference.optimize import Precision, optimize, resolve_precision
from minibert.inference.packing import run_packed
from minibert.layouts import Layout, PackedLayout
from minibert.model import BertModel
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    from minibert.encoders.onnx import OnnxEmbedder
    from minibert.tokenization.encoding import BatchEncoding

_CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- sentence-similarity
- feature-extraction
- minibert
---

# A sentence embedder

Turns texts of up to {max_length} tokens into vectors of {dimension} dimensions ({similarity}).
Pooling: {pooling}.

```python
from minibert import SentenceEmbedder  # or: from sentence_transformers import SentenceTransformer

embedder = SentenceEmbedder.from_pretrained("path/of/this/folder")  # or: SentenceTransformer(...)
vectors = embedder.encode(["I love Korea", "Paris"])
```
"""


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
        if tokenizer is None:
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
        self.pooling = [pooling] if isinstance(pooling, str) else list(pooling)
        unknown = [name for name in self.pooling if name not in POOLINGS]
        if unknown or not self.pooling:
            raise ValueError(
                f"pooling should be one or more of {', '.join(POOLINGS)}, not "
                f"{unknown or pooling!r}."
            )
        if "pooler" in self.pooling and model.pooler is None:
            raise ValueError(
                'pooling="pooler" needs a model with a pooler: BertModel(config, '
                "add_pooling_layer=True)."
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
            from minibert.encoders.onnx import OnnxEmbedder, refuse_settled

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
        precision_name = resolve_precision(precision)
        # it has a pooler only where that is used: sentence models come without one
        with_pooler = "pooler" in folder.pooling
        model = BertModel.from_pretrained(
            folder.transformer,
            dtype=torch.float32,
            add_pooling_layer=with_pooler,
            device=device,
            mmap=mmap,
        )
        depth = model.config.num_hidden_layers
        indices, weights = resolve_layers(
            "last" if layers is None else layers, depth, layer_weights
        )
        if max(indices) < depth and not with_pooler:
            del model.encoder.layer[max(indices) :]
            model.config = model.config.replace(num_hidden_layers=max(indices))
        if precision_name is not None:
            model = optimize(model, precision=precision_name)
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
            prompts=folder.prompts if prompts is None else prompts,
            default_prompt_name=default_prompt_name or folder.default_prompt_name,
            include_prompt=folder.include_prompt,
        )
        embedder.precision = precision_name
        embedder.model_name = str(source)
        embedder.similarity_fn_name = folder.similarity_fn_name  # type: ignore[assignment]
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

        def forward(input_ids: Tensor, layout: PackedLayout, types: Tensor | None) -> Tensor:
            return compute(input_ids, None, types, layout, settings.skip).float()

        parts = run_packed(
            self.model,
            forward,
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
            vectors: Vectors = self.steps(tensor).cpu().numpy()
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
        bert, pooling, steps = self._portable()
        target = Path(path)
        target.mkdir(parents=True, exist_ok=True)
        folder = SentenceFolder(
            Source(target),
            pooling,
            include_prompt=self.include_prompt,
            truncate_dim=self.truncate_dim,
            max_length=self.max_length,
            prompts=self.prompts,
            default_prompt_name=self.default_prompt_name,
            similarity_fn_name=self.similarity_fn_name,
        )
        kinds = [type(step).__name__ for step in steps]
        places = write_sentence_folder(folder, target, bert.config.hidden_size, kinds)
        for step, place in zip(steps, places, strict=True):
            if isinstance(step, Dense):
                write_dense(step, place)
        self.tokenizer.save_pretrained(target)
        bert.save_pretrained(target)
        card = _CARD.format(
            max_length=self.max_length,
            dimension=self.dimension,
            similarity=self.similarity_fn_name,
            pooling=", ".join(pooling),
        )
        with replacing(target / "README.md") as temporary:
            temporary.write_text(card, encoding="utf-8")

    def _portable(self) -> tuple[BertModel, list[str], list[nn.Module]]:
        """The BERT, the poolings and the steps in terms of the format.

        It has only the vectors of the last layer, and no pooler. A truncation at the end is a
        setting there.

        Raises:
            ValueError: The format cannot express them.
        """
        if len(self.layers) > 1 or self.layer_weights not in (None, [1.0]):
            raise ValueError(
                "a sentence-transformers folder has the vectors of one layer, but this embedder "
                f"combines {self.layers}."
            )
        config = self.model.config
        steps = list(self.steps)
        if self.truncate_dim is not None:
            steps.pop()
        pooling = self.pooling
        depth = self.layers[0]
        if pooling == ["pooler"]:
            pooler: Any = self.model.pooler
            with torch.device("meta"):  # the weights are the pooler's
                dense = Dense(1, 1, True, "Tanh")
            dense.linear = pooler.dense
            steps.insert(0, dense)
            pooling = ["cls"]
            depth = config.num_hidden_layers
        elif "pooler" in pooling:
            raise ValueError(
                "a sentence-transformers folder has no pooler beside other poolings, but this "
                f"embedder has {pooling}."
            )
        with torch.device("meta"):
            bert = BertModel(config.replace(num_hidden_layers=depth), add_pooling_layer=False)
        weights = self.model.state_dict()
        bert.load_state_dict({name: weights[name] for name in bert.state_dict()}, assign=True)
        return bert, pooling, without_truncate(steps, self.width)

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
                    raise ValueError(
                        f"layers and pooling give vectors of {self.dimension} dimensions, but the "
                        f"Dense layer of this model takes {step.linear.in_features}."
                    )
                self.dimension = step.linear.out_features
