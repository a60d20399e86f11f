"""What vocab and pretrain say where an option has no effect or a vocabulary does not fit."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from tiny_folder import tiny_folder

from minibert import BertTokenizer
from minibert.cli import main
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.tokens import TokenTask
from minibert.training.checks import check_data
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions

KOREAN = "나는 오늘 학교에 갔다\n그는 어제 서울에 왔다\n\n우리는 내일 바다에 간다\n비가 온다\n" * 20


def test_vocab_says_that_hangul_is_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(KOREAN, encoding="utf-8")
    command = ["vocab", "--corpus", str(corpus), "--vocab-size", "100", "--output"]
    assert main([*command, str(tmp_path / "lower")]) == 0
    assert "the syllables of Hangul are split into letters" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "cased"), "--cased"]) == 0
    assert "Hangul" not in capsys.readouterr().err
    corpus.write_text("the tree\n\nthe house\n" * 20, encoding="utf-8")
    assert main([*command, str(tmp_path / "english")]) == 0
    assert "Hangul" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "covers", "holds_out"),
    [
        ("\n".join("나는 오늘 학교에 갔다\n" * size for size in range(1, 41)), False, True),
        ("\n".join("a b c\nd e f\n" * size for size in range(1, 41)), True, True),
        ("d e f\n" * 200, True, False),  # one document, of which no copy is held out
    ],
)
def test_pretrain_says_what_it_does_without(
    content: str, covers: bool, holds_out: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(content, encoding="utf-8")
    command = ["pretrain", "--model", str(tiny_folder(tmp_path / "base")), "--steps", "1"]
    command += ["--corpus", str(corpus), "--no-next-sentence", "--batch-size", "2"]
    command += ["--held-out", "0.2", "--max-length", "16", "--output", str(tmp_path / "out")]
    assert main(command) == 0
    told = capsys.readouterr().err
    assert ("notice: nothing is held out" not in told) == holds_out
    assert ("this model's vocabulary cannot read" not in told) == covers


def test_a_refused_pretraining_leaves_nothing(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a b c\n" * 20, encoding="utf-8")
    command = ["pretrain", "--model", str(tiny_folder(tmp_path / "base")), "--steps", "1"]
    command += ["--corpus", str(corpus), "--output", str(tmp_path / "out"), "--max-length", "16"]
    assert main(command) == 1  # next-sentence prediction needs two documents
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("part", ["train", "dev"])
def test_rows_far_from_the_first_are_looked_at(part: str) -> None:
    """Twenty rows that the vocabulary knows, and behind them decomposed syllables."""
    tokenizer = BertTokenizer.from_pretrained("minibert-ko")
    task = SequenceTask()
    good = [{"text": f"오늘 날씨가 좋다 {n}", "label": n % 2} for n in range(20)]
    decomposed = unicodedata.normalize("NFD", "영화가 정말 재미있다")
    bad = good + [{"text": f"{decomposed} {n}", "label": n % 2} for n in range(80)]
    data = {"train": (bad, good), "dev": (good, bad)}[part]
    report = check_data(task, *map(task.read, data), tokenizer=tokenizer)
    (notice,) = [notice for notice in report.notices if "NFC" in notice]
    assert notice.startswith(f"{part}: ")


def test_a_notice_calls_an_argument_as_its_reader_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_folder(tmp_path / "base")
    train = tmp_path / "train.tsv"
    train.write_text("text\tlabel\n" + "a b c d e f\tx\nd e f a b c\ty\n" * 4, encoding="utf-8")
    task = SequenceTask()
    options = TrainingOptions(steps=1, batch_size=2)
    finetune(task, folder, train, train, tmp_path / "a", options, max_length=4)
    assert "The limit is max_length, which" in capsys.readouterr().err
    command = f"finetune classification --model {folder} --train {train} --dev {train} --steps 1"
    command += f" --batch-size 2 --max-length 4 --output {tmp_path / 'b'}"
    assert main(command.split()) == 0
    assert "The limit is --max-length, which" in capsys.readouterr().err


@pytest.mark.parametrize("outside", ["0", "OUT", "O"])
def test_a_tag_without_a_prefix_is_said_once(
    outside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.conll"
    file.write_text(f"a B-PER\nb I-PER\nc {outside}\n\n" * 2, encoding="utf-8")
    options = TrainingOptions(steps=1, batch_size=2)
    finetune(TokenTask(), tiny_folder(tmp_path / "base"), file, file, tmp_path / "a", options)
    said = capsys.readouterr().err
    assert said.count(f"the tag {outside} has no prefix") == (outside != "O")
