"""SentenceModel: token ids to one vector for each sequence. `SentenceEmbedder` adds the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from minibert.inference.batching import run_packed
from minibert.layouts import PackedLayout
from minibert.model import BertModel
from minibert.sentences.pooling import POOLINGS, Dense, Layers, Truncate, combine_layers, pool, resolve_layers
from minibert.sentences.rows import Rows, Vectors, merge_windows
from minibert.tokenization.encoding import Encoding


class SentenceModel(nn.Module):
    """A BERT, the layers and the pooling that make one vector of its hidden states, and the steps after that.

    ```
    ids (tokens,)  ->  hidden states (tokens, hidden)  ->  pooled (batch, width)  ->  steps  ->  (batch, dimension)
    ```

    It is an `nn.Module`, because users move, train, hook, wrap and count embedders like any other model. It is not an
    `nn.Sequential` as in sentence-transformers: its parts do not pass dictionaries to each other, so they have names
    (`model`, `pooling`, `steps`) instead of numbers.

    Args:
        model: the BERT; used as it is.
        pooling: one of `minibert.sentences.pooling.POOLINGS`, or several to be put side by side.
        layers: which layers, and
        layer_weights: with what weights; as in `minibert.sentences.pooling.combine_layers`.
        steps: modules that the pooled vectors go through: `Dense`, `Normalize`, `Truncate`.

    Raises:
        ValueError: a pooling or layer that is not there, or vectors that do not fit the first `Dense`.
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
            raise ValueError(f"pooling should be one or more of {', '.join(POOLINGS)}, not {unknown or pooling!r}.")
        if "pooler" in self.pooling and model.pooler is None:
            raise ValueError('pooling="pooler" needs a model with a pooler: BertModel(config, add_pooling_layer=True).')
        depth = model.config.num_hidden_layers
        self.layers, self.layer_weights = resolve_layers(layers, depth, layer_weights)
        self._keep_all = self.layers != [depth]
        self.steps = nn.Sequential(*steps).to(model.device)
        hidden = model.config.hidden_size
        features = hidden * (len(self.layers) if self.layer_weights is None else 1)
        self.width = sum(hidden if name == "pooler" else features for name in self.pooling)
        self.dimension = self.width
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
        self.eval()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def forward(
        self, input_ids: Tensor, layout: PackedLayout, token_type_ids: Tensor | None = None, skip: int = 0
    ) -> Tensor:
        """Vectors of sequences of token ids, with gradients: what training calls.

        Args:
            input_ids: (tokens,), all sequences in a row.
            layout: where each begins and ends.
            token_type_ids: (tokens,); None: all 0.
            skip: tokens at the start of every sequence that pooling leaves out, such as those of a prompt.

        Returns:
            (batch, dimension).
        """
        vectors: Tensor = self.steps(self.pooled(input_ids, layout, token_type_ids, skip))
        return vectors

    def pooled(
        self, input_ids: Tensor, layout: PackedLayout, token_type_ids: Tensor | None = None, skip: int = 0
    ) -> Tensor:
        """Vectors as `forward` gives them, but before the steps: (batch, width)."""
        features, pooler_output = self._features(input_ids, layout, token_type_ids)
        return pool(features, layout.lengths, self.pooling, skip=skip, pooler_output=pooler_output)

    def encode_rows(
        self, rows: Rows, skip: int, batch_tokens: int, report: Callable[[list[int]], object] = lambda batch: None
    ) -> Vectors:
        """Vectors of texts (texts, dimension), without gradients; those of a text's windows are merged.

        Args:
            rows: of all texts.
            skip: as in `forward`.
            batch_tokens: tokens of one pass through the model.
            report: is told the numbers of the rows that are done.
        """
        found = run_packed(
            self.model,
            lambda ids, layout, types: self.pooled(ids, layout, types, skip).float(),
            rows.ids,
            rows.types,
            [1] * len(rows.ids),
            batch_tokens=batch_tokens,
            report=report,
        )
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            pooled = torch.cat(found)
            if len(found) > len(rows.windows):
                pooled = merge_windows(pooled, [len(row) for row in rows.ids], rows.windows)
            vectors: Vectors = self.steps(pooled).cpu().numpy()
        return vectors

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Tensor]:
        """Features of the tokens of each row, (tokens, D), without pooling and steps."""
        return run_packed(
            self.model, lambda *inputs: self._features(*inputs)[0], rows.ids, rows.types, batch_tokens=batch_tokens
        )

    def _features(
        self, input_ids: Tensor, layout: PackedLayout, token_type_ids: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Features of the tokens from the chosen layers, (tokens, D), and the pooler's output."""
        output = self.model(
            input_ids,
            token_type_ids=token_type_ids,
            layout=layout,
            output_hidden_states=self._keep_all,
            return_dict=True,
        )
        if output.hidden_states is not None:
            return combine_layers(output.hidden_states, self.layers, self.layer_weights), output.pooler_output
        return combine_layers([output.last_hidden_state], [0], self.layer_weights), output.pooler_output


def check_finite(vectors: Vectors, texts: Sequence[object]) -> Vectors:
    """The vectors (N, D) of some texts; ValueError naming a text whose vector is not finite."""
    if not (finite := np.isfinite(vectors).all(axis=1)).all():
        text = texts[int(finite.argmin())]
        raise ValueError(f"The vector of {text!r:.60} is not finite: the model's weights are damaged.")
    return vectors


class WordVectors(NamedTuple):
    """The words of a text, where each lies in it (`[start, end)` in characters), and their vectors (words, D)."""

    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: Vectors


def merge_pieces(text: str, encoding: Encoding, states: Tensor, merge: str) -> WordVectors:
    """Merges the states of a text's tokens, (tokens, D), into those of its words.

    Args:
        text: the text.
        encoding: where its tokens lie.
        states: features of the tokens, [CLS] and [SEP] among them.
        merge: "mean" of the pieces of a word, or the "first" of them.
    """
    pieces = [token for token, word in enumerate(encoding.word_ids) if word is not None]
    words = [list(group) for _, group in groupby(pieces, key=lambda token: encoding.word_ids[token])]
    offsets = [(encoding.offsets[word[0]][0], encoding.offsets[word[-1]][1]) for word in words]
    vectors = states[:0]  # for a text without words
    if words:
        vectors = pool(states[pieces], [len(word) for word in words], "mean" if merge == "mean" else "cls")
    return WordVectors([text[start:end] for start, end in offsets], offsets, vectors.cpu().numpy())
