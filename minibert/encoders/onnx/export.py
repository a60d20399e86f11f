"""Export a model as an ONNX graph: `minibert export`.

`minibert.encoders.onnx.onnx_embedder` runs the graph without torch.

    model.onnx      input_ids, attention_mask, token_type_ids, each (batch, seq), to
                      sentence_embedding (batch, dimension), pooled (batch, width) and
                      last_hidden_state (batch, seq, features), or the logits of a head, under the
                      names that its output has in torch
    steps.onnx      what follows the pooling, alone: for texts that are read in windows, whose
                      pooled vectors are merged

Pooling and steps are inside model.onnx. A model whose prompts take no part in pooling has a fourth
input, pooling_mask. Beside the graph are the files of the tokenizer, and those of
sentence-transformers with limits, prompts and activation.
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

from minibert.checkpoints.model_files import replacing_model
from minibert.checkpoints.source import Source
from minibert.encoders.arithmetic.pooling import pool
from minibert.encoders.embedder import SentenceEmbedder
from minibert.encoders.encoder_options import RerankerOptions
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.folders.sentence_folder import (
    SentenceFolder,
    write_sentence_folder,
)
from minibert.encoders.onnx.onnx_embedder import OnnxEmbedder, import_onnxruntime, open_session
from minibert.encoders.onnx.onnx_heads import OnnxHead
from minibert.encoders.rerank import CrossEncoder
from minibert.heads import BertForMultipleChoice, BertForSequenceClassification
from minibert.inference.precisions import GRAPH_PRECISIONS, check_precision
from minibert.model import BertModel
from minibert.text.location import claim
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.extras import need
from minibert.util.files import flush

# of the largest number that torch gives: two libraries add up in another order
MAX_DIFFERENCE = 1e-4
# of a vector in int8 and the same in float32
MIN_COSINE = 0.9

# what both backends encode for the comparison, besides texts of the vocabulary's words
SENTENCES = (
    "The museum opens at nine.",
    "How tall do trees grow in Korea?",
    "나는 어제 도서관에서 책을 빌렸다.",
    "Où est la gare?",
    "",
    "One sentence of a long text. " * 200,
)

Batch = dict[str, Tensor]


class Exported(NamedTuple):
    """The outcome of an export."""

    kind: str  # `SentenceEmbedder`, or the class of a model with a head
    difference: float  # the largest one of any number from torch's
    # the smallest one of a vector (or of the logits of a text or token) with the same in torch
    cosine: float


def export(
    source: Source,
    folder: str | os.PathLike[str],
    precision: str = "fp32",
    heads: bool = False,
    force: bool = False,
) -> Exported:
    """Write a folder with model.onnx, a tokenizer and a configuration.

    The results of the graph are verified against PyTorch first.

    Args:
        source: A sentence-transformers folder or a BERT without a head, for an embedder, or a BERT
            with a head.
        folder: Where to write.
        precision: "fp32", or "int8": weights and activations in 8 bits by onnxruntime's dynamic
            quantization.
        heads: Export the head also of a folder that says how it makes vectors.
        force: Other files may be in the folder. Those of a model are replaced (see
            `minibert.checkpoints.model_files`).

    Raises:
        ValueError: An unknown precision, or results that differ from torch's. Nothing is written
            then.
        OSError: There is something at `folder`.
        ImportError: The extra [onnx] is not installed.
    """
    claim(folder, force, folder=True)
    check_precision(precision, GRAPH_PRECISIONS)
    need("onnxscript", "onnx", "Exporting")
    quantization = import_onnxruntime("Exporting", "onnxruntime.quantization")
    model, tokenizer, scorer = _load(source, heads)
    with replacing_model(folder, whole=True) as made:
        path = made / "model.onnx"
        with _quiet():
            graph = _prepare(model, tokenizer, scorer, made)
            _write(graph, graph.batch((12, 5)), path)
            if precision == "int8":
                # The exporter transposes the weights of heads, and keeps the shapes of inner values
                # from before. The quantizer stops at the contradiction, and infers them itself
                onnx = need("onnx", "onnx", "Exporting in int8")
                graph_file = onnx.load(path)
                del graph_file.graph.value_info[:]
                onnx.save(graph_file, path)
                # 7 bits of the weights: with 8, processors without VNNI would overflow in the
                # middle of a sum
                quantization.quantize_dynamic(
                    path,
                    path,
                    weight_type=quantization.QuantType.QInt8,
                    per_channel=True,
                    reduce_range=True,
                )
            for part in made.glob("*.onnx"):
                flush(part)
            comparisons = [
                _compare(graph, path, graph.batch(lengths))
                for lengths in ((graph.longest, graph.longest // 2 + 1, 2), (3,))
            ]
            comparisons += _compare_texts(model, tokenizer, scorer, made)
        # those of NumPy are NaN where one number is, which is no result
        difference = float(np.max([difference for difference, _ in comparisons]))
        cosine = float(np.min([cosine for _, cosine in comparisons]))
        is_close = precision != "fp32" or difference <= MAX_DIFFERENCE
        if not (is_close and cosine >= MIN_COSINE):
            raise ValueError(
                "nothing was written: in ONNX Runtime the results differ from torch's by up to "
                f"{difference:.1e} (smallest cosine {cosine:.4f})."
            )
    return Exported(type(graph.model).__name__, difference, cosine)


class _Graph(nn.Module):
    """A model as it is exported: a padded batch in, named tensors out."""

    def __init__(self, model: Any, bert: Any, max_length: int, pooling_mask: bool = False) -> None:
        super().__init__()
        if bert.config.own_attention is None:
            # fewer operators than what exporters make of SDPA
            bert.config.attn_implementation = "eager"
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
            "last_hidden_state": states,
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


def _load(source: Source, heads: bool) -> tuple[Any, BertTokenizer, SentenceFolder | None]:
    """The model to export and its tokenizer: an embedder, or a BERT with a head.

    The third is the folder of what scores texts or pairs, whose settings are exported, too.

    Raises:
        ValueError: With `heads`, tensors of the checkpoint that no class of minibert has a place
            for. Without, loading warns of them.
    """
    checkpoint = Checkpoint(source)
    if heads or checkpoint.kind not in ("embedder", "base"):
        folder = checkpoint.folder()
        model: Any = checkpoint.bert(dtype=torch.float32)
        unexpected = model.load_report.unexpected
        if heads and unexpected:
            raise ValueError(
                f"{source} has {len(unexpected)} tensors that {type(model).__name__} has no place "
                f"for, such as {unexpected[0]}: a class of your own is exported by "
                "torch.onnx.export."
            )
        if not isinstance(model, BertModel):
            is_scorer = isinstance(model, BertForSequenceClassification)
            is_scorer = is_scorer and not checkpoint.is_embedder
            return model, folder.load_tokenizer(), folder if is_scorer else None
    embedder = SentenceEmbedder.from_pretrained(checkpoint, precision=None)
    return embedder, embedder.tokenizer, None


def _prepare(
    model: Any, tokenizer: BertTokenizer, scorer: SentenceFolder | None, folder: Path
) -> _Graph:
    """Return the graph to write, and write the other files."""
    if isinstance(model, SentenceEmbedder):
        model.save_pretrained(folder)
        (folder / "model.safetensors").unlink()
        if len(model.steps):
            pooled = torch.ones(2, model.width)
            _write(_Steps(model.steps), {"pooled": pooled}, folder / "steps.onnx")
        return _EmbedderGraph(model, model.model, model.max_length, not model.include_prompt)
    if scorer is not None:
        scorer.lower_case = False  # the tokenizer is saved with what the folder says of it
        write_sentence_folder(scorer, folder)
    # of a class of a user's own, the one that the graph is of
    model.config.replace(architectures=[type(model).__name__]).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return _HeadGraph(model, model, tokenizer.model_max_length)


def _write(module: nn.Module, inputs: Batch, path: Path) -> None:
    """The graph of a module on a batch of any size, with token ids of any length.

    Inputs are (batch, seq), of a multiple-choice model (batch, choices, seq), and "pooled" (batch,
    D).
    """
    # torch 2.6 takes a column only where that has one
    limit = {"max": 2**40} if torch.__version__ < "2.7" else {}
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
        program = torch.onnx.export(
            module,
            (),
            kwargs=inputs,
            input_names=list(inputs),
            output_names=names,
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    # the exporter notes for each node which lines of which files it comes from on this computer
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
    program.save(path, external_data=False)


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
    results = [
        _difference(values, reference)
        for values, reference in zip(received, expected.values(), strict=True)
    ]
    return max(difference for difference, _ in results), results[0][1]


def _difference(values: Any, reference: Any) -> tuple[float, float]:
    """The largest difference of two arrays (..., D), and the smallest cosine of their vectors.

    The numbers of a single label are one vector. A vector of zeros, as a ReLU makes them, has no
    direction: only an equal one is the same.
    """
    if values.shape[-1] == 1:
        values, reference = values[..., 0], reference[..., 0]
    largest = float(abs(values - reference).max() / max(1, abs(reference).max()))
    products = (values * reference).sum(-1)
    norms = np.linalg.norm(values, axis=-1) * np.linalg.norm(reference, axis=-1)
    is_zero = norms == 0
    equal = np.all(values == reference, axis=-1)
    cosines = np.where(is_zero, equal, products / (norms + is_zero))
    return largest, float(cosines.min())


def _compare_texts(
    model: Any, tokenizer: BertTokenizer, scorer: SentenceFolder | None, folder: Path
) -> list[tuple[float, float]]:
    """Compare what both backends make of texts, with all that the folders say of them.

    Returns:
        As `_compare`, for each way of encoding.
    """
    texts = list(SENTENCES)
    generator = torch.Generator().manual_seed(0)
    vocabulary = BertTokenizer.from_pretrained(folder).get_vocab()
    words = [word for word in vocabulary if word.isalpha()]
    if words:
        for length in (1, 5, 40):
            chosen = torch.randint(len(words), (length,), generator=generator).tolist()
            texts.append(" ".join(words[index] for index in chosen))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # long texts are truncated on purpose
        if isinstance(model, SentenceEmbedder):
            exported = OnnxEmbedder.from_pretrained(folder)
            return [
                _difference(exported.encode_query(texts), model.encode_query(texts)),
                _difference(exported.encode_document(texts), model.encode_document(texts)),
                _difference(
                    exported.encode(texts, overflow="mean"), model.encode(texts, overflow="mean")
                ),
            ]
        if scorer is not None:
            positions = model.config.max_position_embeddings
            settings = scorer.settings(RerankerOptions(), positions)
            original = CrossEncoder(model, tokenizer, **settings)
            pairs = [(texts[0], text) for text in texts]
            head = OnnxHead.from_pretrained(folder)
            expected, _ = original.compute_logits(pairs, original.settings())
            logits, _ = head.compute_logits(pairs, head.settings())
            return [_difference(logits, expected)]
    return []


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
