"""Graphs of a model, recorded from a batch without padding: they are right for padded batches and other sizes too."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config
from torch import Tensor, nn

import minibert

pytestmark = [
    pytest.mark.ecosystem,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning"),
]
CLASSES = ("BertModel", *HEADS)
Batch = dict[str, Tensor]


class Tuples(nn.Module):
    """What `torch.jit.trace` can follow: positional arguments in, a plain tuple out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Any:
        return self.model(*inputs, return_dict=False)


def model_and_batches(name: str, **config: Any) -> tuple[Any, Batch, Batch]:
    """A model, a batch without padding and a padded one of other sizes."""
    model = getattr(minibert, name)(tiny_config(**{"num_hidden_layers": 1, **config})).eval()
    full, padded = ragged_batch(model.config, (12, 12, 12)), ragged_batch(model.config, (9, 7, 2, 4))
    if name == "BertForMultipleChoice":
        full, padded = ({key: x[:, None].repeat(1, 2, 1) for key, x in batch.items()} for batch in (full, padded))
    return model, full, padded


def assert_same(received: Any, expected: Any) -> None:
    received, expected = list(received), list(expected)
    assert len(received) == len(expected)
    for ours, theirs in zip(received, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), theirs, rtol=0, atol=1e-5)


def dynamic(name: str, batch: Batch) -> dict[str, dict[int, Any]]:
    """Batch and length may be of any size."""
    length = 2 if name == "BertForMultipleChoice" else 1
    return {key: {0: torch.export.Dim("batch"), length: torch.export.Dim("seq")} for key in batch}


@pytest.mark.parametrize("name", CLASSES)
def test_jit_trace(name: str) -> None:
    model, full, padded = model_and_batches(name)
    keys = ("input_ids", "attention_mask", "token_type_ids")
    traced = torch.jit.trace(Tuples(model).eval(), tuple(full[key] for key in keys))
    for batch in (full, padded):
        assert_same(traced(*(batch[key] for key in keys)), model(**batch))


@pytest.mark.parametrize("name", CLASSES)
def test_export_with_sizes_that_change(name: str) -> None:
    model, full, padded = model_and_batches(name)
    program = torch.export.export(model, (), full, dynamic_shapes=dynamic(name, full))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    exported = torch.export.load(file).module()
    for batch in (full, padded):
        out = exported(**batch)
        assert type(out) is type(model(**batch))  # outputs are pytrees
        assert_same(out, model(**batch))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_export_strict(attention: str) -> None:
    """With fixed sizes too, and with all states and attentions."""
    model, full, _ = model_and_batches("BertModel", attn_implementation=attention, output_hidden_states=True)
    padded = {**full, "attention_mask": full["attention_mask"].tril()[:, :12]}
    exported = torch.export.export(model, (), full, strict=True).module()
    for batch in (full, padded):
        assert_same(exported(**batch)["hidden_states"], model(**batch).hidden_states)


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM"])
def test_compile_without_a_graph_break(name: str) -> None:
    model, full, padded = model_and_batches(name)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")  # the graph; what is made of it is not ours
    for batch in (full, padded):
        assert_same(compiled(**batch), model(**batch))


@pytest.fixture
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", ["BertModel", "BertForSequenceClassification"])
@pytest.mark.parametrize("dynamo", [True, False])
def test_onnx(name: str, dynamo: bool, tmp_path: Path, quiet: None) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, full, padded = model_and_batches(name)
    file = tmp_path / "model.onnx"
    keys = ["input_ids", "attention_mask", "token_type_ids"]
    if dynamo:
        torch.onnx.export(
            model, (), file, kwargs=full, dynamo=True, dynamic_shapes=dynamic(name, full), input_names=keys
        )
    else:
        axes = {key: {0: "batch", 1: "seq"} for key in keys}
        inputs = tuple(full[key] for key in keys)
        torch.onnx.export(
            Tuples(model).eval(), inputs, file, dynamo=False, input_names=keys, dynamic_axes=axes, opset_version=17
        )
    session = onnxruntime.InferenceSession(file)
    assert {i.name for i in session.get_inputs()} == set(keys)
    for batch in (full, padded):
        assert_same(map(torch.from_numpy, session.run(None, {k: x.numpy() for k, x in batch.items()})), model(**batch))
