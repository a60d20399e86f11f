"""Exported models with a head, without torch: classifiers, rerankers, taggers and others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minibert.checkpoints.source import Source
from minibert.encoders.arithmetic.scoring import (
    LabelScore,
    Ranking,
    TextScorer,
    activate,
    class_activation,
    label_scores,
    relevance_activation,
)
from minibert.encoders.encoder_options import TextModelOptions
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.onnx.onnx_embedder import Array, OnnxGraph
from minibert.encoders.rows.token_rows import Pair, Rows, Settings, Vectors, list_texts
from minibert.inference.batching import Report
from minibert.util.checks import warn_of_truncation


class OnnxModel:
    """The graph of a model with a head, as `minibert export` has written it.

    It is to a `Classifier` or a `Tagger` what a model of PyTorch is: it computes on token ids.

    Attributes:
        source: Where the graph is.
        graph: The graph in ONNX Runtime.
        config: The model's configuration.
        outputs: Names of the graph's outputs: "logits" in most heads.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Open the graph of a checkpoint.

        Args:
            checkpoint: The export.

        Raises:
            FileNotFoundError: A file is missing.
            ValueError: A damaged file, or the export of an embedder.
            ImportError: onnxruntime is not installed.
        """
        if checkpoint.is_embedder:
            advice = 'SentenceEmbedder.from_pretrained(..., backend="onnx") runs it'
            raise ValueError(f"{checkpoint} was exported from an embedder: {advice}.")
        self.source = checkpoint.transformer
        self.graph = OnnxGraph(self.source, checkpoint.config)
        self.config = self.graph.config
        self.outputs = list(self.graph.outputs)

    @property
    def head(self) -> str:
        """The class that was exported, such as "BertForTokenClassification"."""
        return (self.config.architectures or ["BertModel"])[0]

    def weights(self) -> Iterator[Any]:
        """The bytes of the graph, which holds all weights."""
        return self.graph.weights()

    def encode_rows(self, rows: Rows, settings: Settings, report: Report | None = None) -> Vectors:
        """Compute the logits (texts, labels) of rows, in the order of the texts.

        Args:
            rows: Of all texts.
            settings: How they are encoded.
            report: Progress callback. Receives the indices of finished rows.

        Raises:
            ValueError: The model is not a sequence classifier.
        """
        if self.head != "BertForSequenceClassification":
            raise ValueError(
                f"{self.source} is not the export of a classifier of texts or a reranker. Its "
                f"outputs are {', '.join(self.outputs)} (in Python: run())."
            )
        if not rows.rows:
            return np.empty((0, self.config.num_labels), np.float32)
        logits = self.graph.run(
            rows.ids, rows.token_types, batch_tokens=settings.batch_tokens, report=report
        )["logits"]
        return rows.in_input_order(np.stack(logits))


class OnnxHead(OnnxModel, TextScorer):
    """An exported model with a head, and how it reads texts.

    ```python
    classifier = OnnxHead.from_pretrained("OUT")
    classifier.classify(["good", "bad"])
    reranker.rank("How tall do trees grow?", documents, top_k=3)
    ```

    Attributes:
        config: The model's configuration.
        tokenizer: Its tokenizer.
        max_length: Tokens of the longest text or pair.
        prompts: Texts to put before every text, by name.
        outputs: Names of the graph's outputs: "logits" in most heads.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Open the graph of a checkpoint and read its tokenizer.

        Args:
            checkpoint: The export.

        Raises:
            FileNotFoundError: A file is missing.
            ValueError: A damaged file, or the export of an embedder.
            ImportError: onnxruntime is not installed.
        """
        OnnxModel.__init__(self, checkpoint)
        folder = checkpoint.folder(cross_encoder=True)
        positions = self.config.max_position_embeddings
        settings = folder.settings(TextModelOptions(), positions)
        TextScorer.__init__(self, folder.load_tokenizer(), positions, **settings)
        self._activation = folder.activation(self.config)

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str] | Source | Checkpoint, **options: Any
    ) -> OnnxHead:
        """Load an exported model.

        Args:
            name: Folder or Hub id, or a checkpoint whose files may have been read.
            options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder`, as for
                `Source.of`.

        Raises:
            FileNotFoundError: A file is missing.
            ValueError: A damaged file, or the export of an embedder.
            ImportError: onnxruntime is not installed.
        """
        return cls(Checkpoint.of(name, backend="onnx", **options))

    def run(self, texts: Iterable[str | Pair]) -> dict[str, list[Array]]:
        """Compute all outputs of the head.

        Args:
            texts: Texts, or pairs of texts. What exceeds `max_length` tokens is truncated.

        Returns:
            For each output of the graph an array for each text: (labels,), or (tokens, labels)
            where every token has logits, [CLS] and [SEP] included.

        Raises:
            ValueError: A multiple-choice model, a single string, or something else that is not a
                collection of texts.
        """
        if self.head == "BertForMultipleChoice":
            raise ValueError(
                f"{self.source} is the export of a multiple-choice model, whose inputs are (batch, "
                "choices, seq): run its model.onnx by onnxruntime."
            )
        inputs = list_texts(texts)
        rows = self.rows(inputs, self.settings())
        warn_of_truncation(rows.overlong, len(inputs), self.max_length)
        results = self.graph.run(rows.ids, rows.token_types)
        return {name: [arrays[place] for place in rows.indices] for name, arrays in results.items()}

    def logits(self, texts: Iterable[str | Pair]) -> Vectors:
        """Compute the logits of a sequence classifier or reranker.

        Args:
            texts: Texts, or pairs of texts.

        Returns:
            (texts, labels).

        Raises:
            ValueError: The model has another head, or as `run`.
        """
        logits, _ = self.compute_logits(texts, self.settings())
        return logits

    def scores(self, texts: Iterable[str | Pair]) -> Vectors:
        """Compute the scores of a sequence classifier or reranker.

        Returns:
            (texts, labels), as `activation` makes them of the logits: of a single label from 0 to
            1, also of a regression, whose numbers `logits` and `classify` have.
        """
        return self.activation(self.logits(texts))

    def classify(self, texts: Iterable[str | Pair]) -> list[list[LabelScore]]:
        """Compute the labels of texts with their scores, as `minibert.classify` does.

        Returns:
            For each text a list of `{"label", "score"}`, highest score first. The score of a
            single label is the model's number. `scores` applies a sigmoid, as rerankers do.
        """
        return [label_scores(self.config, logits) for logits in self.logits(texts)]

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None = None,
        return_documents: bool = True,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Ranking:
        """Documents by their scores with a query, as `CrossEncoder.rank` does.

        Args:
            query: The first text of each pair.
            documents: The second texts, in any sequence.
            top_k: How many documents to return. None: all.
            return_documents: Whether results have the documents' "text".
            prompt: Put before the query.
            prompt_name: The prompt of this name in `prompts`. None: `default_prompt_name`.

        Raises:
            ValueError: A model with several labels, or something that is not a text.
        """
        settings = self.settings(prompt=prompt, prompt_name=prompt_name)
        return self.rank_documents(
            query, documents, top_k, return_documents, settings, self.activation
        )

    def activation(self, logits: Vectors) -> Vectors:
        """Turn logits (N, labels) into scores, as a `CrossEncoder` or a classifier does.

        Args:
            logits: A single label gets the activation that the folder names, else a sigmoid.
        """
        if self.num_labels == 1:
            name = relevance_activation(self.config, self._activation)
        else:
            name = class_activation(self.config)
        scores: Vectors = activate(logits, name)
        return scores
