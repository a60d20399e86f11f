"""From logits to scores, in one place for torch, ONNX Runtime and the service.

`class_activation` is the rule of classifiers, `relevance_activation` that of rerankers. Nothing
here imports torch, unless the logits are a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np

from minibert.config import BertConfig
from minibert.encoders.rows.token_rows import Rows, Settings, Vectors, list_texts
from minibert.encoders.text_encoder import TextModel
from minibert.inference.batching import Report
from minibert.util.checks import check_count, warn_of_truncation
from minibert.util.errors import ArgumentError
from minibert.util.progress import SILENT, Progress


class Ranked(TypedDict):
    """A document's index, its score, and its text unless `return_documents=False`."""

    corpus_id: int
    score: float
    text: NotRequired[str]


class LabelScore(TypedDict):
    """A label with its score."""

    label: str
    score: float


class Ranking(list[Ranked]):
    """Documents, best first.

    Attributes:
        truncated: The indices of the documents that were truncated, or whose query was.
    """

    truncated: Sequence[int] = ()


def label_names(config: BertConfig) -> list[str]:
    """The labels of a classifier, in the order of its logits.

    Args:
        config: The model's configuration.
    """
    return [config.id2label[index] for index in range(config.num_labels)]


def problem_type(config: BertConfig) -> str:
    """The problem type of a classifier, also where its config does not name it.

    A single label that is not one of several is a number.

    Args:
        config: The model's configuration.

    Returns:
        "single_label_classification", "multi_label_classification" or "regression".
    """
    problem = config.problem_type or "single_label_classification"
    if problem == "single_label_classification" and config.num_labels == 1:
        return "regression"
    return problem


def class_activation(config: BertConfig) -> str:
    """What turns a classifier's logits into scores.

    They are probabilities of one class, by a softmax, or of each class alone, by a sigmoid. A
    regression has numbers.

    Args:
        config: The model's configuration.
    """
    return {
        "single_label_classification": "Softmax",
        "multi_label_classification": "Sigmoid",
        "regression": "Identity",
    }[problem_type(config)]


def relevance_activation(config: BertConfig, name: str | None) -> str:
    """What turns a cross-encoder's logits into scores.

    Args:
        config: The model's configuration.
        name: What its folder says. None: nothing.

    Returns:
        One of `minibert.encoders.folders.sentence_folder.ACTIVATION_CLASSES`.
    """
    return name or ("Sigmoid" if config.num_labels == 1 else "Identity")


def activate(logits: Any, name: str) -> Any:
    """Scores of logits.

    Args:
        logits: (..., labels), an array or a tensor.
        name: One of `minibert.encoders.folders.sentence_folder.ACTIVATION_CLASSES`, or "Softmax".

    Returns:
        The same shape, float32.
    """
    if not isinstance(logits, np.ndarray):
        from torch import nn

        return logits.softmax(-1) if name == "Softmax" else getattr(nn, name)()(logits)
    with np.errstate(over="ignore"):  # the exponential of a large number is infinite, its inverse 0
        return np.asarray(_FUNCTIONS[name](logits), dtype=np.float32)


_erf = np.vectorize(math.erf, otypes=[float])  # without a type it takes no empty arrays


def _softmax(logits: Vectors) -> Vectors:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Vectors = powers / powers.sum(axis=-1, keepdims=True)
    return shares


_FUNCTIONS: dict[str, Callable[[Vectors], Any]] = {
    "Identity": lambda logits: logits,
    "Tanh": np.tanh,
    "ReLU": lambda logits: np.maximum(logits, 0),
    "GELU": lambda logits: logits * (1 + _erf(logits / 2**0.5)) / 2,
    "SiLU": lambda logits: logits / (1 + np.exp(-logits)),
    "Sigmoid": lambda logits: 1 / (1 + np.exp(-logits)),
    "Softmax": _softmax,
}


def best_first(scores: Any, logits: Any, top_k: int | None = None) -> list[int]:
    """Indices of the best scores.

    A sigmoid of float32 is 1 for every logit above 16.6: equal scores keep the order of their
    logits. Those with equal logits keep their own.

    Args:
        scores: (N,).
        logits: What the scores were computed from, (N,).
        top_k: How many. None: all.

    Returns:
        The indices, best first.
    """
    order = np.lexsort((-np.asarray(logits), -np.asarray(scores)))  # by the last key first
    best: list[int] = order[:top_k].tolist()
    return best


