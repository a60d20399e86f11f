"""Wrong headers, delimiters and quotation marks in every command that reads tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import tiny_config
from tiny_folder import VOCABULARY, classifier_folder, tiny_folder

from minibert import BertForQuestionAnswering, BertForTokenClassification
from minibert.base import PreTrainedModel
from minibert.cli import build_parser, main

READERS = (
    "tokenize --file {file}",
    "embed -m minibert-tiny --file {file}",
    "search cat -m minibert-tiny --corpus {file}",
)


@pytest.mark.parametrize("typed", READERS)
@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("case.csv", "Text,n\na cat,1\n", "by --text-column Text"),
        ("semicolon.csv", "text;n\na cat;1\n", "Pass --delimiter ';'"),
        ("tab.csv", "text\tn\na cat\t1\n", "Pass --delimiter tab"),
        ("comma.tsv", "text,n\na cat,1\n", "Pass --delimiter ,"),
        ("spelling.csv", "texts,n\na cat,1\n", "The columns are texts, n."),
        ("case.jsonl", '{"Text": "a cat"}\n', "by --text-column Text"),
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
    file = tmp_path / "a.dat"  # read as a table because of --delimiter
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
    assert main(["tokenize", "--file", str(file)]) == 1
    message = capsys.readouterr().err
    assert "--quoting quoted" in message and "--quoting none" in message
    assert tokenized_texts(capsys, "--file", file, "--quoting", "none") == ['"She said ""no"""']


