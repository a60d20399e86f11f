"""Learn a WordPiece vocabulary with the `tokenizers` library (Schuster and Nakajima 2012)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.pipeline import CHUNK
from minibert.util.extras import need


def count_words(texts: Iterable[str], basic: BasicTokenizer) -> Counter[str]:
    """Count the words of texts, which is all that learning needs, however long the texts are.

    Args:
        texts: The texts.
        basic: Splits them into words.
    """
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(CHUNK.findall(text))
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in basic.words(chunk):
            words[word] += count
    return words


def learn_vocabulary(
    words: Counter[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    min_frequency: int = 2,
    **options: Any,
) -> list[str]:
    """Learn the pieces of a vocabulary.

    Args:
        words: The count of each word, as from `count_words`.
        vocab_size: Upper limit of the size of the vocabulary, with special tokens.
        special_tokens: The first tokens of the vocabulary.
        min_frequency: How often two pieces must be neighbors to be merged.
        options: Further arguments of the library's `WordPieceTrainer`.

    Returns:
        The tokens in the order of their ids. The same texts give the same tokens. They are those
        that the library learns behind its `BertNormalizer` and `BertPreTokenizer`, except for their
        order and for pairs of the same frequency, of which the library takes either. At most half
        of them are single letters, which also differs if there are more letters.

    Raises:
        ImportError: `tokenizers` is not installed.

    >>> learn_vocabulary(Counter(["low", "lower", "lowest"]), 20, ["[UNK]"])[-3:]
    ['lo', 'low', 'lowe']
    """
    library = need("tokenizers", "train", "Learning a vocabulary")
    learner = library.Tokenizer(library.models.WordPiece())
    learner.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    # the most frequent of the pieces c and ##c that spell the words
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for letter in letter_pieces(word):
            counts[letter] += count
    by_count = sorted(counts, key=lambda letter: (-counts[letter], letter))
    letters = set(by_count[: (vocab_size - len(special_tokens)) // 2])
    # A word with another letter becomes [UNK] in any case. The library would keep some of these
    # letters by chance.
    spelled: Counter[str] = Counter()
    for word, count in words.items():
        if letters.issuperset(letter_pieces(word)):
            spelled[word] = count
    # Letters with ids of their own break ties always in the same way, so that the same texts give
    # the same vocabulary. As in the library, letters that begin a word come first.
    sorted_letters = sorted(sorted(letters), key=len)
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(dict.fromkeys([*special_tokens, *sorted_letters])),
        **{"show_progress": False, **options},
    )
    # every word as often as it occurs, because the library takes no counts
    batch = 10_000
    repeated = (
        f"{word} " * min(batch, count - start)
        for word, count in spelled.items()
        for start in range(0, count, batch)
    )
    learner.train_from_iterator(repeated, trainer)
    vocabulary: dict[str, int] = learner.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def letter_pieces(word: str) -> list[str]:
    """The pieces of single letters that spell a word."""
    return [word[:1], *(f"##{letter}" for letter in word[1:])]
