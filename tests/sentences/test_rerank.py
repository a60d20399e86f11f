"""Cross-encoders against sentence-transformers' CrossEncoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import classifier_folder

from minibert import BertForSequenceClassification, BertTokenizer, CrossEncoder, rerank

QUERY = "how tall do trees grow?"
DOCUMENTS = [
    "trees grow in korea.",
    "hello world",
    "",
    "hello world",
    "tall trees " * 60,
    "in korea",
]
PAIRS = [(QUERY, document) for document in DOCUMENTS]


class TestAgainstSentenceTransformers:
    @pytest.mark.parametrize("labels", [1, 3])
    @pytest.mark.parametrize(
        "activation", [None, torch.nn.Identity(), torch.nn.Tanh(), torch.nn.Sigmoid()]
    )
    def test_folders_that_it_saves(self, tmp_path: Path, labels: int, activation: Any) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        folder = str(classifier_folder(tmp_path / "bert", labels))
        theirs = sentence_transformers.CrossEncoder(folder, activation_fn=activation, device="cpu")
        theirs.save_pretrained(str(tmp_path / "saved"))
        expected = theirs.predict(PAIRS)
        for precision in (None, "fp32"):
            ours = CrossEncoder.from_pretrained(tmp_path / "saved", precision=precision)
            np.testing.assert_allclose(ours.predict(PAIRS), expected, rtol=0, atol=1e-6)
        assert np.shape(ours.predict(PAIRS[0])) == expected[0].shape
        if labels == 1:
            ranked = theirs.rank(QUERY, DOCUMENTS, top_k=3, return_documents=True)
            for mine, other in zip(ours.rank(QUERY, DOCUMENTS, top_k=3), ranked, strict=True):
                assert (mine["corpus_id"], mine["text"]) == (other["corpus_id"], other["text"])
                assert mine["score"] == pytest.approx(float(other["score"]), abs=1e-6)

    @pytest.mark.parametrize(
        "field",
        [
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
            {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
            {},
        ],
    )
    def test_folders_of_older_versions(self, tmp_path: Path, field: dict[str, Any]) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        config = json.loads(
            (classifier_folder(tmp_path, 1) / "config.json").read_text(encoding="utf-8")
        )
        (tmp_path / "config.json").write_text(json.dumps({**config, **field}), encoding="utf-8")
        expected = sentence_transformers.CrossEncoder(str(tmp_path), device="cpu").predict(PAIRS)
        np.testing.assert_allclose(
            CrossEncoder.from_pretrained(tmp_path).predict(PAIRS), expected, rtol=0, atol=1e-6
        )

    def test_prompts(self, tmp_path: Path) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        prompts = {"prompts": {"query": "in korea ", "x": "hello "}, "default_prompt_name": "query"}
        folder = classifier_folder(tmp_path / "bert", 1)
        theirs = sentence_transformers.CrossEncoder(str(folder), device="cpu", **prompts)
        theirs.save_pretrained(str(tmp_path / "saved"))
        ours = CrossEncoder.from_pretrained(tmp_path / "saved", precision=None)
        for options in ({}, {"prompt_name": "x"}, {"prompt": "tall "}, {"prompt": ""}):
            expected = theirs.predict(PAIRS, batch_size=2, show_progress_bar=False, **options)
            found = ours.predict(PAIRS, batch_size=2, show_progress_bar=False, **options)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        with pytest.raises(ValueError, match="there is no prompt 'q'; this model has query, x"):
            ours.predict(PAIRS, prompt_name="q")


class TestRerank:
    @pytest.fixture
    def parts(self, tmp_path: Path) -> tuple[BertForSequenceClassification, BertTokenizer]:
        classifier_folder(tmp_path, 1)
        return BertForSequenceClassification.from_pretrained(
            tmp_path
        ), BertTokenizer.from_pretrained(tmp_path)

    def test_order(self, parts: tuple[BertForSequenceClassification, BertTokenizer]) -> None:
        scores = CrossEncoder(*parts).predict(PAIRS)
        ranked = rerank(*parts, QUERY, DOCUMENTS)
        assert [r["corpus_id"] for r in ranked] == np.argsort(-scores, kind="stable").tolist()
        assert [r["score"] for r in ranked] == sorted(scores.tolist(), reverse=True)
        assert rerank(*parts, QUERY, DOCUMENTS, top=2) == ranked[:2]
        assert rerank(*parts, QUERY, []) == []

    def test_mistakes(
        self, parts: tuple[BertForSequenceClassification, BertTokenizer], tmp_path: Path
    ) -> None:
        with pytest.raises(ValueError, match="top_k should be a whole number of 1 or more, not 0"):
            rerank(*parts, QUERY, DOCUMENTS, top=0)
        with pytest.raises(
            ValueError, match="pairs should be two strings each, but number 0 is .* None"
        ):
            rerank(*parts, QUERY, [None])  # type: ignore[list-item]
        with pytest.raises(
            ValueError, match="ranking needs a model with one label; this one has 2"
        ):
            CrossEncoder.from_pretrained(classifier_folder(tmp_path / "two", 2)).rank(
                QUERY, DOCUMENTS
            )

    def test_what_minibert_does_not_have(self, tmp_path: Path) -> None:
        folder = classifier_folder(tmp_path, 1)
        settings = folder / "config_sentence_transformers.json"
        settings.write_text(json.dumps({"activation_fn": "os.system"}), encoding="utf-8")
        with pytest.raises(
            ValueError, match="config_sentence_transformers.json asks for activation 'os.system'"
        ):
            CrossEncoder.from_pretrained(folder)
        settings.write_text(json.dumps({"default_prompt_name": "query"}), encoding="utf-8")
        with pytest.raises(ValueError, match="there is no prompt 'query'; this model has none"):
            CrossEncoder.from_pretrained(folder)
        settings.write_text("{}", encoding="utf-8")
        (folder / "sentence_bert_config.json").write_text(
            json.dumps({"max_seq_length": "12"}), encoding="utf-8"
        )
        with pytest.raises(
            ValueError, match="sentence_bert_config.json: max_seq_length should be a int, not '12'"
        ):
            CrossEncoder.from_pretrained(folder)
        modules = [
            {"path": "", "type": f"sentence_transformers.models.{kind}"}
            for kind in ("Transformer", "Dense")
        ]
        (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
        with pytest.raises(ValueError, match="should list a Transformer alone"):
            CrossEncoder.from_pretrained(folder)