ALMOST_TABLES = {
    "case.csv": "Text,Label\na cat,1\na dog,0\n",
    "semicolon.csv": "text;label\na cat;1\na dog;0\n",
    "bar.tsv": "text|label\na cat|1\na dog|0\n",
    "tab.csv": "text\tlabel\na cat\t1\na dog\t0\n",
    "spelling.csv": "texts,labels\na cat,1\na dog,0\n",
    "no header.csv": "a cat,1\na dog,0\n",
    "no header.tsv": "a cat\t1\na dog\t0\n",
    "one column.csv": "a cat\na dog\n",
    "ragged.tsv": 'text\tlabel\n"a\tcat"\t1\n\'a dog"\t0\n',
    "open quote.csv": 'text,label\n"a cat,1\na dog,0\n',
    "case.jsonl": '{"Text": "a cat", "Label": 1}\n',
    "number.jsonl": '{"text": 1, "label": 1}\n',
    "null.jsonl": '{"text": null, "label": null}\n',
    "lines.txt": "a cat\na dog\n",
    "json.txt": '{"text": "a cat", "label": 1}\n',
    "empty.csv": "",
    "header alone.tsv": "text\tlabel\n",
}
TABLE_READERS = {
    "tokenize": "--file FILE",
    "embed": "-m minibert-tiny --file FILE --id-column key",
    "search": "cat -m minibert-tiny --corpus FILE --id-column key",
    "rerank": "cat -m CLASSIFIER --file FILE",
    "classify": "-m CLASSIFIER --file FILE",
    "entities": "-m TAGGER --file FILE",
    "answer": "-m ANSWERER --question who --file FILE",
    "fill-mask": "-m minibert-tiny --file FILE",
    "evaluate": "-m CLASSIFIER FILE",
    "vocab": "--corpus FILE -o OUTPUT",
    "pretrain": "--config tiny --vocab VOCABULARY --steps 1 --corpus FILE -o OUTPUT",
    "finetune classification": "-m minibert-tiny --steps 1 --train FILE -o OUTPUT",
    "finetune regression": "-m minibert-tiny --steps 1 --train FILE -o OUTPUT",
    "finetune pairs": "-m minibert-tiny --steps 1 --train FILE --pair-column label -o OUTPUT",
    "finetune scores": "-m minibert-tiny --steps 1 --train FILE --pair-column other -o OUTPUT",
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def head_folder(folder: Path, model_class: type[PreTrainedModel]) -> Path:
    tiny_folder(folder)
    model_class(tiny_config(vocab_size=len(VOCABULARY))).save_pretrained(folder)
    return folder


def options_of(command: str) -> set[str]:
    parser = build_parser()
    for word in command.split():
        parser = parser.commands[word]
    return set(parser.options_by_name())


def test_every_command_that_reads_tables_has_the_options_of_tables() -> None:
    for command in TABLE_READERS:
        expected = {"--text-column", "--delimiter", "--quoting"}
        assert expected <= options_of(command), command


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {
        "CLASSIFIER": classifier_folder(root / "classifier", 2),
        "TAGGER": head_folder(root / "tagger", BertForTokenClassification),
        "ANSWERER": head_folder(root / "answerer", BertForQuestionAnswering),
        "VOCABULARY": tiny_folder(root / "vocabulary"),
    }


@pytest.mark.parametrize("one_of", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", TABLE_READERS)
def test_every_option_that_a_message_names_exists(
    command: str,
    one_of: int,
    folders: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command reads one of three files, all of them slowly. Each file has five commands."""
    names_of_options = options_of(command)
    codes = set()
    first = list(TABLE_READERS).index(command) % one_of
    for number, name in enumerate(list(ALMOST_TABLES)[first::one_of]):
        file = tmp_path / name
        file.write_text(ALMOST_TABLES[name], encoding="utf-8")
        typed = [*command.split(), *TABLE_READERS[command].split()]
        places = {**folders, "FILE": file, "OUTPUT": tmp_path / f"output {number}"}
        codes.add(main([str(places.get(word, word)) for word in typed]))
        message = capsys.readouterr().err
        assert set(OPTION.findall(message)) <= names_of_options, (name, message)
        assert "Traceback" not in message, (name, message)
    assert 1 in codes  # every command rejects some of the files


@pytest.mark.parametrize("name", ["docs.csv", "docs.dat"])
def test_training_commands_read_the_given_column_and_delimiter(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    rows = "".join(f"{number};hello world {number}\n" for number in range(9))
    file.write_text(f"n;words\n{rows}", encoding="utf-8")
    table = ["--corpus", str(file), "--text-column", "words", "--delimiter", ";"]
    learned = tmp_path / "learned"
    assert main(["vocab", *table, "-o", str(learned), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["words"] == 2 + 9  # not the numbers of the rows
    trained = tmp_path / "trained"
    command = ["pretrain", "--config", "tiny", "--vocab", str(learned), "--steps", "1"]
    command += [*table, "--batch-size", "4", "--no-next-sentence", "-o", str(trained)]
    assert main(command) == 0
    cache = json.loads(next(trained.glob("tokens/0/*/cache.json")).read_text(encoding="utf-8"))
    assert cache["documents"] == 9


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("q.txt", "Where is Paris?\n", ""),
        ("q.csv", "id,question\n1,Where is Paris?\n", "--query-column question"),
        ("q.jsonl", '{"body": "Where is Paris?"}\n', ""),
    ],
)
def test_queries_have_columns_of_their_own(
    name: str, content: str, options: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--text-column` and `--columns` are the corpus's: lines of queries have none."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("n\tThe cat sleeps.\np\tParis is in France.\n", encoding="utf-8")
    named = ["--columns", "id,body"] if name == "q.txt" else []
    if not named:
        corpus.write_text("id\tbody\n" + corpus.read_text(encoding="utf-8"), encoding="utf-8")
    typed = ["search", "--queries", str(tmp_path / name), "--corpus", str(corpus), *named]
    columns = ["--text-column", "body", "--id-column", "id", "-k", "1", "--json"]
    assert main([*typed, *columns, *options.split()]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["output"]
    assert (answer["query"], answer["results"][0]["id"]) == ("Where is Paris?", "p")
    assert answer.get("query_id") == ("1" if name == "q.csv" else None)


def test_a_wrong_column_of_queries_names_their_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, queries = tmp_path / "corpus.csv", tmp_path / "queries.csv"
    corpus.write_text("body\nParis is in France.\n", encoding="utf-8")
    queries.write_text("Body,n\nWhere is Paris?,1\n", encoding="utf-8")
    typed = ["search", "--corpus", str(corpus), "--text-column", "body"]
    assert main([*typed, "--queries", str(queries)]) == 1
    assert "--query-column Body" in capsys.readouterr().err
    assert main([*typed, "Where?", "--query-column", "Body"]) == 2
    assert "--queries FILE" in capsys.readouterr().err
