"""Run exported models with a head in ONNX Runtime, without torch.

These are classifiers, rerankers, and others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.onnx import open_session
from minibert.encoders.token_rows import Pair, Rows, Settings, Vectors, tokenize_rows
from minibert.inference.batching import BATCH_TOKENS, batches
from minibert.tokenization.tokenizer import BertTokenizer

Array = NDArray[np.float32]


class OnnxHead:
    """A model with a head as `minibert export` has written it.

    ```python
    classifier = OnnxHead.from_pretrained("OUT")
    classifier.classify(["good", "bad"])
    reranker.scores([("How tall do trees grow?", document) for document in documents])
    ```

    Attributes:
        config: The model's configuration.
        tokenizer: Its tokenizer.
        max_length: Tokens of the longest text or pair.
        outputs: Names of the graph's outputs: "logits" in most heads.
    """

    def __init__(self, source: Source, tokenizer: BertTokenizer) -> None:
        """Open the graph of a folder.

        Args:
            source: Where it is.
            tokenizer: The tokenizer of the same folder.

        Raises:
            FileNotFoundError: A file is missing.
            ValueError: A damaged file, or the export of an embedder.
            ImportError: onnxruntime is not installed.
        """
        self.source = source
        self.config = BertConfig.from_pretrained(source)
        self.tokenizer = tokenizer
        self.max_length = min(tokenizer.model_max_length, self.config.max_position_embeddings)
        self._session = open_session(source.require("model.onnx"))
        self.outputs = [output.name for output in self._session.get_outputs()]
        self._ranks = [len(output.shape) for output in self._session.get_outputs()]
        if "sentence_embedding" in self.outputs:
            advice = 'SentenceEmbedder.from_pretrained(..., backend="onnx") runs it'
            raise ValueError(f"{source} was exported from an embedder: {advice}.")

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str] | Source, **options: Any) -> OnnxHead:
        """Load an exported model.

        Args:
            name: Folder or Hub id.
            options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder`, as for
                `Source.of`.

        Raises:
            FileNotFoundError: A file is missing.
            ValueError: A damaged file, or the export of an embedder.
            ImportError: onnxruntime is not installed.
        """
        source = Source.of(name, **options)
        return cls(source, BertTokenizer.from_pretrained(source))

    @property
    def classifies_texts(self) -> bool:
        """Whether the head has one row of logits a text, as classifiers and rerankers do."""
        return self.outputs == ["logits"] and self._ranks == [2]

    @property
    def tags_tokens(self) -> bool:
        """Whether the head has logits for each token, as taggers do."""
        return self.outputs == ["logits"] and self._ranks == [3]

    @property
    def answers_questions(self) -> bool:
        """Whether the head scores each token as the start and as the end of an answer."""
        return sorted(self.outputs) == ["end_logits", "start_logits"]

    def run(self, texts: Sequence[str | Pair]) -> dict[str, list[Array]]:
        """Compute all outputs of the head.

        Args:
            texts: Texts, or pairs of texts. What exceeds `max_length` tokens is truncated.

        Returns:
            For each output of the graph an array for each text: (labels,), or (tokens, labels)
            where every token has logits, [CLS] and [SEP] included.
        """
        rows = tokenize_rows(self.tokenizer, list(texts), self.max_length, self.settings())
        results = self.run_ids(rows.ids, rows.token_types)
        return {name: [arrays[place] for place in rows.indices] for name, arrays in results.items()}

    def logits(self, texts: Sequence[str | Pair]) -> Vectors:
        """Compute the logits of a sequence classifier or reranker.

        Args:
            texts: Texts, or pairs of texts.

        Returns:
            (texts, labels).

        Raises:
            ValueError: The model has another head.
        """
        rows = tokenize_rows(self.tokenizer, list(texts), self.max_length, self.settings())
        return self.encode_rows(rows, self.settings())

    def scores(self, texts: Sequence[str | Pair]) -> Vectors:
        """Compute the scores of a sequence classifier or reranker.

        Returns:
            (texts, labels): probabilities, or the values of a regression.
        """
        return self.activation(self.logits(texts))

    def classify(self, texts: Sequence[str | Pair]) -> list[list[dict[str, Any]]]:
        """Compute the labels of texts with their scores, as `minibert.classify` does.

        Returns:
            For each text a list of `{"label", "score"}`, highest score first. The score of a
            single label is the model's number. `scores` applies a sigmoid, as rerankers do.
        """
        scores = self.logits(texts)
        if self.config.num_labels > 1:
            scores = self.activation(scores)
        results = []
        for row in scores:
            ranked = np.argsort(-row, kind="stable").tolist()
            labels = self.config.id2label
            results.append([{"label": labels[i], "score": float(row[i])} for i in ranked])
        return results

    def settings(self, prompt_name: str | None = None) -> Settings:
        """Return how texts are encoded. A prompt is a ValueError, because heads have none."""
        if prompt_name is not None:
            raise ValueError(f"an exported head has no prompts, so {prompt_name!r} does not exist.")
        return Settings("", "truncate", BATCH_TOKENS)

    def encode_rows(self, rows: Rows, settings: Settings) -> Vectors:
        """Compute the logits (texts, labels) of rows, in the order of the texts."""
        if not self.classifies_texts:
            raise ValueError(
                f"{self.source} is not the export of a classifier of texts or a reranker. Its "
                f"outputs are {', '.join(self.outputs)} (in Python: run())."
            )
        return rows.in_input_order(np.stack(self.run_ids(rows.ids, rows.token_types)["logits"]))

    def activation(self, logits: Vectors) -> Vectors:
        """Turn logits (N, labels) into scores, as a `CrossEncoder` or a classifier does.

        A single label gets the activation that the config names, else a sigmoid.
        """
        if logits.shape[-1] == 1:
            return self._single_score(logits)
        if self.config.problem_type == "regression":
            return logits
        if self.config.problem_type == "multi_label_classification":
            return _sigmoid(logits)
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float32)

    def _single_score(self, logits: Vectors) -> Vectors:
        section = self.config.extra.get("sentence_transformers") or {}
        old_name = self.config.extra.get("sbert_ce_default_activation_function")
        name = section.get("activation_fn") or old_name or "torch.nn.Sigmoid"
        if name.endswith(".Sigmoid"):
            return _sigmoid(logits)
        if name.endswith(".Identity"):
            return logits
        import torch  # the other activations are torch's

        from minibert.encoders.pooling import ACTIVATIONS, activation_name

        activation = ACTIVATIONS[activation_name(f"{self.source}/config.json", name)]()
        scores: Vectors = activation(torch.from_numpy(logits)).numpy()
        return scores

    def run_ids(
        self, ids: Sequence[Sequence[int]], token_types: Sequence[Sequence[int]] | None = None
    ) -> dict[str, list[Array]]:
        """Compute all outputs of the head for rows of token ids.

        Rows of about the same length are padded and run together.

        Args:
            ids: Token ids of each row, with [CLS] and [SEP].
            token_types: Token types of each row. None: all 0.

        Returns:
            For each output of the graph an array for each row, as in `run`.
        """
        lengths = [len(row) for row in ids]
        results: dict[str, list[Any]] = {name: [None] * len(lengths) for name in self.outputs}
        for batch in batches(lengths, BATCH_TOKENS):
            shape = (len(batch), lengths[batch[0]])
            names = ("input_ids", "attention_mask", "token_type_ids")
            inputs = {name: np.zeros(shape, np.int64) for name in names}
            for place, index in enumerate(batch):
                inputs["input_ids"][place, : lengths[index]] = ids[index]
                inputs["attention_mask"][place, : lengths[index]] = 1
                if token_types is not None:
                    inputs["token_type_ids"][place, : lengths[index]] = token_types[index]
            outputs = self._session.run(self.outputs, inputs)
            for name, rank, output in zip(self.outputs, self._ranks, outputs, strict=True):
                has_tokens = rank == 3 or name in ("start_logits", "end_logits")
                for place, index in enumerate(batch):
                    row = output[place]
                    results[name][index] = row[: lengths[index]] if has_tokens else row
        return results


def _sigmoid(logits: Vectors) -> Vectors:
    return np.asarray(1 / (1 + np.exp(-logits)), dtype=np.float32)
