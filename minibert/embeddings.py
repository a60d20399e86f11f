"""Embeddings: the sum of three vectors for each token.

Devlin et al. 2019, section 3, "Input/Output Representations".

A token of the input is represented by its word, its segment (first or second text of a pair) and
its position. Without the position, BERT could not tell "dog bites man" from "man bites dog",
because attention treats tokens as a set. The three are added and not concatenated, so that the
model stays hidden_size wide. A linear layer on a concatenation would add up three projections
anyway. A text has at most max_position_embeddings tokens (512), because each position has a learned
vector of its own and the table ends there.

Next file: attention.py.
"""

import torch
from torch import Tensor, nn

from minibert.compat.model_parts import EmbeddingBuffers
from minibert.config import BertConfig
from minibert.layouts import UNMASKED, Layout
from minibert.parts import own_embeddings


class BertEmbeddings(EmbeddingBuffers):
    """Word, segment and position embedding of each token, added and normalized.

    h0 = dropout(LayerNorm(word[input_id] + token_type[segment] + position[position_id]))

    LayerNorm(x) = gamma (x - mean) / sqrt(variance + eps) + beta, with mean and variance over the
    hidden dimensions of each token. `EmbeddingBuffers` is for tools for transformers, and
    `own_embeddings` checks the ids. Neither adds a computation.
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

    @own_embeddings
    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        *,
        layout: Layout = UNMASKED,
    ) -> Tensor:
        """Embed tokens.

        Args:
            input_ids: (batch, seq), or (tokens,) when packed. None if `inputs_embeds` is passed.
            token_type_ids: Segment of each token, 0 or 1, (batch, seq), (1, seq) or (seq,), or
                (tokens,) when packed. None: all in segment 0.
            position_ids: Position of each token, in the same shapes. None: 0, 1, 2, ... in each
                sequence.
            inputs_embeds: Word embeddings to use instead of looking up `input_ids`,
                (batch, seq, hidden), or (tokens, hidden) when packed.
            layout: Where sequences begin and end. UNMASKED: each row is a sequence.

        Returns:
            The first hidden states h0, (batch, seq, hidden) or (tokens, hidden).

        Raises:
            ValueError: An id has no row in its embedding table, or a tensor has another dtype or
                shape. (A GPU raises its own error for the first.)
        """
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        tokens = words.shape[:-1]  # (batch, seq) or (tokens,)
        if token_type_ids is None:
            token_type_ids = torch.zeros(tokens, dtype=torch.long, device=words.device)
        if position_ids is None:
            position_ids = layout.position_ids(words.device, tokens=tokens)
        # The reference implementation adds in this order, and floating-point sums depend on it.
        embeddings = words + self.token_type_embeddings(token_type_ids)
        embeddings = embeddings + self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(embeddings))
