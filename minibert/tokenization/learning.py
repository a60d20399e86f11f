"""A WordPiece vocabulary from text, by the `tokenizers` library (Schuster and Nakajima 2012)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from minibert.extras import need
from minibert.tokenization.basic import BasicTokenizer


def learn_vocabulary(
    texts: Iterable[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    min_frequency: int = 2,
    **options: Any,
) -> list[str]:
    """Learns the pieces that a text is made of.

    Args:
        texts: sentences or documents.
        vocab_size: upper limit of the vocabulary's size, special tokens counted.
        special_tokens: the first tokens of the vocabulary.
        do_lower_case: as for the tokenizer that will use it.
        strip_accents: as for the tokenizer.
        tokenize_chinese_chars: as for the tokenizer.
        min_frequency: how often two pieces must stand side by side to become one.
        options: further arguments of the library's `WordPieceTrainer`.

    Returns:
        The tokens in the order of their ids; the same texts give the same ones.

    Raises:
        ImportError: `tokenizers` is not installed.

    >>> learn_vocabulary(["low lower lowest"], 20, ["[UNK]"])[-3:]
    ['##ow', 'low', 'lowe']
    """
    library = need("tokenizers", "train", "Learning a vocabulary")
    texts = list(texts)
    learner = library.Tokenizer(library.models.WordPiece())
    learner.normalizer = library.normalizers.BertNormalizer(
        handle_chinese_chars=tokenize_chinese_chars, strip_accents=strip_accents, lowercase=do_lower_case
    )
    learner.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    basic = BasicTokenizer(do_lower_case, strip_accents, tokenize_chinese_chars)
    letters = _letters(texts, basic, max_letters=(vocab_size - len(special_tokens)) // 2)
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        # with ids of their own letters break ties always in the same way: the same texts give the same vocabulary
        special_tokens=list(dict.fromkeys([*special_tokens, *letters])),
        limit_alphabet=len({letter[-1] for letter in letters}),
        **{"show_progress": False, **options},
    )
    learner.train_from_iterator(texts, trainer)
    return sorted(vocabulary := learner.get_vocab(), key=vocabulary.__getitem__)


def _letters(texts: list[str], basic: BasicTokenizer, max_letters: int) -> list[str]:
    """The pieces that every word can be made of, `c` and `##c`; the most frequent ones if there are too many."""
    words = Counter(word for text in texts for word in basic.words(text))
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for place, letter in enumerate(word):
            counts[f"##{letter}" if place else letter] += count
    frequent = sorted(counts, key=lambda letter: (-counts[letter], letter))
    return sorted(frequent[:max_letters])
