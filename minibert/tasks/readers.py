"""Read files of labeled text that are not tables.

These are tagged words in CoNLL format or JSON, and questions in SQuAD format.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minibert.corpus.inputs import JSON_ENDINGS, PARQUET_ENDINGS
from minibert.corpus.json_rows import BEGINNINGS_OF_JSON, json_rows
from minibert.corpus.lines import Line, read_lines
from minibert.corpus.location import Location
from minibert.corpus.parquet import parquet_rows
from minibert.corpus.rows import hint_of_nested_rows, refuse

FilePath = str | os.PathLike[str]
TaggedSentence = tuple[list[str], list[str]]
"""Words, and the tag of each."""

HEADER_WORDS = frozenset(("char", "form", "text", "token", "tokens", "word", "words"))
HEADER_TAGS = frozenset(
    ("bio", "entities", "entity", "iob", "label", "labels", "ner", "ner_tag", "ner_tags")
    + ("pos", "tag", "tags", "upos", "xpos")
)
WORD_KEYS = ("tokens", "words")
TAG_KEYS = ("ner_tags", "tags", "labels", "ner")
NO_VALUE = "_"
OUTSIDE = frozenset(("O", "o", "-"))
IOB_TAG = re.compile(r"O|[BIELSUM]-\S+")
# as the datasets of Naver (PER_B and -) and programs in lower case write them
IOB_SPELLING = re.compile(
    r"[Oo-]|(?P<prefix>[BIELSUbielsu])[-_](?P<kind>\S+)"
    r"|(?P<kind_before>\S+)[-_](?P<suffix>[BIELSUbielsu])"
)
NAMED_PIECE = re.compile(r"O|.*[-_].*")
WORD_NUMBER = re.compile(r"\d+([-.]\d+)?")
JOINED_TAG = re.compile(r"\S+/(O|[BIELSU]-[^/\s]+)")
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
    sentence) are left out, and so is a first column that counts the words. A file of JSON or
    parquet has the words under "tokens" or "words" and their tags under "ner_tags", "tags",
    "labels" or "ner".

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A line has no tag or another number of columns than the line before, a tag does
            not look like one or is an IOB tag in another spelling, the file has a header line or no
            words, or it has whole texts or numbers instead of words.
    """
    lines: list[Line] = []
    if not _is_parquet(path):
        lines = _read(path)
    if _is_parquet(path) or _is_json(path, lines):
        tagged = [tagged_object(place, row) for place, row in _objects(path, lines)]
        sentences = [sentence for sentence in tagged if sentence[0]]
    else:
        sentences = _read_columns(path, "".join(line for _, line in lines))
    if not sentences:
        raise ValueError(f"{path} has no rows.")
    _check_scheme(path, sentences)
    return sentences


def _read(path: FilePath) -> list[Line]:
    """The lines of a file, which may be compressed or have any encoding that tables may have.

    A pipe can be read only once.
    """
    return list(read_lines(Location(path), on_bad=refuse))


def _is_parquet(path: FilePath) -> bool:
    return Location(path).suffix in PARQUET_ENDINGS


