"""Files of tags: read right, or refused by the number of the line."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from minibert.tasks.readers import TaggedSentence, read_conll, read_squad


def read(folder: Path, content: str, name: str = "tags.txt") -> list[TaggedSentence]:
    path = folder / name
    path.write_bytes(content.encode())
    return read_conll(path)


ANN = [(["Ann", "sang"], ["B-PER", "O"])]
TAGS = "Ann B-PER\nsang O\n"
JSON_TAGS = '{"tokens": ["Ann", "sang"], "ner_tags": ["B-PER", "O"]}\n'
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "a b",
                    "qas": [
                        {"question": "q", "answers": [{"text": "a", "answer_start": 0}]},
                        {"question": "r", "answers": None, "is_impossible": True},
                    ],
                }
            ]
        }
    ]
}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        # without the time: workers have to collect the same names of tests
        ("tags.conll.gz", gzip.compress(TAGS.encode(), mtime=0)),
        ("TAGS.TXT.BZ2", bz2.compress(TAGS.encode())),
        ("tags.JSONL.xz", lzma.compress(JSON_TAGS.encode())),
        ("tags.txt", TAGS.encode("utf-16")),
    ],
)
def test_compressed_files_and_encodings(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    assert read_conll(tmp_path / name) == ANN


def test_korean_code_page(tmp_path: Path) -> None:
    text = "홍길동은 B-PER\n서울에서 B-LOC\n살았다 O\n"
    (tmp_path / "tags.txt").write_bytes(text.encode("cp949"))
    assert read_conll(tmp_path / "tags.txt")[0][0] == ["홍길동은", "서울에서", "살았다"]


def test_questions_in_a_compressed_file_and_without_answers(tmp_path: Path) -> None:
    (tmp_path / "squad.json.gz").write_bytes(gzip.compress(json.dumps(SQUAD).encode()))
    rows = read_squad(tmp_path / "squad.json.gz")
    assert [row["answers"] for row in rows] == [["a"], []]


def test_questions_with_a_value_of_another_type(tmp_path: Path) -> None:
    (tmp_path / "squad.json").write_text('{"data": [{"paragraphs": 3}]}', encoding="utf-8")
    with pytest.raises(ValueError, match="after question 0 a value has another type"):
        read_squad(tmp_path / "squad.json")


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
        ('{"text": "Ann"}\n', r"line 1 has the keys text, but expected are tokens"),
        ("\n\n", "has no rows"),
    ],
)
def test_what_is_refused(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)
