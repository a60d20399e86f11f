"""Files of tags: read right, or refused by the number of the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibert.tasks.readers import TaggedSentence, read_conll


def read(folder: Path, content: str, name: str = "tags.txt") -> list[TaggedSentence]:
    path = folder / name
    path.write_bytes(content.encode())
    return read_conll(path)


ANN = [(["Ann", "sang"], ["B-PER", "O"])]


@pytest.mark.parametrize(
    "content",
    [
        "Ann\tB-PER\nsang\tO\n",
        "Ann B-PER\rsang O\r",
        "Ann B-PER\r\nsang O\r\n",
        "\ufeffAnn B-PER\nsang O",
        "# sent_id = 1\nAnn B-PER\nsang O\n",
        "# id 1\tdomain=en\nAnn _ _ B-PER\nsang _ _ O\n",
        "1\tAnn\tB-PER\n2\tsang\tO\n",
        "Ann  NNP   B-PER \nsang  VBD  O\n",
        '{"tokens": ["Ann", "sang"], "ner_tags": ["B-PER", "O"]}\n',
        '[{"words": ["Ann", "sang"], "tags": ["B-PER", "O"]}]',
    ],
)
def test_what_is_read(content: str, tmp_path: Path) -> None:
    assert read(tmp_path, content) == ANN


@pytest.mark.parametrize("name", ["a.json", "a.JSONL", "a.ndjson", "a.conll"])
def test_json_under_any_name(name: str, tmp_path: Path) -> None:
    rows = [{"tokens": words, "ner_tags": tags} for words, tags in ANN]
    assert read(tmp_path, "\n".join(map(json.dumps, rows)), name) == ANN


def test_a_number_sign_is_a_word_where_it_has_a_tag(tmp_path: Path) -> None:
    content = "# O\nAnn B-PER\n\nAnn B-PER\n# O\n"
    assert read(tmp_path, content) == [
        (["#", "Ann"], ["O", "B-PER"]),
        (["Ann", "#"], ["B-PER", "O"]),
    ]


def test_other_spaces_are_part_of_a_word(tmp_path: Path) -> None:
    content = "10\u00a0000 B-NUM\na\u2028b O\n"
    assert read(tmp_path, content) == [(["10\u00a0000", "a\u2028b"], ["B-NUM", "O"])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Ann _ B-PER\nsang O\n", "line 2 has 2 columns, but line 1 has 3"),
        ("Ann B-PER\n\nKim Min B-PER\n", "line 3 has 3 columns, but line 1 has 2"),
        ("word\ttag\nAnn\tB-PER\n", r"line 1 is a header \(word tag\)"),
        ("Ann id=1\n", "line 1: 'id=1' does not look like a tag"),
        ("Ann O\nsee https://a.b\n", "line 2: 'https://a.b' does not look like a tag"),
        ("1 O\n2 O\n\n1 O\n2 B-X\n", "the first column counts words"),
        ('{"tokens": ["Ann"], "ner_tags": ["O", "O"]}\n', "line 1: tokens and ner_tags should be"),
        ('{"tokens": ["Ann"], "ner_tags": [3]}\n', "line 1: words and tags should be strings"),
        ('{"text": "Ann"}\n', r"line 1 has the keys text; expected tokens"),
        ("\n\n", "has no rows"),
    ],
)
def test_what_is_refused(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)
