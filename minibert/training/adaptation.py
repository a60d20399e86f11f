"""A checkpoint with another vocabulary: the embeddings are carried over piece by piece."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minibert.tokenization.pieces import pieces_by_id
from minibert.tokenization.tokenizer import BertTokenizer


def same_vocabulary(first: BertTokenizer, second: BertTokenizer) -> bool:
    """Whether two tokenizers have the same ids for the same pieces."""
    return first.get_vocab() == second.get_vocab()


@torch.no_grad()
def adapt_vocabulary(model: Any, old: BertTokenizer, new: BertTokenizer) -> None:
    """Gives a model another vocabulary, for training on text of another domain.

    Pieces that both vocabularies have keep their embeddings. A new piece starts from the mean of
    the old pieces that it is split into, or from the mean of all if the old vocabulary cannot spell
    it. The decoder's bias follows.

    Args:
        model: A model with word embeddings, changed in place.
        old: Its tokenizer.
        new: The tokenizer that it should have.
    """
    sources = [[] if piece is None else _source_ids(piece, old, new) for piece in pieces_by_id(new)]
    embeddings = model.get_input_embeddings().weight.clone()[: len(old)]
    decoder = model.get_output_embeddings()
    bias = None
    if decoder is not None and decoder.bias is not None:
        bias = decoder.bias.clone()[: len(old)]
    model.resize_token_embeddings(len(new))
    table = model.get_input_embeddings()
    table.weight.copy_(_means(embeddings, sources))
    if bias is not None:
        model.get_output_embeddings().bias.copy_(_means(bias, sources))
    table.padding_idx = new.pad_token_id
    model.config.pad_token_id = new.pad_token_id


def _source_ids(piece: str, old: BertTokenizer, new: BertTokenizer) -> list[int]:
    """Return the ids of the old pieces that a new piece starts from.

    The list is empty if the old vocabulary cannot spell the piece.
    """
    vocabulary = old.get_vocab()
    if piece in vocabulary:
        return [vocabulary[piece]]
    if piece in new.all_special_tokens:
        return []
    ids = old.convert_tokens_to_ids(old.tokenize(piece.removeprefix("##")))
    return [token_id for token_id in ids if token_id != old.unk_token_id]


def _means(rows: Tensor, sources: list[list[int]]) -> Tensor:
    """The mean of the source rows of each piece, (pieces, ...)."""
    overall = rows.mean(0)
    return torch.stack([rows[ids].mean(0) if ids else overall for ids in sources])
