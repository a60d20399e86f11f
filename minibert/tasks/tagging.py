"""Tags of words that are already split, as in CoNLL's files: for training and evaluation alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minibert.tasks.readers import TaggedSentence
from minibert.tasks.windows import encode_windows
from minibert.tokenization.tokenizer import BertTokenizer


@dataclass(frozen=True)
class SentenceWindow:
    """A window of a sentence.

    Attributes:
        sentence: The index of the sentence.
        ids: Token ids, (tokens,).
        words: The index of the word that each token represents, else -1, (tokens,).
    """

    sentence: int
    ids: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]


def are_characters(sentences: Sequence[TaggedSentence]) -> bool:
    """Whether all words are single characters, as in KLUE."""
    return all(len(word) == 1 for words, _ in sentences for word in words)


def encode_sentences(
    sentences: Sequence[TaggedSentence],
    tokenizer: BertTokenizer,
    max_length: int,
    by_character: bool,
) -> list[SentenceWindow]:
    """Tokenizes sentences into windows that share a quarter of their tokens.

    A word is represented by its first piece (paper, section 5.3). A word that is in two windows is
    represented in the first one.

    Args:
        sentences: Words and tags.
        tokenizer: The tokenizer.
        max_length: Tokens of a window.
        by_character: The words are characters. The text is joined from them, and each piece
            represents its first character.
    """
    texts: list[Any] = [words for words, _ in sentences]
    if by_character:
        texts = ["".join(words) for words in texts]
    stride = max(0, min(max_length // 4, max_length - 3))
    batch = encode_windows(
        tokenizer, texts, None, max_length, stride, is_split_into_words=not by_character
    )
    windows = []
    seen: set[tuple[int, int]] = set()
    for window, sentence in enumerate(batch["overflow_to_sample_mapping"]):
        ids = np.array(batch["input_ids"][window])
        words = np.full(len(ids), -1)
        places = zip(batch.word_ids(window), batch["offset_mapping"][window], strict=True)
        for position, (word_id, (start, _)) in enumerate(places):
            if word_id is None:
                continue
            word = start if by_character else word_id
            if (sentence, word) not in seen:
                seen.add((sentence, word))
                words[position] = word
        windows.append(SentenceWindow(sentence, ids, words))
    return windows


def tags_of_sentences(
    sentences: Sequence[TaggedSentence],
    windows: Iterable[tuple[int, npt.NDArray[np.int64], Sequence[str]]],
    by_character: bool,
) -> list[list[str]]:
    """A tag for every word.

    Args:
        sentences: Words and tags.
        windows: Of each window the index of its sentence, `words` as in `SentenceWindow`, and a tag
            for each token.
        by_character: As in `encode_sentences`.

    Returns:
        The tags of each sentence. A word without a token has the tag O.
    """
    predictions: list[list[str | None]] = [[None] * len(words) for words, _ in sentences]
    for sentence, words, tags in windows:
        for word, tag in zip(words.tolist(), tags, strict=True):
            if word >= 0:
                predictions[sentence][word] = tag
    return [
        _fill_gaps(words, tags, by_character)
        for (words, _), tags in zip(sentences, predictions, strict=True)
    ]


def _fill_gaps(words: Sequence[str], tags: Sequence[str | None], by_character: bool) -> list[str]:
    if not by_character:
        return [tag or "O" for tag in tags]
    filled: list[str] = []
    for position, tag in enumerate(tags):
        if tag is None and not words[position].isspace():
            tag = _continued(tags[:position])
        filled.append(tag or "")
    # a space continues the name if the next character does; from the end, for several spaces
    for position in reversed(range(len(filled))):
        if not filled[position]:
            next_tag = "".join(filled[position + 1 : position + 2])
            filled[position] = next_tag if next_tag.startswith("I-") else "O"
    return filled


def _continued(tags: Sequence[str | None]) -> str:
    """The tag of a character that begins no piece: it continues its piece."""
    piece_tag = next((tag for tag in reversed(tags) if tag), "O")
    if piece_tag[:2] in ("B-", "I-"):
        return f"I-{piece_tag[2:]}"
    return piece_tag
