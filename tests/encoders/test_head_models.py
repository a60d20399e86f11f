"""A classifier, tagger, answerer or filler is one object, which reads as its training decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_folder import head_folder

import minibert
from minibert import (
    Answerer,
    Classifier,
    Filler,
    Tagger,
    answer_question,
    classify,
    evaluate,
    fill_mask,
    find_entities,
)
from minibert.checkpoints.source import Source
from minibert.cli import main
from minibert.encoders.folders.reading import Reading
from minibert.inference.finite import NotFiniteError
from minibert.util.files import read_json, write_json

TEXTS = ["hello tall trees", "how do trees grow in korea? " * 20]
MASKED = ["hello [MASK] trees", "[MASK] do trees [MASK]"]
QUESTIONS = ["how", "how do trees grow"]
TAGS = {0: "O", 1: "B-P", 2: "I-P"}


def folder_of(head: str, path: Path, reading: Reading | None = None, **config: Any) -> Path:
    folder = head_folder(path, getattr(minibert, f"BertFor{head}"), **config)
    if reading is not None:
        content = read_json(folder / "config.json")
        write_json(folder / "config.json", {**content, "minibert": reading.decided})
    return folder


class TestResults:
    """They are those of the functions that take a model and its tokenizer."""

    def test_classifier(self, tmp_path: Path) -> None:
        folder = folder_of("SequenceClassification", tmp_path, num_labels=3)
        _, model, tokenizer = minibert.load(folder)
        classifier = Classifier.from_pretrained(folder, precision="exact")
        assert classifier.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
        with pytest.warns(UserWarning, match="1 of 2 texts"):
            labels = classifier.classify(TEXTS)
        with pytest.warns(UserWarning, match="1 of 2 texts"):
            assert labels == classify(model, tokenizer, TEXTS)
        assert classifier.classify("hello", top_k=1) == classify(model, tokenizer, "hello")[:1]
        with pytest.warns(UserWarning, match="more than 4 tokens"):
            short = classifier.classify(TEXTS[0], max_length=4)
        assert short == classifier.classify("hello tall")

    def test_tagger(self, tmp_path: Path) -> None:
        folder = folder_of("TokenClassification", tmp_path, id2label=TAGS)
        _, model, tokenizer = minibert.load(folder)
        tagger = Tagger.from_pretrained(folder, precision="exact")
        assert tagger.find_entities(TEXTS) == find_entities(model, tokenizer, TEXTS)

    def test_answerer(self, tmp_path: Path) -> None:
        folder = folder_of("QuestionAnswering", tmp_path)
        _, model, tokenizer = minibert.load(folder)
        answerer = Answerer.from_pretrained(folder, precision="exact")
        expected = answer_question(model, tokenizer, QUESTIONS, TEXTS)
        assert answerer.answer(QUESTIONS, TEXTS) == expected

    def test_filler(self, tmp_path: Path) -> None:
        folder = folder_of("MaskedLM", tmp_path)
        _, model, tokenizer = minibert.load(folder)
        filler = Filler.from_pretrained(folder, precision="exact")
        assert filler.fill_mask(MASKED, 3) == fill_mask(model, tokenizer, MASKED, 3)


class TestTokenizersWithoutTokenTypes:
    """Every type is 0 then, as in the reference, even those of a pair's second text."""

    @pytest.mark.parametrize("head", ["classifier", "tagger", "answerer", "filler"])
    def test_heads(self, head: str, tmp_path: Path) -> None:
        def predictions(folder: Path) -> Any:
            return {
                "classifier": lambda: Classifier.from_pretrained(folder).classify("how", "trees"),
                "tagger": lambda: Tagger.from_pretrained(folder).find_entities(TEXTS),
                "answerer": lambda: Answerer.from_pretrained(folder).answer(QUESTIONS, TEXTS),
                "filler": lambda: Filler.from_pretrained(folder).fill_mask(MASKED, 3),
            }[head]()

        name, config = {
            "classifier": ("SequenceClassification", {"num_labels": 3}),
            "tagger": ("TokenClassification", {"id2label": TAGS}),
            "answerer": ("QuestionAnswering", {}),
            "filler": ("MaskedLM", {}),
        }[head]
        folder = folder_of(name, tmp_path, **config)
        settings = read_json(folder / "tokenizer_config.json")
        names = {"model_input_names": ["input_ids", "attention_mask"]}
        write_json(folder / "tokenizer_config.json", {**settings, **names})
        untyped = predictions(folder)
        # a model whose types are all alike, read with types
        write_json(folder / "tokenizer_config.json", settings)
        weights = load_file(folder / "model.safetensors")
        types = weights["bert.embeddings.token_type_embeddings.weight"]
        types[1] = types[0]
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        assert untyped == predictions(folder)

    def test_pairs_as_sentence_transformers(self, tmp_path: Path) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        folder = folder_of("SequenceClassification", tmp_path, num_labels=1)
        settings = read_json(folder / "tokenizer_config.json")
        names = {"model_input_names": ["input_ids", "attention_mask"]}
        write_json(folder / "tokenizer_config.json", {**settings, **names})
        pairs = [("how", "do tall trees grow"), ("hello", "world")]
        expected = sentence_transformers.CrossEncoder(str(folder), device="cpu").predict(pairs)
        scores = minibert.CrossEncoder.from_pretrained(folder).predict(pairs)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)


