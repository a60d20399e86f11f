"""What was learned says how it wants to be read: decided in training, kept with the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

import minibert
from minibert import BertConfig, BertForQuestionAnswering, BertTokenizer, evaluate
from minibert.encoders.folders.reading import KEY, Reading
from minibert.tasks.answers import AnswerTask
from minibert.tasks.reranking import RerankTask
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.similarity import SimilarityTask
from minibert.tasks.task import Task
from minibert.tasks.tokens import TokenTask
from minibert.text import Table
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions

pytestmark = pytest.mark.usefixtures("one_thread")

TAGGED = [(list("서울에 간다"), ["B-LC", "I-LC", *"OOOO"]), (list("비가 온다"), list("OOOOO"))] * 6
ODD = (["좋", "다", "\u2764\ufe0f"], ["O"] * 3)
ANSWERABLE = {"question": "who?", "context": "Ann sings.", "answers": ["Ann"]}
UNANSWERABLE = {"question": "where?", "context": "Bob runs.", "answers": []}
PAIRS = [
    {"text": "tea", "other": other, "label": label, "score": float(label)}
    for other, label in (("a drink", 1), ("a car", 0), ("hot water", 1), ("a road", 0))
] * 3
LABELED = [{"text": row["other"], "label": f"class {row['label']}"} for row in PAIRS]
PAIR_TABLE = Table("text", pair="other", label="label")
TASKS: dict[str, tuple[Task, str, list[Any], dict[str, Any]]] = {
    "classification": (SequenceTask(), "minibert-tiny", LABELED, {}),
    "pairs": (SequenceTask(PAIR_TABLE), "minibert-tiny", PAIRS, {"pair_column": "other"}),
    "tokens": (TokenTask(), "minibert-ko", TAGGED, {}),
    "answers": (AnswerTask(), "minibert-tiny", [ANSWERABLE, UNANSWERABLE] * 4, {}),
    "reranking": (RerankTask(PAIR_TABLE), "minibert-tiny", PAIRS, {"pair_column": "other"}),
    "scores": (
        SimilarityTask(Table("text", pair="other", label="score")),
        "minibert-tiny",
        PAIRS,
        {"pair_column": "other", "label_column": "score"},
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_evaluation_finds_the_score_of_the_training_again(name: str, tmp_path: Path) -> None:
    task, checkpoint, rows, arguments = TASKS[name]
    options = TrainingOptions(steps=4, batch_size=8, learning_rate=1e-3)
    trained = finetune(task, checkpoint, rows, rows, tmp_path, options, max_length=16)
    loaded = minibert.load(tmp_path)
    model = loaded.model
    if name == "reranking":
        model = loaded.model.model
    tokenizer = None if name == "scores" else loaded.tokenizer
    again = evaluate(model, tokenizer, rows, bootstrap=0, **arguments)
    for metric, score in trained.items():
        assert again.metrics[metric] == pytest.approx(score, rel=1e-5, abs=1e-6), metric
    config = AutoConfig.from_pretrained(tmp_path)
    config.save_pretrained(tmp_path / "again")
    kept = BertConfig.from_pretrained(tmp_path / "again")
    assert Reading.of(kept) == task.reading(task.read(rows))


def test_a_longer_training_reads_more(tmp_path: Path) -> None:
    """An easy training, then one with longer texts."""
    for folder, base, length in (("a", "minibert-tiny", 16), ("b", tmp_path / "a", 48)):
        options = TrainingOptions(steps=1)
        finetune(
            SequenceTask(), base, LABELED, LABELED, tmp_path / folder, options, max_length=length
        )
        tokenizer = BertTokenizer.from_pretrained(tmp_path / folder)
        assert tokenizer.model_max_length == length


@pytest.mark.parametrize("rows", [TAGGED, [*TAGGED, ODD], [*TAGGED, (["<SP>", "..."], ["O"] * 2)]])
def test_a_cell_of_several_characters_changes_no_piece(rows: list[Any]) -> None:
    task, tokenizer = TokenTask(), BertTokenizer.from_pretrained("minibert-ko")
    read = task.read(rows)
    config = BertConfig.from_pretrained("minibert-ko", **task.config(read))
    example = task.encode(read, tokenizer, config, 32)[0]
    assert tokenizer.convert_ids_to_tokens(example["input_ids"].tolist())[1:-1] == [
        "서울에",
        "간다",
    ]
    assert Reading.of(config).by_piece


def test_words_of_one_letter_stay_words_for_a_model_of_words() -> None:
    task, tokenizer = TokenTask(), BertTokenizer.from_pretrained("minibert-tiny")
    rows = task.read([(["Ann", "sings", "well"], ["B-PER", "O", "O"])])
    config = BertConfig.from_pretrained("minibert-tiny", **task.config(rows))
    letters = task.read([(["I", "a", "I"], ["O"] * 3)])
    ids = task.encode(letters, tokenizer, config, 32)[0]["input_ids"].tolist()
    assert tokenizer.convert_ids_to_tokens(ids)[1:-1] == ["i", "a", "i"]


def answerer_without_an_answer() -> tuple[BertForQuestionAnswering, BertTokenizer]:
    """A model that gives [CLS] the highest score."""
    tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    model = BertForQuestionAnswering.from_pretrained("minibert-tiny").eval()
    with torch.no_grad():
        ids = tokenizer("who?", "Ann sings.", return_tensors="pt")
        first = model.bert(**ids).last_hidden_state[0, 0]
        model.qa_outputs.weight.copy_(first.expand(2, -1))
        model.qa_outputs.bias.zero_()
    return model, tokenizer


@pytest.mark.parametrize("kept", [True, False])
def test_the_training_decides_whether_there_is_no_answer(kept: bool) -> None:
    model, tokenizer = answerer_without_an_answer()
    rows = [ANSWERABLE, UNANSWERABLE] if kept else [ANSWERABLE]
    model.config.extra |= AnswerTask().reading(AnswerTask().read(rows)).as_fields()["extra"]
    for data in ([ANSWERABLE], [ANSWERABLE, UNANSWERABLE]):
        result = evaluate(model, tokenizer, data, bootstrap=0)
        assert ("" in [error.predicted for error in result.errors]) == kept
        chosen = evaluate(model, tokenizer, data, bootstrap=0, no_answer=not kept)
        assert ("" in [error.predicted for error in chosen.errors]) != kept


def test_a_model_of_pairs_is_not_evaluated_on_single_texts(tmp_path: Path) -> None:
    task, checkpoint, rows, _ = TASKS["pairs"]
    finetune(task, checkpoint, rows, rows, tmp_path, TrainingOptions(steps=1))
    _, model, tokenizer = minibert.load(tmp_path)
    with pytest.raises(ValueError, match="pair_column"):
        evaluate(model, tokenizer, rows)


def test_another_task_forgets_the_former_one(tmp_path: Path) -> None:
    """A classifier that was a reranker, whose scores CrossEncoder would else send through a
    sigmoid.
    """
    task, checkpoint, rows, _ = TASKS["reranking"]
    finetune(task, checkpoint, rows, rows, tmp_path / "a", TrainingOptions(steps=1))
    finetune(
        SequenceTask(), tmp_path / "a", LABELED, LABELED, tmp_path / "b", TrainingOptions(steps=1)
    )
    config = json.loads((tmp_path / "b" / "config.json").read_text(encoding="utf-8"))
    assert "sentence_transformers" not in config
    assert config[KEY]["task"] == "classification"


def test_a_run_is_resumed_with_the_same_options_of_its_task(tmp_path: Path) -> None:
    data = ("minibert-tiny", LABELED, LABELED, tmp_path)
    finetune(SequenceTask(), *data, TrainingOptions(steps=1))
    with pytest.raises(ValueError, match="class_weights"):
        finetune(SequenceTask(class_weights=True), *data, TrainingOptions(steps=2), resume=True)
    finetune(SequenceTask(), *data, TrainingOptions(steps=2), resume=True)


@pytest.mark.parametrize(
    "content", [5, {"by_piece": "yes"}, {"max_answer_length": 0}, {"options": [1]}]
)
def test_a_damaged_key_is_an_error(content: Any) -> None:
    config = BertConfig(extra={KEY: content})
    with pytest.raises(ValueError, match="config.json"):
        Reading.of(config)
