"""Predictions and training on a simulated accelerator: no tensor stays on the CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from fake_device import DEVICE, NAME, OnDevice, fake_device
from tiny_folder import LINES, VOCABULARY, tiny_folder

import minibert
from minibert import BertTokenizer, CrossEncoder, SentenceEmbedder
from minibert.cli import main
from minibert.tasks.answers import AnswerTask
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.similarity import SimilarityTask
from minibert.tasks.tokens import TokenTask
from minibert.text import Table
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions
from minibert.util import devices

TEXTS = [line for line in LINES if line]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("base"))


def build(name: str, **config: Any) -> Any:
    torch.manual_seed(0)
    return getattr(minibert, name)(tiny_config(vocab_size=len(VOCABULARY), **config)).eval()


def test_the_device_rejects_tensors_on_the_cpu() -> None:
    with fake_device():
        on_device = torch.ones(2, device=DEVICE)
        assert (on_device + 1).tolist() == [2, 2]
        with pytest.raises(AssertionError, match="on the CPU and others on the device"):
            on_device + torch.ones(2)


def assert_close(ours: Any, expected: Any) -> None:
    """Compare up to rounding errors: the device has no fused attention kernel."""
    if isinstance(expected, dict):
        assert ours.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(ours[name], value)
    elif isinstance(expected, list):
        for our_value, expected_value in zip(ours, expected, strict=True):
            assert_close(our_value, expected_value)
    elif isinstance(expected, float):
        assert ours == pytest.approx(expected, abs=1e-4)
    else:
        assert ours == expected


PREDICTIONS: dict[str, tuple[str, Callable[[Any, BertTokenizer], Any]]] = {
    "classify": (
        "BertForSequenceClassification",
        lambda model, tokenizer: minibert.classify(model, tokenizer, TEXTS),
    ),
    "entities": (
        "BertForTokenClassification",
        lambda model, tokenizer: minibert.find_entities(model, tokenizer, TEXTS),
    ),
    "answer": (
        "BertForQuestionAnswering",
        lambda model, tokenizer: minibert.answer_question(model, tokenizer, "who?", TEXTS[-1]),
    ),
    "fill-mask": (
        "BertForMaskedLM",
        lambda model, tokenizer: minibert.fill_mask(model, tokenizer, "a [MASK] b", 3),
    ),
    "rerank": (
        "BertForSequenceClassification",
        lambda model, tokenizer: CrossEncoder(model, tokenizer).rank("who?", TEXTS[:9]),
    ),
    "evaluate": (
        "BertForSequenceClassification",
        lambda model, tokenizer: (
            minibert.evaluate(
                model,
                tokenizer,
                [{"text": text, "label": "LABEL_0"} for text in TEXTS],
                bootstrap=0,
            ).metrics
        ),
    ),
}


LABELS = {"rerank": 1, "answer": 2}


@pytest.mark.parametrize("name", PREDICTIONS)
def test_predictions(name: str, base: Path) -> None:
    class_name, predict = PREDICTIONS[name]
    model = build(class_name, num_labels=LABELS.get(name, 3))
    tokenizer = BertTokenizer.from_pretrained(base)
    expected = predict(model, tokenizer)
    with fake_device():
        model.to(DEVICE)
        assert all(isinstance(parameter, OnDevice) for parameter in model.parameters())
        assert_close(predict(model, tokenizer), expected)


@pytest.mark.parametrize("precision", ["exact", "fp32"])
def test_embed(precision: str, base: Path) -> None:
    expected = SentenceEmbedder.from_pretrained(base, precision=precision).encode(TEXTS)
    with fake_device():
        embedder = SentenceEmbedder.from_pretrained(base, precision=precision, device=NAME)
        np.testing.assert_allclose(embedder.encode(TEXTS), expected, atol=1e-5)


def test_tensors_on_the_device(base: Path) -> None:
    """Whether in one tensor or in a list, as in sentence-transformers."""
    classifier: Any = build("BertForSequenceClassification", num_labels=1)
    with fake_device():
        embedder = SentenceEmbedder.from_pretrained(base, precision="exact", device=NAME)
        reranker = CrossEncoder(classifier.to(DEVICE), embedder.tokenizer)
        assert embedder.device == reranker.device == DEVICE
        pairs = [(text, text) for text in TEXTS[:3]]
        for options in ({"convert_to_tensor": True}, {"convert_to_numpy": False}):
            for result in (
                embedder.encode(TEXTS[:3], **options),
                reranker.predict(pairs, **options),
            ):
                assert {tensor.device for tensor in result} == {DEVICE}


COMMANDS = {
    "classify": ("BertForSequenceClassification", TEXTS[:5]),
    "entities": ("BertForTokenClassification", TEXTS[:5]),
    "answer": ("BertForQuestionAnswering", ["--question", "who", *TEXTS[-3:]]),
    "fill-mask": ("BertForMaskedLM", ["[MASK]"]),
    "embed": ("BertModel", TEXTS[:5]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(
    name: str,
    base: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands move the model before they optimize it: an optimized model cannot move."""
    class_name, arguments = COMMANDS[name]
    build(class_name).save_pretrained(tmp_path)
    BertTokenizer.from_pretrained(base).save_pretrained(tmp_path)
    monkeypatch.setattr(devices, "available_devices", lambda: ["cpu", NAME])
    typed = [name, "-m", str(tmp_path), *arguments, "--jsonl"]
    assert main(typed) == 0
    expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with fake_device():
        assert main([*typed, "--device", NAME]) == 0
    printed = capsys.readouterr()
    assert_close([json.loads(line) for line in printed.out.splitlines()], expected)
    assert printed.err.count(f"computing on {NAME}.") == 1


def tasks_with_files(folder: Path) -> dict[str, tuple[Any, Path]]:
    table = [
        {"text": text, "label": ["x", "y"][row % 2], "other": text[::-1] or "a"}
        for row, text in enumerate(TEXTS[:12])
    ]
    (folder / "table.jsonl").write_text("\n".join(map(json.dumps, table)), encoding="utf-8")
    sentence = "a B-PER\nb O\n\n"
    (folder / "words.conll").write_text(sentence * 8, encoding="utf-8")
    answers = [{"text": "b", "answer_start": 2}]
    entry = {"id": "1", "question": "what", "answers": answers}
    squad = {"data": [{"paragraphs": [{"context": "a b c", "qas": [entry] * 6}]}]}
    (folder / "squad.json").write_text(json.dumps(squad), encoding="utf-8")
    return {
        "classification": (SequenceTask(), folder / "table.jsonl"),
        "tokens": (TokenTask(), folder / "words.conll"),
        "answers": (AnswerTask(), folder / "squad.json"),
        "pairs": (SimilarityTask(Table("text", pair="other")), folder / "table.jsonl"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "classification",
        "pairs",
        pytest.param("tokens", marks=pytest.mark.slow),
        pytest.param("answers", marks=pytest.mark.slow),
    ],
)
def test_finetune(name: str, base: Path, tmp_path: Path) -> None:
    """Training, evaluating and saving work on the device."""
    task, file = tasks_with_files(tmp_path)[name]
    options = TrainingOptions(steps=2, batch_size=4, device=NAME)
    with fake_device():
        scores = finetune(task, base, file, file, tmp_path / "out", options, max_length=16)
    assert all(np.isfinite(score) for score in scores.values())
    assert (tmp_path / "out" / "model.safetensors").is_file()
