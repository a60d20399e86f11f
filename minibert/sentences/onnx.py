"""Rows of token ids to vectors by ONNX Runtime, without torch: the other engine beside `minibert.sentences.model`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.extras import need
from minibert.inference.batching import Report, batches
from minibert.sentences.rows import Rows, Settings, Vectors
from minibert.sentences.search import unit


class OnnxGraph:
    """An embedder as `minibert export` has written it.

    Args:
        source: where it lies.

    Raises:
        FileNotFoundError: there is no model.onnx.
        ValueError: a damaged file.
        ImportError: onnxruntime is not installed.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.config = source, BertConfig.from_pretrained(source)
        self.session = open_session(source.require("model.onnx"))
        self.inputs = [own.name for own in self.session.get_inputs()]
        sizes = {own.name: own.shape[-1] for own in self.session.get_outputs()}
        if "sentence_embedding" not in sizes:
            raise ValueError(
                f"{source} was exported from a model with a head; vectors come from an embedder's export."
            )
        self.dimension = int(sizes["sentence_embedding"])

    @cached_property
    def steps(self) -> Any:
        """The graph of what follows the pooling, None if that is nothing; only texts in windows need it."""
        path = self.source.file("steps.onnx")
        return None if path is None else open_session(path)

    def __reduce__(self) -> Any:
        return OnnxGraph, (self.source,)  # sessions cannot be pickled


class OnnxModel:
    """The methods of `SentenceModel` around a graph that has layers, pooling and steps in it; on the CPU.

    Args:
        model: the graph.
        pooling: the poolings in it, by name; layers and steps need no names.
    """

    device = "cpu"
    layers = layer_weights = None
    steps = ()

    def __init__(self, model: OnnxGraph, pooling: str | Sequence[str] = (), *_: object) -> None:
        self.model, self.pooling, self.dimension = model, pooling, model.dimension

    @property
    def truncate_dim(self) -> None:
        """What the graph keeps is settled, so it cannot be set: `encode(truncate_dim=)` cuts."""

    @property
    def threads(self) -> int:
        """As many as `open_session` asks for."""
        return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)

    def weights(self) -> Iterator[Any]:
        """See `TextEncoder.weights`."""
        with self.model.source.require("model.onnx").open("rb") as file:
            while part := file.read(1 << 20):
                yield part

    def to(self, device: object) -> OnnxModel:
        """Itself; ValueError for another device than the CPU."""
        if str(device) != "cpu":
            raise ValueError(f'backend="onnx" runs on the CPU, not on {device}.')
        return self

    def encode_rows(self, rows: Rows, settings: Settings, report: Report | None = None) -> Vectors:
        """See `TextEncoder.encode_rows`."""
        in_windows = len(rows.windows) < len(rows.ids)
        output = "pooled" if in_windows else "sentence_embedding"
        vectors: Any = np.concatenate(self._run(output, rows, settings, report))
        if in_windows:  # the mean of a text's windows, each counting as many times as it has tokens
            lengths = np.array([len(row) for row in rows.ids], dtype=np.float32)[:, None]
            firsts = np.cumsum([0, *rows.windows[:-1]])
            vectors = np.add.reduceat(vectors * lengths, firsts) / np.add.reduceat(lengths, firsts)
            if self.model.steps is not None:
                (vectors,) = self.model.steps.run(None, {"pooled": vectors})
        vectors = vectors[:, : settings.truncate_dim]
        return rows.as_given(unit(vectors) if settings.normalize else vectors)

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Vectors]:
        """See `TextEncoder.token_states`; arrays, not tensors."""
        states = self._run("token_embeddings", rows, Settings("", "truncate", batch_tokens))
        return [own[0, : len(row)] for own, row in zip(states, rows.ids, strict=True)]

    def _run(
        self, output: str, rows: Rows, settings: Settings, report: Report | None = None
    ) -> list[NDArray[np.float32]]:
        """An output of the graph for each row, (1, ...); rows of about the same length are padded and run together."""
        lengths = [len(row) for row in rows.ids]
        found: list[Any] = [None] * len(lengths)
        for batch in batches(lengths, settings.batch_tokens):
            longest = lengths[batch[0]]
            inputs = {name: np.zeros((len(batch), longest), np.int64) for name in self.model.inputs}
            for place, number in enumerate(batch):
                inputs["input_ids"][place, : lengths[number]] = rows.ids[number]
                inputs["attention_mask"][place, : lengths[number]] = 1
                if rows.types is not None:
                    inputs["token_type_ids"][place, : lengths[number]] = rows.types[number]
            if "pooling_mask" in inputs:
                inputs["pooling_mask"][:, settings.skip :] = inputs["attention_mask"][
                    :, settings.skip :
                ]
            (result,) = self.model.session.run([output], inputs)
            for place, number in enumerate(batch):
                found[number] = result[place : place + 1]
            if report is not None:
                report(batch)
        return found


def open_session(path: Path) -> Any:
    """A graph, ready to run on the CPU, by as many threads as OMP_NUM_THREADS says, or one for each core.

    Raises:
        ImportError: onnxruntime is not installed.
        ValueError: the file is no graph that it can run.
    """
    runtime = need("onnxruntime", "onnx", "Running a model without torch")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    try:
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class in common but this
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{path} is damaged, or not for this onnxruntime ({reason:.200})."
        ) from None