def ranked_labels(names: Sequence[str], scores: Any, logits: Any) -> list[LabelScore]:
    """The labels of a text with their scores, best first.

    Args:
        names: The labels, in the order of the logits.
        scores: (labels,).
        logits: What the scores were computed from, (labels,).
    """
    return [
        LabelScore(label=names[index], score=float(scores[index]))
        for index in best_first(scores, logits)
    ]


def label_scores(config: BertConfig, logits: Any) -> list[LabelScore]:
    """All labels of a text with their scores, best first.

    Args:
        config: The model's configuration.
        logits: (labels,), an array or a tensor.
    """
    scores = activate(logits, class_activation(config))
    return ranked_labels(label_names(config), scores, logits)


class TextScorer(TextModel):
    """A model that scores texts or pairs of texts, by a sequence classifier of PyTorch.

    Subclasses may compute the logits of rows by something else.
    """

    model: Any
    config: BertConfig

    @property
    def num_labels(self) -> int:
        """Labels of the classifier: 1 for a reranker."""
        return self.config.num_labels

    def encode_rows(self, rows: Rows, settings: Settings, report: Report | None = None) -> Vectors:
        """Logits of the pairs or texts, (N, labels) float32, in their order.

        Args:
            rows: Of all inputs.
            settings: How they are encoded.
            report: Progress callback. Receives the indices of finished rows.

        Raises:
            ValueError: A logit is not finite.
        """
        import torch

        from minibert.inference.packing import run_packed

        def forward(input_ids: Any, layout: Any, types: Any) -> Any:
            output = self.model(input_ids, token_type_ids=types, layout=layout, return_dict=True)
            return output.logits.float()

        ids = rows.ids
        if not ids:
            return np.empty((0, self.num_labels), np.float32)
        parts = run_packed(
            self.model,
            forward,
            ids,
            rows.token_types,
            sizes=[1] * len(ids),
            batch_tokens=settings.batch_tokens,
            report=report,
        )
        return rows.in_input_order(torch.cat(parts).cpu().numpy())

    def compute_logits(
        self,
        texts: Iterable[Any],
        settings: Settings,
        kind: str = "texts",
        show_progress_bar: bool = False,
    ) -> tuple[Vectors, list[int]]:
        """Logits of texts or pairs, and which of these were truncated, which is warned of.

        Args:
            texts: Texts, or pairs of texts.
            settings: How they are encoded.
            kind: What the warning calls them.
            show_progress_bar: Show a bar with tokens per second and the time left.

        Returns:
            (N, labels) float32, and the indices of the truncated texts.

        Raises:
            ValueError: A single string, or something else that is not a collection of texts.
        """
        inputs = list_texts(texts)
        rows = self.rows(inputs, settings)
        with Progress(True, len(inputs)) if show_progress_bar else SILENT as progress:
            logits = self.encode_rows(rows, settings, rows.progress_callback(progress))
        truncated = rows.truncated
        warn_of_truncation(len(truncated), len(inputs), self.max_length, kind=kind)
        return logits, truncated

    def rank_documents(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None,
        return_documents: bool,
        settings: Settings,
        activation: Callable[[Any], Any],
        show_progress_bar: bool = False,
    ) -> Ranking:
        """Documents by their scores with a query, best first.

        Args:
            query: The first text of each pair.
            documents: The second texts, in any sequence.
            top_k: How many documents to return. None: all.
            return_documents: Whether results have the documents' "text".
            settings: How the pairs are encoded.
            activation: Computes scores, (N, 1) or (N,), from logits (N, 1).
            show_progress_bar: As in `compute_logits`.

        Raises:
            ValueError: A model with several labels, something that is not a text, or an activation
                that returns several scores for a pair.
        """
        if self.num_labels != 1:
            raise ValueError(
                f"ranking needs a model with one label, but this one has {self.num_labels}. "
                "minibert finetune reranker trains one."
            )
        if top_k is not None:
            check_count("top_k", top_k)
        texts = list_texts(documents)
        pairs = [(query, text) for text in texts]
        logits, truncated = self.compute_logits(pairs, settings, "pairs", show_progress_bar)
        scores = np.asarray(activation(logits))
        if scores.size != len(texts):
            raise ArgumentError(
                "activation_fn",
                f"should return one score for each of {len(texts)} pairs, not a tensor of the "
                f"shape {scores.shape}.",
            )
        scores = scores.reshape(len(texts))
        ranking = Ranking()
        ranking.truncated = truncated
        for index in best_first(scores, logits[:, 0], top_k):
            ranked = Ranked(corpus_id=index, score=float(scores[index]))
            if return_documents:
                ranked["text"] = texts[index]
            ranking.append(ranked)
        return ranking
