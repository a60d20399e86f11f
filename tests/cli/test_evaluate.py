"""`minibert evaluate`: the tables that it prints, the columns that it detects, and its errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_config
from tiny_folder import VOCABULARY, WORDS, tiny_folder

import minibert
from minibert.cli import main

TAGS = {0: "O", 1: "B-PER", 2: "I-PER"}
TOPICS = {0: "trees", 1: "korea", 2: "world"}
SEVERAL = "multi_label_classification"


def save(folder: Path, name: str, **config: Any) -> Path:
    """Save a random model of a class with its tokenizer."""
    tiny_folder(folder)
    model = getattr(minibert, name)(tiny_config(vocab_size=len(VOCABULARY), **config))
    model.save_pretrained(folder)
    return folder


def write_topics(path: Path) -> Path:
    """Write a table with one column of zeros and ones per label."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", *TOPICS.values()])
        for word in WORDS:
            rows.writerow([word, *(int(topic == word) for topic in TOPICS.values())])
    return path


def test_a_tagger_has_a_table_of_classes_and_no_confusion_matrix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path / "model", "BertForTokenClassification", id2label=TAGS)
    file = tmp_path / "dev.conll"
    file.write_text("tall B-PER\ntrees I-PER\ngrow O\n\nhello O\n", encoding="utf-8")
    assert main(["evaluate", "-m", str(model), str(file), "--bootstrap", "0"]) == 0
    shown = capsys.readouterr().out
    assert "precision" in shown and "PER" in shown and "predictions in columns" not in shown


def test_several_labels_are_found_in_columns_of_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(
        tmp_path / "model",
        "BertForSequenceClassification",
        id2label=TOPICS,
        problem_type=SEVERAL,
    )
    file = write_topics(tmp_path / "topics.csv")
    command = ["evaluate", "-m", str(model), str(file), "--bootstrap", "0"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "f1_micro" in shown and all(topic in shown for topic in TOPICS.values())
    assert main([*command, "--label-columns", ",".join(TOPICS.values())]) == 0
    assert capsys.readouterr().out == shown


def test_a_regression_has_no_count_of_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(
        tmp_path / "model",
        "BertForSequenceClassification",
        id2label={0: "score"},
        problem_type="regression",
    )
    file = tmp_path / "scores.csv"
    lines = [f"{word},{index}" for index, word in enumerate(WORDS)]
    file.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    assert main(["evaluate", "-m", str(model), str(file), "--bootstrap", "0"]) == 0
    assert capsys.readouterr().out.startswith("regression, 10 rows\n")


def test_the_error_for_a_missing_column_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path / "model", "BertForSequenceClassification", id2label=TOPICS)
    file = tmp_path / "dev.csv"
    file.write_text("premise,verdict\nhello,trees\n", encoding="utf-8")
    assert main(["evaluate", "-m", str(model), str(file)]) == 1
    assert "by --text-column NAME." in capsys.readouterr().err


def test_the_error_for_an_embedder_names_the_option_of_the_second_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("text,other\nhello,world\n", encoding="utf-8")
    assert main(["evaluate", "-m", "minibert-tiny", str(file)]) == 1
    assert "--pair-column" in capsys.readouterr().err


def test_an_export_without_its_backend_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path / "model", "BertForSequenceClassification", id2label=TOPICS)
    (model / "model.safetensors").rename(model / "model.onnx")
    file = write_topics(tmp_path / "topics.csv")
    for command in (["evaluate", str(file)], ["info"], ["verify"]):
        assert main([*command, "-m", str(model)]) in (1, 2)
        assert "written by minibert export" in capsys.readouterr().err
    assert main(["fill-mask", "a [MASK]", "-m", str(model)]) == 2
    assert "--backend" not in capsys.readouterr().err  # an option that it does not have


@pytest.mark.parametrize("option", ["--errors", "--plot"])
def test_an_output_with_an_invalid_suffix_is_an_error_before_any_work(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_topics(tmp_path / "topics.csv")
    command = ["evaluate", "-m", "no/model", str(file), option, str(tmp_path / "out.xyz")]
    assert main(command) in (1, 2)
    assert "'out.xyz' should end in" in capsys.readouterr().err


def test_a_folder_is_not_a_file_of_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["finetune", "classification", "-o", str(tmp_path / "out"), "--train"]
    for command in (["evaluate", "-m", "minibert-tiny"], train):
        assert main([*command, str(tmp_path)]) == 1
        assert f"{tmp_path} is a folder. Name a file." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--negative-column", "--label-columns"])
def test_columns_that_have_no_effect_on_the_model_are_refused_by_their_option(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "model", "BertForSequenceClassification", id2label=TOPICS)
    data = tmp_path / "topics.csv"
    rows = "".join(f"{word},trees\n" for word in WORDS)
    data.write_text(f"text,label\n{rows}", encoding="utf-8")
    assert main(["evaluate", str(folder), str(data), option, "trees"]) == 2
    error = capsys.readouterr().err
    assert f"{option} is for" in error and "drop it" in error


def test_bad_rows_are_an_error_that_names_the_option_or_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path / "model", "BertForSequenceClassification", id2label=TOPICS)
    file = tmp_path / "dev.tsv"
    file.write_text("text\tlabel\ntall\ttrees\nhello\n", encoding="utf-8")
    line = ["evaluate", "-m", str(model), str(file), "--bootstrap", "0", "--json"]
    assert main(line) == 1
    assert "pass --skip-bad-rows to leave such rows out" in capsys.readouterr().err
    assert main([*line, "--skip-bad-rows"]) == 0
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert (result["rows"], result["skipped"]) == (1, 1)
    assert f"1 bad row left out, the first at {file}, line 3" in shown.err


def test_errors_have_the_ids_of_a_column_and_an_encoding(tmp_path: Path) -> None:
    labels = {0: "긍정", 1: "부정"}
    model = save(tmp_path / "model", "BertForSequenceClassification", id2label=labels)
    file = tmp_path / "dev.csv"
    rows = [f"r{n},{word},{label}" for n, word in enumerate(WORDS[:3]) for label in labels.values()]
    file.write_text("\n".join(["번호,text,label", *rows]) + "\n", encoding="cp949")
    errors = tmp_path / "errors.csv"
    command = ["evaluate", str(model), str(file), "--encoding", "cp949", "--bootstrap", "0"]
    command += ["--id-column", "번호", "--errors", str(errors), "--output-encoding", "cp949"]
    assert main(command) == 0
    with errors.open(encoding="cp949", newline="") as opened:
        found = list(csv.DictReader(opened))
    assert sorted(row["id"] for row in found) == ["r0", "r1", "r2"]  # one label a text is wrong


def test_words_in_lines_have_no_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save(tmp_path / "model", "BertForTokenClassification", id2label=TAGS)
    file = tmp_path / "dev.conll"
    file.write_text("tall B-PER\n", encoding="utf-8")
    assert main(["evaluate", str(model), str(file), "--id-column", "nr"]) == 1
    assert "Drop --id-column nr" in capsys.readouterr().err
