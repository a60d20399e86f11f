"""Random batches that are padded, packed or optimized, against each other and transformers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import HEADS, tiny_config, with_reference
from hypothesis import strategies as st
from plain_pooling import pooled
from programs import assert_same, programs, rounding, seed
from tiny_folder import WORDS
from torch import Tensor

from minibert import PackedLayout, SentenceEmbedder, optimize
from minibert.encoder import ACTIVATIONS
from minibert.encoders.arithmetic.pooling_names import POOLINGS

importlib.import_module("transformers")
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]
OWN_ACTIVATIONS = sorted(ACTIVATIONS)  # now: examples of the guides register others
# Outputs for a sequence and not for its tokens, whose shape may be the same by chance.
OF_SEQUENCES = ("pooler_output", "seq_relationship_logits")
CLASSIFIERS = ("BertForNextSentencePrediction", "BertForSequenceClassification")
NOT_PACKED = ("BertForMultipleChoice", "BertForQuestionAnswering")


@programs(
    "packing",
    share=0.6,
    quick=20,
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    head=st.sampled_from(["BertModel", *HEADS]),
    config=st.fixed_dictionaries(
        {
            "hidden_act": st.sampled_from(OWN_ACTIVATIONS),
            "num_attention_heads": st.sampled_from([1, 2, 4, 8]),
            "num_hidden_layers": st.integers(1, 2),
            "intermediate_size": st.integers(1, 40),
            "attn_implementation": st.sampled_from(["eager", "sdpa"]),
        }
    ),
    number=st.integers(0, 1000),
)
def test_a_batch(lengths: list[int], head: str, config: dict[str, Any], number: int) -> None:
    """Hidden states of each token and the other outputs, padded, packed and optimized."""
    seed(number)
    model, reference = with_reference(head, tiny_config(hidden_size=16, **config))
    visible = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(1, 99, visible.shape)
    types = torch.randint(2, visible.shape)
    batch = {"input_ids": ids, "attention_mask": visible.long(), "token_type_ids": types}
    if head == "BertForMultipleChoice":
        batch = {name: x[None] for name, x in batch.items()}
    options = {"output_hidden_states": True}
    of_sequences = (*OF_SEQUENCES, "logits") if head in CLASSIFIERS else OF_SEQUENCES
    # What adds up to a number may be larger than the number: products of a weight and a state.
    weights = [float(p.detach().abs().max()) for p in model.parameters() if p.dim() == 2]
    smallest = rounding(max(weights))
    fast = optimize(model)
    with torch.no_grad():
        expected = dict(reference(**batch, **options).items())
        padded = dict(model(**batch, **options).items())
        optimized = dict(fast(**batch, **options).items())
        assert_same(padded, expected)
        assert list(optimized) == list(expected)
        for name, value in expected.items():
            values = value if isinstance(value, tuple) else (value,)
            found = optimized[name] if isinstance(value, tuple) else (optimized[name],)
            for this, that in zip(found, values, strict=True):
                if name not in of_sequences and this.shape[:2] == visible.shape:
                    this, that = this[visible], that[visible]  # padding has no result
                assert_same(this, that, max(rounding(that), smallest), name)
        if head in NOT_PACKED:
            return
        for packing in (model, fast):
            layout = PackedLayout(lengths)
            rows = {"input_ids": ids[visible], "token_type_ids": types[visible]}
            packed = dict(packing(**rows, layout=layout, **options).items())
            for name, value in expected.items():
                if isinstance(value, Tensor):
                    if name not in of_sequences and value.shape[:2] == visible.shape:
                        value = value[visible]
                    limit = max(rounding(value), smallest)
                    assert_same(packed[name], value, limit, name)


TEXTS = st.lists(
    st.lists(st.sampled_from([*WORDS, "Hello", "!", "x"]), max_size=30).map(" ".join)
    | st.text(max_size=8),
    min_size=1,
    max_size=8,
)


@programs(
    "packing",
    share=0.4,
    texts=TEXTS,
    poolings=st.lists(st.sampled_from(POOLINGS), min_size=1, max_size=3, unique=True),
    include_prompt=st.booleans(),
    prompt=st.sampled_from([None, "", "query: ", "how tall"]),
    max_length=st.sampled_from([8, 11, 64]),
    batch_tokens=st.sampled_from([1, 9, 40, 4096]),
    truncate_dim=st.sampled_from([None, 1, 5, 200]),
    normalize=st.booleans(),
)
def test_an_embedder(
    tiny_model: Path,
    texts: list[str],
    poolings: list[Any],
    include_prompt: bool,
    prompt: str | None,
    max_length: int,
    batch_tokens: int,
    truncate_dim: int | None,
    normalize: bool,
) -> None:
    """Vectors of batches of any size, unchanged and optimized, against one text at a time."""
    exact, fast = (
        SentenceEmbedder.from_pretrained(
            tiny_model, precision=precision, pooling=poolings, max_length=max_length
        )
        for precision in ("exact", "fp32")
    )
    exact.include_prompt = fast.include_prompt = include_prompt
    skip = 0
    if prompt and not include_prompt:
        skip = 1 + len(exact.tokenizer.tokenize(prompt))
    expected = []
    limits = []
    for text in texts:
        row = exact.tokenizer(
            (prompt or "") + text, truncation=True, max_length=max_length, return_tensors="pt"
        )
        with torch.no_grad():
            output = exact.model(**row)
        states, first = output.last_hidden_state[0], output.pooler_output
        vectors = [
            first[0] if name == "pooler" else pooled(states, name, skip) for name in poolings
        ]
        vector = torch.cat(vectors)
        largest = vector.abs().max()
        vector = vector[:truncate_dim]
        length = float(vector.norm()) if normalize else 1.0
        limits.append(rounding(largest, 1 / length))
        expected.append((vector / length).numpy())
    for embedder in (exact, fast):
        vectors = embedder.encode(
            texts,
            prompt=prompt,
            batch_tokens=batch_tokens,
            truncate_dim=truncate_dim,
            normalize_embeddings=normalize,
        )
        for found, vector, limit in zip(vectors, expected, limits, strict=True):
            np.testing.assert_allclose(found, vector, rtol=0, atol=limit)
