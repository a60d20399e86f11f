"""SentenceModel: token ids to one vector for each sequence. `SentenceEmbedder` adds the texts."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.checkpoints.source import Source
from minibert.checkpoints.tensors import read_tensors
from minibert.files import read_json
from minibert.inference.batching import Report
from minibert.inference.optimize import optimize
from minibert.inference.packing import run_packed
from minibert.layouts import Layout, PackedLayout
from minibert.model import BertModel
from minibert.sentences.folder import SentenceFolder, value_of
from minibert.sentences.pooling import (
    POOLINGS,
    Dense,
    Layers,
    Normalize,
    Truncate,
    activation_name,
    combine_layers,
    merge_windows,
    pool,
    resolve_layers,
)
from minibert.sentences.rows import Rows, Settings, Vectors
from minibert.tokenization.encoding import Encoding


class SentenceModel(nn.Module):
    """A BERT, the layers and the pooling that make one vector of its hidden states, and the steps after that.

    ```
    ids (tokens,)  ->  hidden states (tokens, hidden)  ->  pooled (batch, width)  ->  steps  ->  (batch, dimension)
    ```

    It is an `nn.Module`, because users move, train, hook, wrap and count embedders like any other model. It is not an
    `nn.Sequential` as in sentence-transformers: its parts do not pass dictionaries to each other, so they have names
    (`model`, `pooling`, `steps`) instead of numbers.

    Arguments and errors are those of `SentenceEmbedder`.
    """

    def __init__(
        self,
        model: BertModel,
        pooling: str | Sequence[str] = "mean",
        layers: Layers = "last",
        layer_weights: Sequence[float] | None = None,
        steps: Iterable[nn.Module] = (),
    ) -> None:
        super().__init__()
        self.model = model
        self.pooling = [pooling] if isinstance(pooling, str) else list(pooling)
        if unknown := [name for name in self.pooling if name not in POOLINGS] or not self.pooling:
            raise ValueError(
                f"pooling should be one or more of {', '.join(POOLINGS)}, not {unknown or pooling!r}."
            )
        if "pooler" in self.pooling and model.pooler is None:
            raise ValueError(
                'pooling="pooler" needs a model with a pooler: BertModel(config, add_pooling_layer=True).'
            )
        depth = model.config.num_hidden_layers
        self.layers, self.layer_weights = resolve_layers(layers, depth, layer_weights)
        self._several = self.layers != [depth] or self.layer_weights is not None
        hidden = model.config.hidden_size
        features = hidden * (len(self.layers) if self.layer_weights is None else 1)
        self.width = sum(hidden if name == "pooler" else features for name in self.pooling)
        self._set_steps(steps)
        self.eval()

    def _set_steps(self, steps: Iterable[nn.Module]) -> None:
        self.steps = nn.Sequential(*steps).to(self.device)
        self.dimension = self.width  # of a vector behind the steps so far
        for step in self.steps:
            if isinstance(step, Truncate):
                self.dimension = min(self.dimension, step.dimension)
            elif isinstance(step, Dense):
                if step.linear.in_features != self.dimension:
                    raise ValueError(
                        f"layers and pooling give vectors of {self.dimension} numbers, but the Dense layer of this "
                        f"model takes {step.linear.in_features}."
                    )
                self.dimension = step.linear.out_features

    @property
    def truncate_dim(self) -> int | None:
        """How many numbers of each vector the last step keeps, None: all. It may be set."""
        last = self.steps[-1] if len(self.steps) else None
        return last.dimension if isinstance(last, Truncate) else None

    @truncate_dim.setter
    def truncate_dim(self, size: int | None) -> None:
        others = list(self.steps)[: None if self.truncate_dim is None else -1]
        self._set_steps(others if size is None else [*others, Truncate(size)])

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    @property
    def threads(self) -> int:
        """As many as torch has."""
        return torch.get_num_threads()

    def weights(self) -> Iterator[Any]:
        """See `TextEncoder.weights`."""
        for module in (self.model, self.steps):
            for name, tensor in sorted(
                module.state_dict().items()
            ):  # optimised models have them in another order
                yield name.encode()
                yield tensor.detach().cpu().contiguous().view(torch.uint8).numpy()

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
            input_ids: (batch, seq), as `tokenize` gives them; or (tokens,), all sequences in a row, with a `layout`.
            attention_mask: 1 for tokens, 0 for padding behind them, (batch, seq); None: no padding.
            token_type_ids: like `input_ids`; None: all 0.
            layout: where each of the sequences in a row begins and ends.
            skip: tokens at the start of every sequence that pooling leaves out, such as those of a prompt.

        Returns:
            (batch, dimension).
        """
        vectors: Tensor = self.steps(
            self.pooled(input_ids, attention_mask, token_type_ids, layout, skip)
        )
        return vectors

    def pooled(
        self,
        ids: Tensor,
        mask: Tensor | None,
        types: Tensor | None,
        layout: PackedLayout | None,
        skip: int,
    ) -> Tensor:
        """Vectors as `forward` gives them, but before the steps: (batch, width)."""
        features, pooler_output = self.features(ids, mask, types, layout)
        if layout is None and mask is None:
            mask = torch.ones_like(ids)
        lengths: Any = mask if layout is None else layout.lengths
        return pool(features, lengths, self.pooling, skip=skip, pooler_output=pooler_output)

    def encode_rows(self, rows: Rows, settings: Settings, report: Report | None = None) -> Vectors:
        """See `TextEncoder.encode_rows`; without gradients."""
        in_windows = len(rows.windows) < len(rows.ids)
        vectors_of = self.pooled if in_windows else self.forward

        def forward(ids: Tensor, layout: PackedLayout, types: Tensor | None) -> Tensor:
            return vectors_of(ids, None, types, layout, settings.skip).float()

        sizes, batch_tokens = [1] * len(rows.ids), settings.batch_tokens
        found = run_packed(
            self.model,
            forward,
            rows.ids,
            rows.types,
            sizes,
            batch_tokens=batch_tokens,
            report=report,
        )
        vectors = found[0] if len(found) == 1 else torch.cat(found)
        if in_windows:
            with torch.inference_mode(), torch.autocast(vectors.device.type, enabled=False):
                vectors = self.steps(
                    merge_windows(vectors, [len(row) for row in rows.ids], rows.windows)
                )
        if settings.truncate_dim is not None:
            vectors = vectors[:, : settings.truncate_dim]
        if settings.normalize:
            vectors = F.normalize(vectors, dim=-1)
        array: Vectors = vectors.cpu().numpy()
        return rows.as_given(array)

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Tensor]:
        """See `TextEncoder.token_states`."""

        def forward(ids: Tensor, layout: PackedLayout, types: Tensor | None) -> Tensor:
            return self.features(ids, None, types, layout)[0].float()

        return run_packed(self.model, forward, rows.ids, rows.types, batch_tokens=batch_tokens)

    def features(
        self, ids: Tensor, mask: Tensor | None, types: Tensor | None, layout: Layout | None
    ) -> tuple[Tensor, Tensor | None]:
        """Features of the tokens from the chosen layers, (..., D), and the pooler's output."""
        output = self.model(
            ids, mask, types, layout=layout, output_hidden_states=self._several, return_dict=True
        )
        if output.hidden_states is not None:
            return combine_layers(
                output.hidden_states, self.layers, self.layer_weights
            ), output.pooler_output
        return output.last_hidden_state, output.pooler_output


