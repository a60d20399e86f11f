"""Reads the training texts: documents of sentences, and single sentences for the teachers.

The checksum of its first line decides whether a document is held back for evaluation. So the same
documents are held back everywhere.
"""

from __future__ import annotations

import csv
import itertools
import lzma
import re
import zlib
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import numpy as np

HELD_BACK = 200  # one of 200 documents is held back
# where a sentence ends. Korean has no capital letters that mark the beginning of the next one.
_ENDS = {
    "en": re.compile(r"(?<=[.!?])[\"')]?\s+(?=[A-Z\"'(])"),
    "ko": re.compile(r"(?<=[.!?])\s+(?=\D)"),
}


def documents(path: Path) -> Iterator[list[str]]:
    """Yields the documents of a compressed text.

    A line is a paragraph, and an empty line separates documents.
    """
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for is_text, lines in itertools.groupby(file, key=lambda line: bool(line.strip())):
            if is_text:
                yield [line.strip() for line in lines]


def lines_as_documents(path: Path) -> Iterator[list[str]]:
    """Yields each line of a compressed text as a document."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from ([line.strip()] for line in file if line.strip())


def is_held_back(document: list[str]) -> bool:
    """Returns whether a document is held back for evaluation."""
    return zlib.crc32(document[0].encode()) % HELD_BACK == 0


def sentences(document: Iterable[str], language: str) -> list[str]:
    """Splits the paragraphs of a document into sentences."""
    return [s for paragraph in document for s in _ENDS[language].split(paragraph) if s.strip()]


def split(
    path: Path, language: str, held_back: bool, prompts: Container[str] = ()
) -> Iterator[list[str]]:
    """Yields the documents of a text as lists of sentences.

    Args:
        path: Path of the compressed text.
        language: "en" or "ko".
        held_back: Whether to yield the documents that are held back, or all others.
        prompts: Sentences to leave out of the other documents.
    """
    read = lines_as_documents if path.name.startswith("nsmc") else documents
    for document in read(path):
        if is_held_back(document) != held_back:
            continue
        kept = sentences(document, language)
        if not held_back:
            kept = [sentence for sentence in kept if sentence not in prompts]
        if kept:
            yield kept


class Prompts:
    """Prompts of the evaluation, which must not be part of the training texts.

    Args:
        texts: Sentences with one `[MASK]` each.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.with_gap = {self._words(text) for text in texts}
        self.lengths = {len(words) for words in self.with_gap}

    @staticmethod
    def _words(text: str) -> tuple[str, ...]:
        return tuple(re.findall(r"\[mask\]|\w+", text.lower()))

    def __contains__(self, sentence: str) -> bool:
        """Return whether a sentence is a prompt with any word in place of the mask."""
        if sentence.count(" ") + 1 not in self.lengths:
            return False
        words = self._words(sentence)
        gaps = ((*words[:n], "[mask]", *words[n + 1 :]) for n in range(len(words)))
        return any(words in self.with_gap for words in gaps)


# --- single sentences ---


def _table(path: Path, *columns: int) -> list[str]:
    opened = (
        lzma.open(path, "rt", encoding="utf-8")
        if path.suffix == ".xz"
        else path.open(encoding="utf-8")
    )
    with opened as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row[column].strip() for row in rows for column in columns if len(row) > column]


def _short(path: Path, language: str, words: tuple[int, int]) -> list[str]:
    """Returns sentences of the training documents with a number of words in a range."""
    shortest, longest = words
    read = lines_as_documents if "nsmc" in path.name else documents
    result = []
    for document in read(path):
        if is_held_back(document):
            continue
        for sentence in sentences(document, language):
            if shortest <= sentence.count(" ") + 1 <= longest:
                result.append(sentence)
    return result


def parallel(data: Path, column: int, sources: set[str]) -> list[str]:
    """Returns one side of the translations from some sources: 0 is English, 1 is Korean."""
    with lzma.open(data / "parallel" / "ko-en-sources.txt.xz", "rt", encoding="utf-8") as file:
        labels = file.read().splitlines()
    texts = _table(data / "parallel" / "ko-en.tsv.xz", column)
    return [text for text, label in zip(texts, labels, strict=True) if label in sources]


def _korsts_train(data: Path) -> list[str]:
    """Returns sentences of KorSTS train without the lines that its test set has as well."""
    in_test = set(
        (data / "korsts" / "train-lines-in-test-wide.txt").read_text(encoding="utf-8").split()
    )
    lines = (data / "korsts" / "sts-train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for number, line in enumerate(lines, 1) if str(number) not in in_test]
    return [text.strip() for row in rows for text in row[5:7]]


GENERAL = {"tatoeba", "news", "ntrex", "jhe", "ud-pud"}


def teacher_sentences(data: Path, language: str, prompts: Prompts, seed: int = 0) -> list[str]:
    """Returns shuffled sentences for the teachers, without those of the evaluation sets."""
    rng = np.random.default_rng(seed)

    def some(texts: list[str], count: int) -> list[str]:
        texts = list(dict.fromkeys(texts))
        return [texts[i] for i in rng.permutation(len(texts))[:count]]

    if language == "en":
        english = data / "english"
        chosen = parallel(data, 0, GENERAL)
        chosen += some(parallel(data, 0, {"python-docs", "gnome-docs", "bible"}), 4000)
        chosen += some(_short(english / "everyday.txt.xz", "en", (4, 40)), 60000)
        chosen += some(_short(english / "wikipedia.txt.xz", "en", (5, 35)), 50000)
        chosen += some(_short(english / "books.txt.xz", "en", (4, 30)), 10000)
        chosen += some(_short(english / "textbooks.txt.xz", "en", (5, 35)), 6000)
        measured = set(_table(data / "stsb" / "stsb-dev.csv", 5, 6))
    else:
        korean = data / "korean"
        chosen = parallel(data, 1, GENERAL) + _korsts_train(data)
        chosen += some(parallel(data, 1, {"python-docs", "gnome-docs", "bible"}), 4000)
        chosen += _table(data / "klue" / "sts-train.tsv.xz", 1, 2)
        chosen += some(_table(data / "klue" / "nli-train.tsv.xz", 3, 4), 40000)
        chosen += some(_table(data / "klue" / "ynat-train.tsv.xz", 2), 5000)
        chosen += some(_short(korean / "nsmc-reviews.txt.xz", "ko", (3, 25)), 15000)
        chosen += some(_short(korean / "wikipedia.txt.xz", "ko", (4, 25)), 40000)
        measured = set(_table(data / "korsts" / "sts-dev.tsv", 5, 6))
    distinct = dict.fromkeys(chosen)
    kept = [text for text in distinct if text not in measured and text not in prompts]
    return [kept[i] for i in rng.permutation(len(kept))]
