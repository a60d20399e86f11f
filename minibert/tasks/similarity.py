"""Train sentence embeddings: texts that belong together get similar vectors.

* pairs (anchor, positive): an anchor has to find its positive among all positives of the batch
* triplets (anchor, positive, negative): and among all negatives of the batch
* scores (two texts and their similarity): the cosine of their vectors approaches the score

The result of training is a folder that `SentenceEmbedder` and sentence-transformers load. All texts
of a batch go through the model together, packed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.arithmetic.search import pairwise_similarity, similarity
from minibert.encoders.embedder import SentenceEmbedder
from minibert.encoders.folders.embedder_folder import check_portable
from minibert.encoders.folders.reading import Reading
from minibert.encoders.rows.token_rows import Vectors
from minibert.layouts import PackedLayout
from minibert.model import BertModel
from minibert.tasks.options import ScoreOptions
from minibert.tasks.sequence import number_scores
from minibert.tasks.tables import TableTask, number_of
from minibert.tasks.task import (
    Batch,
    Example,
    FilePath,
    Mistake,
    Scores,
    inputs_of,
)
from minibert.text import Row, Table
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.errors import Argument, ArgumentError, Message

# Factor of the cosines before the softmax, as in sentence-transformers: a temperature of 0.05.
SCALE = 20.0
RECALL_AT = (1, 10)
ANCHORS_AT_ONCE = 1024


class SimilarityModel(PreTrainedModel):
    """An embedder as a model to train: packed ids in, one vector for each text out, with gradients.

    Args:
        embedder: Its BERT and its Dense layers are trained in place.
    """

    def __init__(self, embedder: SentenceEmbedder) -> None:
        super().__init__(embedder.model.config)
        self.embedder = embedder

    @property
    def bert(self) -> BertModel:
        """The BERT inside."""
        return self.embedder.model

    def forward(self, input_ids: Tensor, layout: PackedLayout) -> Tensor:
        """Embed texts: (tokens,) to (texts, dimension).

        Texts are sorted by length while the model runs.
        """
        order = sorted(range(len(layout.lengths)), key=layout.lengths.__getitem__)
        parts = input_ids.split_with_sizes(layout.lengths)
        by_length = PackedLayout([layout.lengths[number] for number in order])
        vectors: Tensor = self.embedder(
            torch.cat([parts[number] for number in order]), layout=by_length
        )
        return vectors[torch.tensor(order, device=vectors.device).argsort()]

    def save_pretrained(self, save_directory: FilePath, *_: Any, **__: Any) -> None:
        """Writes a folder that `SentenceEmbedder` and sentence-transformers load."""
        self.embedder.save_pretrained(save_directory)


@dataclass(frozen=True)
class SimilarityTask(ScoreOptions, TableTask):
    """Pairs, triplets or scored pairs in a table.

    No prompt is added to the texts. The prompts of a model belong into the table.

    Attributes:
        table: How files are read: the column of the query, or of the first of two texts (`text`),
            and of the text that it has to find, or of the second text (`pair`). With a `label` they
            are scored pairs: without, each anchor has to find its positive among all positives and
            negatives of the batch (multiple negatives ranking: Henderson et al. 2017, section
            4.4). With several processes, each uses its own share of the batch.
        negatives: Columns of hard negatives.
        max_score: Scores are divided by it, and then lie between -1 and 1. None: any number, which
            only correlations can be computed with. So it is where only evaluation files have
            scores.
        dev_table: How evaluation files are read, where they differ. They may have a `label`
            although the training file has none, and need no negatives.
        matryoshka: Numbers of first dimensions whose loss counts, too (Kusupati et al. 2022).
        pooling: Pooling of the embedder. None: that of the checkpoint.
    """

    table: Table = Table("anchor", pair="positive")
    negatives: Sequence[str] = ()
    dev_table: Table | None = None

    model_class: ClassVar[type[PreTrainedModel]] = SimilarityModel
    # vectors that are good already should change little, whatever the size of the model
    learning_rate: ClassVar[float | None] = 5e-5
    keeps_max_length: ClassVar[bool] = False  # an embedder has a limit of its own
    truncates = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table.pair is None:
            raise ArgumentError("table", "has no pair: name the column of the second text.")
        if self.max_score is not None and not self.max_score > 0:
            raise ArgumentError("max_score", f"should be more than 0, not {self.max_score:g}.")
        for name in self.negatives:
            if name in (self.table.text, self.table.pair):
                raise ValueError(f"{name!r} is the column of a negative and of another text.")

    @property
    def metrics(self) -> Sequence[str]:  # type: ignore[override]
        """Correlations where there are scores, else how often an anchor finds its positive."""
        if self.table_of(dev=True).label is not None:
            return ("spearman", "pearson")
        return ("recall@1", "recall@10", "mrr")

    @property
    def fixed(self) -> dict[str, Any]:  # type: ignore[override]
        """In-batch negatives are those of the whole batch, and not chosen by their length."""
        if self.table.label is not None:
            return {}
        return {"tokens_per_forward": None, "pool": 1}

    def load(
        self, checkpoint: FilePath | Source, rows: Sequence[Row]
    ) -> tuple[SimilarityModel, BertTokenizer]:
        """An embedder's folder, or any BERT's."""
        embedder = SentenceEmbedder.from_pretrained(
            checkpoint, pooling=self.pooling, precision=None
        )
        check_portable(embedder)
        wrong = [size for size in self.matryoshka if not 0 < size < embedder.dimension]
        if wrong:
            raise ArgumentError(
                "matryoshka",
                f"should have sizes from 1 to {embedder.dimension - 1}, not {wrong[0]}.",
            )
        embedder.model.config.extra |= self.reading(rows).as_fields()["extra"]
        return SimilarityModel(embedder), embedder.tokenizer

    def reading(self, rows: Sequence[Row]) -> Reading:
        """What the vectors were trained on."""
        task = "pairs" if self.table.label is None else "scores"
        return Reading(task=task, options=self.options)

    def columns(self, table: Table, dev: bool) -> list[str]:
        """The texts and the score. An evaluation file may lack negatives."""
        return [*table.needed, *(() if dev else self.negatives)]

    def check(self, row: Row) -> None:
        """Raise a ValueError if the texts or the score of a row are certainly wrong."""
        table = row.table
        for column in (table.text, table.pair or "", *self._negatives_of(row)):
            value = row.values[column]
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{column} should be a text, not {value!r:.80}")
        if table.label is None:
            return
        score, limit = self._score_of(row), self._limit
        if not math.isfinite(score) or (limit is not None and abs(score) > 1):
            numbers, advice = "finite number", Message()
            if limit is not None:
                numbers = f"number of {-limit:g} to {limit:g}"
            if limit == 1:
                advice = Message(" (or pass ", Argument("max_score"), ", the largest one)")
            raise ValueError(
                Message(f"{table.label} should be a {numbers}", advice, f", not {row.label!r}")
            )

    def _negatives_of(self, row: Row) -> list[str]:
        """The columns of negatives that a row has."""
        return [name for name in self.negatives if name in row.values]

    @property
    def _limit(self) -> float | None:
        """The largest score. None where scores are not learned, but compared by correlations."""
        return None if self.table.label is None else self.max_score

    def _score_of(self, row: Row) -> float:
        """The score divided by the largest one, or NaN if it is not a number."""
        return number_of(row.label) / (self._limit or 1.0)

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """Anchor, positive and negatives."""
        names = (row.table.text, row.table.pair or "", *self._negatives_of(row))
        return tuple(row.values[name] for name in names)

    def group_of(self, row: Row) -> Hashable:
        """The anchor: a model that was trained on it knows its positive."""
        return row.text

    def encode(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Concatenate the texts of each row, each truncated to `max_length` tokens.

        Equal texts have equal entries in `texts`.
        """
        texts = [text for row in rows for text in self.texts_of(row)]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        ids = iter(tokenizer(texts, truncation=True, max_length=max_length)["input_ids"])
        examples: list[Example] = []
        for row in rows:
            texts_of_row = self.texts_of(row)
            ids_of_row = list(islice(ids, len(texts_of_row)))
            example: Example = {
                "input_ids": np.concatenate(ids_of_row),
                "lengths": np.array(list(map(len, ids_of_row))),
                "texts": np.array([numbers[text] for text in texts_of_row]),
            }
            if row.table.label is None:
                example["anchor"] = 0  # one label a row, for the mean
            else:
                example["score"] = self._score_of(row)
            examples.append(example)
        return examples

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The summed loss of all dimensions, and of the first ones alone (`matryoshka`)."""
        flat = model(**inputs_of(batch))
        texts_per_row = 2 + len(self.negatives)
        vectors = flat.view(-1, texts_per_row, flat.shape[-1])  # (batch, texts, dimension)
        sizes = [vectors.shape[-1], *self.matryoshka]
        if self.table.label is not None:
            losses = [score_loss(vectors[..., :size], batch["score"]) for size in sizes]
            return {"score": torch.stack(losses).sum()}
        texts = batch["texts"].view(vectors.shape[:2])
        losses = [ranking_loss(vectors[..., :size], texts) for size in sizes]
        return {"anchor": torch.stack(losses).sum()}

    def predict(
        self, model: Any, rows: Sequence[Row], examples: Sequence[Example]
    ) -> list[Vectors]:
        """The vectors of each row's texts, (texts, dimension)."""
        embedder = model.embedder if isinstance(model, SimilarityModel) else model
        texts = [text for row in rows for text in self.texts_of(row)]
        distinct = list(dict.fromkeys(texts))
        vectors = dict(zip(distinct, embedder.encode(distinct, prompt=""), strict=True))
        return [np.stack([vectors[text] for text in self.texts_of(row)]) for row in rows]

    def score(self, rows: Sequence[Row], predictions: Sequence[Vectors]) -> Scores:
        """Correlations of the cosines with the scores, or how well anchors find their positives."""
        anchors = np.stack([vectors[0] for vectors in predictions])
        positives = np.stack([vectors[1] for vectors in predictions])
        if rows[0].table.label is not None:
            expected = np.array([self._score_of(row) for row in rows], dtype=np.float64)
            cosines = np.asarray(pairwise_similarity(anchors, positives), dtype=np.float64)
            texts = ["\t".join(self.texts_of(row)[:2]) for row in rows]
            return number_scores("scores", texts, expected, cosines)
        texts_of_rows = [self.texts_of(row) for row in rows]
        anchor_texts = [texts[0] for texts in texts_of_rows]
        answers = [texts[1] for texts in texts_of_rows]
        negatives = [text for texts in texts_of_rows for text in texts[2:]]
        candidate_texts = answers + negatives
        candidates = np.concatenate([positives, *(vectors[2:] for vectors in predictions)])
        ranks = positive_ranks(anchors, candidates, anchor_texts, candidate_texts)
        values = {f"recall@{k}": ranks < k for k in RECALL_AT} | {"mrr": 1 / (ranks + 1)}
        errors = [
            Mistake(row, anchor_texts[row], answers[row], f"rank {rank + 1}", rank)
            for row, rank in enumerate(ranks.tolist())
            if rank > 0
        ]
        return Scores.means(
            "pairs",
            values,
            candidates=len(set(candidate_texts)),
            errors=errors,
        )


