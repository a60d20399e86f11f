"""`save_pretrained`: a saved embedder gives the same vectors after loading.

An embedder that the format cannot hold raises an error before anything is written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import tiny_folder

from minibert import BertModel, BertTokenizer, SentenceEmbedder
from minibert.encoders.arithmetic import pooling_names
from minibert.encoders.arithmetic.steps import Dense, Normalize, Truncate
from minibert.tasks.similarity import SimilarityTask

TEXTS = ["hello world", "how tall do trees grow in korea?", "", "trees " * 80]


def dense(inputs: int, outputs: int) -> Dense:
    torch.manual_seed(2)
    return Dense(inputs, outputs, True, "Tanh")


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalized": {"steps": [Normalize()]},
    "dense": {"steps": [dense(32, 8), Normalize()]},
    "cls": {"pooling": "cls"},
    "several": {"pooling": ["cls", "max", "mean_sqrt_len"]},
    "several in another order": {"pooling": ["mean", "cls"]},
    "prompts": {
        "prompts": {"query": "query: ", "document": "how? "},
        "default_prompt_name": "query",
    },
    "prompt left out": {
        "prompts": {"q": "query: "},
        "default_prompt_name": "q",
        "include_prompt": False,
    },
    "truncated": {"steps": [Truncate(10)]},
    "truncated, then normalized": {"steps": [Truncate(10), Normalize()]},
    "truncated before a dense": {"steps": [dense(32, 20), Truncate(10), dense(10, 4)]},
    "short": {"max_length": 12},
    "a layer below": {"layers": [1]},
    "embeddings": {"layers": "embeddings"},
    "pooler": {"pooling": "pooler"},
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[BertModel, BertTokenizer]:
    folder = tiny_folder(tmp_path_factory.mktemp("tiny"))
    return BertModel.from_pretrained(folder), BertTokenizer.from_pretrained(folder)


@pytest.mark.filterwarnings("ignore:1 of 4 texts")
class TestRoundTrip:
    @pytest.mark.parametrize("case", CASES)
    def test_in_minibert(
        self, parts: tuple[BertModel, BertTokenizer], case: str, tmp_path: Path
    ) -> None:
        embedder = SentenceEmbedder(*parts, **CASES[case])
        embedder.save_pretrained(tmp_path)
        again = SentenceEmbedder.from_pretrained(tmp_path, precision=None)
        np.testing.assert_allclose(
            again.encode(TEXTS), embedder.encode(TEXTS), rtol=1e-6, atol=1e-6
        )
        assert (again.max_length, again.prompts) == (embedder.max_length, embedder.prompts)
        assert (again.dimension, again.include_prompt) == (
            embedder.dimension,
            embedder.include_prompt,
        )

    @pytest.mark.parametrize("case", CASES)
    def test_in_sentence_transformers(
        self, parts: tuple[BertModel, BertTokenizer], case: str, tmp_path: Path
    ) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        embedder = SentenceEmbedder(*parts, **CASES[case])
        embedder.save_pretrained(tmp_path)
        theirs = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
        np.testing.assert_allclose(
            theirs.encode(TEXTS), embedder.encode(TEXTS), rtol=1e-6, atol=1e-6
        )
        assert theirs.max_seq_length == embedder.max_length
        for name in embedder.prompts:
            ours = embedder.encode(TEXTS, prompt_name=name)
            np.testing.assert_allclose(
                theirs.encode(TEXTS, prompt_name=name), ours, rtol=1e-6, atol=1e-6
            )


class TestWriting:
    def test_an_optimized_model(
        self, parts: tuple[BertModel, BertTokenizer], tmp_path: Path
    ) -> None:
        SentenceEmbedder(*parts).save_pretrained(tmp_path / "plain")
        fast = SentenceEmbedder.from_pretrained(tmp_path / "plain")
        fast.save_pretrained(tmp_path / "fast")
        names = ("modules.json", "model.safetensors", "1_Pooling/config.json", "README.md")
        assert all(
            (tmp_path / "plain" / name).read_bytes() == (tmp_path / "fast" / name).read_bytes()
            for name in names
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"layers": "concat_last_4"},
                r"has the vectors of one layer, but this embedder combines \[1, 2, 3, 4\]",
            ),
            ({"layers": [4], "layer_weights": [2.0]}, "has the vectors of one layer"),
            (
                {"pooling": ["pooler", "mean"]},
                r"^pooling=\['pooler', 'mean'\] cannot be saved.* no pooler beside other poolings",
            ),
        ],
    )
    def test_layers_and_poolings_that_the_format_does_not_have(
        self, tmp_path: Path, options: dict[str, Any], message: str
    ) -> None:
        folder = tiny_folder(tmp_path / "bert", num_hidden_layers=4)
        embedder = SentenceEmbedder.from_pretrained(folder, precision=None, **options)
        with pytest.raises(ValueError, match=message):
            embedder.save_pretrained(tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_a_pooling_that_the_format_does_not_name(
        self,
        parts: tuple[BertModel, BertTokenizer],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The same error refuses to save and to train it."""
        others = {name: mode for name, mode in pooling_names.MODES.items() if name != "max"}
        monkeypatch.setattr(pooling_names, "MODES", others)
        message = re.escape(
            'pooling="max" cannot be saved: a sentence-transformers folder has cls, mean, '
            "mean_sqrt_len, weightedmean. Save or train with one of them, and pass "
            'pooling="max" where the model is loaded.'
        )
        with pytest.raises(ValueError, match=message):
            SentenceEmbedder(*parts, pooling=["mean", "max"]).save_pretrained(tmp_path / "out")
        assert not (tmp_path / "out").exists()
        with pytest.raises(ValueError, match=message):
            SimilarityTask(pooling=["mean", "max"])

    def test_a_folder_of_an_interrupted_save_does_not_load(
        self,
        parts: tuple[BertModel, BertTokenizer],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(BertModel, "save_pretrained", killed)
        with pytest.raises(KeyboardInterrupt):
            SentenceEmbedder(*parts, pooling="cls").save_pretrained(tmp_path)
        with pytest.raises(FileNotFoundError):
            SentenceEmbedder.from_pretrained(tmp_path)

    def test_model_card(self, parts: tuple[BertModel, BertTokenizer], tmp_path: Path) -> None:
        SentenceEmbedder(*parts, steps=[dense(32, 8)]).save_pretrained(tmp_path)
        card = (tmp_path / "README.md").read_text(encoding="utf-8")
        assert "vectors of 8 dimensions (cosine).\nPooling: mean." in card and card.startswith(
            "---\nlibrary_name"
        )
        assert (
            json.loads(
                (tmp_path / "config_sentence_transformers.json").read_text(encoding="utf-8")
            )["similarity_fn_name"]
            == "cosine"
        )
