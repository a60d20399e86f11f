"""What the command line no longer accepts or guesses: the smallest input, and what it gives now."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import minibert
from minibert.cli import build_parser, main
from minibert.cli.running import end_failed

ONE_SENTENCE = {
    # options of 0.1.0
    "embed a --out v.npy": "unknown option --out",
    "embed a --out-dir v": "unknown option --out-dir",
    "embed a --revision main": "unknown option --revision",
    "fill-mask [MASK] --top 1": "unknown option --top. Did you mean --top-k?",
    "embed --file a.csv --column text": "unknown option --column",
    "finetune pairs --train a --text x -o b": "unknown option --text",
    "finetune classification --train a --label x -o b": "unknown option --label",
    "finetune triplets --train a --negative x -o b": "unknown option --negative",
    "serve minibert-tiny --json": "unknown option --json",
    "view a --out page.html": "unknown option --out",
    # positions of 0.1.0
    "info minibert-tiny": "unexpected argument 'minibert-tiny'",
    "verify minibert-tiny": "unexpected argument 'minibert-tiny'",
    "convert old new": "the following arguments are required: -m/--model, -o/--output",
    "export old new": "the following arguments are required: -m/--model, -o/--output",
    # names of other commands were suggested although nothing is like them
    "predict a": "unknown command 'predict' (minibert --help",
    "test a": "unknown command 'test' (minibert --help",
    # it was called an unknown option, and the same option was suggested
    "--debug embed a": "name a command before its options",
    # a port was checked by the command alone
    "serve minibert-tiny --port 70000": "--port should be a number from 0 to 65535, not 70000.",
    "serve minibert-tiny --max-texts 0": "--max-texts should be 1 or more, not 0.",
}


@pytest.mark.parametrize("typed", ONE_SENTENCE)
def test_what_is_refused_in_one_sentence(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if typed.startswith("serve"):
        for module in ("fastapi", "uvicorn", "prometheus_client"):
            pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    try:
        code = main(typed.split())
    except SystemExit as stop:
        code = int(str(stop.code))
    error = capsys.readouterr().err
    assert code == 2 and ONE_SENTENCE[typed] in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["encode_corpus", "encode_file", "open_corpus", "predict"])
def test_former_names_do_not_exist(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(minibert, name)


def test_a_longer_max_length_than_the_tokenizer_says_is_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was silently capped. Beyond the positions of the model it is an error."""
    model = minibert.BertForSequenceClassification.from_pretrained("minibert-tiny", num_labels=2)
    model.save_pretrained(tmp_path)
    tokenizer = minibert.BertTokenizer.from_pretrained("minibert-tiny")
    tokenizer.model_max_length = 8
    tokenizer.save_pretrained(tmp_path)
    typed = ["classify", "-m", str(tmp_path), "a " * 20]
    assert main(typed) == 0
    warning = capsys.readouterr().err
    assert "the text has more than 8 tokens" in warning and "--max-length" in warning
    assert main([*typed, "--max-length", "32"]) == 0
    assert "truncated" not in capsys.readouterr().err
    assert main([*typed, "--max-length", "100000"]) == 2
    assert "positions" in capsys.readouterr().err


def test_words_of_an_error_are_not_searched_for_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first word of a sentence was taken for the option of that name, with exit code 2."""
    options = argparse.Namespace(parser=build_parser().commands["embed"])
    sentence = "max_length should be a folder: pass batch_tokens, or multi_label=True."
    assert end_failed("embed", ValueError(sentence), options) == 1
    assert capsys.readouterr().err == f"embed: {sentence}\n"