def ranking_loss(vectors: Tensor, texts: Tensor) -> Tensor:
    """Sum the cross entropies of each anchor's positive among all candidates of the batch.

    A candidate is left out if it is correct, too: if it is the anchor, equals its positive, or is
    another positive of an equal anchor.

    Args:
        vectors: Anchor, positive and negatives of each example, (batch, 2 or more, dimension).
        texts: Numbers that are equal where the texts are, (batch, 2 or more).
    """
    unit = F.normalize(vectors.float(), dim=-1)
    candidates = unit[:, 1:].transpose(0, 1).flatten(0, 1)  # all positives, then all negatives
    scores = unit[:, 0] @ candidates.T * SCALE  # (batch, candidates)
    anchors = texts[:, :1]
    answers = texts[:, 1:].T.flatten()
    is_correct = (answers == anchors) | (answers == texts[:, 1:2])
    is_correct[:, : len(texts)] |= anchors == anchors.T
    is_correct.fill_diagonal_(False)
    labels = torch.arange(len(texts), device=vectors.device)
    return F.cross_entropy(scores.masked_fill(is_correct, -torch.inf), labels, reduction="sum")


def score_loss(vectors: Tensor, scores: Tensor) -> Tensor:
    """Sum the squared differences between the cosine of two vectors and its score.

    Shapes: (batch, 2, dimension) and (batch,).
    """
    cosines = F.cosine_similarity(vectors[:, 0].float(), vectors[:, 1].float())
    return F.mse_loss(cosines, scores.to(cosines.dtype), reduction="sum")


