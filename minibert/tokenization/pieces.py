"""The pieces of a vocabulary by their ids.

>>> from minibert import BertTokenizer
>>> pieces_by_id(BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]))[-1]
'a'
"""

from __future__ import annotations

from typing import Any


def pieces_by_id(tokenizer: Any) -> list[str | None]:
    """The piece of each id of a vocabulary.

    None for an id without one: of a piece that a vocabulary lists twice, the last line counts.

    Args:
        tokenizer: One of minibert or of transformers.
    """
    pieces: list[str | None] = [None] * len(tokenizer)
    for piece, piece_id in tokenizer.get_vocab().items():
        if piece_id < len(pieces):
            pieces[piece_id] = piece
    return pieces
