"""Train sentence embeddings: texts that belong together get similar vectors.

* pairs (anchor, positive): an anchor has to find its positive among all positives of the batch
* triplets (anchor, positive, negative): and among all negatives of the batch
* scores (two texts and their similarity): the cosine of their vectors approaches the score

A `SimilarityTask` for `minibert.training.finetuning.finetune`, whose result is a folder that
`SentenceEmbedder` and sentence-transformers load. All texts of a batch go through the model
together, packed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.corpus.rows import BadRow, PlacedRow, Quoting, text_fault
from minibert.encoders.embedder import SentenceEmbedder
from minibert.encoders.pooling import Pooling
from minibert.encoders.search import pairwise_similarity
from minibert.layouts import PackedLayout
from minibert.model import BertModel
from minibert.tasks import metrics
from minibert.tasks.retrieval import retrieval_scores
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.training.data import Batch, Example
from minibert.training.finetuning import Path_, Rows, Task, inputs_of
from minibert.training.rows import read_placed_rows

# Factor of the cosines before the softmax, as in sentence-transformers: a temperature of 0.05.
SCALE = 20.0


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

    def save_pretrained(self, save_directory: Path_, *_: Any, **__: Any) -> None:
        """Writes a folder that `SentenceEmbedder` and sentence-transformers load."""
        self.embedder.save_pretrained(save_directory)


@dataclass(frozen=True)
class SimilarityTask(Task):
    """Pairs, triplets or scored pairs in a table.

    No prompt is added to the texts. The prompts of a model belong into the table.

    Attributes:
        anchor: Column of the query, or of the first of two texts.
        positive: Column of the text that it has to find, or of the second text.
        negatives: Columns of hard negatives.
        score: Column of the similarity, for scored pairs. None: each anchor has to find its
            positive among all positives and negatives of the batch (multiple negatives ranking:
            Henderson et al. 2017, section 4.4). With several processes, each uses its own share of
            the batch.
        max_score: Scores are divided by it, and then lie between -1 and 1.
        dev_score: Column of the similarity in the dev file, if that has scored pairs although the
            training file does not.
        matryoshka: Numbers of first dimensions whose loss counts, too (Kusupati et al. 2022).
        pooling: Pooling of the embedder. None: that of the checkpoint.
        columns: Names of the columns, for files without a header line.
        delimiter: See `read_table`.
        quoting: See `read_table`.
        dev_columns: Names of columns in evaluation files, where they differ, by their name in the
            training file.
    """

    anchor: str = "anchor"
    positive: str = "positive"
    negatives: Sequence[str] = ()
    score: str | None = None
    max_score: float = 1.0
    dev_score: str | None = None
    matryoshka: Sequence[int] = ()
    pooling: Sequence[Pooling] | None = None
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    quoting: Quoting = "auto"
    dev_columns: Mapping[str, str] = field(default_factory=dict)

    model_class: ClassVar[type[PreTrainedModel]] = SimilarityModel

    @property
    def metric(self) -> str:
        """Name of the metric on the dev rows.

        It is Spearman's correlation where there are scores. Else it is how often an anchor finds
        its positive first.
        """
        if self.score or self.dev_score:
            return "spearman"
        return "recall@1"

    @property
    def fixed(self) -> dict[str, Any]:
        """In-batch negatives are those of the whole batch, and not chosen by their length."""
        if self.score:
            return {}
        return {"tokens_per_forward": None, "pool": 1}

    @property
    def learning_rate(self) -> float | None:
        """Vectors that are good already should change little, whatever the size of the model."""
        return 5e-5

    @property
    def keeps_max_length(self) -> bool:
        """An embedder has a limit of its own."""
        return False

    def load(self, checkpoint: Path_ | Source, rows: Rows) -> tuple[SimilarityModel, BertTokenizer]:
        """An embedder's folder, or any BERT's."""
        embedder = SentenceEmbedder.from_pretrained(
            checkpoint, pooling=self.pooling, precision=None
        )
        wrong = [size for size in self.matryoshka if not 0 < size < embedder.dimension]
        if wrong:
            raise ValueError(
                "matryoshka sizes should lie between "
                f"1 and {embedder.dimension - 1}, not {wrong[0]}."
            )
        return SimilarityModel(embedder), embedder.tokenizer

    def read(
        self, path: Path_, dev: bool = False, bad_rows: list[BadRow] | None = None
    ) -> list[PlacedRow]:
        """Rows of a table."""
        texts = [self.anchor, self.positive]
        score = self.score
        if dev and self.dev_score:
            score = self.dev_score
        else:
            texts += self.negatives

        def find_fault(row: dict[str, Any]) -> str | None:
            for column in texts:
                if not isinstance(row[column], str):
                    return text_fault(column, row)
                if not row[column].strip():
                    return f"{column} should be a text, not {row[column]!r:.80}"
            if score is not None and self._scaled(row[score]) is None:
                return f"{score} should be a number of {self._range()}, not {row[score]!r}"
            return None

        rows = read_placed_rows(
            path,
            texts if score is None else [*texts, score],
            find_fault,
            columns=self.columns,
            delimiter=self.delimiter,
            quoting=self.quoting,
            renamed=self.dev_columns if dev else None,
            bad_rows=bad_rows,
        )
        if score is not None:
            for row in rows:
                row[score] = self._scaled(row[score])
        return rows

    def texts_of(self, row: Any) -> tuple[str, ...]:
        """Anchor, positive and negatives."""
        names = [self.anchor, self.positive, *self.negatives]
        return tuple(row[name] for name in names if name in row)

    def _scaled(self, value: Any) -> float | None:
        """The score divided by the largest one, or None unless it is then between -1 and 1."""
        try:
            score = float(value) / self.max_score
        except (ValueError, TypeError, ArithmeticError):
            return None
        if not -1 <= score <= 1:
            return None
        return score

    def _range(self) -> str:
        if self.max_score == 1:
            return "-1 to 1 (or pass the largest one: --max-score, in Python max_score)"
        return f"{-self.max_score:g} to {self.max_score:g}"

    def examples(
        self, rows: Rows, tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Concatenate the texts of each row, each truncated to `max_length` tokens.

        Equal texts have equal entries in `texts`.
        """
        # scored pairs to measure with have no negatives
        names = [name for name in (self.anchor, self.positive, *self.negatives) if name in rows[0]]
        texts = [row[name] for row in rows for name in names]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        ids = tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
        examples: list[Example] = []
        for row, start in zip(rows, range(0, len(texts), len(names)), strict=True):
            of_row = slice(start, start + len(names))
            example: Example = {
                "input_ids": np.concatenate(ids[of_row]),
                "lengths": np.array([len(text) for text in ids[of_row]]),
                "texts": np.array([numbers[text] for text in texts[of_row]]),
            }
            if self.score is None:
                example["anchor"] = 0  # one label a row, for the mean
            else:
                example["score"] = row[self.score]
            examples.append(example)
        return examples

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The summed loss of all dimensions, and of the first ones alone (`matryoshka`)."""
        flat = model(**inputs_of(batch))
        texts_per_row = 2 + len(self.negatives)
        vectors = flat.view(-1, texts_per_row, flat.shape[-1])  # (batch, texts, dimension)
        sizes = [vectors.shape[-1], *self.matryoshka]
        if self.score is not None:
            losses = [score_loss(vectors[..., :size], batch["score"]) for size in sizes]
            return {"score": torch.stack(losses).sum()}
        texts = batch["texts"].view(vectors.shape[:2])
        losses = [ranking_loss(vectors[..., :size], texts) for size in sizes]
        return {"anchor": torch.stack(losses).sum()}

    def scores(self, model: Any, rows: Rows, examples: Sequence[Example]) -> dict[str, float]:
        """Correlations of the cosines with the scores, or MRR and recall@k."""
        encode = model.embedder.encode
        anchors, positives = (
            encode([row[name] for row in rows], prompt="") for name in (self.anchor, self.positive)
        )
        score = self.dev_score or self.score
        if score:
            cosines = pairwise_similarity(anchors, positives).tolist()
            return metrics.correlations([row[score] for row in rows], cosines)
        negatives = [encode([row[name] for row in rows], prompt="") for name in self.negatives]
        return retrieval_scores(
            anchors,
            np.concatenate([positives, *negatives]),
            [row[self.anchor] for row in rows],
            [row[name] for name in (self.positive, *self.negatives) for row in rows],
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
