"""Errors of commands for unusual input, and output of values that JSON does not have."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import sys
from pathlib import Path

import pyarrow
import pytest
from conftest import tiny_config
from pyarrow import parquet
from tiny_folder import VOCABULARY, classifier_folder, sentence_folder, tiny_folder

from minibert import BertForQuestionAnswering, BertForTokenClassification
from minibert.base import PreTrainedModel
from minibert.cli import main


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths of one model per task, by the placeholders of the commands below."""
    top = tmp_path_factory.mktemp("models")

    def head(name: str, kind: type[PreTrainedModel]) -> Path:
        tiny_folder(top / name)
        kind(tiny_config(vocab_size=len(VOCABULARY))).save_pretrained(top / name)
        return top / name

    return {
        "BERT": str(tiny_folder(top / "bert")),
        "EMBEDDER": str(
            sentence_folder(
                top / "embedder",
                ("Pooling", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}),
            )
        ),
        "CLASSIFIER": str(classifier_folder(top / "classifier", 2)),
        "RANKER": str(classifier_folder(top / "ranker", 1)),
        "TAGGER": str(head("tagger", BertForTokenClassification)),
        "ANSWERER": str(head("answerer", BertForQuestionAnswering)),
    }


def words_of(command: str, models: dict[str, str], file: Path) -> list[str]:
    return [{**models, "FILE": str(file)}.get(word, word) for word in command.split()]


TEXT_COMMANDS = (
    "tokenize -m BERT --file FILE",
    "embed -m BERT --file FILE",
    "fill-mask -m BERT --file FILE",
    "classify -m CLASSIFIER --file FILE",
    "entities -m TAGGER --file FILE",
    "answer -m ANSWERER --question how --file FILE",
    "rerank how -m RANKER --file FILE",
    "search how -m BERT --corpus FILE",
    "search -m BERT --queries FILE --corpus FILE",
)


