"""Files of tags and questions: valid ones are read, and errors name the line."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import feather, parquet

from minibert.tasks.answers import AnswerTask
from minibert.tasks.readers import read_conll, read_squad
from minibert.tasks.task import read_rows
from minibert.tasks.tokens import TokenTask
from minibert.text import BadRow, Table

TaggedSentence = tuple[list[str], list[str]]


def read(folder: Path, content: str, name: str = "tags.txt") -> list[TaggedSentence]:
    path = folder / name
    path.write_bytes(content.encode())
    return tagged(path)


def tagged(path: Path, table: Table | None = None) -> list[TaggedSentence]:
    return [(row.values["tokens"], row.values["tags"]) for row in read_conll(path, table)]


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
    assert tagged(tmp_path / name) == ANN


def test_korean_code_page(tmp_path: Path) -> None:
    text = "홍길동은 B-PER\n서울에서 B-LOC\n살았다 O\n"
    (tmp_path / "tags.txt").write_bytes(text.encode("cp949"))
    assert tagged(tmp_path / "tags.txt", Table(encoding="cp949"))[0][0] == [
        "홍길동은",
        "서울에서",
        "살았다",
    ]


def test_questions_in_a_compressed_file_and_without_answers(tmp_path: Path) -> None:
    (tmp_path / "squad.json.gz").write_bytes(gzip.compress(json.dumps(SQUAD).encode()))
    rows = read_squad(tmp_path / "squad.json.gz")
    assert [row.values["answers"] for row in rows] == [["a"], []]


def test_questions_with_a_value_of_the_wrong_type(tmp_path: Path) -> None:
    (tmp_path / "squad.json").write_text('{"data": [{"paragraphs": 3}]}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"squad\.json: paragraphs should be a list, not 3"):
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
    ],
)
def test_valid_files(content: str, tmp_path: Path) -> None:
    assert read(tmp_path, content) == ANN


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.JSONL", JSON_TAGS),
        ("a.ndjson", JSON_TAGS.replace("ner_tags", "ner")),
        ("a.json", '[{"words": ["Ann", "sang"], "tags": ["B-PER", "O"]}]'),
    ],
)
def test_json(name: str, content: str, tmp_path: Path) -> None:
    assert read(tmp_path, content, name) == ANN


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
        ("Ann _ B-PER\nsang O\n", "line 2: 'sang O' has 2 columns, not 3"),
        ("Ann B-PER\n\nKim Min B-PER\n", "line 3: 'Kim Min B-PER' has 3 columns, not 2"),
        ("Ann id=1\n", "line 1: 'id=1' does not look like a tag"),
        ("Ann O\nsee https://a.b\n", "line 2: 'https://a.b' does not look like a tag"),
        ("Ann\nB-PER\n", "line 1: 'Ann' has 1 column, not 2"),
        # a sentence and its tags in a line, CoNLL-U, CoNLL-2012
        (
            "Ann sang\tPER-B O\n",
            "line 1: 'PER-B O' is more than one tag.*What minibert does not do",
        ),
        ("BOS to Seoul EOS\t O O B-city I\n", "line 1: 'O O B-city I' is more than one tag"),
        ("1\tKori\t_\tPROPN\tTranslit=Kori\n", "'Translit=Kori' .*which the last column"),
        ("bc/cctv 0 Taiwan NNP (NP*)) - (GPE) (5)\n", "'\\(5\\)' does not look like a tag"),
        ("\n\n", "has no rows"),
    ],
)
def test_invalid_files(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"tokens": ["Ann"], "ner_tags": ["O", "O"]}\n', "line 1: tokens and ner_tags should be"),
        ('{"tokens": ["Ann"], "ner_tags": [3]}\n', "line 1: words and tags should be strings"),
        ('{"text": "Ann"}\n', r"line 1: the keys are text, but expected are tokens"),
        # doccano, Label Studio
        ('{"text": "Ann", "label": [[0, 3, "PER"]]}\n', "What minibert does not do"),
        ('{"id": 1, "data": {}, "annotations": []}\n', "What minibert does not do"),
    ],
)
def test_invalid_objects(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content, "tags.jsonl")


def test_bad_sentences_and_questions_are_left_out_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        JSON_TAGS + '{"tokens": ["a"], "tags": []}\n', encoding="utf-8"
    )
    skipped: list[BadRow] = []
    assert len(read_conll(tmp_path / "a.jsonl", skip=skipped)) == 1
    assert skipped[0].place == f"{tmp_path / 'a.jsonl'}, line 2"
    wrong = {**ENTRY, "answers": answers("oak", 0), "context": CONTEXT}
    rows = [json.dumps(ROW), json.dumps(wrong)]
    (tmp_path / "b.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert len(read_squad(tmp_path / "b.jsonl", skip=skipped)) == 1
    assert "'oak' is not in the context" in skipped[1].reason


def test_a_file_of_bad_rows_alone_says_what_is_wrong_with_them(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"tokens": ["a"], "tags": []}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="a.jsonl, line 1: tokens and tags should be lists"):
        read_conll(tmp_path / "a.jsonl", skip=[])
    wrong = {**ENTRY, "answers": answers("oak", 0), "context": CONTEXT}
    (tmp_path / "b.jsonl").write_text(json.dumps(wrong) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="b.jsonl, line 1: the answer 'oak'"):
        read_squad(tmp_path / "b.jsonl", skip=[])


def test_bad_rows_of_another_file_are_not_the_reason(tmp_path: Path) -> None:
    good = '{"tokens": ["a"], "tags": ["O"]}\n'
    (tmp_path / "train.jsonl").write_text(good + '{"tokens": ["a"], "tags": []}\n', "utf-8")
    (tmp_path / "dev.tsv").write_text("\n\n", encoding="utf-8")
    skipped: list[BadRow] = []
    assert len(read_rows(TokenTask(), tmp_path / "train.jsonl", skip=skipped)) == 1
    with pytest.raises(ValueError, match=r"dev\.tsv has no rows"):
        read_rows(TokenTask(), tmp_path / "dev.tsv", dev=True, skip=skipped)
    assert len(skipped) == 1


def test_hashtags_are_words_and_comments_are_not(tmp_path: Path) -> None:
    tweets = "#Glee\tB-tvshow\nis\tO\n\n#1\tB-rank\n\n# text = I\nI\tO\n"
    assert [words for words, _ in read(tmp_path, tweets)] == [["#Glee", "is"], ["#1"], ["I"]]
    all_begin_so = "#a\tO\n\n#b\tB-X\n"
    assert [words for words, _ in read(tmp_path, all_begin_so)] == [["#a"], ["#b"]]
    named = "# id 1\nAnn B-PER\n\n# id 2\nsang O\n"
    assert [words for words, _ in read(tmp_path, named)] == [["Ann"], ["sang"]]
    with pytest.raises(ValueError, match="line 1: '1' is not an IOB tag, as the others are"):
        read(tmp_path, named.replace("# ", "#"))
    kinds = "#love HT\nit PRP\n\n#1 HT\n"
    assert [words for words, _ in read(tmp_path, kinds)] == [["#love", "it"], ["#1"]]
    ontonotes = "#begin document (a); part 000\nAnn NNP (S) B-PER\n"
    assert [words for words, _ in read(tmp_path, ontonotes)] == [["Ann"]]


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
        ("{} O\n[1] O\n", [(["{}", "[1]"], ["O", "O"])]),
    ],
)
def test_other_ways_to_write_tags(
    content: str, expected: list[TaggedSentence], tmp_path: Path
) -> None:
    assert read(tmp_path, content) == expected


WRITE_TABLE = {"parquet": parquet.write_table, "arrow": feather.write_feather}


@pytest.mark.parametrize("ending", WRITE_TABLE)
def test_tags_in_a_table_of_arrow(ending: str, tmp_path: Path) -> None:
    table = pyarrow.table(
        {"tokens": [words for words, _ in ANN], "tags": [tags for _, tags in ANN]}
    )
    WRITE_TABLE[ending](table, tmp_path / f"tags.{ending}")
    assert tagged(tmp_path / f"tags.{ending}") == ANN


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Ann b-per\nsang o\n", "'b-per' is an IOB tag in another spelling"),
        ("Ann B-PER\nsang o\n", "'o' is an IOB tag in another spelling"),
        ("Ann PER_B\nsang -\n", "'-' is an IOB tag in another spelling"),
        ("Ann B_PER\nsang O\n", "'B_PER' is an IOB tag in another spelling"),
        ("Ann B-PER\nsa\0ng O\n", "line 2: the line has a NUL byte"),
    ],
)
def test_tags_that_would_be_read_as_something_else(
    content: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)


def test_tags_in_memory_are_those_of_a_file() -> None:
    """In another spelling each of them would be a kind of entity, O as well."""
    with pytest.raises(ValueError, match="data: 'b-per' is an IOB tag in another spelling"):
        read_conll([(["Ann", "sang"], ["b-per", "o"])])
    with pytest.raises(ValueError, match="data has no rows"):
        read_conll([([], [])])


def test_rows_in_memory_may_hold_arrays() -> None:
    """As pandas reads the lists of a parquet file."""
    row = {"tokens": np.array(["Ann", "sang"]), "ner_tags": np.array(["B-PER", "O"])}
    assert read_conll([row])[0].values == {"tokens": ["Ann", "sang"], "tags": ["B-PER", "O"]}
    answers = {"text": np.array(["tall"]), "answer_start": np.array([12])}
    assert read_squad([{**ROW, "answers": answers}])[0].values == QUESTION


@pytest.mark.parametrize("row", ["a text", 5, None, (["Ann"], ["O"], ["x"])])
def test_rows_in_memory_that_are_no_dicts(row: Any) -> None:
    for read in (read_conll, read_squad):
        with pytest.raises(ValueError, match="data, row 1: the row should be a dict of columns"):
            read([row])


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
    assert [row.values for row in read_squad(tmp_path / name)] == [QUESTION]


def test_questions_in_tables_and_without_answers(tmp_path: Path) -> None:
    for ending, write_table in WRITE_TABLE.items():
        write_table(pyarrow.Table.from_pylist([ROW]), tmp_path / f"rows.{ending}")
        assert read_squad(tmp_path / f"rows.{ending}")[0].values == QUESTION
    # an answer that is given for a question without one does not count
    impossible = {**ENTRY, "is_impossible": True}
    article = {"paragraphs": [{"context": CONTEXT, "qas": [impossible]}]}
    (tmp_path / "squad.json").write_text(json.dumps(article), encoding="utf-8")
    assert read_squad(tmp_path / "squad.json")[0].values["answers"] == []


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
        (squad(is_impossible="False"), "is_impossible should be true or false, not 'False'"),
        (
            squad(answers={"text": ["tall", "trees"], "answer_start": [12]}),
            "answers has 2 texts, but 1 in answer_start",
        ),
        (squad(answers="tall"), "answers should be a list of texts, not 'tall'"),
        (squad(answers=answers(5, 0)), "an answer should be a text, not 5"),
        (squad(answers=answers("tall", "12")), "answer_start should be a whole number, not '12'"),
        (squad(answers=answers("tall", None)), "answer_start should be a whole number, not None"),
        (squad(answers=answers("tall", float("nan"))), "should be a whole number, not nan"),
        (squad(answers=answers("Tall", 12)), "is there in another case"),
        (squad(answers=answers("tree  is", 4)), "is there with other white space"),
        (squad(context="학교", answers=answers("\u1112\u1161\u11a8", 0)), "normalize both to NFC"),
        ('{"data": null}', "data should be a list, not None"),
        ('{"data": ["a"]}', "data should hold objects, not 'a'"),
        ('{"text": "a", "label": 1}', "has the columns text, label, but expected are question"),
        ("text,label\na,1\n", "is not JSON"),
        ("  \n", "is not JSON"),
    ],
)
def test_invalid_questions(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "squad.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_squad(tmp_path / "squad.json")


@pytest.mark.needs("named pipes")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    for content, expected, name in ((TAGS, ANN, "tags"), (JSON_TAGS, ANN, "tags.jsonl")):
        pipe = tmp_path / name
        os.mkfifo(pipe)
        # a daemon, because an error before the read would leave it waiting forever
        writer = threading.Thread(
            target=pipe.write_text, args=(content,), kwargs={"encoding": "utf-8"}, daemon=True
        )
        writer.start()
        assert tagged(pipe) == expected
        writer.join()


def test_an_answer_is_searched_near_its_start(tmp_path: Path) -> None:
    def values(text: str, start: int) -> dict[str, Any]:
        entry = {"question": "Who?", "answers": [{"text": text, "answer_start": start}]}
        content = {"data": [{"paragraphs": [{"context": "Ann sat. Ann ran.", "qas": [entry]}]}]}
        (tmp_path / "squad.json").write_text(json.dumps(content), encoding="utf-8")
        return read_squad(tmp_path / "squad.json")[0].values

    assert values(" Ann ", 8)["starts"] == [9] and values(" Ann ", 8)["answers"] == ["Ann"]
    assert values("Ann", 1)["starts"] == [0] and values("Ann", 7)["starts"] == [9]
    assert values("", -1)["answers"] == []
    with pytest.raises(ValueError, match=r"squad\.json, question 1: .*'Bob' is not in the context"):
        values("Bob", 0)


@pytest.mark.parametrize(
    ("task", "entry"),
    [
        (AnswerTask(), {"id": "q7", "question": "who?", "context": "Ann.", "answers": ["Ann"]}),
        (TokenTask(), {"id": "s7", "tokens": ["Ann"], "tags": ["B-PER"]}),
    ],
)
def test_an_entry_keeps_its_id(task: AnswerTask | TokenTask, entry: dict[str, Any]) -> None:
    """Its errors are reported with it."""
    (row,) = task.read([entry])
    assert row.values["id"] == entry["id"]
