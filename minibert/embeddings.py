"""Embeddings: what goes into the first layer, the sum of three vectors for each token (paper, section 3)."""

import torch
from torch import Tensor, nn

from minibert.compat.tracing import is_traced
from minibert.config import BertConfig


class BertEmbeddings(nn.Module):
    """Word + segment + position embedding of each token, normalised.

    E(token) = LayerNorm(word[input_id] + token_type[segment] + position[place in the sequence])
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
        """All positions there are, (1, max_position_embeddings)."""
        return torch.arange(
            self.position_embeddings.num_embeddings, device=self.LayerNorm.weight.device
        )[None]

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Embeds tokens.

        Args:
            input_ids: (batch, seq), or (tokens,) when packed; None when `inputs_embeds` is given.
            token_type_ids: segment of each token, shapes as of `position_ids`; None: all in segment 0.
            position_ids: place of each token, same shape or (1, seq) or (seq,); None: 0, 1, 2, ...
            inputs_embeds: word embeddings to use instead of looking up `input_ids`, (batch, seq, hidden).

        Returns:
            The first hidden states, (batch, seq, hidden) or (tokens, hidden).

        Raises:
            ValueError: an id, segment or position that its embedding has no row for, or of another type or shape.
        """
        words = (
            _look_up("input_ids", self.word_embeddings, input_ids)
            if inputs_embeds is None
            else inputs_embeds
        )
        tokens = words.shape[:-1]  # (batch, seq) or (tokens,)
        if position_ids is None:
            position_ids = torch.arange(tokens[-1], device=words.device)
            if not is_traced(words) and tokens[-1] > self.position_embeddings.num_embeddings:
                raise ValueError(
                    f"A sequence of {tokens[-1]} tokens is longer than max_position_embeddings "
                    f"({self.position_embeddings.num_embeddings}): pass truncation=True to the tokenizer."
                )
        if token_type_ids is None:
            token_type_ids = torch.zeros(tokens, dtype=torch.long, device=words.device)
        # the reference adds in this order, and floating-point sums depend on it
        embeddings = words + _look_up(
            "token_type_ids", self.token_type_embeddings, token_type_ids, tokens
        )
        embeddings = embeddings + _look_up(
            "position_ids", self.position_embeddings, position_ids, tokens
        )
        hidden_states: Tensor = self.dropout(self.LayerNorm(embeddings))
        return hidden_states


def _look_up(
    name: str, table: nn.Embedding, ids: Tensor | None, tokens: torch.Size | None = None
) -> Tensor:
    """`table(ids)`, with an error that names the argument and what is wrong with it."""
    if not isinstance(ids, Tensor) or ids.dtype not in (torch.long, torch.int):
        kind = ids.dtype if isinstance(ids, Tensor) else type(ids).__name__
        raise ValueError(f"{name} should be a tensor of whole numbers (torch.long), not {kind}.")
    if tokens is not None and ids.shape not in (
        tokens,
        *((tokens[1:], (1, *tokens[1:])) if len(tokens) > 1 else ()),
    ):
        raise ValueError(
            f"{name} should be of shape {tuple(tokens)} as the tokens are, not {tuple(ids.shape)}."
        )
    try:
        vectors: Tensor = table(ids)
    except IndexError:
        wrong = ids[(ids < 0) | (ids >= table.num_embeddings)][0].item()
        raise ValueError(
            f"{name} holds {wrong}, but the model has {table.num_embeddings} of them (0 to "
            f"{table.num_embeddings - 1}): do tokenizer and model belong together?"
        ) from None
    return vectors