@pytest.mark.parametrize("command", TEXT_COMMANDS)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", ""),
        ("mark.txt", "\ufeff"),
        ("a.csv", ""),
        ("blank.csv", "\n\n"),
        ("header.csv", "text,label\n"),
        ("a.jsonl", "\n \n"),
        ("a.json", "[]"),
    ],
)
def test_every_command_reports_missing_text_in_the_same_words(
    command: str,
    name: str,
    content: str,
    models: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")
    assert main(words_of(command, models, file)) == 1
    assert f"there is no text in {file}." in capsys.readouterr().err


def test_a_vocabulary_needs_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.txt"
    file.write_text("\n \n", encoding="utf-8")
    output = tmp_path / "vocabulary"
    assert main(["vocab", "--corpus", str(file), "-o", str(output)]) == 1
    assert f"there is no text in {file}." in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize("blank", ["", "  ", "\u200b", "\x1a"])
def test_the_error_names_the_line_of_a_blank_text(
    blank: str, models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.txt"
    file.write_text(f"hello\n{blank}\nworld\n", encoding="utf-8")
    assert main(words_of(TEXT_COMMANDS[5], models, file)) == 1
    assert f"{file}, line 2: " in capsys.readouterr().err


def values_file(folder: Path) -> Path:
    table = {
        "text": ["hello", "world"],
        "day": [datetime.date(2024, 1, 2), None],
        "price": [1.5, float("nan")],
        "raw": [b"\xff", b"a"],
    }
    path = folder / "values.parquet"
    parquet.write_table(pyarrow.table(table), path)
    return path


@pytest.mark.parametrize("command", [TEXT_COMMANDS[3], TEXT_COMMANDS[4], TEXT_COMMANDS[7]])
def test_values_without_a_json_type_are_converted(
    command: str, models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words_of(command, models, values_file(tmp_path)), "--jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    if "results" in rows[0]:
        rows = [{**row, **row["columns"]} for row in rows[0]["results"]]
    by_text = {row["text"]: row for row in rows}
    assert by_text["hello"]["day"] == "2024-01-02"
    assert (by_text["world"]["day"], by_text["world"]["price"]) == (None, None)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_a_row_with_a_new_column_is_an_error(
    ending: str, models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    output = tmp_path / f"out.{ending}"
    command = [*words_of(TEXT_COMMANDS[3], models, file), "-o", str(output)]
    file.write_text('{"text": "hello", "n": 1}\n{"text": "world"}\n', encoding="utf-8")
    assert main(command) == 0
    output.unlink()
    file.write_text('{"text": "hello"}\n{"text": "world", "n": 1}\n', encoding="utf-8")
    assert main(command) == 1
    assert "row 2 has the column 'n', which the first row lacks" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize("values", ['1, "1"', f"1{'0' * 40}, 1"])
def test_columns_that_parquet_cannot_hold(
    values: str, models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f'{{"text": "hello", "n": {value}}}' for value in values.split(", ")]
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(rows), encoding="utf-8")
    command = words_of(TEXT_COMMANDS[3], models, file)
    assert main([*command, "-o", str(tmp_path / "out.parquet")]) == 1
    assert "values of a column have no type in common" in capsys.readouterr().err
    assert main([*command, "-o", str(tmp_path / "out.csv")]) == 0
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as table:
        assert len(list(csv.DictReader(table))) == len(rows)


HUGE = f"1{'0' * 400}"


@pytest.mark.parametrize("task", ["regression", "scores --pair-column pair"])
def test_a_label_too_large_for_a_float_is_an_error(
    task: str, models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"text": "a", "pair": "b", "label": {HUGE}}}\n', encoding="utf-8")
    command = f"finetune {task} -m BERT --train FILE --dev FILE"
    output = str(tmp_path / "out")
    assert main([*words_of(command, models, file), "-o", output]) == 1
    assert "line 1: label should be a " in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["finetune classification -m BERT --train FILE -o OUT", "evaluate CLASSIFIER FILE"],
)
def test_a_folder_in_place_of_a_file_is_an_error(
    command: str, models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    typed = [{"OUT": str(tmp_path / "out")}.get(word, word) for word in command.split()]
    assert main(words_of(" ".join(typed), models, folder)) == 1
    assert f"{folder} is a folder. Name a file." in capsys.readouterr().err


def test_evaluating_a_model_without_a_head_is_an_error(
    models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text,label\nhello,a\n", encoding="utf-8")
    assert main(["evaluate", models["BERT"], str(file)]) == 1
    assert "has no head to evaluate" in capsys.readouterr().err


def replace_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Replace standard input by a stream of these bytes."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


KOREAN = "나는 오늘 학교에 갔다\n우리는 한국어를 공부합니다\n"


def test_a_text_that_names_a_file_is_mentioned(
    models: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The text is the name, as typed. Whoever meant the file reads which option takes it."""
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("dog\n", encoding="utf-8")

    assert main(["tokenize", "-m", models["BERT"], "--jsonl", "lines.txt", "cat"]) == 0

    output, notice = capsys.readouterr()
    assert [json.loads(line)["tokens"][1][0] for line in output.splitlines()] == ["l", "c"]
    assert "'lines.txt'" in notice and "--file" in notice and "'cat'" not in notice


@pytest.mark.parametrize(
    "data",
    [
        KOREAN.encode("utf-16"),
        KOREAN.replace("\n", "\r").encode("utf-8-sig"),
    ],
)
def test_stdin_is_read_like_a_file(
    data: bytes,
    models: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    replace_stdin(monkeypatch, data)
    assert main(["tokenize", "-m", models["BERT"], "--file", "-", "--jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == KOREAN.splitlines()


def test_a_table_on_stdin(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_stdin(monkeypatch, b"id,text\n1,hello\n")
    command = ["classify", "-m", models["CLASSIFIER"], "--file", "-", "--jsonl"]
    assert main([*command, "--delimiter", ",", "--id-column", "id"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["id"], row["text"]) == ("1", "hello")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "there is no text in stdin."),
        (b"\xef\xbb\xbf", "there is no text in stdin."),
        (gzip.compress(b"hello\n", mtime=0), "stdin is gzip-compressed"),
        (b"<!doctype html>\n<p>a\n", "stdin is an HTML page"),
        (b"one\ntwo\0\n", "stdin, line 2: the line has a NUL byte"),
        (
            "schön groß\n".encode("latin-1"),
            "stdin, line 1: the line is not UTF-8",
        ),
        (
            KOREAN.encode("cp949"),
            "stdin, line 1: the line is not UTF-8. Pass its encoding, such as --encoding cp949",
        ),
        (b'{"text": "a"}{"text": "b"}\n', "stdin, line 1: the line is JSON"),
    ],
)
@pytest.mark.parametrize("command", [TEXT_COMMANDS[0], TEXT_COMMANDS[3], TEXT_COMMANDS[7]])
def test_invalid_stdin_is_an_error(
    command: str,
    data: bytes,
    message: str,
    models: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    replace_stdin(monkeypatch, data)
    assert main(words_of(command, models, Path("-"))) == 1
    assert message in capsys.readouterr().err


def test_blank_lines_of_a_file_of_queries_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("trees grow\nthe sea\n", encoding="utf-8")
    queries = tmp_path / "queries.txt"
    command = ["search", "-m", "minibert-tiny", "--corpus", str(corpus), "--queries", str(queries)]
    queries.write_text("a tree\n\n   \nwater\n\n", encoding="utf-8")
    assert main([*command, "--jsonl"]) == 0
    output = capsys.readouterr()
    assert [json.loads(line)["query"] for line in output.out.splitlines()] == ["a tree", "water"]
    assert "blank queries left out: " in output.err
    queries.write_text("\n\n", encoding="utf-8")
    assert main(command) == 1
    assert "there is no text in" in capsys.readouterr().err
