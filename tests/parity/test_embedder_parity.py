"""SentenceEmbedder against sentence-transformers and transformers.

The tests use real weights and every kind of model folder.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import sample_sentences, sts_dev
from tiny_folder import tiny_folder

from minibert import SentenceEmbedder
from minibert.cli import main
from minibert.encoders.arithmetic.search import similarity

sentence_transformers = pytest.importorskip("sentence_transformers")
st_modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
TEXTS = [
    "Hello world!",
    "How tall do trees grow in Korea?",
    "",
    "x",
    "A man is playing a guitar on a stage, and nobody listens to him any more. " * 30,
]


def theirs(folder: Path | str) -> Any:
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def assert_same(folder: Path | str, **prompt: str) -> None:
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    reference = theirs(folder)
    with pytest.warns(UserWarning, match="1 of 5 texts have more than"):
        ours = embedder.encode(TEXTS, **prompt)
    expected = reference.encode(TEXTS, **prompt)
    assert embedder.dimension == reference.get_embedding_dimension()
    assert embedder.max_length == reference.max_seq_length
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=2e-6)


class TestFolders:
    def test_minilm(self, minilm: str) -> None:
        assert_same(minilm)

    @pytest.mark.parametrize(
        ("pooling", "normalize"), [("cls", False), ("mean", True), ("max", False)]
    )
    def test_single_texts_equal_the_reference_bit_for_bit(
        self, minilm: str, tmp_path: Path, pooling: str, normalize: bool
    ) -> None:
        """A batch changes rounding: the reference's own vectors vary by 1.4e-6 with its size."""
        embedder = SentenceEmbedder.from_pretrained(
            minilm, pooling=pooling, normalize=normalize, precision=None
        )
        embedder.save_pretrained(tmp_path)
        texts = sample_sentences()[0]
        expected = theirs(tmp_path).encode(texts, batch_size=1)
        assert np.array_equal(np.stack([embedder.encode(text) for text in texts]), expected)

    def test_plain_bert(self, tmp_path: Path) -> None:
        assert_same(tiny_folder(tmp_path))

    @pytest.mark.parametrize(
        "pooling", ["cls", "max", "mean", "mean_sqrt_len_tokens", ("max", "cls", "mean")]
    )
    def test_poolings(self, tmp_path: Path, pooling: Any) -> None:
        transformer = st_modules.Transformer(str(tiny_folder(tmp_path / "bert")))
        modules = [transformer, st_modules.Pooling(32, pooling_mode=pooling)]
        sentence_transformers.SentenceTransformer(modules=modules).save_pretrained(
            str(tmp_path / "sentences")
        )
        assert_same(tmp_path / "sentences")

    def test_pooling_flags_of_older_versions(self, tmp_path: Path) -> None:
        transformer = st_modules.Transformer(str(tiny_folder(tmp_path / "bert")))
        sentence_transformers.SentenceTransformer(
            modules=[transformer, st_modules.Pooling(32), st_modules.Normalize()]
        ).save_pretrained(str(tmp_path))
        flags = ["cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens"]
        config = {
            "word_embedding_dimension": 32,
            **{f"pooling_mode_{flag}": True for flag in flags},
        }
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(config), encoding="utf-8")
        modules = json.loads((tmp_path / "modules.json").read_text(encoding="utf-8"))
        for module in modules:
            module["type"] = f"sentence_transformers.models.{module['type'].rpartition('.')[2]}"
        (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
        (tmp_path / "sentence_bert_config.json").write_text(
            json.dumps({"max_seq_length": 33, "do_lower_case": False}), encoding="utf-8"
        )
        assert_same(tmp_path)

    @pytest.mark.parametrize("safe", [True, False])
    @pytest.mark.parametrize("activation", [torch.nn.Tanh(), torch.nn.Identity(), torch.nn.GELU()])
    def test_dense(self, tmp_path: Path, activation: torch.nn.Module, safe: bool) -> None:
        transformer = st_modules.Transformer(str(tiny_folder(tmp_path / "bert")))
        dense = st_modules.Dense(32, 16, bias=safe, activation_function=activation)
        modules = [transformer, st_modules.Pooling(32), dense, st_modules.Normalize()]
        sentence_transformers.SentenceTransformer(modules=modules).save_pretrained(
            str(tmp_path / "sentences"), safe_serialization=safe
        )
        assert_same(tmp_path / "sentences")

    def test_transformer_in_a_folder_of_its_own(self, tmp_path: Path, minilm: str) -> None:
        shutil.copytree(minilm, tmp_path / "0_Transformer")
        for name in ("1_Pooling", "2_Normalize"):
            (tmp_path / name).mkdir()
        shutil.move(
            tmp_path / "0_Transformer" / "1_Pooling" / "config.json",
            tmp_path / "1_Pooling" / "config.json",
        )
        modules = json.loads(
            (tmp_path / "0_Transformer" / "modules.json").read_text(encoding="utf-8")
        )
        modules[0]["path"] = "0_Transformer"
        (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
        (tmp_path / "0_Transformer" / "modules.json").unlink()
        assert_same(tmp_path)

    @pytest.mark.parametrize("include_prompt", [True, False])
    @pytest.mark.parametrize("pooling", ["cls", "mean"])
    def test_prompts(self, tmp_path: Path, include_prompt: bool, pooling: str) -> None:
        transformer = st_modules.Transformer(str(tiny_folder(tmp_path / "bert")))
        pooling_module = st_modules.Pooling(32, pooling_mode=pooling, include_prompt=include_prompt)
        sentence_transformers.SentenceTransformer(
            modules=[transformer, pooling_module],
            prompts={"query": "query: ", "passage": "passage: "},
            default_prompt_name="passage",
        ).save_pretrained(str(tmp_path / "sentences"))
        assert_same(tmp_path / "sentences")
        assert_same(tmp_path / "sentences", prompt_name="query")
        assert_same(tmp_path / "sentences", prompt="how? ")

    def test_do_lower_case_in_the_sentence_config_only(self, tmp_path: Path) -> None:
        tiny_folder(tmp_path / "bert")
        settings = {
            "do_lower_case": False,
            "tokenizer_class": "BertTokenizer",
            "model_max_length": 64,
        }
        (tmp_path / "bert" / "tokenizer_config.json").write_text(
            json.dumps(settings), encoding="utf-8"
        )
        transformer = st_modules.Transformer(str(tmp_path / "bert"))
        sentence_transformers.SentenceTransformer(
            modules=[transformer, st_modules.Pooling(32)]
        ).save_pretrained(str(tmp_path / "sentences"))
        config = {"max_seq_length": 64, "do_lower_case": True}
        (tmp_path / "sentences" / "sentence_bert_config.json").write_text(
            json.dumps(config), encoding="utf-8"
        )
        texts = ["Hello WORLD", "TREES Grow"]
        ours = SentenceEmbedder.from_pretrained(tmp_path / "sentences", precision=None).encode(
            texts
        )
        np.testing.assert_allclose(
            ours, theirs(tmp_path / "sentences").encode(texts), rtol=1e-5, atol=2e-6
        )


class TestLayers:
    """The layer choices of the paper's table 7, computed from transformers' hidden states."""

    @pytest.mark.parametrize(
        ("layers", "features"),
        [
            ("embeddings", lambda h: h[0]),
            ("second_to_last", lambda h: h[-2]),
            ("last", lambda h: h[-1]),
            ("sum_last_4", lambda h: h[-4] + h[-3] + h[-2] + h[-1]),
            ("concat_last_4", lambda h: torch.cat([h[-4], h[-3], h[-2], h[-1]], dim=-1)),
            ("sum_all_12", lambda h: h[1] + h[2] + h[3] + h[4] + h[5] + h[6]),
        ],
    )
    def test_minilm(self, minilm: str, layers: str, features: Any) -> None:
        import transformers

        text = "The quick brown fox jumps over the lazy dog."
        model = transformers.AutoModel.from_pretrained(minilm)
        batch = transformers.AutoTokenizer.from_pretrained(minilm)(text, return_tensors="pt")
        with torch.inference_mode():
            expected = features(model(**batch, output_hidden_states=True).hidden_states)[0]
        embedder = SentenceEmbedder.from_pretrained(
            minilm, layers=layers, normalize=False, precision=None
        )
        np.testing.assert_allclose(
            embedder.encode(text), expected.mean(0).numpy(), rtol=1e-5, atol=1e-5
        )
        words = embedder.words(text)
        assert words.words == [
            "The",
            "quick",
            "brown",
            "fox",
            "jumps",
            "over",
            "the",
            "lazy",
            "dog",
            ".",
        ]
        np.testing.assert_allclose(words.vectors, expected[1:-1].numpy(), rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def expected(minilm: str) -> float:
    """Spearman correlation of sentence-transformers."""
    first, second, scores = sts_dev()
    return spearman(*np.split(theirs(minilm).encode(first + second), 2), scores)


@pytest.mark.slow
class TestStsBenchmark:
    """Spearman correlation of cosine and human score on the dev set of the STS benchmark."""

    def test_from_python(self, minilm: str, expected: float) -> None:
        first, second, scores = sts_dev()
        vectors = SentenceEmbedder.from_pretrained(minilm).encode(first + second)
        assert spearman(*np.split(vectors, 2), scores) == pytest.approx(expected, abs=1e-4)

    def test_from_the_command(self, minilm: str, expected: float, tmp_path: Path) -> None:
        first, second, scores = sts_dev()
        (tmp_path / "lines.txt").write_text("\n".join(first + second) + "\n", encoding="utf-8")
        arguments = [
            "--file",
            str(tmp_path / "lines.txt"),
            "--output",
            str(tmp_path / "vectors.npy"),
        ]
        assert main(["embed", "--model", minilm, *arguments]) == 0
        vectors = np.load(tmp_path / "vectors.npy")
        assert spearman(*np.split(vectors, 2), scores) == pytest.approx(expected, abs=1e-4)


def spearman(first: Any, second: Any, scores: list[float]) -> float:
    from scipy.stats import spearmanr

    cosines = [similarity(a, b).item() for a, b in zip(first, second, strict=True)]
    return float(spearmanr(cosines, scores).statistic)
