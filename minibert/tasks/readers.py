"""Read files of labeled text that are not tables.

These are tagged words in CoNLL format or JSON, and questions in SQuAD format.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minibert.corpus.lines import read_lines
from minibert.corpus.location import Location
from minibert.corpus.rows import refuse
from minibert.files import parse_json
from minibert.tokenization.basic import SURROGATE

FilePath = str | os.PathLike[str]
TaggedSentence = tuple[list[str], list[str]]
"""Words, and the tag of each."""

HEADER_WORDS = frozenset(("char", "form", "text", "token", "tokens", "word", "words"))
HEADER_TAGS = frozenset(
    ("bio", "iob", "label", "labels", "ner", "ner_tag", "ner_tags", "pos", "tag", "tags")
)
WORD_KEYS = ("tokens", "words")
TAG_KEYS = ("ner_tags", "tags", "labels")
# what occurs in annotations, addresses and JSON, but not in a tag
NOT_IN_TAGS = re.compile(r"[=\[\]{}\"]|https?:|\s")


@dataclass(frozen=True)
class _Line:
    """A line of a file of tags: its number, counted from 1, and its columns."""

    number: int
    columns: list[str]

    @property
    def tag(self) -> str:
        return self.columns[-1]


def read_conll(path: FilePath) -> list[TaggedSentence]:
    """Words and tags of each sentence of a file.

    In CoNLL format a line is a word with its tag in the last column, and an empty line ends a
    sentence. Columns are separated by tabs, or else by blanks. A word may be a single character, a
    space as well, as in KLUE's named entities. Comments (`## `, or `# ` before the words of a
    sentence) are left out, and so is a first column that counts the words. A file of JSON has the
    words under "tokens" or "words" and their tags under "ner_tags", "tags" or "labels".

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A line has no tag or another number of columns than the line before, a tag does
            not look like one, the file has a header line or no words, or it has whole texts instead
            of words.
    """
    text = _read_text(path)
    if text.lstrip()[:1] in ("{", "[") and _is_json(path, text):
        sentences = _read_json_tags(path, text)
    else:
        sentences = _read_columns(path, text)
    if not sentences:
        raise ValueError(f"{path} has no rows.")
    return sentences


def _read_text(path: FilePath) -> str:
    """The text of a file, which may be compressed or have any encoding that tables may have."""
    return "".join(line for _, line in read_lines(Location(path), on_bad=refuse))


def _is_json(path: FilePath, text: str) -> bool:
    """Whether a file that begins with a bracket is JSON, by its name or by its first line."""
    if Location(path).suffix in (".json", ".jsonl", ".ndjson"):
        return True
    first_line = text.lstrip().splitlines()[0]
    try:
        content = json.loads(first_line)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict | list)


def _read_json_tags(path: FilePath, text: str) -> list[TaggedSentence]:
    """An array of objects, or an object a line."""
    if text.lstrip().startswith("["):
        items = parse_json(text, path, list)
        rows = [(f"{path}, item {number}", item) for number, item in enumerate(items, 1)]
    else:
        rows = []
        for number, line in enumerate(_lines(text), 1):
            place = f"{path}, line {number}"
            if line.strip():
                rows.append((place, parse_json(line, place, dict)))
    sentences = [_tagged_object(place, row) for place, row in rows]
    return [sentence for sentence in sentences if sentence[0]]


def _tagged_object(place: str, row: Any) -> TaggedSentence:
    if not isinstance(row, dict):
        raise ValueError(f"{place}: expected an object, not {row!r:.40}.")
    word_key = next((key for key in WORD_KEYS if key in row), None)
    tag_key = next((key for key in TAG_KEYS if key in row), None)
    if word_key is None or tag_key is None:
        raise ValueError(
            f"{place} has the keys {', '.join(row)}, but expected are tokens (or words) "
            "and ner_tags (or tags, labels)."
        )
    words = row[word_key]
    tags = row[tag_key]
    if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
        raise ValueError(f"{place}: {word_key} and {tag_key} should be lists of the same length.")
    _check_strings(place, [*words, *tags])
    for tag in tags:
        _check_tag(place, tag)
    return words, tags


def _check_strings(place: str, values: Sequence[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(
                f"{place}: words and tags should be strings, not {value!r:.40}. Replace ids by "
                "names."
            )


def _lines(text: str) -> list[str]:
    """The lines as an editor counts them. Other separators of Unicode are part of a word."""
    return re.split(r"\r\n|\r|\n", text)


def _read_columns(path: FilePath, text: str) -> list[TaggedSentence]:
    sentences = _without_comments(_split_sentences(path, text))
    _check_widths(path, sentences)
    _check_words(path, sentences)
    _check_header(path, sentences)
    word_column = _word_column(path, sentences)
    tagged = []
    for lines in sentences:
        for line in lines:
            _check_tag(f"{path}, line {line.number}", line.tag)
        tagged.append(([line.columns[word_column] for line in lines], [line.tag for line in lines]))
    return tagged


def _split_sentences(path: FilePath, text: str) -> list[list[_Line]]:
    """The lines of each sentence, split into columns."""
    sentences: list[list[_Line]] = [[]]
    for number, content in enumerate(_lines(text), 1):
        columns = _columns(content)
        if content.startswith("## "):
            continue
        if not columns or columns[0] == "-DOCSTART-":
            sentences.append([])
            continue
        if len(columns) == 1 and not content.startswith("#"):
            raise ValueError(
                f"{path}, line {number}: {content!r} should be a word and, last, its tag."
            )
        sentences[-1].append(_Line(number, columns))
    return [lines for lines in sentences if lines]


def _columns(line: str) -> list[str]:
    """Split a line into columns.

    Columns are separated by tabs if there is one, else by blanks. A blank alone may be a word.
    """
    line = line.rstrip(" \t")
    if "\t" not in line:
        return [column for column in line.split(" ") if column]
    columns = []
    for column in line.split("\t"):
        columns.append(column.strip(" ") or column)
    return columns


def _without_comments(sentences: Sequence[Sequence[_Line]]) -> list[list[_Line]]:
    """Leaves out the comments before the words of each sentence. A word `#` with its tag stays.

    Such a line is a word if it has as many columns as the others, and a tag that other words have,
    too.
    """
    split = [_split_head(lines) for lines in sentences]
    others = [line for _, body in split for line in body]
    widths = {len(line.columns) for line in others}
    tags = {line.tag for line in others}
    result = []
    for head, body in split:
        words = [line for line in head if len(line.columns) in widths and line.tag in tags]
        if words or body:
            result.append([*words, *body])
    return result


def _split_head(lines: Sequence[_Line]) -> tuple[list[_Line], list[_Line]]:
    """The lines with `#` that a sentence begins with, and all others."""
    first = 0
    while first < len(lines) and lines[first].columns[0].startswith("#"):
        first += 1
    return list(lines[:first]), list(lines[first:])


def _check_widths(path: FilePath, sentences: Sequence[Sequence[_Line]]) -> None:
    previous: _Line | None = None
    all_lines = [line for lines in sentences for line in lines]
    for line in all_lines:
        if previous is not None and len(line.columns) != len(previous.columns):
            raise ValueError(
                f"{path}, line {line.number} has {len(line.columns)} columns, but line "
                f"{previous.number} has {len(previous.columns)}. Every line should be a word "
                "and, last, its tag."
            )
        previous = line


def _check_words(path: FilePath, sentences: Sequence[Sequence[_Line]]) -> None:
    words = [line.columns[0] for lines in sentences for line in lines]
    texts = [word for word in words if word.count(" ") > 1]
    if 2 * len(texts) > len(words):
        raise ValueError(
            f"{path} has texts where words should be, such as {texts[0]!r:.40}. Is it for another "
            "task?"
        )


def _check_header(path: FilePath, sentences: Sequence[Sequence[_Line]]) -> None:
    if not sentences:
        return
    first = sentences[0][0]
    word_name = first.columns[0].lower()
    if word_name in HEADER_WORDS and first.tag.lower() in HEADER_TAGS:
        raise ValueError(
            f"{path}, line {first.number} is a header ({' '.join(first.columns)}), which would be "
            "read as a word: delete it."
        )


def _word_column(path: FilePath, sentences: Sequence[Sequence[_Line]]) -> int:
    """1 if the first column counts the words of every sentence, else 0."""
    is_index = any(len(lines) > 1 for lines in sentences)
    for lines in sentences:
        indices = [str(index) for index in range(1, len(lines) + 1)]
        if [line.columns[0] for line in lines] != indices:
            is_index = False
    if not is_index:
        return 0
    if len(sentences[0][0].columns) == 2:
        raise ValueError(f"{path}: the first column counts words, and there is no column of words.")
    return 1


def _check_tag(place: str, tag: str) -> None:
    if not tag.strip() or NOT_IN_TAGS.search(tag):
        raise ValueError(f"{place}: {tag!r} does not look like a tag.")


def read_squad(path: FilePath) -> list[dict[str, Any]]:
    """Question, context and answers (texts, and where each starts) of each entry of a SQuAD file.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is not a SQuAD file, it has no question, or an answer is not in its context.
    """
    rows: list[dict[str, Any]] = []
    try:
        for article in parse_json(_read_text(path), path, dict)["data"]:
            for paragraph in article["paragraphs"]:
                for entry in paragraph["qas"]:
                    rows.append(_squad_row(path, len(rows) + 1, paragraph["context"], entry))
    except KeyError as error:
        raise ValueError(f"{path} is not a SQuAD file: the key {error} is missing.") from None
    except (TypeError, AttributeError):
        raise ValueError(
            f"{path} is not a SQuAD file: after question {len(rows)} a value has another type."
        ) from None
    if not rows:
        raise ValueError(f"{path} has no rows.")
    return rows


def _squad_row(path: FilePath, number: int, context: str, entry: dict[str, Any]) -> dict[str, Any]:
    all_answers = entry["answers"] or []  # null where a question has no answer
    answers = [answer for answer in all_answers if answer["text"].strip()]
    starts = [
        _answer_start(path, context, answer["text"], answer["answer_start"]) for answer in answers
    ]
    if SURROGATE.search(context + entry["question"]):
        raise ValueError(f"{path}: question {number} has half a character, a surrogate.")
    return {
        "question": entry["question"],
        "context": context,
        "answers": [answer["text"].strip() for answer in answers],
        "starts": starts,
    }


def _answer_start(path: FilePath, context: str, text: str, expected: int) -> int:
    """Find the start of an answer that is nearest to the expected one.

    White space around the answer is left out.
    """
    expected += len(text) - len(text.lstrip())
    text = text.strip()
    starts = [match.start() for match in re.finditer(f"(?={re.escape(text)})", context)]
    if not starts:
        raise ValueError(f"{path}: the answer {text!r} is not in the context of its question.")

    def distance(start: int) -> int:
        return abs(start - expected)

    return min(starts, key=distance)
