"""`minibert.load`: a checkpoint as what it is, or as the kind that is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_config
from tiny_folder import head_folder, tiny_folder

import minibert
from minibert import BertTokenizer, CrossEncoder, SentenceEmbedder
from minibert.checkpoints.source import Source
from minibert.encoders.auto import load_with_heads
from minibert.encoders.folders.checkpoint import Checkpoint


def saved(folder: Path, name: str, **changes: Any) -> Path:
    getattr(minibert, name)(tiny_config(**changes)).save_pretrained(folder)
    BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "kind", "changes"),
    [
        ("BertModel", "base", {}),
        ("BertForMaskedLM", "masked", {}),
        ("BertForPreTraining", "masked", {}),
        ("BertForNextSentencePrediction", "next_sentence", {}),
        ("BertForSequenceClassification", "classifier", {"num_labels": 3}),
        ("BertForSequenceClassification", "reranker", {"num_labels": 1}),
        (
            "BertForSequenceClassification",
            "classifier",
            {"num_labels": 1, "problem_type": "regression"},
        ),
        ("BertForTokenClassification", "tagger", {}),
        ("BertForQuestionAnswering", "answers", {}),
        ("BertForMultipleChoice", "choices", {}),
    ],
)
def test_a_checkpoint_is_loaded_as_what_it_is(
    name: str, kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = saved(tmp_path, name, **changes)
    loaded = minibert.load(folder)
    model = loaded.model
    if kind == "reranker":
        assert isinstance(model, CrossEncoder)
        model = model.model
    assert loaded.kind == kind == Checkpoint(Source(folder)).kind
    assert type(model).__name__ == name
    assert not (model.training or model.load_report.missing or model.load_report.left_out)
    assert loaded.tokenizer.tokenize("a") == ["a"]


def test_an_embedder_and_a_cross_encoder_of_sentence_transformers(tmp_path: Path) -> None:
    base = saved(tmp_path / "base", "BertModel")
    minibert.load(base, "embedder").model.save_pretrained(tmp_path / "embedder")
    embedder = minibert.load(tmp_path / "embedder")
    assert embedder.kind == "embedder" and isinstance(embedder.model, SentenceEmbedder)
    assert minibert.load(tmp_path / "embedder", "base").kind == "base"
    scores = saved(tmp_path / "scores", "BertForSequenceClassification", num_labels=1)
    minibert.load(scores).model.save_pretrained(tmp_path / "reranker")
    assert minibert.load(tmp_path / "reranker").kind == "reranker"


def test_the_kind_that_is_needed(tmp_path: Path) -> None:
    tagger = saved(tmp_path / "tagger", "BertForTokenClassification")
    with pytest.raises(
        ValueError, match=r"is a tagger of words \(BertForTokenClassification\), not a class"
    ):
        minibert.load(tagger, "classifier")
    assert minibert.load(tagger, "embedder").kind == "embedder"
    unknown: Any = "embeddings"
    with pytest.raises(ValueError, match="kind should be one of embedder, .* not 'embeddings'"):
        minibert.load(tagger, unknown)
    classes = saved(tmp_path / "classes", "BertForSequenceClassification", num_labels=3)
    assert isinstance(minibert.load(classes, "reranker").model, CrossEncoder)
    score = saved(tmp_path / "score", "BertForSequenceClassification", num_labels=1)
    model = minibert.load(score, "classifier", precision="fp32").model
    assert type(model).__name__ == "BertForSequenceClassification"


def test_another_model_type_is_refused_before_the_weights_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}', encoding="utf-8")
    for load in (minibert.load, load_with_heads, lambda source: Checkpoint(source).kind):
        with pytest.raises(ValueError, match="model_type='roberta' is not supported"):
            load(Source(tmp_path))


def test_unknown_options_raise_an_error() -> None:
    with pytest.raises(TypeError, match="load\\(\\) got an unexpected keyword argument 'mmpa'"):
        minibert.load("minibert-tiny", mmpa=False)


@pytest.mark.parametrize("kind", ["tagger", "embedder"])
@pytest.mark.usefixtures("shared_graphs")
def test_an_export_needs_no_torch(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from minibert.encoders.onnx.export import export

    folder = tiny_folder(tmp_path / "model", num_hidden_layers=1)
    if kind == "tagger":
        head_folder(folder, minibert.BertForTokenClassification, num_labels=3)
    export(Source(folder), tmp_path / "onnx")
    for option in ({"precision": "int8"}, {"device": "cuda"}, {"dtype": "bfloat16"}):
        with pytest.raises(ValueError, match=f"^{next(iter(option))} should be left out"):
            minibert.load(tmp_path / "onnx", backend="onnx", **option)
    code = f"""if True:
        import sys, minibert
        print(minibert.load({str(tmp_path / "onnx")!r}, backend="onnx").kind)
        assert "torch" not in sys.modules
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert run.stdout.strip() == kind, run.stderr
