"""Learn a vocabulary from files. The algorithm is in `minibert.tokenization.learning`."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain

import numpy as np

from minibert.text.read import Part, parts_of, read_part
from minibert.text.table import Table
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.learning import count_words, learn_vocabulary, letter_pieces
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count
from minibert.util.errors import Argument, Message
from minibert.util.progress import counted, is_watched, tell

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PART_BYTES = 1 << 22  # of text that a process counts at a time
MAX_WORDS = 5_000_000  # distinct words; above it, those that occurred once are dropped
MAX_UNREAD = 0.01  # share of the words that may become [UNK] without a notice
HANGUL_LETTERS = re.compile("[\u1100-\u11ff]")


def train_vocabulary(
    texts: Iterable[str] | Counter[str],
    folder: str | os.PathLike[str],
    *,
    vocab_size: int = 30000,
    lowercase: bool = True,
    min_frequency: int = 2,
) -> BertTokenizer:
    """Learn a vocabulary and save its tokenizer.

    `BertTokenizer.from_pretrained(folder)` reads it.

    Args:
        texts: Sentences or documents, or the result of `count_words_of_files`.
        folder: Folder of the tokenizer. It is created if it does not exist.
        vocab_size: Maximum size of the vocabulary, including special tokens.
        lowercase: Lowercase the text and strip its accents first. Pass False for Korean, whose
            syllables this would decompose.
        min_frequency: Minimum number of occurrences of a piece.

    Raises:
        TypeError: `texts` is a single string.
        ImportError: `tokenizers` is not installed.
        ValueError: `vocab_size` has no room for letters beside the special tokens.
    """
    if isinstance(texts, str):  # whose characters would be the texts
        raise TypeError(f"texts should be a list of texts, not the string {texts!r:.80}.")
    check_count("vocab_size", vocab_size, minimum=len(SPECIAL_TOKENS) + 2)  # and some letters
    check_count("min_frequency", min_frequency)
    if isinstance(texts, Counter):
        words = texts
    else:
        words = count_words(texts, BasicTokenizer(lowercase))
    pieces = learn_vocabulary(
        words,
        vocab_size,
        SPECIAL_TOKENS,
        min_frequency=min_frequency,
        show_progress=bool(is_watched()),
    )
    if lowercase and any(map(HANGUL_LETTERS.search, words)):
        tell(
            "notice: the syllables of Hangul are split into letters, because lower case also "
            "strips accents. Learn a cased vocabulary for Korean (--cased)."
        )
    known = set(pieces)
    unread = sum(
        count for word, count in words.items() if not known.issuperset(letter_pieces(word))
    )
    if unread > MAX_UNREAD * words.total():
        notice = f"notice: {unread / words.total():.1%} of the words become [UNK], because their "
        tell(Message(notice, "letters have no room: raise ", Argument("vocab_size"), "."))
    tokenizer = BertTokenizer(pieces, do_lower_case=lowercase)
    tokenizer.save_pretrained(folder)
    return tokenizer


def count_words_of_files(
    sources: Iterable[str],
    *,
    table: Table | None = None,
    lowercase: bool = True,
    max_bytes: int | None = None,
) -> Counter[str]:
    """Count the words of texts in parallel, in a limited amount of memory.

    Args:
        sources: Files, folders or URIs, as `minibert.text.read` takes them.
        table: How the files are read. None: by their endings, with the text in the column "text".
        lowercase: As in `train_vocabulary`.
        max_bytes: Read only about this much text, sampled from all files. None: all of it.
    """
    parts = list(
        chain.from_iterable(parts_of(source, table, PART_BYTES).values() for source in sources)
    )
    if max_bytes is not None:
        part_count = max(1, max_bytes // PART_BYTES)
        if len(parts) > part_count:
            parts = [parts[n] for n in np.linspace(0, len(parts) - 1, part_count).astype(int)]
    count = partial(_count_part, table=table, lowercase=lowercase)
    words: Counter[str] = Counter()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as processes:
        counts = map(count, parts) if len(parts) == 1 else processes.map(count, parts)
        for words_of_part in counted(counts, "parts"):
            words += words_of_part
            if len(words) > MAX_WORDS:
                words = Counter({word: times for word, times in words.items() if times > 1})
    return words


def _count_part(part: Part, table: Table | None, lowercase: bool) -> Counter[str]:
    texts = (row.text for row in read_part(part, table))
    return count_words(texts, BasicTokenizer(lowercase))
