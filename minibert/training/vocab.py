"""A WordPiece vocabulary from text, by the `tokenizers` library (Schuster and Nakajima 2012)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minibert.extras import need
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
    learner = need("tokenizers", "train", "Learning a vocabulary").BertWordPieceTokenizer(lowercase=lowercase)
    texts = list(texts)
    letters = _letters(texts, learner, most=(vocab_size - len(SPECIAL_TOKENS)) // 2)
    learner.train_from_iterator(
        texts,
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        # with ids of their own letters break ties always in the same way: the same texts give the same vocabulary
        special_tokens=[*SPECIAL_TOKENS, *letters],
        limit_alphabet=len({letter[-1] for letter in letters}),
        show_progress=False,
    )
    words = sorted(learner.get_vocab().items(), key=lambda word_and_id: word_and_id[1])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "vocab.txt") as temporary:
        temporary.write_text("".join(f"{word}\n" for word, _ in words), encoding="utf-8")
    return folder / "vocab.txt"


def _letters(texts: list[str], learner: Any, most: int) -> list[str]:
    """The pieces that every word can be made of, `c` and `##c`; at `most` so many, the most frequent ones."""
    normalizer, cutter = learner._tokenizer.normalizer, learner._tokenizer.pre_tokenizer
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in cutter.pre_tokenize_str(normalizer.normalize_str(text)))
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for place, letter in enumerate(word):
            counts[f"##{letter}" if place else letter] += count
    frequent = sorted(counts, key=lambda letter: (-counts[letter], letter))
    return sorted(frequent[:most])
