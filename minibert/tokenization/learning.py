"""A WordPiece vocabulary from text, by the `tokenizers` library (Schuster and Nakajima 2012)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from minibert.extras import need
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.pipeline import CHUNK


def count_words(texts: Iterable[str], basic: BasicTokenizer) -> Counter[str]:
    """How often each word occurs: all that learning needs to know of a text, however long it is."""
    words: Counter[str] = Counter()
    for chunk, times in Counter(chunk for text in texts for chunk in CHUNK.findall(text)).items():
        for word in basic.words(chunk):
            words[word] += times
    return words


def learn_vocabulary(
    words: Counter[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    min_frequency: int = 2,
    **options: Any,
) -> list[str]:
    """Learns the pieces that a text is made of.

    Args:
        words: how often each word of the text occurs, as `count_words` counts them.
        vocab_size: upper limit of the vocabulary's size, special tokens counted.
        special_tokens: the first tokens of the vocabulary.
        min_frequency: how often two pieces must stand side by side to become one.
        options: further arguments of the library's `WordPieceTrainer`.

    Returns:
        The tokens in the order of their ids; the same texts give the same ones. They are those that the library
        learns behind its `BertNormalizer` and `BertPreTokenizer`, up to their order and to pairs that are equally
        frequent (the library takes either, by chance), if all letters fit in: here at most half of them are letters.

    Raises:
        ImportError: `tokenizers` is not installed.

    >>> learn_vocabulary(Counter(["low", "lower", "lowest"]), 20, ["[UNK]"])[-3:]
    ['lo', 'low', 'lowe']
    """
    library = need("tokenizers", "train", "Learning a vocabulary")
    learner = library.Tokenizer(library.models.WordPiece())
    learner.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    letters = _letters(words, max_letters=(vocab_size - len(special_tokens)) // 2)
    # a word with another letter is [UNK] whatever is learned, and which letters the library keeps would be chance
    known = Counter(
        {word: count for word, count in words.items() if letters.issuperset(_spelled(word))}
    )
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        # with ids of their own letters break ties always in the same way: the same texts give the same vocabulary; the
        # library, too, has those that begin a word before those inside
        special_tokens=list(dict.fromkeys([*special_tokens, *sorted(sorted(letters), key=len)])),
        **{"show_progress": False, **options},
    )
    learner.train_from_iterator(_repeated(known), trainer)
    return sorted(vocabulary := learner.get_vocab(), key=vocabulary.__getitem__)


def _repeated(words: Counter[str], at_once: int = 10_000) -> Iterator[str]:
    """Every word as often as it occurs: the library takes no counts."""
    for word, count in words.items():
        for start in range(0, count, at_once):
            yield f"{word} " * min(at_once, count - start)


def _letters(words: Counter[str], max_letters: int) -> set[str]:
    """The pieces that every word can be made of, `c` and `##c`; the most frequent ones if there are too many."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for letter in _spelled(word):
            counts[letter] += count
    return set(sorted(counts, key=lambda letter: (-counts[letter], letter))[:max_letters])


def _spelled(word: str) -> list[str]:
    return [word[:1], *(f"##{letter}" for letter in word[1:])]
