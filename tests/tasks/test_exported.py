"""An export is evaluated as its model is, and has the same scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_folder import head_folder, sentence_folder

import minibert
from minibert import answer_question, evaluate, find_entities
from minibert.checkpoints.source import Source
from minibert.cli import main
from minibert.encoders.auto import load_with_heads
from minibert.util.files import read_json, write_json

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from minibert.encoders.onnx.export import export  # noqa: E402

pytestmark = [pytest.mark.ecosystem, pytest.mark.usefixtures("shared_graphs")]

LONG = "tall trees grow " * 40
SEVERAL = "multi_label_classification"
LABELED = [{"text": "hello", "label": "a"}, {"text": LONG, "label": "b"}]
PAIRS = [
    {"text": "tall", "pair": "trees", "label": 1.0},
    {"text": "tall", "pair": "world", "label": 0.0},
    {"text": "hello", "pair": "world", "label": 0.5},
]
# no text twice: the last bits of their scores, and so their ranks, depend on the processor
SCORED = [
    {"text": "tall trees", "label": 1.0},
    {"text": "hello", "label": 0.0},
    {"text": LONG, "label": 0.5},
]
# the class of the head, its config, data, and arguments of `evaluate`
HEADS: dict[str, tuple[str, dict[str, Any], list[Any], dict[str, Any]]] = {
    "classifier": ("SequenceClassification", {"id2label": {0: "c", 1: "b", 2: "a"}}, LABELED, {}),
    "several labels": (
        "SequenceClassification",
        {"id2label": {0: "c", 1: "b", 2: "a"}, "problem_type": SEVERAL},
        [{"text": "hello", "label": []}, {"text": LONG, "label": ["b", "a"]}],
        {},
    ),
    "regression": (
        "SequenceClassification",
        {"num_labels": 1, "problem_type": "regression"},
        SCORED,
        {},
    ),
    "reranker": ("SequenceClassification", {"num_labels": 1}, PAIRS, {"pair_column": "pair"}),
    "tagger": (
        "TokenClassification",
        {"id2label": {0: "O", 1: "B-P", 2: "I-P"}},
        [(["hello", "world"], ["O", "B-P"]), (LONG.split(), ["B-P"] * len(LONG.split()))],
        {},
    ),
    "answers": (
        "QuestionAnswering",
        {},
        [
            {
                "question": "how",
                "context": text,
                "answers": {"text": ["trees"], "answer_start": [5]},
            }
            for text in ("tall trees", LONG)
        ],
        {},
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_scores_of_an_exported_head(name: str, tmp_path: Path) -> None:
    head, config, data, arguments = HEADS[name]
    folder = head_folder(tmp_path / "model", getattr(minibert, f"BertFor{head}"), **config)
    model, tokenizer = load_with_heads(folder)
    export(Source.of(folder), tmp_path / "onnx")
    exported = minibert.load(tmp_path / "onnx", backend="onnx")
    expected = evaluate(model, tokenizer, data, bootstrap=0, **arguments)
    found = evaluate(exported.model, exported.tokenizer, data, bootstrap=0, **arguments)
    assert found.metrics == pytest.approx(expected.metrics, abs=1e-4, nan_ok=True)
    assert (found.task, found.truncated) == (expected.task, expected.truncated)
    assert [error.row for error in found.errors] == [error.row for error in expected.errors]
    # where minibert is on this computer is nobody else's concern
    graph = (tmp_path / "onnx" / "model.onnx").read_bytes()
    assert str(Path(minibert.__file__).parent).encode() not in graph


@pytest.mark.parametrize(
    ("head", "graph"),
    [
        # the config names the head, so that the graph of another one will do
        ("MaskedLM", "SequenceClassification"),
        pytest.param("MaskedLM", "MaskedLM", marks=pytest.mark.slow),
        pytest.param("NextSentencePrediction", "NextSentencePrediction", marks=pytest.mark.slow),
        pytest.param("MultipleChoice", "MultipleChoice", marks=pytest.mark.slow),
    ],
)
def test_another_head_with_logits_is_refused(head: str, graph: str, tmp_path: Path) -> None:
    model_class = getattr(minibert, f"BertFor{graph}")
    export(Source.of(head_folder(tmp_path / "model", model_class, num_labels=3)), tmp_path / "onnx")
    config = read_json(tmp_path / "onnx" / "config.json")
    assert config["architectures"] == [f"BertFor{graph}"]
    write_json(tmp_path / "onnx" / "config.json", config | {"architectures": [f"BertFor{head}"]})
    _, model, tokenizer = minibert.load(tmp_path / "onnx", backend="onnx")
    with pytest.raises(TypeError, match="should be a sequence classifier.* not an OnnxHead"):
        evaluate(model, tokenizer, [{"text": "hello", "label": "LABEL_0"}])
    with pytest.raises(
        ValueError, match=f"from a BertFor{head}, not from a BertForTokenClassification"
    ):
        find_entities(model, tokenizer, "hello")
    with pytest.raises(
        ValueError, match=f"from a BertFor{head}, not from a BertForQuestionAnswering"
    ):
        answer_question(model, tokenizer, "hello", "tall trees")
    with pytest.raises(ValueError, match="is not the export of a classifier"):
        model.classify(["hello"])


@pytest.mark.parametrize("named", [["OwnTagger"], None])
def test_the_export_of_a_class_of_ones_own_names_the_class_of_its_graph(
    named: list[str] | None, tmp_path: Path
) -> None:
    folder = head_folder(tmp_path / "model", minibert.BertForQuestionAnswering)
    config = read_json(folder / "config.json") | {"architectures": named}
    write_json(folder / "config.json", config)
    export(Source.of(folder), tmp_path / "onnx")
    kind, model, tokenizer = minibert.load(tmp_path / "onnx", backend="onnx")
    assert kind == "answers"
    assert answer_question(model, tokenizer, "hello", "tall trees")["answer"]


@pytest.mark.parametrize("task", ["scores", "pairs"])
def test_scores_of_an_exported_embedder(task: Any, tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path / "model", ("Pooling", {}), layers=1)
    export(Source.of(folder), tmp_path / "onnx")
    results = [
        evaluate(
            minibert.load(path, backend=backend).model,
            None,
            PAIRS,
            task=task,
            pair_column="pair",
            bootstrap=0,
        )
        for path, backend in ((folder, "torch"), (tmp_path / "onnx", "onnx"))
    ]
    assert results[1].metrics == pytest.approx(results[0].metrics, abs=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_command_scores_an_export(
    precision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, config, data, _ = HEADS["classifier"]
    folder = head_folder(tmp_path / "model", minibert.BertForSequenceClassification, **config)
    file, onnx = tmp_path / "dev.jsonl", tmp_path / "onnx"
    file.write_text("\n".join(map(json.dumps, data)), encoding="utf-8")
    export(Source.of(folder), onnx, precision)
    options = ["-m", str(onnx), str(file), "--bootstrap", "0", "--json"]
    assert main(["evaluate", *options, "--backend", "onnx"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == len(data)
