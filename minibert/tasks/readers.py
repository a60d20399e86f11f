"""Read files of labeled text that are not tables: tagged words, and questions with answers.

Both are rows of `minibert.text`, whose values are `tokens` and `tags`, or `question`, `context`,
`answers` and `starts`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

from minibert.encoders.rows.entity_tags import PREFIXES
from minibert.tasks.head_labels import first_names
from minibert.tasks.tables import (
    as_list,
    check_columns,
    not_empty,
    number_of,
    rows_in_memory,
    usable,
)
from minibert.tasks.task import Data, FilePath, Skipped
from minibert.text import BadRow, BadRowError, Row, Table, read, read_json_value
from minibert.text.formats import JsonArray, row_format
from minibert.text.lines import text_lines
from minibert.text.location import Location
from minibert.util.checks import amount
from minibert.util.errors import Argument, Message, message_of
from minibert.util.files import RECIPES

WORD_KEYS = ("tokens", "words")
DOCUMENT = "-DOCSTART-"
ANSWER_COLUMNS = ("answer", "answer_text")
TAG_KEYS = ("ner_tags", "tags", "labels", "ner")
# what occurs in annotations, addresses and JSON, but not in a tag
# (the parentheses and stars are those of CoNLL-2012)
_NOT_IN_TAGS = re.compile(r"[=\[\]{}\"]|https?:|\s|\(\w|\w\)|\*")
_SCHEME_TAG = re.compile(r"O|[BIELSUM](-\S+)?")
# as the datasets of Naver (PER_B and -) and programs in lower case write them
_OTHER_SPELLING = re.compile(r"[BIELSUMbielsum][-_:./|]\S+|\S+[-_:./|][BIELSUMbielsum]")
_WORD_NUMBER = re.compile(r"\d+([-.]\d+)?")


def read_conll(data: Data, table: Table | None = None, skip: Skipped = None) -> list[Row]:
    """Read the words and tags of each sentence of a file, or of sentences in memory.

    In CoNLL format a line is a word with its tag in the last column, and an empty line ends a
    sentence. Columns are separated by tabs, or else by blanks. A word may be a single character, a
    space as well, as in KLUE's named entities. Comments before the words of a sentence begin with
    `#`, and go on with a blank or have another number of columns. A first column that counts the
    words, as in CoNLL-U, is left out. A .json, .jsonl or .parquet file has the words under "tokens"
    or "words" and their tags under "ner_tags", "tags", "labels" or "ner".

    Args:
        data: Path or URI. Or sentences: (words, tags), or dicts as in a .json file.
        table: The encoding of the file. None: UTF-8, or what a byte order mark names.
        skip: Receives sentences that cannot be used, which are left out. None: the first is an
            error.

    Returns:
        A row for each sentence, with the values `tokens` and `tags`.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A line has no tag or another number of columns than most, a tag does not look
            like one or is an IOB tag in another spelling, the first column has the tags, or there
            are no words.
    """
    table = table or Table()
    if not isinstance(data, str | os.PathLike):
        sentences = rows_in_memory(data, table)
    elif not row_format(Location(data), table).is_typed:
        sentences = _sentences_of_lines(Location(data), table, skip)
    else:
        sentences = read(data, table, skip, columns=())
    rows = usable(data, sentences, _check_tags, skip)
    rows = not_empty(data, [row for row in rows if row.values["tokens"]])
    _check_spelling(rows)
    return rows


def _check_tags(row: Row) -> None:
    """Give a row the values `tokens` and `tags`, its words and their tags.

    Raises:
        ValueError: The row lacks them, they are not strings, or their numbers differ.
    """
    values: Any = row.values
    if isinstance(values, tuple | list) and len(values) == 2:
        words, tags = values
        row.values = {"tokens": list(words), "tags": list(tags)}
    check_columns(row)
    values = row.values
    word_key = next((key for key in WORD_KEYS if key in values), None)
    tag_key = next((key for key in TAG_KEYS if key in values), None)
    if word_key is None or tag_key is None:
        raise ValueError(
            f"the keys are {', '.join(values)}, but expected are tokens (or words) and ner_tags "
            f"(or tags, labels, ner). {RECIPES}."
        )
    words, tags = as_list(values[word_key]), as_list(values[tag_key])
    if words is None or tags is None or len(words) != len(tags):
        raise ValueError(f"{word_key} and {tag_key} should be lists of the same length.")
    for value in [*words, *tags]:
        if not isinstance(value, str):
            raise ValueError(
                f"words and tags should be strings, not {value!r:.40}. Replace ids by names."
            )
    for tag in tags:
        if fault := _tag_fault(tag):
            raise ValueError(fault)
    row.values = {"tokens": words, "tags": tags} | _id_of(row)


def _id_of(row: Row) -> dict[str, Any]:
    """The id of an entry, which is reported with its errors, by its column, if it has one.

    Raises:
        ValueError: The table names the column of the ids, and the entry lacks it.
    """
    name = row.table.id or "id"
    if name in row.values:
        return {name: row.values[name]}
    if row.table.id is None:
        return {}
    raise ValueError(
        Message(
            f"there is no {name!r} beside {', '.join(row.values)}. Drop ",
            Argument("id", name, Table),
            " where there are no ids",
        )
    )


def _tag_fault(tag: str) -> str:
    """What is wrong with a tag, a sentence, or nothing."""
    if " " in tag.strip():
        return f"{tag!r:.80} is more than one tag. Write a word and its tag in a line. {RECIPES}."
    if tag.strip() and not _NOT_IN_TAGS.search(tag):
        return ""
    return f"{tag!r:.80} does not look like a tag, which the last column should be."


def _sentences_of_lines(location: Location, table: Table, skip: Skipped) -> Iterator[Row]:
    """The sentences of a file in CoNLL format, as rows whose places are those of their first word.

    Args:
        location: The file.
        table: Its encoding.
        skip: Receives the first wrong line of each sentence that has one, which is left out.
    """
    undecoded: list[BadRow] | None = None if skip is None else []
    lines = []
    faults: dict[int, str] = {}
    for number, line in text_lines(location, table.encoding, undecoded, keep_bad=True):
        lines.append((number, line, _columns(line)))
        if undecoded:
            faults[number] = undecoded.pop().reason
    words = [
        columns
        for _, line, columns in lines
        if columns and columns[0] != DOCUMENT and not line.startswith("#")
    ]
    widths = Counter(map(len, words)).most_common(1)
    width = widths[0][0] if widths else 2
    has_scheme = words != [] and all(_SCHEME_TAG.fullmatch(columns[-1]) for columns in words)
    sentences: list[list[tuple[int, list[str]]]] = [[]]
    is_wrong = [False]
    for number, line, columns in lines:
        if not columns or columns[0] == DOCUMENT:
            sentences.append([])
            is_wrong.append(False)
        elif not sentences[-1] and not is_wrong[-1] and _is_comment(line, columns, width):
            continue
        elif fault := faults.get(number) or _line_fault(line, columns, width, has_scheme):
            if not is_wrong[-1]:
                BadRow.leave_out(skip, f"{location}, line {number}", fault, line)
            is_wrong[-1] = True
        else:
            sentences[-1].append((number, columns))
    word_column = 0
    if width > 2 and all(_WORD_NUMBER.fullmatch(columns[0]) for columns in words):
        word_column = 1
        # CoNLL-U numbers 1-2 what is written as one word, and 1.1 what is not written
        sentences = [[word for word in words if word[1][0].isdecimal()] for words in sentences]
    texts = sum(" " in columns[min(word_column, len(columns) - 1)].strip() for columns in words)
    usable_sentences = [
        sentence
        for sentence, wrong in zip(sentences, is_wrong, strict=True)
        if sentence and not wrong
    ]
    if len(usable_sentences) == 1 and texts > len(words) // 2:
        raise ValueError(
            f"{location} has texts where words should be, and no empty line: write a word and its "
            "tag a line, and an empty line after each sentence. Labels of whole texts are those of "
            "a classification."
        )
    for sentence in usable_sentences:
        tokens = [columns[word_column] for _, columns in sentence]
        values = {"tokens": tokens, "tags": [columns[-1] for _, columns in sentence]}
        yield Row(str(location), sentence[0][0], values, table)


def _line_fault(line: str, columns: Sequence[str], width: int, has_scheme: bool) -> str:
    """What is wrong with the line of a word, without a period, or nothing.

    Args:
        line: The line.
        columns: What it is split into.
        width: The number of columns of most lines.
        has_scheme: All tags of the other lines are IOB tags.
    """
    if len(columns) != width or width == 1:
        return (
            f"{line.strip()!r:.80} has {amount(len(columns), 'column')}, not {max(2, width)}. "
            f"Every line should be a word and, last, its tag. {RECIPES}"
        )
    if fault := _tag_fault(columns[-1]):
        return fault.removesuffix(".")
    if has_scheme and line.startswith("#") and not _SCHEME_TAG.fullmatch(columns[-1]):
        return (
            f"{columns[-1]!r} is not an IOB tag, as the others are. Put a blank behind the # of a "
            "comment"
        )
    return ""


def _columns(line: str) -> list[str]:
    """Split a line at tabs if there is one, else at blanks. A blank alone may be a word."""
    line = line.rstrip(" \t\r\n")
    if "\t" not in line:
        return [column for column in line.split(" ") if column]
    return [column.strip(" ") or column for column in line.split("\t")]


def _is_comment(line: str, columns: Sequence[str], width: int) -> bool:
    """Whether a line before the words of a sentence is a comment.

    A hashtag is a word. Where columns are separated by blanks, `# O` is a word with its tag, too.
    """
    is_word = columns[0] == "#" and _SCHEME_TAG.fullmatch(columns[-1])
    begins_so = line.startswith(("# ", "## ")) and not is_word
    return line.startswith("#") and (len(columns) != width or begins_so)


def _check_spelling(rows: Sequence[Row]) -> None:
    """Raise a ValueError where the words are IOB tags, or the tags are such in another spelling.

    Each of these tags would be a kind of entity, O as well.
    """
    file = rows[0].file
    words = Counter(word for row in rows for word in row.values["tokens"])
    tags = Counter(tag for row in rows for tag in row.values["tags"])
    if _share_of_scheme(words) > 0.9 and _share_of_scheme(tags) < 0.5 and _has_kinds(words):
        raise ValueError(
            f"{file}: the first column has the tags ({first_names(sorted(words))}). Write a word "
            "and, last, its tag."
        )
    if tags.keys().isdisjoint(("O", "o", "-")):
        return
    outside = [tag for tag in ("-", "o") if tag in tags]
    inside = sorted(tag for tag in tags if tag not in ("O", "-", "o"))
    bare = [tag for tag in inside if tag in PREFIXES]
    named = [tag for tag in inside if tag not in PREFIXES]
    iob = [tag for tag in named if _SCHEME_TAG.fullmatch(tag)]
    spelled = [tag for tag in named if tag not in iob and _OTHER_SPELLING.fullmatch(tag)]
    advice = "Write O, B-KIND and I-KIND, which are needed to find entities."
    if (spelled and 2 * len(spelled) >= len(named)) or (outside and iob):
        other = min(outside + spelled)
        raise ValueError(f"{file}: {other!r} is an IOB tag in another spelling. {advice}")
    if bare and iob:
        raise ValueError(
            f"{file}: the tag {bare[0]!r} lacks a kind, which {iob[0]!r} has. {advice}"
        )


def _share_of_scheme(words: Counter[str]) -> float:
    """How many of the words are IOB tags."""
    count = sum(count for word, count in words.items() if _SCHEME_TAG.fullmatch(word))
    return count / max(1, words.total())


def _has_kinds(tags: Iterable[str]) -> bool:
    """Whether some are IOB tags with a kind."""
    return any(_SCHEME_TAG.fullmatch(tag) and "-" in tag for tag in tags)


def read_squad(data: Data, table: Table | None = None, skip: Skipped = None) -> list[Row]:
    """Read questions, their contexts and answers from a file in SQuAD format, or from memory.

    The file may also hold articles, or a row for each question with the columns question, context
    and answers, as .json, .jsonl or .parquet. A table has the answer in the column `answer` (or
    answer_text), which is empty where there is none, and may have its place in `answer_start`.

    Args:
        data: Path or URI. Or questions: dicts as in such rows.
        table: The encoding of the file. None: UTF-8, or what a byte order mark names.
        skip: Receives questions that cannot be used, which are left out. None: the first is an
            error.

    Returns:
        A row for each question, with the values `question`, `context`, `answers` (texts) and
        `starts` (where each begins in the context). A question that is_impossible has no answers.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is not a SQuAD file, it has no question, an answer is not in its context, or
            that of a table stands there several times.
    """
    table = table or Table()
    if isinstance(data, str | os.PathLike):
        questions = _entries(data, table, skip)
    else:
        questions = rows_in_memory(data, table)
    return usable(data, questions, _check_question, skip)


def _entries(path: FilePath, table: Table, skip: Skipped) -> Iterator[Row]:
    """A row for each question, with the context of its paragraph."""
    is_array = isinstance(row_format(Location(path), table), JsonArray)
    try:
        content = read_json_value(path, table) if is_array else None
    except BadRowError as error:  # a line of JSON cannot be left out
        raise ValueError(message_of(error)) from None
    if isinstance(content, dict):
        objects = [Row(str(path), 1, content, table, "entry")]
    else:
        objects = list(read(path, table, skip, columns=()))
    number = 0
    for row in objects:
        values = row.values
        if "question" in values and "context" in values:
            yield row
            continue
        articles = [values]
        if "paragraphs" not in values:
            if "data" not in values:
                raise ValueError(
                    f"{row.place} has the columns {', '.join(values)}, but expected are question, "
                    f"context and answer, or data, as in SQuAD. {RECIPES}."
                )
            articles = _objects(str(path), values, "data", skip)
        for article in articles:
            for paragraph in _objects(str(path), article, "paragraphs", skip):
                for entry in _objects(str(path), paragraph, "qas", skip):
                    number += 1
                    context = paragraph.get("context")
                    yield Row(str(path), number, {**entry, "context": context}, table, "question")


def _objects(
    place: str, values: Mapping[str, Any], key: str, skip: Skipped
) -> list[dict[str, Any]]:
    items = values.get(key)
    if not isinstance(items, list):
        BadRow.leave_out(skip, place, f"{key} should be a list, not {items!r:.80}", repr(values))
        return []
    objects = []
    for item in items:
        if isinstance(item, dict):
            objects.append(item)
        else:
            BadRow.leave_out(
                skip, place, f"{key} should hold objects, not {item!r:.80}", repr(item)
            )
    return objects


def _check_question(row: Row) -> None:
    """Give an entry of SQuAD, or a row of datasets, the values that `read_squad` returns.

    Raises:
        ValueError: A text is missing, or an answer is not in the context.
    """
    check_columns(row)
    values = row.values
    for name in ("question", "context"):
        if not isinstance(values.get(name), str):
            raise ValueError(f"{name} should be a text, not {values.get(name)!r:.80}.")
    context = values["context"]
    texts, starts = [], []
    for text, start in _answers(values):
        if text.strip():
            texts.append(text.strip())
            starts.append(_answer_start(context, text, start))
    question = values["question"]
    known = _id_of(row)
    row.values = {"question": question, "context": context, "answers": texts, "starts": starts}
    row.values |= known


def _answers(values: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """The text of each answer, and where it should start.

    0 where a list of answers does not say. None where the answer of a table does not.
    """
    impossible = values.get("is_impossible")
    if impossible not in (None, True, False):  # "False" of a table of text would be true
        raise ValueError(f"is_impossible should be true or false, not {impossible!r:.80}.")
    if impossible:
        return
    single = next((name for name in ANSWER_COLUMNS if name in values), None)
    if "answers" not in values and single is not None:
        yield _answer_of_table(values, single)
        return
    if "answers" not in values:
        raise ValueError(
            f"the columns are {', '.join(values)}, but expected is answer, or answers as in SQuAD. "
            f"{RECIPES}"
        )
    answers = values["answers"]
    if isinstance(answers, Mapping):  # as datasets stores them, or an answer alone
        texts, starts = answers.get("text"), answers.get("answer_start")
        answers = [answers]
        texts = as_list(texts)
        if texts is not None:
            starts = as_list(starts) or [0] * len(texts)
            if len(starts) != len(texts):
                raise ValueError(
                    f"answers has {amount(len(texts), 'text')}, but {len(starts)} in answer_start."
                )
            answers = [
                {"text": text, "answer_start": start}
                for text, start in zip(texts, starts, strict=True)
            ]
    answers = [] if answers is None else as_list(answers)
    if answers is None:
        raise ValueError(f"answers should be a list of texts, not {values['answers']!r:.80}.")
    for answer in answers:
        text, start = answer, 0
        if isinstance(answer, Mapping):
            text, start = answer.get("text"), answer.get("answer_start", 0)
        if not isinstance(text, str):
            raise ValueError(f"an answer should be a text, not {text!r:.80}.")
        if not isinstance(start, Integral) or isinstance(start, bool):
            raise ValueError(f"answer_start should be a whole number, not {start!r:.80}.")
        yield text, int(start)


def _answer_of_table(values: Mapping[str, Any], column: str) -> tuple[str, int | None]:
    """The answer of a row of a table, and where it should start if the row says so."""
    text, start = values[column], values.get("answer_start")
    if not isinstance(text, str):
        raise ValueError(f"{column} should be a text, not {text!r:.80}.")
    if start is None or str(start).strip() in ("", "nan") or not text.strip():
        return text, None
    number = number_of(start)
    if not number.is_integer():
        raise ValueError(f"answer_start should be a whole number, not {start!r:.80}.")
    return text, int(number)


def _answer_start(context: str, text: str, expected: int | None) -> int:
    """Find the start of an answer that is nearest to the expected one.

    White space around the answer is left out. Where nothing is expected, it has to stand in the
    context once.
    """
    blanks = len(text) - len(text.lstrip())
    text = text.strip()
    starts = [match.start() for match in re.finditer(f"(?={re.escape(text)})", context)]
    if expected is None and len(starts) > 1:
        raise ValueError(
            f"the answer {text!r:.200} stands {len(starts)} times in its context. Write where it "
            "begins into a column answer_start."
        )
    if starts:
        expected = (expected or 0) + blanks
        return min(starts, key=lambda start: abs(start - expected))
    forms: dict[str, Callable[[str], str]] = {
        "in another Unicode form (normalize both to NFC)": lambda value: unicodedata.normalize(
            "NFC", value
        ),
        "with other white space": lambda value: "".join(value.split()),
        "in another case": str.casefold,
    }
    hint = next((name for name, form in forms.items() if form(text) in form(context)), None)
    raise ValueError(
        f"the answer {text!r:.200} is not in the context of its question."
        + (f" It is there {hint}." if hint else "")
    )