class TestLoading:
    def test_another_kind_is_refused(self, tmp_path: Path) -> None:
        folder = folder_of("TokenClassification", tmp_path, num_labels=3)
        with pytest.raises(ValueError, match="is a tagger of words .*, not a classifier"):
            Classifier.from_pretrained(folder)
        with pytest.raises(TypeError, match="should be a BertForTokenClassification or OnnxHead"):
            Tagger(minibert.load(tmp_path, "embedder").model.model, None)  # type: ignore[arg-type]

    def test_max_length_of_the_folder_and_of_the_call(self, tmp_path: Path) -> None:
        folder = folder_of("SequenceClassification", tmp_path, num_labels=3)
        assert Classifier.from_pretrained(folder).max_length == 64
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": 9})
        assert Classifier.from_pretrained(folder).max_length == 9
        assert Classifier.from_pretrained(folder, max_length=7).max_length == 7

    @pytest.mark.usefixtures("shared_graphs")
    def test_exports(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
        from minibert.encoders.onnx.export import export

        folder = folder_of("SequenceClassification", tmp_path / "model", num_labels=3)
        export(Source(folder), tmp_path / "onnx")
        exported = Classifier.from_pretrained(tmp_path / "onnx", backend="onnx")
        expected = Classifier.from_pretrained(folder, precision="exact").classify(TEXTS[:1])
        (labels,) = exported.classify(TEXTS[:1])
        assert [label["score"] for label in labels] == pytest.approx(
            [label["score"] for label in expected[0]], abs=1e-5
        )
        with pytest.raises(ValueError, match="precision should be left out"):
            Classifier.from_pretrained(tmp_path / "onnx", backend="onnx", precision="int8")

    @pytest.mark.slow  # the graph of the decoder takes some seconds
    def test_an_exported_filler(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
        from minibert.encoders.onnx.export import export

        folder = folder_of("MaskedLM", tmp_path / "model")
        export(Source(folder), tmp_path / "onnx", heads=True)
        (expected,) = Filler.from_pretrained(folder, precision="exact").fill_mask(MASKED[:1], 3)
        filler = Filler.from_pretrained(tmp_path / "onnx", backend="onnx")
        ((guesses,),) = filler.fill_mask(MASKED[:1], 3)
        assert [guess["token"] for guess in guesses] == [g["token"] for g in expected[0]]
        assert [guess["score"] for guess in guesses] == pytest.approx(
            [guess["score"] for guess in expected[0]], abs=1e-5
        )


class TestReading:
    """What training decided stands in config.json, and arguments come before it."""

    def test_by_piece(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = folder_of("TokenClassification", tmp_path, Reading(by_piece=True), id2label=TAGS)
        _, model, tokenizer = minibert.load(folder)
        text = "xylophone trees"  # letters are pieces
        by_piece = find_entities(model, tokenizer, text, by_piece=True)
        by_word = find_entities(model, tokenizer, text, by_piece=False)
        assert by_piece != by_word
        assert find_entities(model, tokenizer, text) == by_piece
        assert Tagger(model, tokenizer).find_entities(text) == by_piece
        printed = []
        for options in ([], ["--by-piece"], ["--by-word"]):
            assert main(["entities", text, "--model", str(folder), *options]) == 0
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1] != printed[2]

    def test_answers(self, tmp_path: Path) -> None:
        reading = Reading(no_answer=True, max_answer_length=1)
        folder = folder_of("QuestionAnswering", tmp_path, reading)
        _, model, tokenizer = minibert.load(folder)
        call = model, tokenizer, "how", "tall trees grow in korea"
        assert answer_question(*call) == answer_question(*call, no_answer=True, max_answer_length=1)
        assert "no_answer_score" in answer_question(*call)
        assert "no_answer_score" not in answer_question(*call, no_answer=False)

    @pytest.mark.parametrize(("threshold", "is_empty"), [(-1e6, True), (1e6, False)])
    def test_the_threshold_of_no_answer(
        self, threshold: float, is_empty: bool, tmp_path: Path
    ) -> None:
        reading = Reading(no_answer=True, no_answer_threshold=threshold)
        folder = folder_of("QuestionAnswering", tmp_path, reading)
        answer = Answerer.from_pretrained(folder).answer("how", "tall trees")
        assert (answer["answer"] == "") == is_empty

    def test_pairs(self, tmp_path: Path) -> None:
        folder = folder_of("SequenceClassification", tmp_path, Reading(pairs=True), num_labels=3)
        classifier = Classifier.from_pretrained(folder)
        with pytest.raises(ValueError, match="pairs is missing: .* trained on pairs of texts"):
            classifier.classify("hello")
        assert classifier.classify("hello", "trees")
        assert main(["classify", "hello", "--model", str(folder)]) != 0
        assert main(["classify", "hello", "--pair", "trees", "--model", str(folder)]) == 0

    def test_single_texts(self, tmp_path: Path) -> None:
        folder = folder_of("SequenceClassification", tmp_path, Reading(pairs=False), num_labels=3)
        classifier = Classifier.from_pretrained(folder)
        with pytest.raises(ValueError, match="trained on single texts"):
            classifier.classify("hello", "trees")
        assert classifier.classify("hello")


def test_an_object_is_evaluated_as_its_model(tmp_path: Path) -> None:
    folder = folder_of("SequenceClassification", tmp_path, id2label={0: "a", 1: "b"})
    data = [{"text": "hello", "label": "a"}, {"text": "trees", "label": "b"}]
    _, model, tokenizer = minibert.load(folder)
    expected = evaluate(model, tokenizer, data, bootstrap=0)
    classifier = Classifier(model, tokenizer)
    assert evaluate(classifier, None, data, bootstrap=0).metrics == expected.metrics


@pytest.mark.parametrize("backend", ["torch", "onnx"])
@pytest.mark.usefixtures("shared_graphs")
def test_what_is_not_finite_is_one_error_everywhere(backend: str, tmp_path: Path) -> None:
    folder = folder_of("TokenClassification", tmp_path / "model", id2label=TAGS)
    _, model, tokenizer = minibert.load(folder)
    if backend == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
        from minibert.encoders.onnx.export import export

        export(Source(folder), tmp_path / "onnx")
        _, model, tokenizer = minibert.load(tmp_path / "onnx", backend="onnx")
        run = model.graph.run

        def damaged(*arguments: Any, **options: Any) -> Any:
            return {
                name: [array * np.nan for array in arrays]
                for name, arrays in run(*arguments, **options).items()
            }

        model.graph.run = damaged
    else:
        with torch.no_grad():
            model.classifier.bias[0] = torch.nan
    with pytest.raises(NotFiniteError, match="is not finite: .*weights are damaged"):
        find_entities(model, tokenizer, "tall trees")
    reranker = minibert.load(folder_of("SequenceClassification", tmp_path / "r", num_labels=1))
    with torch.no_grad():
        reranker.model.model.classifier.bias[0] = torch.nan
    with pytest.raises(NotFiniteError, match=r"\('a', 'b'\) is not finite: .*are damaged"):
        reranker.model.predict([("a", "b")])
