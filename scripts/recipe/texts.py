"""Texts: documents of sentences for words and pairs, single sentences for the teacher of sentences.

A document is held back, for measuring, if its first line's checksum says so: the same ones wherever it is read.
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

HELD_BACK = 200  # one document of so many
# where a sentence ends: in Korean nothing about the next letter says that it begins another
_ENDS = {
    "en": re.compile(r"(?<=[.!?])[\"')]?\s+(?=[A-Z\"'(])"),
    "ko": re.compile(r"(?<=[.!?])\s+(?=\D)"),
}


def documents(path: Path) -> Iterator[list[str]]:
    """Documents of a compressed text: a paragraph a line, an empty line between documents."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for is_text, lines in itertools.groupby(file, key=lambda line: bool(line.strip())):
            if is_text:
                yield [line.strip() for line in lines]


def lines_as_documents(path: Path) -> Iterator[list[str]]:
    """Each line of a compressed text as a document."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from ([line.strip()] for line in file if line.strip())


def is_held_back(document: list[str]) -> bool:
    """Whether a document is for measuring."""
    return zlib.crc32(document[0].encode()) % HELD_BACK == 0


def sentences(document: Iterable[str], language: str) -> list[str]:
    """The sentences of a document's paragraphs."""
    return [s for paragraph in document for s in _ENDS[language].split(paragraph) if s.strip()]


def split(
    path: Path, language: str, held_back: bool, prompts: Container[str] = ()
) -> Iterator[list[str]]:
    """The documents of a text as sentences: those that are held back, or the others less what the prompts ask."""
    for document in lines_as_documents(path) if path.name.startswith("nsmc") else documents(path):
        if is_held_back(document) == held_back:
            found = sentences(document, language)
            if kept := [sentence for sentence in found if held_back or sentence not in prompts]:
                yield kept


class Prompts:
    """Sentences with a gap that are asked at the end, and so must not be read before.

    Args:
        texts: each with one `[MASK]`.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.with_gap = {self._words(text) for text in texts}
        self.lengths = {len(words) for words in self.with_gap}

    @staticmethod
    def _words(text: str) -> tuple[str, ...]:
        return tuple(re.findall(r"\[mask\]|\w+", text.lower()))

    def __contains__(self, sentence: str) -> bool:
        """Whether the sentence is one of them with any word in the gap."""
        if sentence.count(" ") + 1 not in self.lengths:
            return False
        words = self._words(sentence)
        gaps = ((*words[:n], "[mask]", *words[n + 1 :]) for n in range(len(words)))
        return any(words in self.with_gap for words in gaps)


# --- single sentences ------------------------------------------------------------------------------------------------


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
    """Sentences of some length of the training documents."""
    shortest, longest = words
    texts = lines_as_documents(path) if "nsmc" in path.name else documents(path)
    split = (
        sentence
        for text in texts
        if not is_held_back(text)
        for sentence in sentences(text, language)
    )
    return [sentence for sentence in split if shortest <= sentence.count(" ") + 1 <= longest]


def parallel(data: Path, column: int, sources: set[str]) -> list[str]:
    """One side of the translations from some sources: column 0 English, 1 Korean."""
    with lzma.open(data / "parallel" / "ko-en-sources.txt.xz", "rt", encoding="utf-8") as file:
        labels = file.read().splitlines()
    texts = _table(data / "parallel" / "ko-en.tsv.xz", column)
    return [text for text, label in zip(texts, labels, strict=True) if label in sources]


def _korsts_train(data: Path) -> list[str]:
    """Sentences of KorSTS train without the lines that also stand in its test."""
    in_test = set(
        (data / "korsts" / "train-lines-in-test-wide.txt").read_text(encoding="utf-8").split()
    )
    lines = (data / "korsts" / "sts-train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    kept = [line.split("\t") for number, line in enumerate(lines, 1) if str(number) not in in_test]
    return [text.strip() for row in kept for text in row[5:7]]


GENERAL = {"tatoeba", "news", "ntrex", "jhe", "ud-pud"}


def teacher_sentences(data: Path, language: str, prompts: Prompts, seed: int = 0) -> list[str]:
    """Sentences for the teacher of sentences, shuffled; none of the sets that are measured is among them."""
    rng = np.random.default_rng(seed)

    def some(texts: list[str], count: int) -> list[str]:
        texts = list(dict.fromkeys(texts))
        return [texts[i] for i in rng.permutation(len(texts))[:count]]

    if language == "en":
        english = data / "english"
        found = parallel(data, 0, GENERAL)
        found += some(parallel(data, 0, {"python-docs", "gnome-docs", "bible"}), 4000)
        found += some(_short(english / "everyday.txt.xz", "en", (4, 40)), 60000)
        found += some(_short(english / "wikipedia.txt.xz", "en", (5, 35)), 50000)
        found += some(_short(english / "books.txt.xz", "en", (4, 30)), 10000)
        found += some(_short(english / "textbooks.txt.xz", "en", (5, 35)), 6000)
        measured = set(_table(data / "stsb" / "stsb-dev.csv", 5, 6))
    else:
        korean = data / "korean"
        found = parallel(data, 1, GENERAL) + _korsts_train(data)
        found += some(parallel(data, 1, {"python-docs", "gnome-docs", "bible"}), 4000)
        found += _table(data / "klue" / "sts-train.tsv.xz", 1, 2)
        found += some(_table(data / "klue" / "nli-train.tsv.xz", 3, 4), 40000)
        found += some(_table(data / "klue" / "ynat-train.tsv.xz", 2), 5000)
        found += some(_short(korean / "nsmc-reviews.txt.xz", "ko", (3, 25)), 15000)
        found += some(_short(korean / "wikipedia.txt.xz", "ko", (4, 25)), 40000)
        measured = set(_table(data / "korsts" / "sts-dev.tsv", 5, 6))
    found = [text for text in dict.fromkeys(found) if text not in measured and text not in prompts]
    return [found[i] for i in rng.permutation(len(found))]
