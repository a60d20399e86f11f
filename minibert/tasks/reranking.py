"""Rank documents by how well they answer a query: a task in one file, as an example of adding one.

    task = RerankTask(Table("query", pair="document", label="label"))
    finetune(task, "minibert-ko", "train.tsv", "dev.tsv", "out/")
    CrossEncoder.from_pretrained("out/").rank("a query", ["a document", "another"])

The model reads query and document together, and the sigmoid of its only logit is the score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.folders.reading import Reading
from minibert.heads import BertForSequenceClassification
from minibert.losses import multi_label_loss
from minibert.tasks.metrics import ranking_scores
from minibert.tasks.tables import TableTask, number_of
from minibert.tasks.task import (
    Batch,
    Data,
    Example,
    FilePath,
    Mistake,
    Scores,
    Skipped,
    encode_texts,
    inputs_of,
    logits_of,
)
from minibert.text import Row, Table
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.errors import Argument, ArgumentError

SIGMOID = "torch.nn.modules.activation.Sigmoid"
SEVERAL = 0.1
"""Share of queries with several documents, up to which a ranking cannot choose a model."""
AMONG = 10  # documents that MRR and nDCG consider


@dataclass(frozen=True)
class RerankTask(TableTask):
    """How relevant a document is to a query, from 0 (not at all) to 1, in rows of a table.

    The rows of a query need not stand together. Each query should have relevant documents and
    others, best such that a first search takes for relevant.

    Attributes:
        table: How files are read: the columns of the query (`text`), the document (`pair`) and the
            label.
        dev_table: How evaluation files are read, where they differ.
    """

    table: Table = Table("query", pair="document", label="label")
    dev_table: Table | None = None

    model_class: ClassVar[type[PreTrainedModel]] = BertForSequenceClassification
    metrics: ClassVar[Sequence[str]] = (f"mrr@{AMONG}", f"ndcg@{AMONG}", "loss")

    def __post_init__(self) -> None:
        if self.table.pair is None or self.table.label is None:
            raise ArgumentError(
                "table", "should name a pair and a label: pass ", Argument("pair_column"), "."
            )

    def read(self, data: Data, dev: bool = False, skip: Skipped = None) -> list[Row]:
        """Rows of a table.

        Raises:
            ValueError: No row has a label of more than 0.
        """
        rows = super().read(data, dev, skip)
        if not any(number_of(row.label) > 0 for row in rows):
            raise ValueError(f"{rows[0].file}: no document is relevant, so nothing can be ranked.")
        return rows

    def check(self, row: Row) -> None:
        """Raise a ValueError unless the label is a number from 0 to 1."""
        if not 0 <= number_of(row.label) <= 1:
            raise ValueError(
                f"{row.table.label} should be a number from 0 to 1, not {row.label!r:.60}"
            )

    def group_of(self, row: Row) -> Hashable:
        """The query: its documents are compared with each other."""
        return row.text

    def reading(self, rows: Sequence[Row]) -> Reading:
        """A query and a document."""
        return Reading(task="reranking", pairs=True, options=self.options)

    def choice_fault(self, rows: Sequence[Row], metric: str) -> str:
        """A query with a single document is ranked right by any model."""
        counts = Counter(row.text for row in rows)
        several = sum(count > 1 for count in counts.values())
        if metric == "loss" or several > SEVERAL * len(counts):
            return ""
        return (
            f"ranks the documents of a query, but only {several:,} of {len(counts):,} queries have "
            "several: add documents, or choose by the loss."
        )

    def config(self, rows: Sequence[Row]) -> dict[str, Any]:
        """One logit. The type of problem would decide how it is served, so there is none."""
        return super().config(rows) | {"num_labels": 1, "problem_type": None}

    def load(self, checkpoint: FilePath | Source, rows: Sequence[Row]) -> tuple[Any, BertTokenizer]:
        """As any task, and `CrossEncoder` takes the sigmoid of the logit."""
        model, tokenizer = super().load(checkpoint, rows)
        model.config.extra["sentence_transformers"] = {"activation_fn": SIGMOID}
        return model, tokenizer

    def encode(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Query and document, together truncated to `max_length` tokens, and the label."""
        queries, documents = zip(*map(self.texts_of, rows), strict=True)
        examples = encode_texts(tokenizer, queries, documents, max_length)
        return [
            {**example, "labels": float(row.label)}
            for example, row in zip(examples, rows, strict=True)
        ]

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The binary cross entropy of the score that is served."""
        logits = model(**inputs_of(batch)).logits
        labels = batch["labels"][:, None].to(logits.dtype)
        return {"labels": multi_label_loss(logits, labels, "sum")}

    def predict(self, model: Any, rows: Sequence[Row], examples: Sequence[Example]) -> list[float]:
        """The logit of each document: scores may be equal after rounding."""
        logits: list[float] = logits_of(model, examples)[:, 0].tolist()
        return logits

    def score(self, rows: Sequence[Row], predictions: Sequence[float]) -> Scores:
        """MRR and nDCG of the queries that have a relevant document, and the loss of their rows."""
        queries: dict[str, list[int]] = {}
        for index, row in enumerate(rows):
            queries.setdefault(row.text, []).append(index)
        labels = np.array([float(row.label) for row in rows])
        logits = np.asarray(predictions)
        losses = np.logaddexp(0, logits) - labels * logits  # the binary cross entropy
        groups = [indices for indices in queries.values() if labels[indices].max() > 0]
        if not groups:
            raise ValueError("No query has a relevant document: there is nothing to rank.")
        ranked = np.array([ranking_scores(labels[group], logits[group], AMONG) for group in groups])
        scores = torch.from_numpy(logits).sigmoid().numpy()
        errors = []
        for group in groups:
            best, first = group[labels[group].argmax()], group[logits[group].argmax()]
            if labels[first] < labels[best]:
                documents = rows[best].pair or "", rows[first].pair or ""
                score = float(scores[first] - scores[best])
                errors.append(Mistake(first, rows[first].text, *documents, score))
        sizes = np.array([len(group) for group in groups])
        notice = ""
        if sizes.max() == 1:
            notice = "every query has a single document, so nothing is ranked."
        elif len(groups) < len(queries):
            notice = f"{len(queries) - len(groups)} queries have no relevant document."
        values: dict[str, npt.ArrayLike] = {
            f"mrr@{AMONG}": ranked[:, 0],
            f"ndcg@{AMONG}": ranked[:, 1],
            "loss": [float(losses[group].mean()) for group in groups],
        }
        return Scores.means(
            "reranking",
            values,
            errors=errors,
            notice=notice,
            candidates=round(float(sizes.mean())),
        )