def _objects(path: FilePath, lines: Sequence[Line]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON, or the rows of a file of parquet, and the place of each."""
    location = Location(path)
    if _is_parquet(path):
        rows = parquet_rows(location, 0, None, ())
    else:
        rows = json_rows(location, 0, None, refuse, iter(lines))
    for place, row in rows:
        yield f"{path}, {place}", row


def _is_json(path: FilePath, lines: Sequence[Line]) -> bool:
    """Whether a file is JSON, by its name or by its first line."""
    first_line = next((line.strip() for _, line in lines if line.strip()), "")
    if not first_line.startswith(("{", "[")):
        return False
    if Location(path).suffix in JSON_ENDINGS or first_line in BEGINNINGS_OF_JSON:
        return True
    try:
        content, end = json.JSONDecoder().raw_decode(first_line)
    except (ValueError, RecursionError):
        return False
    is_followed_by_json = first_line[end:].lstrip()[:1] in ("", "{")
    return isinstance(content, dict | list) and is_followed_by_json


def tagged_object(place: str, row: Mapping[str, Any]) -> TaggedSentence:
    """The words and tags of a sentence that is an object, as in a file of JSON or in datasets."""
    word_key = next((key for key in WORD_KEYS if key in row), None)
    tag_key = next((key for key in TAG_KEYS if key in row), None)
    if word_key is None or tag_key is None:
        raise ValueError(
            f"{place} has the keys {', '.join(row)}, but expected are tokens (or words) "
            f"and ner_tags (or tags, labels, ner).{hint_of_nested_rows(row)}"
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
    sentences = _without_ranges(_without_comments(_split_sentences(path, text)))
    _check_widths(path, sentences)
    _check_words(path, sentences)
    _check_header(path, sentences)
    word_column = _word_column(path, sentences)
    _check_tag_column(path, sentences)
    tagged = []
    for lines in sentences:
        for line in lines:
            place = f"{path}, line {line.number}"
            _check_tag(place, line.tag)
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
    """Raise a ValueError for names of columns in the first line.

    Such a line has the name of a word and that of a tag, or its tag is the only one of the file
    that is no IOB tag.
    """
    if not sentences:
        return
    first = sentences[0][0]
    names = {column.lower() for column in first.columns[:-1]}
    is_named = not names.isdisjoint(HEADER_WORDS) and first.tag.lower() in HEADER_TAGS
    other_tags = [line.tag for lines in sentences for line in lines if line is not first]
    is_alone = set(other_tags) > {"O"} and all(map(IOB_TAG.fullmatch, other_tags))
    if is_named or (is_alone and not NAMED_PIECE.fullmatch(first.tag)):
        raise ValueError(
            f"{path}, line {first.number} is a header ({' '.join(first.columns)}), which would be "
            "read as a word: delete it."
        )


def _without_ranges(sentences: Sequence[Sequence[_Line]]) -> list[list[_Line]]:
    """Leaves out what CoNLL-U numbers 1-2 (words that are written as one) and 1.1 (no words)."""
    lines = [line for lines_of_sentence in sentences for line in lines_of_sentence]
    if not all(WORD_NUMBER.fullmatch(line.columns[0]) for line in lines):
        return [list(lines_of_sentence) for lines_of_sentence in sentences]
    result = []
    for lines_of_sentence in sentences:
        words = [line for line in lines_of_sentence if line.columns[0].isdecimal()]
        if words:
            result.append(words)
    return result


def _word_column(path: FilePath, sentences: Sequence[Sequence[_Line]]) -> int:
    """1 if the first column counts the words of every sentence, else 0."""
    lines = [line for lines_of_sentence in sentences for line in lines_of_sentence]
    if len(lines) < 2 or not all(line.columns[0].isdecimal() for line in lines):
        return 0
    counts = _count_words(sentences, 1) or _count_words(sentences, 0)
    if len(lines[0].columns) == 2:
        if counts and len(lines) > len(sentences):
            raise ValueError(
                f"{path}: the first column counts words, and there is no column of words."
            )
        return 0
    if not counts:
        raise ValueError(
            f"{path}: the first column holds numbers only, such as {lines[0].columns[0]!r}, which "
            "would be read as words: delete it."
        )
    return 1


def _count_words(sentences: Sequence[Sequence[_Line]], first: int) -> bool:
    """Whether the first column counts the words of every sentence, beginning at `first`."""
    for lines in sentences:
        numbers = [str(number) for number in range(first, first + len(lines))]
        if [line.columns[0] for line in lines] != numbers:
            return False
    return True


def _check_tag_column(path: FilePath, sentences: Sequence[Sequence[_Line]]) -> None:
    """Raise a ValueError if the last column evidently holds no tags."""
    lines = [line for lines_of_sentence in sentences for line in lines_of_sentence]
    if not lines:
        return
    words = [line.columns[0] for line in lines]
    tags = [line.tag for line in lines]
    place = f"{path}, line {lines[0].number}"
    if set(tags) == {NO_VALUE}:
        raise ValueError(
            f"{path}: the last column is {NO_VALUE!r} in every line, which stands for no value: "
            "put the tags there."
        )
    if all(map(JOINED_TAG.fullmatch, words)):
        raise ValueError(
            f"{place}: {words[0]!r} is a word that is joined to its tag: write a word a line and, "
            "behind a tab, its tag."
        )
    if all(map(IOB_TAG.fullmatch, words)) and not all(map(IOB_TAG.fullmatch, tags)):
        raise ValueError(f"{place}: the tag {words[0]!r} stands in front of its word: put it last.")


def _check_scheme(path: FilePath, sentences: Sequence[TaggedSentence]) -> None:
    """Raise a ValueError for tags that are IOB tags in another spelling.

    Each of them would be a kind of entity, O as well.
    """
    distinct = {tag for _, tags in sentences for tag in tags}
    others = sorted(tag for tag in distinct if not IOB_TAG.fullmatch(tag))
    is_scheme = all(map(IOB_SPELLING.fullmatch, distinct)) and not OUTSIDE.isdisjoint(distinct)
    if others and is_scheme:
        raise ValueError(
            f"{path}: the tag {others[0]!r} looks like {_as_iob(others[0])!r} in another spelling, "
            "which is needed to find entities. Replace the tags."
        )


def _as_iob(tag: str) -> str:
    """A tag in another spelling as an IOB tag."""
    match = IOB_SPELLING.fullmatch(tag)
    if match is None or tag in OUTSIDE:
        return "O"
    prefix = match["prefix"] or match["suffix"]
    kind = match["kind"] or match["kind_before"]
    return f"{prefix.upper()}-{kind}"


def _check_tag(place: str, tag: str) -> None:
    if not tag.strip() or NOT_IN_TAGS.search(tag):
        raise ValueError(f"{place}: {tag!r} does not look like a tag.")


def read_squad(path: FilePath) -> list[dict[str, Any]]:
    """Question, context and answers (texts, and where each starts) of each entry of a SQuAD file.

    The file may also hold articles, or a row for each question with the columns question, context
    and answers, as JSON or parquet.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is not a SQuAD file, it has no question, or an answer is not in its context.
    """
    rows: list[dict[str, Any]] = []
    lines: list[Line] = []
    if not _is_parquet(path):
        lines = _read(path)
    try:
        for place, content in _objects(path, lines):
            if "question" in content and "context" in content:
                rows.append(_squad_row(place, content["context"], content))
                continue
            for context, entry in _entries_of(place, content):
                number = len(rows) + 1
                rows.append(_squad_row(f"{path}: question {number}", context, entry))
    except KeyError as error:
        raise ValueError(f"{path} is not a SQuAD file: the key {error} is missing.") from None
    if not rows:
        raise ValueError(f"{path} has no rows.")
    return rows


def _entries_of(place: str, content: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The context and the entry of each question of a SQuAD file, or of an article alone."""
    articles = [content]
    if "paragraphs" not in content:
        if "data" not in content:
            raise ValueError(
                f"{place} has the keys {', '.join(content)}, but expected is data, as in SQuAD, or "
                "question, context and answers."
            )
        articles = _list_of_objects(place, content, "data")
    for article in articles:
        for paragraph in _list_of_objects(place, article, "paragraphs"):
            for entry in _list_of_objects(place, paragraph, "qas"):
                yield paragraph["context"], entry


def _list_of_objects(place: str, content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    items = content[key]
    if not isinstance(items, list):
        raise ValueError(f"{place}: {key} should be a list, not {items!r:.80}.")
    for item in items:
        if not isinstance(item, dict):
            raise ValueError(f"{place}: {key} should hold objects, not {item!r:.80}.")
    return items


def _squad_row(place: str, context: Any, entry: dict[str, Any]) -> dict[str, Any]:
    for name, value in (("context", context), ("question", entry["question"])):
        if not isinstance(value, str):
            raise ValueError(f"{place}: {name} should be a text, not {value!r:.80}.")
    answers = [answer for answer in _answers_of(place, entry) if answer[0].strip()]
    return {
        "question": entry["question"],
        "context": context,
        "answers": [text.strip() for text, _ in answers],
        "starts": [_answer_start(place, context, text, start) for text, start in answers],
    }


def _answers_of(place: str, entry: dict[str, Any]) -> list[tuple[str, int]]:
    """The text of each answer, and where it should start."""
    if entry.get("is_impossible") and "answers" not in entry:
        return []
    answers = entry["answers"] or []  # null where a question has no answer
    if isinstance(answers, dict):  # as Hugging Face stores them
        pairs = zip(answers["text"], answers["answer_start"], strict=False)
        answers = [{"text": text, "answer_start": start} for text, start in pairs]
    result = []
    for answer in _list_of_objects(place, {"answers": answers}, "answers"):
        text = answer["text"]
        start = answer["answer_start"]
        if not isinstance(text, str):
            raise ValueError(f"{place}: an answer should be a text, not {text!r:.80}.")
        if not isinstance(start, int) or isinstance(start, bool):
            raise ValueError(f"{place}: answer_start should be a whole number, not {start!r:.80}.")
        result.append((text, start))
    return result


def _answer_start(place: str, context: str, text: str, expected: int) -> int:
    """Find the start of an answer that is nearest to the expected one.

    White space around the answer is left out.
    """
    expected += len(text) - len(text.lstrip())
    text = text.strip()
    starts = [match.start() for match in re.finditer(f"(?={re.escape(text)})", context)]
    if not starts:
        raise ValueError(
            f"{place}: the answer {text!r:.200} is not in the context of its question."
            f"{_hint_of_answer(context, text)}"
        )

    def distance(start: int) -> int:
        return abs(start - expected)

    return min(starts, key=distance)


def _hint_of_answer(context: str, text: str) -> str:
    """A sentence about an answer that is in its context in another form, or nothing."""
    forms: dict[str, Callable[[str], str]] = {
        "in another Unicode form (normalize both to NFC)": lambda value: unicodedata.normalize(
            "NFC", value
        ),
        "with other white space": lambda value: " ".join(value.split()),
        "in another case": str.casefold,
    }
    for name, form in forms.items():
        if form(text) in form(context):
            return f" It is there {name}."
    return ""
