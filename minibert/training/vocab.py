"""A vocabulary file from text; how it is learned is in `minibert.tokenization.learning`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minibert.files import replacing
from minibert.progress import is_watched
from minibert.tokenization.learning import learn_vocabulary

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
        vocab_size: upper limit of the vocabulary's size, special tokens counted.
        lowercase: lower-case the text and strip its accents first; leave it off for Korean, whose syllables
            it would take apart.
        min_frequency: how often a piece must occur.

    Raises:
        ImportError: `tokenizers` is not installed.
    """
    options: dict[str, Any] = {
        "do_lower_case": lowercase,
        "min_frequency": min_frequency,
        "show_progress": is_watched(),
    }
    words = learn_vocabulary(texts, vocab_size, SPECIAL_TOKENS, **options)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "vocab.txt") as temporary:
        temporary.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return folder / "vocab.txt"