def positive_ranks(
    anchors: Vectors, candidates: Vectors, texts: Sequence[str], answers: Sequence[str]
) -> npt.NDArray[np.int64]:
    """How many wrong candidates are nearer to each anchor than its positive.

    Args:
        anchors: (n, D).
        candidates: (m, D). Candidate i is the positive of anchor i.
        texts: The text of each anchor. Equal ones share their positives, which do not count as
            wrong. Nor does the anchor itself, as in `ranking_loss`.
        answers: The text of each candidate. Equal ones count once.

    Returns:
        The ranks, (n,), from 0.
    """
    _, first_indices, text_ids = np.unique(
        np.array(answers, dtype=object), return_index=True, return_inverse=True
    )
    id_of_text = dict(zip(answers, text_ids, strict=True))
    not_wrong = {text: [id_of_text[text]] if text in id_of_text else [] for text in texts}
    for text, text_id in zip(texts, text_ids, strict=False):
        not_wrong[text].append(text_id)
    distinct = candidates[first_indices]
    ranks = []
    for start in range(0, len(anchors), ANCHORS_AT_ONCE):
        scores = similarity(anchors[start : start + ANCHORS_AT_ONCE], distinct)
        for index, row in enumerate(scores, start):
            score = row[text_ids[index]]
            row[not_wrong[texts[index]]] = -np.inf
            ranks.append(int((row > score).sum()))
    return np.array(ranks, dtype=np.int64)
