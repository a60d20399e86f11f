"""`as_sentence_transformer`: a SentenceTransformer that contains a minibert model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import LINES, WORDS, sentence_folder

from minibert import BertModel, SentenceEmbedder

library = pytest.importorskip("sentence_transformers")
losses = pytest.importorskip("sentence_transformers.losses")
evaluation = pytest.importorskip("sentence_transformers.evaluation")
TEXTS = [line for line in LINES if line]
MEAN = ("Pooling", {"embedding_dimension": 32, "pooling_mode": "mean"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = {
        "config_sentence_transformers": {
            "prompts": {"query": "query: "},
            "similarity_fn_name": "dot",
        },
        "sentence_bert_config": {"max_seq_length": 9},
    }
    return sentence_folder(tmp_path / "tiny", MEAN, ("Normalize", {}), **settings)


def test_equal_vectors(folder: Path) -> None:
    theirs = library.SentenceTransformer(str(folder))
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    transformer = embedder.as_sentence_transformer()
    assert type(transformer) is library.SentenceTransformer
    assert transformer[0].model is embedder.model
    assert np.array_equal(transformer.encode(TEXTS), theirs.encode(TEXTS))
    assert np.array_equal(transformer.encode_query(TEXTS), theirs.encode_query(TEXTS))
    assert transformer.max_seq_length == 9
    assert transformer.prompts["query"] == "query: "
    assert transformer.similarity_fn_name == "dot"
    for precision in ("fp32", "bf16", "int8"):
        optimized = SentenceEmbedder.from_pretrained(folder, precision=precision)
        vectors = optimized.as_sentence_transformer().encode(TEXTS)
        with pytest.warns(UserWarning, match="were truncated"):
            np.testing.assert_allclose(
                vectors, optimized.encode(TEXTS), atol=2e-2 if precision != "fp32" else 1e-5
            )


@pytest.mark.parametrize("kind", ["distilbert", "xlm-roberta", "xlnet"])
def test_older_names_of_the_settings_count(folder: Path, tmp_path: Path, kind: str) -> None:
    settings = folder / "sentence_bert_config.json"
    settings.write_text('{"max_seq_length": 5, "do_lower_case": true}', encoding="utf-8")
    settings.rename(folder / f"sentence_{kind}_config.json")
    theirs = library.SentenceTransformer(str(folder))
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    assert embedder.max_length == theirs.max_seq_length == 5
    with pytest.warns(UserWarning, match="were truncated"):
        vectors = embedder.encode([text.upper() for text in TEXTS])
    np.testing.assert_allclose(vectors, theirs.encode([text.upper() for text in TEXTS]), atol=1e-6)
    embedder.save_pretrained(tmp_path / "saved")
    assert SentenceEmbedder.from_pretrained(tmp_path / "saved").max_length == 5


def test_output_features_can_be_input_again(folder: Path) -> None:
    """Losses that compute gradients in small batches do this."""
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    transformer = embedder.as_sentence_transformer()
    features = transformer.tokenize(TEXTS)
    first = transformer(features)
    assert "token_embeddings" in first
    again = transformer(dict(first))
    assert torch.equal(first["sentence_embedding"], again["sentence_embedding"])


@pytest.mark.parametrize(
    "options", [{"layers": [1]}, {"pooling": "pooler"}, {"normalize": True, "truncate_dim": 7}]
)
def test_layers_pooler_and_truncation_are_converted(folder: Path, options: dict[str, Any]) -> None:
    """A lower layer becomes a shorter model, the pooler a Dense, and a dimension a setting."""
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None, max_length=32, **options)
    transformer = embedder.as_sentence_transformer()
    np.testing.assert_allclose(transformer.encode(TEXTS), embedder.encode(TEXTS), atol=1e-6)
    with pytest.raises(
        ValueError, match="has the vectors of one layer, but this embedder combines"
    ):
        SentenceEmbedder.from_pretrained(folder, layers=[0, 2]).as_sentence_transformer()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_training_evaluation_and_saving(folder: Path, tmp_path: Path) -> None:
    from datasets import Dataset

    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    transformer, before = embedder.as_sentence_transformer(), embedder.encode(WORDS)
    pairs = Dataset.from_dict({"anchor": WORDS, "positive": [f"{word} {word}" for word in WORDS]})
    arguments = library.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"),
        max_steps=2,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
    )
    loss = losses.MultipleNegativesRankingLoss(transformer)
    library.SentenceTransformerTrainer(transformer, arguments, pairs, loss=loss).train()
    after = embedder.encode(WORDS)  # both share one model
    assert np.abs(after - before).max() > 1e-3

    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        WORDS, WORDS[::-1], np.linspace(0, 1, len(WORDS))
    )
    transformer.save_pretrained(str(tmp_path / "saved"))
    again = library.SentenceTransformer(str(tmp_path / "saved"))
    assert evaluator(transformer.eval()) == evaluator(again)
    for model in (again, SentenceEmbedder.from_pretrained(tmp_path / "saved", precision=None)):
        np.testing.assert_allclose(model.encode(WORDS), after, atol=1e-6)


def test_an_optimized_model_cannot_be_trained(folder: Path) -> None:
    transformer = SentenceEmbedder.from_pretrained(folder).as_sentence_transformer()
    assert isinstance(transformer[0].model, BertModel)
    with pytest.raises(
        ValueError, match="An optimized model cannot be trained: train the original"
    ):
        transformer.train()
    assert torch.is_tensor(transformer.encode(WORDS, convert_to_tensor=True))
