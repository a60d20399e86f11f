"""Random models as ONNX graphs, on random batches, against the models themselves."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import HEADS, tiny_config
from hypothesis import settings, strategies as st
from programs import assert_same, drawn, programs, seed
from tiny_folder import VOCABULARY
from torch import Tensor

import minibert
from minibert import optimize
from minibert.checkpoints.source import Source
from minibert.encoder import ACTIVATIONS

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from minibert.encoders.onnx.export import MAX_DIFFERENCE, export  # noqa: E402
from minibert.encoders.onnx.onnx_embedder import OnnxGraph, run_session  # noqa: E402

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]
OWN_ACTIVATIONS = sorted(ACTIVATIONS)  # now: examples of the guides register others
# A graph costs seconds and a batch milliseconds. Of the laboratory's ten thousand programs, each
# batch is one.
BATCHES = 100
profile = settings.default
IS_QUICK = profile is None or profile.max_examples < settings.get_profile("thorough").max_examples
CONFIGS = st.fixed_dictionaries(
    {
        "hidden_act": st.sampled_from(OWN_ACTIVATIONS),
        "num_attention_heads": st.sampled_from([1, 2, 4]),
        "hidden_size": st.sampled_from([8, 12, 20]),
        "num_hidden_layers": st.integers(1, 2),
        "intermediate_size": st.integers(1, 24),
        "max_position_embeddings": st.sampled_from([12, 20]),
        "layer_norm_eps": st.sampled_from([1e-12, 1e-5]),
    }
)


def graph_outputs(graph: OnnxGraph, batch: dict[str, Tensor]) -> dict[str, Any]:
    """What ONNX Runtime computes of a padded batch, by the names of the outputs."""
    inputs = {name: x.numpy() for name, x in batch.items()}
    values = run_session(graph._session, graph.source, list(graph.outputs), inputs)
    return dict(zip(graph.outputs, values, strict=True))


def assert_close(found: Any, expected: Tensor, at: str) -> None:
    """Fail unless numbers differ by no more than an export may."""
    limit = MAX_DIFFERENCE * max(1.0, float(expected.abs().max()))
    assert_same(torch.from_numpy(np.array(found)), expected, limit, at)


@programs(
    "exported models",
    share=1 / BATCHES,
    quick=2,
    head=st.sampled_from(HEADS),
    config=CONFIGS,
    labels=st.integers(1, 4),
    number=st.integers(0, 1000),
)
def test_heads(head: str, config: dict[str, Any], labels: int, number: int) -> None:
    """Batches of any size, padded on any side, and the optimized model beside the graph."""
    if head != "BertForQuestionAnswering":
        config = {**config, "num_labels": labels}
    seed(number)
    model_class = getattr(minibert, head)
    written = model_class(tiny_config(vocab_size=len(VOCABULARY), **config))
    with torch.no_grad():
        for parameter in written.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    with tempfile.TemporaryDirectory() as folder:
        written.save_pretrained(folder)
        Path(folder, "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
        export(Source.of(folder), f"{folder}/onnx")
        graph = OnnxGraph(Source.of(f"{folder}/onnx"))
        model = model_class.from_pretrained(folder, attn_implementation="eager").eval()
    fast = optimize(model)
    types = model.config.type_vocab_size
    for _ in range(5 if IS_QUICK else BATCHES):
        rows = int(torch.randint(1, 5, ()))
        lead = (rows, int(torch.randint(1, 4, ()))) if "MultipleChoice" in head else (rows,)
        seq = int(torch.randint(1, config["max_position_embeddings"] + 1, ()))
        visible = torch.arange(seq) < torch.randint(1, seq + 1, lead)[..., None]
        if number % 3 == 1:
            visible = visible.flip(-1)
        elif number % 3 == 2:  # any tokens, but one at least
            visible = torch.rand((*lead, seq)) < 0.5
            visible[..., seq // 2] = True
        batch = {
            "input_ids": torch.randint(len(VOCABULARY), (*lead, seq)),
            "attention_mask": visible.long(),
            "token_type_ids": torch.randint(types, (*lead, seq)),
        }
        with torch.no_grad():
            expected = dict(model(**batch).items())
            optimized = dict(fast(**batch).items())
        found = graph_outputs(graph, batch)
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert_close(found[name], value, name)
            if value.shape[: visible.dim()] == visible.shape:  # padding has no result
                assert_close(optimized[name][visible], value[visible], name)
            else:
                assert_close(optimized[name], value, name)
        drawn["exports"] += 1
