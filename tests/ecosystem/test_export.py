"""Graphs traced from a batch without padding are correct for padded batches of any size."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config
from tiny_folder import VOCABULARY
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import minibert
from minibert import BertConfig, BertTokenizer
from minibert.encoders.arithmetic.pooling import POOLINGS
from minibert.encoders.arithmetic.steps import Normalize, Truncate

pytestmark = [
    pytest.mark.ecosystem,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning"),
]
CLASSES = ("BertModel", *HEADS)
PRESETS = ("tiny", "mini", "small", "medium", "base", "large")
Batch = dict[str, Tensor]


class Together(nn.Module):
    """Several models on one batch. Tracing one graph is faster than tracing a graph for each."""

    def __init__(self, models: Sequence[Any], **options: Any) -> None:
        super().__init__()
        self.models, self.options = nn.ModuleList(models), options

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Any, ...]:
        outputs = []
        for model in self.models:
            inputs = (input_ids, attention_mask, token_type_ids)
            if isinstance(model, minibert.BertForMultipleChoice):  # each text is the only choice
                inputs = tuple(x[:, None] for x in inputs)
            outputs.append(model(*inputs, **self.options))
        return tuple(outputs)


def every_class(**options: Any) -> Together:
    """Return `BertModel` and every head, each with one layer."""
    config = tiny_config(num_hidden_layers=1)
    return Together([getattr(minibert, name)(config) for name in CLASSES], **options).eval()


def every_preset(**options: Any) -> Together:
    """Return a `BertModel` of every preset, with one layer and a small vocabulary."""
    sizes = {"vocab_size": 99, "max_position_embeddings": 64, "num_hidden_layers": 1}
    return Together(
        [minibert.BertModel(BertConfig.from_preset(name, **sizes)) for name in PRESETS], **options
    ).eval()


def every_pooling(**_: Any) -> Together:
    """Return embedders whose vectors join those of every pooling, truncated and normalized."""
    bert = minibert.BertModel(tiny_config(num_hidden_layers=1))
    tokenizer = BertTokenizer(VOCABULARY)
    steps = [Truncate(len(POOLINGS) * bert.config.hidden_size - 10), Normalize()]
    every = minibert.SentenceEmbedder(bert, tokenizer, pooling=list(POOLINGS), steps=steps)
    both = minibert.SentenceEmbedder(bert, tokenizer, pooling=["max", "cls"], layers=[0, 1])
    return Together([every, both]).eval()


def batches() -> tuple[Batch, Batch]:
    """Return a batch without padding for tracing, and a padded batch of another shape."""
    return ragged_batch(tiny_config(), (12, 12, 12)), ragged_batch(tiny_config(), (9, 7, 2, 4))


def assert_same(received: Any, expected: Any) -> None:
    ours, theirs = tree_leaves(received), tree_leaves(expected)
    assert len(ours) == len(theirs) > 0
    for our_tensor, their_tensor in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our_tensor, their_tensor, rtol=0, atol=1e-5)


def dynamic(batch: Batch) -> dict[str, dict[int, Any]]:
    """Return dynamic shapes for the batch and the sequence axis.

    torch 2.6 exports the indexing `x[:, 0]` only if the axis has an upper limit.
    """
    limit = {"max": 2**40} if torch.__version__ < "2.7" else {}
    return {
        key: {0: torch.export.Dim("batch", **limit), 1: torch.export.Dim("seq", **limit)}
        for key in batch
    }


@pytest.mark.parametrize(
    "models", [every_class, every_pooling, pytest.param(every_preset, marks=pytest.mark.slow)]
)
def test_jit_trace(models: Callable[..., Together]) -> None:
    model, (full, padded) = models(return_dict=False), batches()
    traced = torch.jit.trace(model, tuple(full.values()))
    for batch in (full, padded):
        assert_same(traced(*batch.values()), model(**batch))


@pytest.mark.parametrize(
    "models",
    [
        every_pooling,
        pytest.param(every_class, marks=pytest.mark.slow),
        pytest.param(every_preset, marks=pytest.mark.slow),
    ],
)
def test_export_with_sizes_that_change(models: Callable[..., Together]) -> None:
    model, (full, padded) = models(), batches()
    program = torch.export.export(model, (), full, dynamic_shapes=dynamic(full))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    exported = torch.export.load(file).module()
    for batch in (full, padded):
        received = exported(**batch)
        expected = model(**batch)
        # outputs are pytrees, so their types are restored
        assert [type(output) for output in received] == [type(output) for output in expected]
        assert_same(received, expected)


@pytest.mark.parametrize("attention", ["sdpa", pytest.param("eager", marks=pytest.mark.slow)])
def test_export_strict(attention: str) -> None:
    """A model that returns hidden states can be exported with fixed shapes."""
    config = tiny_config(
        num_hidden_layers=1, attn_implementation=attention, output_hidden_states=True
    )
    model, (full, _) = minibert.BertModel(config).eval(), batches()
    padded = {
        **full,
        "attention_mask": torch.tensor([[1] * 12, [1] * 3 + [0] * 9, [1] * 7 + [0] * 5]),
    }
    exported = torch.export.export(model, (), full, strict=True).module()
    for batch in (full, padded):
        assert_same(exported(**batch)["hidden_states"], model(**batch).hidden_states)


@pytest.mark.parametrize(
    ("models", "backend"),
    [
        (every_class, "eager"),  # the graph alone, without generated code
        pytest.param(every_class, "inductor", marks=pytest.mark.slow),
        pytest.param(every_preset, "inductor", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_compile_without_a_graph_break(models: Callable[..., Together], backend: str) -> None:
    model, (full, padded) = models(), batches()
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    with torch.no_grad():
        for batch in (full, padded):
            assert_same(compiled(**batch), model(**batch))


@pytest.mark.parametrize("tool", ["export", "trace", "onnx"])
def test_the_error_for_an_optimized_model_says_what_to_export(
    tool: str, quiet: None, tmp_path: Path
) -> None:
    model, (full, _) = minibert.optimize(minibert.BertModel(tiny_config()).eval()), batches()
    with pytest.raises(
        Exception, match="is not exported: load it with precision=None, or unoptimize"
    ):
        if tool == "export":
            torch.export.export(model, (), full)
        elif tool == "trace":
            torch.jit.trace(model, tuple(full.values()), strict=False)
        else:
            pytest.importorskip("onnxscript")
            torch.onnx.export(model, (), tmp_path / "model.onnx", kwargs=full, dynamo=True)


@pytest.fixture
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "models", [every_class, every_pooling, pytest.param(every_preset, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.slow
def test_onnx(models: Callable[..., Together], dynamo: bool, tmp_path: Path, quiet: None) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, (full, padded) = models(return_dict=False), batches()
    file = tmp_path / "model.onnx"
    keys = list(full)
    if dynamo:
        torch.onnx.export(
            model,
            (),
            file,
            kwargs=full,
            dynamo=True,
            dynamic_shapes=dynamic(full),
            input_names=keys,
        )
    else:
        axes = {key: {0: "batch", 1: "seq"} for key in keys}
        inputs = tuple(full.values())
        torch.onnx.export(
            model, inputs, file, dynamo=False, input_names=keys, dynamic_axes=axes, opset_version=17
        )
    session = onnxruntime.InferenceSession(file)
    assert {node.name for node in session.get_inputs()} == set(keys)
    for batch in (full, padded):
        received = session.run(None, {key: x.numpy() for key, x in batch.items()})
        assert_same([torch.from_numpy(x) for x in received], model(**batch))
