"""Commands for fine-tuned models raise an error for a model of another task."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import tiny_config
from tiny_folder import VOCABULARY, tiny_folder

import minibert
from minibert.cli import main

COMMANDS = {
    "BertForSequenceClassification": "classify",
    "BertForTokenClassification": "entities",
    "BertForQuestionAnswering": "answer",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_model_of_another_task(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The heads of a classifier and of a tagger have the same tensors, so the config decides."""
    tiny_folder(tmp_path)
    model = getattr(minibert, name)(tiny_config(vocab_size=len(VOCABULARY), num_labels=2))
    model.save_pretrained(tmp_path)
    for command in COMMANDS.values():
        question = ["--question", "how"] if command == "answer" else []
        code = main([command, "-m", str(tmp_path), *question, "tall trees grow"])
        captured = capsys.readouterr()
        if command == COMMANDS[name]:
            assert code == 0 and captured.out
        else:
            assert code == 1 and f"use it by minibert {COMMANDS[name]}" in captured.err


def test_a_file_is_not_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dev.csv"
    file.write_text("text\nhello\n", encoding="utf-8")
    for path in (str(file), "data/dev.csv"):
        assert main(["embed", "hello", "-m", path, "--offline"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert f"{file}' is a file" in first and "offline mode" in second
