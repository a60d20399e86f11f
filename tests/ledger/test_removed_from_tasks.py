"""What the checks and guesses that the rooms tasks and training gave up do now, one a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_folder import classifier_folder

from minibert import BertConfig, BertForMaskedLM, BertTokenizer, evaluate, load
from minibert.checkpoints.source import Source
from minibert.tasks.answers import AnswerTask
from minibert.tasks.readers import read_conll, read_squad
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.tokens import TokenTask
from minibert.text import Row


def conll(folder: Path, content: str, name: str = "tags.txt") -> list[Row]:
    (folder / name).write_text(content, encoding="utf-8")
    return read_conll(folder / name)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # a header line is a word with a tag, and is reported as a label that occurs only once
        ("word\ttag\nAnn\tB-PER\n", [(["word", "Ann"], ["tag", "B-PER"])]),
        # columns that count something else than the words of each sentence
        ("1 O\n2 O\n", [(["1", "2"], ["O", "O"])]),
        ("1 Ann B-PER\n1 sang O\n", [(["Ann", "sang"], ["B-PER", "O"])]),
        # words joined to their tags (tags in front of their words are refused again)
        ("Ann/B-PER sang/O\n", [(["Ann/B-PER"], ["sang/O"])]),
    ],
)
def test_tags_are_read_literally(
    content: str, expected: list[tuple[list[str], list[str]]], tmp_path: Path
) -> None:
    rows = conll(tmp_path, content)
    assert [(row.values["tokens"], row.values["tags"]) for row in rows] == expected


def test_a_comment_with_the_columns_of_a_word_is_an_error(tmp_path: Path) -> None:
    """It was left out where all words had IOB tags and it had none."""
    with pytest.raises(ValueError, match="line 1: '1' is not an IOB tag, as the others are"):
        conll(tmp_path, "#id 1\nAnn B-PER\n")


def test_a_table_of_texts_is_not_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has texts where words should be, and no empty line"):
        conll(tmp_path, "text\tlabel\nso good a film\t1\nso bad a film\t0\nso so\t0\n")


@pytest.mark.usefixtures("shared_graphs")
def test_a_task_object_takes_any_export(tmp_path: Path) -> None:
    """That of another head was refused in a sentence, as a model of PyTorch was not."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from minibert.encoders.onnx.export import export

    export(Source.of(classifier_folder(tmp_path / "model", 3)), tmp_path / "onnx")
    model, tokenizer = load(tmp_path / "onnx", backend="onnx")[1:]
    rows = [{"question": "who", "context": "tall trees", "answers": []}]
    with pytest.raises(AttributeError, match="no attribute 'start_logits'"):
        evaluate(model, tokenizer, rows, task=AnswerTask())


def test_masked_words_are_not_scored() -> None:
    """Texts with a [MASK] and its word could be read and scored by a task that nothing used."""
    model = BertForMaskedLM(BertConfig.from_preset("tiny"))
    rows = [{"text": "Paris is the [MASK] of France.", "label": "capital"}]
    with pytest.raises(TypeError, match="model should be a sequence classifier"):
        evaluate(model, BertTokenizer.from_pretrained("minibert-tiny"), rows)


def test_a_column_without_values_is_a_single_tag(tmp_path: Path) -> None:
    rows = conll(tmp_path, "1\tAnn\t_\n2\tsang\t_\n")
    with pytest.raises(ValueError, match="All words have the tag '_'"):
        TokenTask().config(rows)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        # JSON under the name of a file of words
        ("tags.conll", '{"tokens": ["Ann"], "tags": ["O"]}\n', "does not look like a tag"),
        # objects one behind the other on a line
        ("tags.jsonl", '{"tokens": [], "tags": []}{"tokens": [], "tags": []}\n', "is not JSON"),
        # an object a line in a .json
        ("tags.json", '{"tokens": ["Ann"], "tags": ["O"]}\n', "is not an array of objects"),
    ],
)
def test_json_is_read_by_the_name_of_the_file(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        conll(tmp_path, content, name)


def test_questions_are_read_by_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "squad.txt").write_text('{"data": []}', encoding="utf-8")
    with pytest.raises(ValueError, match="read as lines of text by its name"):
        read_squad(tmp_path / "squad.txt")


@pytest.mark.parametrize("label", [["a"], ["a", "b"]])
def test_a_list_of_labels_names_the_option(label: Any) -> None:
    with pytest.raises(ValueError, match="is a list of labels: pass multi_label=True"):
        SequenceTask().read([{"text": "a", "label": label}])