def load_parts(
    folder: SentenceFolder,
    layers: Layers,
    layer_weights: Sequence[float] | None,
    normalize: bool | None,
    precision: str | None,
    **options: Any,
) -> dict[str, Any]:
    """Arguments of a `SentenceModel`: the BERT of a folder, as far as the chosen layers reach, and what follows it.

    Arguments and errors are those of `SentenceEmbedder.from_pretrained`; others are the folder's.
    """
    modules = list(folder.modules)
    while (
        normalize is not None and modules and modules[-1][0] == "Normalize"
    ):  # one before a Dense stays
        modules.pop()
    steps: list[nn.Module] = [
        _read_dense(where) if kind == "Dense" else Normalize() for kind, where in modules
    ]
    if folder.truncate_dim is not None:
        steps.append(Truncate(folder.truncate_dim))
    if normalize:
        steps.append(Normalize())
    # with its pooler only where that is used: sentence models come without one
    options = {"dtype": torch.float32, "add_pooling_layer": "pooler" in folder.pooling, **options}
    model = BertModel.from_pretrained(folder.transformer, **options)
    numbers, weights = resolve_layers(layers, model.config.num_hidden_layers, layer_weights)
    if "pooler" not in folder.pooling and max(numbers) < model.config.num_hidden_layers:
        del model.encoder.layer[max(numbers) :]
        model.config = model.config.replace(num_hidden_layers=max(numbers))
    if precision is not None:
        model = optimize(model, precision=precision)
    return {"model": model, "layers": numbers, "layer_weights": weights, "steps": steps}


def _read_dense(source: Source) -> Dense:
    path = source.require("config.json")
    config = read_json(path)
    if config.get("use_residual"):
        raise ValueError(
            f"{path} asks for a Dense with use_residual, which minibert does not have."
        )
    activation = activation_name(
        path, value_of(path, config, "activation_function", str, "torch.nn.Tanh")
    )
    inputs, outputs = (
        value_of(path, config, size, int, 0) for size in ("in_features", "out_features")
    )
    bias: bool = value_of(path, config, "bias", bool, True)
    weights = read_tensors(source)
    expected = {"linear.weight": (outputs, inputs), **({"linear.bias": (outputs,)} if bias else {})}
    received = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if received != expected:
        raise ValueError(f"{path.parent} should hold the tensors {expected}, not {received!s:.80}.")
    with torch.device("meta"):  # the numbers come from the file
        dense = Dense(inputs, outputs, bias, activation)
    dense.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, assign=True)
    return dense


class WordVectors(NamedTuple):
    """The words of a text, where each lies in it (`[start, end)` in characters), and their vectors (words, D)."""

    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: Vectors


def merge_pieces(text: str, encoding: Encoding, states: Tensor, merge: str) -> WordVectors:
    """Merges the states of a text's tokens, (tokens, D), into those of its words: their "mean", or the "first"."""
    states = torch.as_tensor(states)
    pieces = [token for token, word in enumerate(encoding.word_ids) if word is not None]
    words = [
        list(group) for _, group in groupby(pieces, key=lambda token: encoding.word_ids[token])
    ]
    offsets = [(encoding.offsets[word[0]][0], encoding.offsets[word[-1]][1]) for word in words]
    vectors = states[:0]  # for a text without words
    if words:
        vectors = pool(
            states[pieces], [len(word) for word in words], "mean" if merge == "mean" else "cls"
        )
    return WordVectors([text[start:end] for start, end in offsets], offsets, vectors.cpu().numpy())
