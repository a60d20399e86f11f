"""Extract the texts of this folder from a larger collection: `python scripts/lesson/make_data.py DATA`.

Nothing else of the project needs it. It documents exactly what the files hold.
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
SENTENCES = 40  # of a passage, which is a document of pre-training
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
# Chapters of books.txt.xz. Both authors died before 1950, so that their works are free in nearly every country.
READ = (range(112, 130), range(437, 449))  # Sherlock Holmes, 18 stories; Father Brown, 12
TASK_TRAIN = (range(130, 135), range(1634, 1649))  # Sherlock Holmes, 5; The Man Who Was Thursday
TASK_DEV = (range(135, 137), range(1617, 1633))  # Sherlock Holmes, 2; The Lost World
NAME = re.compile(r"(?<=[\w,;.] )(?!I\b)[A-Z]")  # a capital that begins no sentence


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, closing quotes and all."""
    return [part.strip() for part in END.sub(r"\1\n", paragraph).split("\n") if part.strip()]


def write(name: str, documents: Iterable[list[str]]) -> None:
    """Writes documents as `minibert pretrain` reads them: a sentence a line, an empty line between two documents."""
    text = "\n\n".join("\n".join(document) for document in documents) + "\n"
    (HERE / name).write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def write_rows(name: str, rows: list[tuple[str, str]]) -> None:
    """Writes a table of texts and labels."""
    text = "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows])
    (HERE / name).write_text(text, encoding="utf-8", newline="\n")


def spoken_and_told(chapter: str) -> dict[str, set[str]]:
    """Whole sentences inside quotation marks, and outside of them; those that name somebody are left out."""
    found: dict[str, set[str]] = {"told": set(), "spoken": set()}
    for paragraph in chapter.split("\n"):
        for number, part in enumerate(paragraph.split('"')):
            whole = (s for s in sentences(part) if re.match(r"[A-Z].*[.!?]$", s))
            found[("told", "spoken")[number % 2]] |= {
                s for s in whole if 40 <= len(s) <= 200 and not NAME.search(s)
            }
    return found


def names(stories: list[str], common: set[str]) -> list[str]:
    """Sentences that hold a name, in CoNLL format: B-NAME and I-NAME where a word inside a sentence has a capital.

    The first word of a sentence has one in any case: it must be a common word, one that is also written without.
    """
    found = []
    for sentence in sorted(
        {s for story in stories for line in story.split("\n") for s in sentences(line)}
    ):
        words = re.findall(
            r"[A-Z][a-z]{0,2}\.(?= [A-Z])|[A-Za-z]+(?:['’-][A-Za-z]+)*|[^\w\s\"]", sentence
        )
        tags, begins = [], True
        for word in words:
            named = word[0].isupper() and not re.match(r"I\b", word)
            if begins and (word.lower() not in common or word in TITLES):
                break
            after = bool(tags) and tags[-1] != "O"
            tags.append("O" if begins or not named else "I-NAME" if after else "B-NAME")
            begins = word in {".", "!", "?", ":", "—", "…", "‘", "“"}
        if len(tags) == len(words) <= 30 and "B-NAME" in tags:
            found.append("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)))
    return found


def english(data: Path, rng: random.Random) -> None:
    """Passages of two authors to read, and sentences of other stories of theirs, spoken or told."""
    with lzma.open(data / "english" / "books.txt.xz", "rt", encoding="utf-8") as file:
        chapters = file.read().split("\n\n")
    passages: list[list[str]] = []
    for number in chain(*READ):
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
            usable = sorted(
                set().union(*(spoken_and_told(story)[label] for story in stories[part]))
            )
            rows += [(text, label) for text in rng.sample(usable, count)]
        rng.shuffle(rows)
        write_rows(f"english-{part}.tsv", rows)


def korean(data: Path, rng: random.Random) -> None:
    """Film reviews of several sentences to read, and others with their verdict."""
    known = set()
    for part, count in (("train", 3000), ("dev", 500)):
        with lzma.open(data / "nsmc" / f"{part}.tsv.xz", "rt", encoding="utf-8") as file:
            table = [line.rstrip("\n").rsplit("\t", 1) for line in list(file)[1:]]
        rows = [
            (text, ("부정", "긍정")[int(label)])
            for text, label in table
            if len(text) >= 10 and '"' not in text
        ]
        rows = rng.sample(rows, count)
        known |= {text for text, _ in rows}
        write_rows(f"korean-{part}.tsv", rows)
    with lzma.open(data / "korean" / "nsmc-reviews.txt.xz", "rt", encoding="utf-8") as file:
        reviews = [sentences(line) for line in file if line.strip() not in known]
    reviews, size, kept = [review for review in reviews if len(review) > 1], 0, []
    for review in reviews:
        size += sum(len(line.encode()) + 1 for line in review) + 1
        if size > KOREAN_BYTES:
            break
        kept.append(review)
    write("korean.txt.xz", kept)


if __name__ == "__main__":
    english(Path(sys.argv[1]), random.Random(0))
    korean(Path(sys.argv[1]), random.Random(0))
