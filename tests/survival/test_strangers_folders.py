"""Damaged files of a stranger's model raise a ValueError that names them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_folder import classifier_folder, head_folder, tiny_folder

from minibert import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForTokenClassification,
    BertModel,
    BertTokenizer,
    SentenceEmbedder,
)
from minibert.checkpoints.source import Source
from minibert.encoders.arithmetic.steps import Dense
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.text_models import load_text_model
from minibert.util.files import read_json, write_json
from minibert.util.folders import PENDING


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_folder(tmp_path / "bert")
    SentenceEmbedder(
        BertModel.from_pretrained(tmp_path / "bert"),
        BertTokenizer.from_pretrained(tmp_path / "bert"),
        steps=[Dense(32, 8, True, "Tanh")],
        prompts={"query": "query: "},
    ).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def changed(folder: Path, name: str, **fields: Any) -> None:
    write_json(folder / name, {**read_json(folder / name), **fields})


SIZES = ("vocab_size", "hidden_size", "intermediate_size", "max_position_embeddings")


@pytest.mark.parametrize("size", [*SIZES, "type_vocab_size", "num_hidden_layers"])
def test_a_size_of_400_digits(folder: Path, size: str) -> None:
    changed(folder, "config.json", **{size: 10**399})
    with pytest.raises(ValueError, match=r"model/config\.json: config: .* would be more") as info:
        SentenceEmbedder.from_pretrained(folder)
    assert len(str(info.value)) < len(str(folder)) + 300


@pytest.mark.parametrize("field", ["id2label", "label2id"])
def test_more_names_of_labels_than_the_limit(folder: Path, field: str) -> None:
    names = {str(n): str(n) for n in range(30)}
    changed(folder, "config.json", **{field: names})
    with pytest.raises(ValueError, match=r"config\.json: config: num_labels would be 30"):
        BertConfig.from_pretrained(folder, limits={"num_labels": 29})


def odd_normalizer(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    odd = {"type": "BertNormalizer", "strip_accents": "x", "lowercase": True}
    changed(folder, "tokenizer.json", normalizer=odd)


CASES: dict[str, Callable[[Path], None]] = {
    "a dense layer that does not fit": lambda folder: changed(
        folder, "1_Pooling/config.json", pooling_mode_cls_token=True
    ),
    "a prompt without a name": lambda folder: changed(
        folder, "config_sentence_transformers.json", default_prompt_name="document"
    ),
    "a type in tokenizer.json": odd_normalizer,
    "a surrogate in a prompt": lambda folder: changed(
        folder, "config_sentence_transformers.json", prompts={"query": "\ud800: "}
    ),
    "a long path": lambda folder: write_json(
        folder / "modules.json",
        [{"idx": 0, "type": "sentence_transformers.models.Transformer", "path": "1" * 400}],
    ),
    "a class that is not a string": lambda folder: changed(
        folder, "tokenizer_config.json", tokenizer_class={"a": 1}
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_error_names_the_folder(folder: Path, case: str) -> None:
    CASES[case](folder)
    with pytest.raises((ValueError, FileNotFoundError), match="/model"):
        SentenceEmbedder.from_pretrained(folder)


# how each kind of model is called with a text
CALLS: dict[str, Callable[[Any, str], Any]] = {
    "embedder": lambda model, text: model.encode(text),
    "reranker": lambda model, text: model.predict([("trees", text)]),
    "classifier": lambda model, text: model.classify(text),
    "tagger": lambda model, text: model.find_entities(text),
    "answers": lambda model, text: model.answer("trees", text),
    "masked": lambda model, text: model.fill_mask(f"{text} [MASK]"),
}


@pytest.mark.parametrize("precision", ["exact", "fp32"])
@pytest.mark.parametrize("kind", CALLS)
def test_a_token_without_a_row_in_the_table(kind: Any, precision: Any, tmp_path: Path) -> None:
    """It is found while a text is encoded. The error names the model, and the rest is computed."""
    make: dict[str, Callable[[Path], Path]] = {
        "embedder": tiny_folder,
        "reranker": lambda path: classifier_folder(path, 1),
        "classifier": lambda path: classifier_folder(path, 3),
        "tagger": lambda path: head_folder(path, BertForTokenClassification),
        "answers": lambda path: head_folder(path, BertForQuestionAnswering),
        "masked": lambda path: head_folder(path, BertForMaskedLM),
    }
    folder = make[kind](tmp_path / "model")
    vocabulary = folder / "vocab.txt"
    rows = len(vocabulary.read_text(encoding="utf-8").splitlines())
    vocabulary.write_text(vocabulary.read_text(encoding="utf-8") + "zzz\n", encoding="utf-8")
    model = load_text_model(Checkpoint(Source(folder)), kind, precision=precision)
    with pytest.raises(ValueError, match=f"model: input_ids contains {rows}, but"):
        CALLS[kind](model, "trees zzz")
    CALLS[kind](model, "trees")


@pytest.mark.needs("links")
@pytest.mark.parametrize("where", ["plan", "link"])
def test_a_plan_of_a_stranger_moves_nothing_outside_the_folder(folder: Path, where: str) -> None:
    """A folder of a stranger may hold what a killed writer leaves (`minibert.util.folders`)."""
    secret = folder.parent / "secret"
    secret.write_text("precious", encoding="utf-8")
    (folder / PENDING).mkdir()
    name = "../secret" if where == "plan" else "secret"
    if where == "link":
        (folder / PENDING / "new").symlink_to(folder.parent)
    for plan in ({"new": [name], "old": []}, {"new": [], "old": ["../secret"]}):
        (folder / PENDING / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        with pytest.raises(ValueError, match=r"plan\.json names '.*secret', which is not in"):
            BertModel.from_pretrained(folder)
    assert secret.read_text(encoding="utf-8") == "precious"
    assert sorted(os.listdir(folder.parent)) == ["bert", "model", "secret"]


def test_a_model_that_is_replaced_while_it_is_read(folder: Path, monkeypatch: Any) -> None:
    from minibert.checkpoints import tensors

    read = tensors._read_file

    other = BertModel.from_pretrained(folder.parent / "bert")

    def replace_first(path: Path, mmap: bool) -> Any:
        other.save_pretrained(folder)
        return read(path, mmap)

    monkeypatch.setattr(tensors, "_read_file", replace_first)
    with pytest.raises(OSError, match=r"config\.json was replaced while .*model was read"):
        BertModel.from_pretrained(folder)
