"""Export a model as an ONNX graph: `minibert export`.

`minibert.encoders.onnx` runs the graph without torch.

    model.onnx      input_ids, attention_mask, token_type_ids, each (batch, seq), to
                      sentence_embedding (batch, dimension) and token_embeddings (batch, seq, D), or
                      the logits of a head, under the names that its output has in torch
    steps.onnx      what follows the pooling, alone: for texts that are read in windows, whose
    pooled vectors are merged

Pooling and steps are inside model.onnx. A model whose prompts take no part in pooling has a fourth
input, pooling_mask.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from minibert.auto import load_with_heads
from minibert.checkpoints.source import Source
from minibert.encoders.embedder import SentenceEmbedder
from minibert.encoders.onnx import open_session
from minibert.encoders.pooling import pool
from minibert.encoders.sentence_folder import is_embedder, read_sentence_folder
from minibert.extras import need
from minibert.files import new_folder
from minibert.heads import BertForMultipleChoice
from minibert.model import BertModel

PRECISIONS = ("fp32", "int8")
# of the largest number that torch gives: two libraries add up in another order
MAX_DIFFERENCE = 1e-4
# of a vector in int8 and the same in float32
MIN_COSINE = 0.9

Batch = dict[str, Tensor]


class Exported(NamedTuple):
    """The outcome of an export."""

    kind: str  # `SentenceEmbedder`, or the class of a model with a head
    difference: float  # the largest one of any number from torch's
    # the smallest one of a vector (or of the logits of a text or token) with the same in torch
    cosine: float


def export(
    source: Source, folder: str | os.PathLike[str], precision: str = "fp32", heads: bool = False
) -> Exported:
    """Write a folder with model.onnx, a tokenizer and a configuration.

    The results of the graph are verified against PyTorch first.

    Args:
        source: A sentence-transformers folder or a BERT without a head, for an embedder, or a BERT
            with a head.
        folder: Where to write. There should be nothing yet.
        precision: "fp32", or "int8": weights and activations in 8 bits by onnxruntime's dynamic
            quantization.
        heads: Export the head also of a folder that says how it makes vectors.

    Raises:
        ValueError: There is something at `folder`, an unknown precision, or results that differ
            from torch's. Nothing is written then.
        ImportError: The extra [onnx] is not installed.
    """
    target = Path(folder)
    if target.exists():
        raise ValueError(f"{target} exists already: name a folder that does not.")
    if precision not in PRECISIONS:
        raise ValueError(f"precision should be one of {', '.join(PRECISIONS)}, not {precision!r}.")
    _, runtime = (
        need(module, "onnx", "Exporting") for module in ("onnxscript", "onnxruntime.quantization")
    )
    with new_folder(target) as made, _quiet():
        graph, path = _prepare(source, made, heads), made / "model.onnx"
        _write(graph, graph.batch((12, 5)), path)
        if precision == "int8":
            _remove_inner_shapes(path)
            # 7 bits of the weights: with 8, processors without VNNI would overflow in the middle of
            # a sum
            runtime.quantize_dynamic(
                path, path, weight_type=runtime.QuantType.QInt8, per_channel=True, reduce_range=True
            )
        compared = [
            _compare(graph, path, graph.batch(of))
            for of in ((graph.longest, graph.longest // 2 + 1, 2), (3,))
        ]
        difference, cosine = max(one[0] for one in compared), min(one[1] for one in compared)
        if cosine < MIN_COSINE or (precision == "fp32" and difference > MAX_DIFFERENCE):
            raise ValueError(
                "nothing was written: in ONNX Runtime the results differ from torch's by up to "
                f"{difference:.1e} (smallest cosine {cosine:.4f})."
            )
    return Exported(type(graph.model).__name__, difference, cosine)


class _Graph(nn.Module):
    """A model as it is exported: a padded batch in, named tensors out."""

    def __init__(self, model: Any, bert: Any, max_length: int, pooling_mask: bool = False) -> None:
        super().__init__()
        bert.config.attn_implementation = (
            "eager"  # fewer operators than what exporters make of SDPA
        )
        self.model, self.config, self.pooling_mask = model, bert.config, pooling_mask
        self.longest = min(max_length, bert.config.max_position_embeddings, 128)

    def batch(self, lengths: tuple[int, ...]) -> Batch:
        """Random ids padded to the longest row, always the same ones, each (batch, seq)."""
        ids = torch.randint(
            self.config.vocab_size, (len(lengths), max(lengths)), generator=torch.manual_seed(0)
        )
        mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
        inputs = {
            "input_ids": ids * mask,
            "attention_mask": mask,
            "token_type_ids": torch.zeros_like(ids),
        }
        if isinstance(self.model, BertForMultipleChoice):
            return {name: torch.stack([x, x.flip(0)], dim=1) for name, x in inputs.items()}
        if self.pooling_mask:
            inputs["pooling_mask"] = mask * (torch.arange(max(lengths)) > 0)
        return inputs


class _EmbedderGraph(_Graph):
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor,
        pooling_mask: Tensor | None = None,
    ) -> Batch:
        model: SentenceEmbedder = self.model
        states, pooler_output = model.features(input_ids, attention_mask, token_type_ids, None)
        mask = attention_mask if pooling_mask is None else pooling_mask
        pooled = pool(states, mask, model.pooling, pooler_output=pooler_output)
        return {
            "sentence_embedding": model.steps(pooled),
            "token_embeddings": states,
            "pooled": pooled,
        }


class _HeadGraph(_Graph):
    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Batch:
        options = {"output_hidden_states": False, "output_attentions": False, "return_dict": True}
        return dict(self.model(input_ids, attention_mask, token_type_ids, **options).items())


class _Steps(nn.Module):
    def __init__(self, steps: nn.Module) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, pooled: Tensor) -> Batch:
        return {"sentence_embedding": self.steps(pooled)}


def _prepare(source: Source, folder: Path, heads: bool) -> _Graph:
    """Return the graph to write, and write the other files."""
    if heads or not is_embedder(source):
        model, tokenizer = load_with_heads(source, dtype=torch.float32)
        if not isinstance(model, BertModel):
            activation = read_sentence_folder(source, cross_encoder=True).activation_fn
            if activation is not None:  # the export has one config
                model.config.extra["sentence_transformers"] = {"activation_fn": activation}
            model.config.architectures = [type(model).__name__]
            model.config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            return _HeadGraph(model, model, tokenizer.model_max_length)
    embedder = SentenceEmbedder.from_pretrained(source, precision=None)
    embedder.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    if len(embedder.steps):
        _write(
            _Steps(embedder.steps), {"pooled": torch.ones(2, embedder.width)}, folder / "steps.onnx"
        )
    return _EmbedderGraph(
        embedder, embedder.model, embedder.max_length, not embedder.include_prompt
    )


def _write(module: nn.Module, inputs: Batch, path: Path) -> None:
    """The graph of a module on a batch of any size, with token ids of any length.

    Inputs are (batch, seq), of a multiple-choice model (batch, choices, seq), and "pooled" (batch,
    D).
    """
    limit = (
        {"max": 2**40} if torch.__version__ < "2.7" else {}
    )  # torch 2.6 takes a column only where that has one
    batch = torch.export.Dim("batch", **limit)
    choices = torch.export.Dim("choices", **limit)
    seq = torch.export.Dim("seq", **limit)
    shapes: dict[str, dict[int, Any]] = {}
    for name, example in inputs.items():
        shapes[name] = {0: batch}
        if name != "pooled":
            shapes[name][example.dim() - 1] = seq
        if example.dim() == 3:
            shapes[name][1] = choices
    with torch.no_grad():
        names = list(module.eval()(**inputs))
        torch.onnx.export(
            module,
            (),
            path,
            kwargs=inputs,
            input_names=list(inputs),
            output_names=names,
            dynamic_shapes=shapes,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def _remove_inner_shapes(path: Path) -> None:
    """Remove the shapes of inner values, which are inferred again.

    The exporter transposes the weights of heads, and keeps the shapes from before. The quantizer
    stops at the contradiction.
    """
    onnx = need("onnx", "onnx", "Exporting in int8")
    graph = onnx.load(path)
    del graph.graph.value_info[:]
    onnx.save(graph, path)


def _compare(graph: _Graph, path: Path, batch: Batch) -> tuple[float, float]:
    """Compare the outputs with torch.

    Returns:
        The largest difference of any output, and the smallest cosine of the first output's vectors.
    """
    with torch.no_grad():
        expected = {name: x.numpy() for name, x in graph(**batch).items()}
    received = open_session(path).run(
        list(expected), {name: x.numpy() for name, x in batch.items()}
    )
    pairs = list(zip(received, expected.values(), strict=True))
    one, other = pairs[0]
    cosines = (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)
    return max(
        float(abs(one - other).max() / max(1, abs(other).max())) for one, other in pairs
    ), float(cosines.min())


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the messages of the exporter and the quantizer."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
