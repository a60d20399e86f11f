"""Embeddings: the sum of three vectors for each token.

Devlin et al. 2019, section 3, "Input/Output Representations".

A token of the input is represented by its word, its segment (first or second text of a pair) and
its position. The three are added and not concatenated, so that the model stays hidden_size wide. A
linear layer on a concatenation would add up three projections anyway. A text has at most
max_position_embeddings tokens (512), because each position has a learned vector of its own and the
table ends there.

Next file: attention.py.
"""

import torch
from torch import Tensor, nn

from minibert.config import BertConfig
from minibert.layouts import is_traced


class BertEmbeddings(nn.Module):
    """Word, segment and position embedding of each token, added and normalized.

    h0 = LayerNorm(word[input_id] + token_type[segment] + position[position_id])
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    @property
    def position_ids(self) -> Tensor:
        """All positions, (1, max_position_embeddings)."""
        size = self.position_embeddings.num_embeddings
        return torch.arange(size, device=self.position_embeddings.weight.device)[None]

    # `position_ids` is a buffer in transformers. Code that extends a model to longer sequences
    # assigns it or registers it again, so both accept 0, 1, 2, ...

    @position_ids.setter
    def position_ids(self, value: Tensor) -> None:
        if not torch.equal(value.flatten().cpu(), torch.arange(value.numel(), device="cpu")):
            raise ValueError(
                "embeddings.position_ids should be 0, 1, 2, ... Pass other positions to the "
                "model: model(input_ids, position_ids=...)."
            )

    @property
    def token_type_ids(self) -> Tensor:
        """The default segments, all 0, (1, max_position_embeddings)."""
        return torch.zeros_like(self.position_ids)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """As `nn.Module.register_buffer`, except for the property `position_ids`."""
        if name == "position_ids" and tensor is not None:
            self.position_ids = tensor
        else:
            super().register_buffer(name, tensor, persistent)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Embed tokens.

        Args:
            input_ids: (batch, seq), or (tokens,) when packed. None if `inputs_embeds` is passed.
            token_type_ids: Segment of each token, in a shape that `position_ids` may have. None:
                all in segment 0.
            position_ids: Position of each token, (batch, seq), (1, seq) or (seq,).
                None: 0, 1, 2, ...
            inputs_embeds: Word embeddings to use instead of looking up `input_ids`,
                (batch, seq, hidden).

        Returns:
            The first hidden states h0, (batch, seq, hidden) or (tokens, hidden).

        Raises:
            ValueError: An id has no row in its embedding table, or a tensor has another dtype or
                shape. (A GPU raises its own error for the first.)
        """
        if inputs_embeds is None:
            words = _look_up(self.word_embeddings, input_ids, "input_ids")
        else:
            words = inputs_embeds
        tokens = words.shape[:-1]  # (batch, seq) or (tokens,)
        if token_type_ids is None:
            token_type_ids = torch.zeros(tokens, dtype=torch.long, device=words.device)
        else:
            _check_shape(token_type_ids, tokens, "token_type_ids")
        if position_ids is None:
            position_ids = torch.arange(tokens[-1], device=words.device)  # (seq,)
            self._check_length(words)
        else:
            _check_shape(position_ids, tokens, "position_ids")
        segments = _look_up(self.token_type_embeddings, token_type_ids, "token_type_ids")
        positions = _look_up(self.position_embeddings, position_ids, "position_ids")
        # The reference implementation adds in this order, and floating-point sums depend on it.
        embeddings = words + segments
        embeddings = embeddings + positions  # (..., seq, hidden) + (seq, hidden)
        hidden_states: Tensor = self.dropout(self.LayerNorm(embeddings))
        return hidden_states

    def _check_length(self, words: Tensor) -> None:
        longest = self.position_embeddings.num_embeddings
        seq = words.shape[-2]
        if not is_traced(words) and seq > longest:
            raise ValueError(
                f"The sequence has {seq} tokens, but max_position_embeddings is {longest}. Pass "
                "truncation=True to the tokenizer."
            )


# What to check first if an id has no row in the embedding table of this argument.
_ADVICE = {
    "input_ids": "Are the tokenizer and the model from the same checkpoint?",
    "token_type_ids": "The number of segments is config.type_vocab_size.",
    "position_ids": "Positions count from 0 to config.max_position_embeddings - 1.",
}


def _look_up(table: nn.Embedding, ids: Tensor | None, argument: str) -> Tensor:
    """Return `table(ids)`, (..., hidden), or raise an error that names the argument."""
    if not isinstance(ids, Tensor):
        raise ValueError(
            f"{argument} should be a tensor of integers (torch.long), not {type(ids).__name__}. "
            'Pass what the tokenizer returns with return_tensors="pt" as model(**batch).'
        )
    if ids.dtype not in (torch.long, torch.int):
        raise ValueError(
            f"{argument} should be a tensor of integers (torch.long), not {ids.dtype}."
        )
    try:
        vectors: Tensor = table(ids)
    except IndexError:
        rows = table.num_embeddings
        is_invalid = (ids < 0) | (ids >= rows)
        raise ValueError(
            f"{argument} contains {ids[is_invalid][0].item()}, but the embedding table has {rows} "
            f"rows (valid ids 0 to {rows - 1}). {_ADVICE[argument]}"
        ) from None
    return vectors


def _check_shape(ids: Tensor, tokens: torch.Size, argument: str) -> None:
    """Check that ids have the shape of the tokens. A padded batch may share one row of ids."""
    if not isinstance(ids, Tensor) or ids.shape == tokens:
        return
    is_padded = len(tokens) == 2
    if is_padded and ids.shape in (tokens[1:], (1, *tokens[1:])):
        return
    raise ValueError(
        f"{argument} should have the shape of the tokens, {tuple(tokens)}, not {tuple(ids.shape)}."
    )
