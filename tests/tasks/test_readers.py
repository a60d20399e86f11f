"""Files of tags and questions: valid ones are read, and errors name the line."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import threading
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

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
        # mtime=0, because the data are in the test's id, which must be the same in all workers
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


def test_questions_with_a_value_of_the_wrong_type(tmp_path: Path) -> None:
    (tmp_path / "squad.json").write_text('{"data": [{"paragraphs": 3}]}', encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"squad\.json, line 1: paragraphs should be a list, not 3"
    ):
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
def test_valid_files(content: str, tmp_path: Path) -> None:
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


def test_unicode_spaces_are_part_of_a_word(tmp_path: Path) -> None:
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
def test_invalid_files(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)


CONLLU = "1-2\tvámonos\t_\t_\n1\tvamos\tVERB\tO\n2\tnos\tPRON\tB-X\n2.1\t_\t_\t_\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (CONLLU, [(["vamos", "nos"], ["O", "B-X"])]),
        ("0 Ann B-PER\n1 sang O\n", ANN),
        (
            "-DOCSTART- (a) O\n\nAnn B-PER\n \t\nsang O\n",
            [([word], [tag]) for word, tag in zip(*ANN[0], strict=True)],
        ),
        ("Ann\t\tB-PER\nsang\t\tO\n", ANN),
        ("Seoul LOC\nis O\nbig O\n", [(["Seoul", "is", "big"], ["LOC", "O", "O"])]),
        ("나/NP는/JX NP+JX\n간다/VV VV\n", [(["나/NP는/JX", "간다/VV"], ["NP+JX", "VV"])]),
        ("Ann NN-S\nsang VB_D\n", [(["Ann", "sang"], ["NN-S", "VB_D"])]),
        ("Ann I-PER\nLee E-PER\nsang O\n", [(["Ann", "Lee", "sang"], ["I-PER", "E-PER", "O"])]),
        (JSON_TAGS.strip() * 2, ANN * 2),
        ("{} O\n[1] O\n", [(["{}", "[1]"], ["O", "O"])]),
        (json.dumps(json.loads(JSON_TAGS), indent=1), ANN),
        (JSON_TAGS.replace("ner_tags", "ner"), ANN),
    ],
)
def test_other_ways_to_write_tags(
    content: str, expected: list[TaggedSentence], tmp_path: Path
) -> None:
    assert read(tmp_path, content) == expected


def test_tags_in_parquet(tmp_path: Path) -> None:
    table = pyarrow.table(
        {"tokens": [words for words, _ in ANN], "tags": [tags for _, tags in ANN]}
    )
    parquet.write_table(table, tmp_path / "tags.parquet")
    assert read_conll(tmp_path / "tags.parquet") == ANN


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id\tword\ttag\n1\tAnn\tB-PER\n", r"line 1 is a header \(id word tag\)"),
        ("Wort Klasse\nAnn B-PER\nsang O\n", r"line 1 is a header \(Wort Klasse\)"),
        ("1 Ann B-PER\n1 sang O\n2 Bo B-PER\n", "the first column holds numbers only, such as '1'"),
        ("1 Ann B-PER\n\n2 Bo B-PER\n", "the first column holds numbers only"),
        ("1\tAnn\t_\n2\tsang\t_\n", "the last column is '_' in every line"),
        ("Ann/B-PER sang/O\n", "'Ann/B-PER' is a word that is joined to its tag"),
        ("B-PER Ann\nO sang\n", "the tag 'B-PER' stands in front of its word: put it last"),
        ("Ann b-per\nsang o\n", "the tag 'b-per' looks like 'B-per' in another spelling"),
        ("Ann B-PER\nsang o\n", "the tag 'o' looks like 'O' in another spelling"),
        ("Ann PER_B\nsang -\n", "the tag '-' looks like 'O' in another spelling"),
        ("Ann B_PER\nsang O\n", "the tag 'B_PER' looks like 'B-PER' in another spelling"),
        ("Ann B-PER\nsa\0ng O\n", "line 2: the line has a NUL byte"),
        ('{"data": [{"tokens": ["Ann"], "tags": ["O"]}]}', r"keys data, .* \(jq \.data\)"),
    ],
)
def test_tags_that_would_be_read_as_something_else(
    content: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)


CONTEXT = "the tree is tall"
ENTRY = {"question": "how tall?", "answers": [{"text": "tall", "answer_start": 12}]}
QUESTION = {
    "question": "how tall?",
    "context": CONTEXT,
    "answers": ["tall"],
    "starts": [12],
}
ARTICLE = {"title": "t", "paragraphs": [{"context": CONTEXT, "qas": [ENTRY]}]}
ROW = {"context": CONTEXT, **ENTRY, "answers": {"text": ["tall"], "answer_start": [12]}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("printed.json", json.dumps({"version": "v2.0", "data": [ARTICLE]}, indent=1)),
        ("articles.json", json.dumps([ARTICLE])),
        ("article.json", json.dumps(ARTICLE)),
        ("articles.jsonl", json.dumps(ARTICLE) + "\n"),
        ("rows.json", json.dumps([ROW])),
        ("rows.jsonl", json.dumps(ROW) + "\n"),
        ("rows.jsonl", json.dumps({"context": CONTEXT, **ENTRY}) + "\n"),
    ],
)
def test_questions_in_other_shapes(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_squad(tmp_path / name) == [QUESTION]


def test_questions_in_parquet_and_without_answers(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.Table.from_pylist([ROW]), tmp_path / "rows.parquet")
    assert read_squad(tmp_path / "rows.parquet") == [QUESTION]
    impossible = {"question": "how?", "is_impossible": True}
    article = {"paragraphs": [{"context": CONTEXT, "qas": [impossible]}]}
    (tmp_path / "squad.json").write_text(json.dumps(article), encoding="utf-8")
    assert read_squad(tmp_path / "squad.json")[0]["answers"] == []


def squad(**changes: object) -> str:
    paragraph = {"context": changes.pop("context", CONTEXT), "qas": [{**ENTRY, **changes}]}
    return json.dumps({"data": [{"paragraphs": [paragraph]}]})


def answers(text: object, start: object) -> list[dict[str, object]]:
    return [{"text": text, "answer_start": start}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (squad(question=None), "question 1: question should be a text, not None"),
        (squad(context=["a"]), r"question 1: context should be a text, not \['a'\]"),
        (squad(answers=["tall"]), "answers should hold objects, not 'tall'"),
        (squad(answers=answers(5, 0)), "an answer should be a text, not 5"),
        (squad(answers=answers("tall", "12")), "answer_start should be a whole number, not '12'"),
        (squad(answers=answers("tall", None)), "answer_start should be a whole number, not None"),
        (squad(answers=answers("tall", float("nan"))), "should be a whole number, not nan"),
        (squad(answers=answers("Tall", 12)), "is there in another case"),
        (squad(answers=answers("tree  is", 4)), "is there with other white space"),
        (squad(context="학교", answers=answers("\u1112\u1161\u11a8", 0)), "normalize both to NFC"),
        ('{"data": null}', "line 1: data should be a list, not None"),
        ('{"data": ["a"]}', "line 1: data should hold objects, not 'a'"),
        (
            '{"text": "a", "label": 1}',
            "line 1 has the keys text, label, but expected is data, as in",
        ),
        ("text,label\na,1\n", "line 1: the line is not JSON"),
        ("  \n", "has no rows"),
    ],
)
def test_invalid_questions(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "squad.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_squad(tmp_path / "squad.json")


@pytest.mark.needs("named pipes")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    for content, expected in ((TAGS, ANN), (JSON_TAGS, ANN)):
        pipe = tmp_path / f"pipe{len(content)}"
        os.mkfifo(pipe)
        # a daemon, because an error before the read would leave it waiting forever
        writer = threading.Thread(
            target=pipe.write_text, args=(content,), kwargs={"encoding": "utf-8"}, daemon=True
        )
        writer.start()
        assert read_conll(pipe) == expected
        writer.join()
