"""The pooling weightedmean has the vectors of sentence-transformers, and folders of both load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_folder import tiny_folder

from minibert import SentenceEmbedder

sentence_transformers = pytest.importorskip("sentence_transformers")
st_modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
TEXTS = ["hello", "how do tall trees grow in korea?", "", "x"]


def saved_by_theirs(folder: Path, pooling: Any, include_prompt: bool) -> Any:
    transformer = st_modules.Transformer(str(tiny_folder(folder / "bert")))
    module = st_modules.Pooling(32, pooling_mode=pooling, include_prompt=include_prompt)
    reference = sentence_transformers.SentenceTransformer(
        modules=[transformer, module], device="cpu", prompts={"query": "query: how "}
    )
    reference.save_pretrained(str(folder / "theirs"))
    return reference


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("pooling", ["weightedmean", ("weightedmean", "cls")])
def test_vectors_and_folders(pooling: Any, include_prompt: bool, tmp_path: Path) -> None:
    reference = saved_by_theirs(tmp_path, pooling, include_prompt)
    embedder = SentenceEmbedder.from_pretrained(tmp_path / "theirs", precision="exact")
    embedder.save_pretrained(tmp_path / "ours")
    reloaded = sentence_transformers.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    for prompt in ({}, {"prompt_name": "query"}):
        expected = reference.encode(TEXTS, **prompt)
        np.testing.assert_allclose(embedder.encode(TEXTS, **prompt), expected, atol=2e-6)
        np.testing.assert_allclose(reloaded.encode(TEXTS, **prompt), expected, atol=2e-6)
        for text in TEXTS:  # alone, nothing is padded: to the bit
            assert np.array_equal(
                embedder.encode(text, **prompt), reference.encode([text], **prompt)[0]
            )
