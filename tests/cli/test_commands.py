"""The command line: text and JSON on stdout, exit codes, and errors of one line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ragged_batch, tiny_config
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors.torch import load_file, save_file

import minibert
from minibert.cli import build_parser, main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command and return its exit code, stdout and stderr."""
    try:
        code = main(arguments)
    except SystemExit as stop:  # argparse
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_tokenize(capsys: pytest.CaptureFixture[str], minilm: str) -> None:
    code, out, err = run(capsys, "tokenize", "--model", minilm, "I love Korea")
    rows = [line.split() for line in out.splitlines()]
    assert code == 0 and not err
    assert [row[0] for row in rows] == ["[CLS]", "i", "love", "korea", "[SEP]"]
    assert [row[1] for row in rows] == ["101", "1045", "2293", "4420", "102"]
    assert rows[3][2:] == ["7-12", "Korea"]


def test_tokenize_json_reads_files_and_pipes(
    capsys: pytest.CaptureFixture[str], minilm: str, tmp_path: Path
) -> None:
    (tmp_path / "texts").write_text("one\n두 줄\n", encoding="utf-8")
    code, out, _ = run(
        capsys, "tokenize", "--model", minilm, "--jsonl", "--file", str(tmp_path / "texts")
    )
    texts = [json.loads(line)["text"] for line in out.splitlines()]
    assert code == 0 and texts == ["one", "두 줄"]
    command = [sys.executable, "-m", "minibert", "tokenize", "--model", minilm, "--jsonl"]
    piped = subprocess.run(
        command, input="from a pipe\n", capture_output=True, encoding="utf-8", check=True
    )
    assert json.loads(piped.stdout)["tokens"] == ["[CLS]", "from", "a", "pipe", "[SEP]"]


def test_info(capsys: pytest.CaptureFixture[str], minilm: str) -> None:
    code, out, err = run(capsys, "info", "-m", minilm)
    assert code == 0 and not err
    assert "22,713,216 parameters" in out and "hidden_size                    384" in out
    assert "embeddings.word_embeddings.weight" in out and "left out: 1" in out
    code, out, _ = run(capsys, "info", "-m", minilm, "--json")
    content = json.loads(out)["output"]
    assert content["parameters"] == 22713216 and content["load_report"]["missing"] == []


def test_convert(capsys: pytest.CaptureFixture[str], tmp_path: Path, minilm: str) -> None:
    """A pickle with legacy names becomes safetensors with today's names, heads and tokenizer."""
    from official import SMALL, pretraining_tensors

    old = tmp_path / "old"
    minibert.BertConfig.from_dict(SMALL).save_pretrained(old)
    torch.save(pretraining_tensors(SMALL, legacy=True), old / "pytorch_model.bin")
    words = Path(minilm, "vocab.txt").read_text(encoding="utf-8").splitlines()
    (old / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words[1996:2090]]),
        encoding="utf-8",
    )
    code, out, err = run(capsys, "convert", "-m", str(old), "-o", str(tmp_path / "new"))
    assert code == 0 and not err and "BertForPreTraining with its tokenizer written to" in out
    assert (tmp_path / "new" / "model.safetensors").exists()
    ours = minibert.BertForMaskedLM.from_pretrained(tmp_path / "new")
    assert not ours.load_report.renamed and not ours.load_report.missing
    batch = ragged_batch(ours.config)
    assert torch.equal(
        ours(**batch).logits, minibert.BertForMaskedLM.from_pretrained(old)(**batch).logits
    )
    assert len(minibert.BertTokenizer.from_pretrained(tmp_path / "new")) == 99


@pytest.mark.parametrize(
    "architectures", [None, [], "torch", {"a": 1}, ["MyBert"], ["BertModel"], ["BertForMaskedLM"]]
)
def test_convert_keeps_every_tensor(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, minilm: str, architectures: object
) -> None:
    """All tensors are converted, whatever class config.json names."""
    model = minibert.BertForPreTraining(tiny_config(vocab_size=30522))
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(
        json.dumps({**config, "architectures": architectures}), encoding="utf-8"
    )
    (tmp_path / "vocab.txt").write_bytes(Path(minilm, "vocab.txt").read_bytes())
    assert run(capsys, "convert", "-m", str(tmp_path), "-o", str(tmp_path))[0] == 0  # in place
    converted = load_file(tmp_path / "model.safetensors")
    assert all(
        torch.equal(converted[name], weight)
        for name, weight in model.state_dict().items()
        if name in converted
    )
    assert {
        "bert.pooler.dense.weight",
        "cls.seq_relationship.bias",
        "cls.predictions.bias",
    } <= converted.keys()


