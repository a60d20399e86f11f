"""Headers that are almost right, delimiters and quotation marks, in every command that reads texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibert.cli import main

READERS = (
    "tokenize --file {file}",
    "embed -m minibert-tiny --file {file}",
    "search cat -m minibert-tiny --corpus {file}",
)


@pytest.mark.parametrize("typed", READERS)
@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("case.csv", "Text,n\na cat,1\n", "pass --text-column 'Text'"),
        ("semicolon.csv", "text;n\na cat;1\n", "pass --delimiter ';'"),
        ("tab.csv", "text\tn\na cat\t1\n", "pass --delimiter tab"),
        ("comma.tsv", "text,n\na cat,1\n", "pass --delimiter ,"),
        ("spelling.csv", "texts,n\na cat,1\n", "The nearest name is 'texts'."),
        ("case.jsonl", '{"Text": "a cat"}\n', "pass --text-column 'Text'"),
    ],
)
def test_a_header_that_is_almost_right(
    typed: str,
    name: str,
    content: str,
    advice: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")
    assert main(typed.format(file=file).split()) == 1
    assert advice in capsys.readouterr().err


def tokenized_texts(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["tokenize", "--jsonl", *map(str, arguments)]) == 0
    return [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]


def test_delimiters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    file.write_text("n;text\n1;one, two\n", encoding="utf-8")
    assert tokenized_texts(capsys, "--file", file, "--delimiter", ";") == ["one, two"]
    file = tmp_path / "a.dat"  # a table, because its delimiter is named
    file.write_text("n\ttext\n1\tone\n", encoding="utf-8")
    assert tokenized_texts(capsys, "--file", file, "--delimiter", "tab") == ["one"]


def test_quotation_marks_in_a_table_with_tabs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.tsv"
    file.write_text('n\ttext\n1\t"quoted"\n', encoding="utf-8")
    assert tokenized_texts(capsys, "--file", file) == ['"quoted"']
    assert tokenized_texts(capsys, "--file", file, "--quoting", "quoted") == ["quoted"]
    file.write_text('n\ttext\n1\t"She said ""no"""\n', encoding="utf-8")
    assert tokenized_texts(capsys, "--file", file) == ['She said "no"']
    assert tokenized_texts(capsys, "--file", file, "--quoting", "none") == ['"She said ""no"""']
