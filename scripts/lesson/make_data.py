"""Extracts the texts of this folder from a larger collection.

    python scripts/lesson/make_data.py DATA

Nothing else in the project uses it. It documents what the files contain.
"""

from __future__ import annotations

import lzma
import random
import re
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

HERE = Path(__file__).resolve().parent
KOREAN_BYTES = 1_400_000
SENTENCES = 40  # in a passage, which is a document of pre-training
END = re.compile(r"(?<!Mr\.)(?<!Mrs\.)(?<!Dr\.)(?<!St\.)(?<=[.!?~])([\"']?)\s+(?=[\"'A-Z가-힣])")
TITLES = {
    "Miss",
    "Lord",
    "Lady",
    "Sir",
    "Captain",
    "Colonel",
    "Inspector",
    "Professor",
    "Uncle",
    "Aunt",
    "Doctor",
    "Count",
    "Father",
}
# Chapters of books.txt.xz. Both authors died before 1950, so their works are in the public domain
# in most countries.
PRETRAINING = (range(112, 130), range(437, 449))  # Sherlock Holmes, 18 stories. Father Brown, 12.
TASK_TRAIN = (range(130, 135), range(1634, 1649))  # Sherlock Holmes, 5. The Man Who Was Thursday.
TASK_DEV = (range(135, 137), range(1617, 1633))  # Sherlock Holmes, 2. The Lost World.
NAME = re.compile(r"(?<=[\w,;.] )(?!I\b)[A-Z]")  # a capital inside a sentence


def sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences, with their closing quotes."""
    return [part.strip() for part in END.sub(r"\1\n", paragraph).split("\n") if part.strip()]


def write(name: str, documents: Iterable[list[str]]) -> None:
    """Writes documents for `minibert pretrain`.

    A line is a sentence, and an empty line separates documents.
    """
    text = "\n\n".join("\n".join(document) for document in documents) + "\n"
    (HERE / name).write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def write_rows(name: str, rows: list[tuple[str, str]]) -> None:
    """Writes a table of texts and labels."""
    text = "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows])
    (HERE / name).write_text(text, encoding="utf-8", newline="\n")


def spoken_and_told(chapter: str) -> dict[str, set[str]]:
    """Returns the sentences inside and outside quotation marks, without those that have a name."""
    by_label: dict[str, set[str]] = {"told": set(), "spoken": set()}
    for paragraph in chapter.split("\n"):
        for number, part in enumerate(paragraph.split('"')):
            label = ("told", "spoken")[number % 2]
            for sentence in sentences(part):
                is_whole = re.match(r"[A-Z].*[.!?]$", sentence)
                if is_whole and 40 <= len(sentence) <= 200 and not NAME.search(sentence):
                    by_label[label].add(sentence)
    return by_label


def tags_of(words: list[str], common: set[str]) -> list[str]:
    """Tags the words of a sentence, up to a first word that could be a name.

    Args:
        words: The words.
        common: Words that are also written without a capital. The first word of a sentence must be
            one of them, because its capital says nothing.

    Returns:
        O, B-NAME or I-NAME for each word. A word inside a sentence is a name if it has a capital.
    """
    tags: list[str] = []
    begins = True
    for word in words:
        if begins and (word.lower() not in common or word in TITLES):
            break
        tag = "O"
        if not begins and word[0].isupper() and not re.match(r"I\b", word):
            tag = "I-NAME" if tags[-1] != "O" else "B-NAME"
        tags.append(tag)
        begins = word in {".", "!", "?", ":", "—", "…", "‘", "“"}
    return tags


def names(stories: list[str], common: set[str]) -> list[str]:
    """Returns the sentences that contain a name and can be tagged, in CoNLL format."""
    distinct = {s for story in stories for line in story.split("\n") for s in sentences(line)}
    word = re.compile(r"[A-Z][a-z]{0,2}\.(?= [A-Z])|[A-Za-z]+(?:['’-][A-Za-z]+)*|[^\w\s\"]")
    tagged = []
    for sentence in sorted(distinct):
        words = word.findall(sentence)
        tags = tags_of(words, common)
        if len(tags) == len(words) <= 30 and "B-NAME" in tags:
            pairs = zip(words, tags, strict=True)
            tagged.append("".join(f"{word}\t{tag}\n" for word, tag in pairs))
    return tagged


def english(data: Path, rng: random.Random) -> None:
    """Writes passages of two authors, and labeled sentences of their other works."""
    with lzma.open(data / "english" / "books.txt.xz", "rt", encoding="utf-8") as file:
        chapters = file.read().split("\n\n")
    passages: list[list[str]] = []
    for number in chain(*PRETRAINING):
        lines = [
            line for paragraph in chapters[number].split("\n") for line in sentences(paragraph)
        ]
        passages += [lines[start : start + SENTENCES] for start in range(0, len(lines), SENTENCES)]
    stories = {
        "train": [chapters[number] for number in chain(*TASK_TRAIN)],
        "dev": [chapters[number] for number in chain(*TASK_DEV)],
    }
    rng.shuffle(passages)
    write("english.txt.xz", passages)
    common = set(re.findall(r"\b[a-z][a-z'’-]*", " ".join(chapters)))
    for part, count in (("train", 200), ("dev", 400)):
        rows = random.Random(0).sample(names(stories[part], common), count)
        (HERE / f"english-names-{part}.txt").write_text(
            "\n".join(rows), encoding="utf-8", newline="\n"
        )
    for part, count in (("train", 1000), ("dev", 250)):
        rows = []
        for label in ("told", "spoken"):
            texts = set().union(*(spoken_and_told(story)[label] for story in stories[part]))
            rows += [(text, label) for text in rng.sample(sorted(texts), count)]
        rng.shuffle(rows)
        write_rows(f"english-{part}.tsv", rows)


def korean(data: Path, rng: random.Random) -> None:
    """Writes film reviews of several sentences, and other reviews with labels."""
    labeled = set()
    for part, count in (("train", 3000), ("dev", 500)):
        with lzma.open(data / "nsmc" / f"{part}.tsv.xz", "rt", encoding="utf-8") as file:
            table = [line.rstrip("\n").rsplit("\t", 1) for line in list(file)[1:]]
        rows = [
            (text, ("부정", "긍정")[int(label)])
            for text, label in table
            if len(text) >= 10 and '"' not in text
        ]
        rows = rng.sample(rows, count)
        labeled |= {text for text, _ in rows}
        write_rows(f"korean-{part}.tsv", rows)
    with lzma.open(data / "korean" / "nsmc-reviews.txt.xz", "rt", encoding="utf-8") as file:
        reviews = [sentences(line) for line in file if line.strip() not in labeled]
    size = 0
    documents = []
    for review in reviews:
        if len(review) < 2:
            continue
        size += sum(len(line.encode()) + 1 for line in review) + 1
        if size > KOREAN_BYTES:
            break
        documents.append(review)
    write("korean.txt.xz", documents)


if __name__ == "__main__":
    english(Path(sys.argv[1]), random.Random(0))
    korean(Path(sys.argv[1]), random.Random(0))
