"""`as_sentence_transformer`: sentence-transformers' own class and code, with this package's model inside."""

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


def test_the_same_numbers(folder: Path) -> None:
    theirs = library.SentenceTransformer(str(folder))
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    made = embedder.as_sentence_transformer()
    assert type(made) is library.SentenceTransformer and made[0].model is embedder.model
    assert np.array_equal(made.encode(TEXTS), theirs.encode(TEXTS))
    assert np.array_equal(made.encode_query(TEXTS), theirs.encode_query(TEXTS))
    assert (made.max_seq_length, made.prompts["query"], made.similarity_fn_name) == (
        9,
        "query: ",
        "dot",
    )
    for precision in ("fp32", "bf16", "int8"):
        optimized = SentenceEmbedder.from_pretrained(folder, precision=precision)
        found = optimized.as_sentence_transformer().encode(TEXTS)
        with pytest.warns(UserWarning, match="were truncated"):
            np.testing.assert_allclose(
                found, optimized.encode(TEXTS), atol=2e-2 if precision != "fp32" else 1e-5
            )


def test_features_that_went_through_it_go_through_it_again(folder: Path) -> None:
    """As losses that compute gradients in small batches do."""
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    made = embedder.as_sentence_transformer()
    features = made.tokenize(TEXTS)
    first = made(features)
    assert "token_embeddings" in first
    again = made(dict(first))
    assert torch.equal(first["sentence_embedding"], again["sentence_embedding"])


@pytest.mark.parametrize(
    "options", [{"layers": [1]}, {"pooling": "pooler"}, {"normalize": True, "truncate_dim": 7}]
)
def test_what_its_format_says_otherwise(folder: Path, options: dict[str, Any]) -> None:
    """One layer below the last, the pooler, and a dimension become a shorter model, a Dense and a setting."""
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None, max_length=32, **options)
    made = embedder.as_sentence_transformer()
    np.testing.assert_allclose(made.encode(TEXTS), embedder.encode(TEXTS), atol=1e-6)
    with pytest.raises(
        ValueError, match="has the vectors of one layer, but this embedder combines"
    ):
        SentenceEmbedder.from_pretrained(folder, layers=[0, 2]).as_sentence_transformer()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_training_evaluating_saving(folder: Path, tmp_path: Path) -> None:
    from datasets import Dataset

    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    made, before = embedder.as_sentence_transformer(), embedder.encode(WORDS)
    pairs = Dataset.from_dict({"anchor": WORDS, "positive": [f"{word} {word}" for word in WORDS]})
    arguments = library.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"),
        max_steps=2,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
    )
    loss = losses.MultipleNegativesRankingLoss(made)
    library.SentenceTransformerTrainer(made, arguments, pairs, loss=loss).train()
    after = embedder.encode(WORDS)  # the model inside is the embedder's
    assert np.abs(after - before).max() > 1e-3

    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        WORDS, WORDS[::-1], np.linspace(0, 1, len(WORDS))
    )
    made.save_pretrained(str(tmp_path / "saved"))
    again = library.SentenceTransformer(str(tmp_path / "saved"))
    assert evaluator(made.eval()) == evaluator(again)
    for model in (again, SentenceEmbedder.from_pretrained(tmp_path / "saved", precision=None)):
        np.testing.assert_allclose(model.encode(WORDS), after, atol=1e-6)


def test_an_optimized_model_is_not_trained(folder: Path) -> None:
    made = SentenceEmbedder.from_pretrained(folder).as_sentence_transformer()
    assert isinstance(made[0].model, BertModel)
    with pytest.raises(
        ValueError, match="An optimized model cannot be trained: train the original"
    ):
        made.train()
    assert torch.is_tensor(made.encode(WORDS, convert_to_tensor=True))
