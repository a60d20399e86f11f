"""A WordPiece vocabulary from text, by the `tokenizers` library (Schuster and Nakajima 2012)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from minibert.files import replacing

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def train_vocabulary(
    texts: Iterable[str],
    folder: str | os.PathLike[str],
    *,
    vocab_size: int = 30000,
    lowercase: bool = True,
    min_frequency: int = 2,
) -> Path:
    """Learns a vocabulary and writes `folder/vocab.txt`, which `BertTokenizer.from_pretrained(folder)` reads.

    Args:
        texts: sentences or documents.
        folder: made when it does not exist.
        vocab_size: most word pieces, special tokens counted.
        lowercase: lower-case the text and strip its accents first; leave it off for Korean, whose syllables
            that would take apart.
        min_frequency: a piece must be found so often.

    Raises:
        ImportError: `tokenizers` is not installed.
    """
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError:
        raise ImportError("Learning a vocabulary needs tokenizers: pip install 'minibert[train]'.") from None

    learner = BertWordPieceTokenizer(lowercase=lowercase)
    learner.train_from_iterator(
        texts,
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    words = sorted(learner.get_vocab().items(), key=lambda word_and_id: word_and_id[1])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "vocab.txt") as temporary:
        temporary.write_text("".join(f"{word}\n" for word, _ in words), encoding="utf-8")
    return folder / "vocab.txt"