def test_convert_adds_no_random_weights_and_writes_atomically(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, minilm: str
) -> None:
    headless = minibert.BertModel(tiny_config(vocab_size=30522), add_pooling_layer=False)
    headless.save_pretrained(tmp_path / "old")
    code, _, err = run(capsys, "convert", "-m", str(tmp_path / "old"), "-o", str(tmp_path / "new"))
    assert code == 1 and "holds no tokenizer.json or vocab.txt. These are files of the tok" in err
    assert not (tmp_path / "new").exists()
    (tmp_path / "old" / "vocab.txt").write_bytes(Path(minilm, "vocab.txt").read_bytes())
    assert run(capsys, "convert", "-m", str(tmp_path / "old"), "-o", str(tmp_path / "new"))[0] == 0
    assert not any("pooler" in name for name in load_file(tmp_path / "new" / "model.safetensors"))

    classifier = minibert.BertForSequenceClassification(tiny_config(vocab_size=30522)).state_dict()
    save_file(
        {name: weight for name, weight in classifier.items() if "pooler" not in name},
        tmp_path / "old" / "model.safetensors",
    )
    code, _, err = run(
        capsys, "convert", "-m", str(tmp_path / "old"), "-o", str(tmp_path / "newer")
    )
    assert code == 1
    assert "is not a complete BertForSequenceClassification: it lacks bert.pooler" in err
    assert not (tmp_path / "newer").exists()


def test_a_model_that_is_empty_or_given_twice_is_an_error(
    capsys: pytest.CaptureFixture[str], minilm: str
) -> None:
    for command in ("info", "verify"):
        code, _, err = run(capsys, command, "--model", "")
        assert code == 1 and "cannot be a Hub id" in err
        assert run(capsys, command, minilm, "--model", minilm)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["tokenize", "--model", "/no/such", "hi"],
            1,
            "minibert tokenize: Checkpoint '/no/such' is not a folder",
        ),
        (
            ["tokenize", "--model", "{minilm}", "--file", "x", "text"],
            2,
            "give texts or --file, not both. 'text' is read as a text: repeat --file for each file",
        ),
        (
            ["tokenize", "--model", "{minilm}", "--file", "{latin1}"],
            1,
            "line 2: the line is not UTF-8. Pass its encoding, such as --encoding cp949",
        ),
        (["info", "-m", "a/b/c"], 1, "cannot be a Hub id"),
        (
            ["info", "-m", "klue/bert-base"],
            1,
            "offline mode is on: go online once, or pass a folder",
        ),
    ],
)
def test_errors(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    minilm: str,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    import re

    (tmp_path / "latin1").write_bytes("fine\ncaf\xe9\n".encode("latin-1"))
    places = {"minilm": minilm, "latin1": tmp_path / "latin1"}
    exit_code, out, err = run(capsys, *(argument.format(**places) for argument in arguments))
    assert exit_code == code and not out and re.search(message, err), err
    assert "Traceback" not in err and (code == 2 or err.count("\n") == 1)


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "info", "-m", "/no/such", "--debug")
    assert code == 1 and "Traceback" in err


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in build_parser().commands:
        code, out, _ = run(capsys, "help", command)
        assert code == 0 and f"usage: minibert {command}" in out


@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.text(max_size=30).filter(lambda text: not text.startswith("-")))
def test_any_text_is_tokenized_or_raises_an_error(
    capsys: pytest.CaptureFixture[str], tiny_model: Path, text: str
) -> None:
    code, out, err = run(capsys, "tokenize", "--model", str(tiny_model), "--jsonl", text)
    error_code = 1 if text.strip() else 2
    failed = code == error_code and err
    assert failed or (code == 0 and json.loads(out)["text"] == text)


def test_output_that_cannot_be_written(minilm: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "minibert", "tokenize", "--model", minilm, "hi"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        run = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, encoding="utf-8", env=environment
        )
    assert run.returncode == 1
    assert (
        run.stderr
        == "minibert tokenize: standard output could not be written (No space left on device).\n"
    )


@pytest.mark.parametrize("command", ["embed", "tokenize", "fill-mask"])
def test_an_empty_text_is_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, command, " ")
    assert code == 2 and err.startswith(f"minibert {command}: the text is empty")


def test_closed_stdin(minilm: str) -> None:
    command = f"{sys.executable} -m minibert tokenize --model {minilm} <&-"
    run = subprocess.run(command, shell=True, stderr=subprocess.PIPE, encoding="utf-8")
    assert run.returncode == 2 and run.stderr.startswith("minibert tokenize: no text given")


@pytest.mark.parametrize("command", ["rerank query -m x", "classify -m x"])
def test_a_terminal_is_not_waited_for(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("typed\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    code, _, err = run(capsys, *command.split())
    assert code == 2 and "no text given" in err


def test_several_files_are_read_in_the_order_of_the_options(
    capsys: pytest.CaptureFixture[str], minilm: str, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    files = ["--file", str(tmp_path / "b"), "--file", str(tmp_path / "a")]
    _, out, _ = run(capsys, "tokenize", "--model", minilm, "--jsonl", *files)
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["b", "a"]


@pytest.mark.parametrize("content", [b"", b"{}", None])
def test_an_invalid_file_of_vectors(
    content: bytes | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "texts").write_text("one\n", encoding="utf-8")
    if content is None:
        np.save(tmp_path / "v.npy", np.zeros(3))
    else:
        (tmp_path / "v.npy").write_bytes(content)
    arguments = ["--corpus", str(tmp_path / "texts"), "--vectors", str(tmp_path / "v.npy")]
    code, _, err = run(capsys, "search", "hi", *arguments)
    assert code == 1 and "v.npy" in err and "minibert embed" in err and err.count("\n") == 1
