"""The words behind [MASK]: their task, and `fill_mask`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.checks import check_count
from minibert.config import BertConfig
from minibert.heads import BertForMaskedLM, BertForPreTraining
from minibert.inference.logits import run_rows
from minibert.losses import IGNORED, cross_entropy
from minibert.tasks.arguments import Texts, as_text_list, excerpt, require_model, token_limit
from minibert.tasks.rows import read_checked, rows_of_values
from minibert.tasks.sequence import most_confident_first
from minibert.tasks.task import Batch, Example, FilePath, Mistake, Scores, Task, inputs_of
from minibert.text import BadRow, Row, Table
from minibert.tokenization.tokenizer import BertTokenizer


@dataclass(frozen=True)
class MaskTask(Task):
    """The word behind the [MASK] of each text, in a table of texts and words.

    Attributes:
        table: How files are read: the column of the text, which has one [MASK], and of the word,
            which is one token of the vocabulary.
    """

    table: Table = Table(label="label")

    model_class: ClassVar[type[PreTrainedModel]] = BertForMaskedLM
    metrics: ClassVar[Sequence[str]] = ("accuracy", "mrr", "loss")

    def read(
        self, path: FilePath, dev: bool = False, skip: list[BadRow] | None = None
    ) -> list[Row]:
        """Rows of a table."""
        return read_checked(path, self.table, self.table.needed, _no_fault, skip)

    def from_values(self, values: Sequence[Any]) -> list[Row]:
        """Rows of data in memory."""
        return rows_of_values(values, self.table, self.table.needed, _no_fault)

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """The text."""
        return (row.text,)

    def encode(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Texts whose labels are the id of the word at [MASK], and `IGNORED` elsewhere.

        Raises:
            ValueError: A text has more than `max_length` tokens or not one [MASK], or its word is
                not a token.
        """
        batch = tokenizer([row.text for row in rows], verbose=False)
        examples = []
        columns = zip(rows, batch["input_ids"], batch["token_type_ids"], strict=True)
        for row, ids, types in columns:
            if _count_masks(row.text, ids, tokenizer, max_length) != 1:
                raise ValueError(f"{row.place}: the text should have one {tokenizer.mask_token}.")
            word = tokenizer.convert_tokens_to_ids(str(row.label))
            if word == tokenizer.unk_token_id:
                raise ValueError(f"{row.place}: {row.label!r:.60} is not a token of the model.")
            is_masked = np.array(ids) == tokenizer.mask_token_id
            examples.append(
                {
                    "input_ids": np.array(ids),
                    "token_type_ids": np.array(types),
                    "labels": np.where(is_masked, word, IGNORED),
                }
            )
        return examples

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The cross entropy of the words."""
        logits = model(**inputs_of(batch)).logits
        return {"labels": cross_entropy(logits, batch["labels"], "sum")}

    def predict(
        self, model: Any, rows: Sequence[Row], examples: Sequence[Example]
    ) -> list[tuple[npt.NDArray[np.float32], int]]:
        """The log probability of every token, (vocab,), and the id of the right one."""
        is_masked = [example["labels"] != IGNORED for example in examples]
        mask_id = int(examples[0]["input_ids"][is_masked[0]][0])
        ids = [example["input_ids"] for example in examples]
        types = [example["token_type_ids"] for example in examples]
        logits = _mask_logits(model, mask_id, ids, types, [1] * len(examples))
        predictions = []
        for example, row in zip(examples, logits, strict=True):
            logarithms = torch.log_softmax(row[0], -1).numpy()
            predictions.append((logarithms, int(example["labels"].max())))
        return predictions

    def score(self, rows: Sequence[Row], predictions: Sequence[Any]) -> Scores:
        """How often the word has the highest probability, and the mean of its reciprocal rank."""
        ranks = np.array([(values > values[word]).sum() for values, word in predictions])
        losses = [-float(values[word]) for values, word in predictions]
        errors = [
            Mistake(
                row, rows[row].text, str(rows[row].label), f"rank {ranks[row] + 1}", losses[row]
            )
            for row in np.flatnonzero(ranks).tolist()
        ]
        values = {"accuracy": ranks == 0, "mrr": 1 / (ranks + 1), "loss": losses}
        return Scores.means("masks", values, errors=most_confident_first(errors))


def _no_fault(row: Row) -> None:
    return None


def _mask_logits(
    model: Any,
    mask_id: int,
    ids: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]],
    counts: Sequence[int],
) -> list[Tensor]:
    """Logits of each [MASK] of each row, (masks, vocab).

    The decoder is as much work as several layers, so it computes the masked tokens only.
    """

    def compute(row_ids: Tensor, **inputs: Any) -> Tensor:
        logits: Tensor = model(row_ids, positions=row_ids == mask_id, **inputs)[0]
        return logits

    return run_rows(model, compute, ids, types, counts)


class MaskGuess(TypedDict):
    """A word for a [MASK]: its probability, its token id and the token itself."""

    score: float
    token: int
    token_str: str


@overload
def fill_mask(  # type: ignore[overload-overlap]
    model: BertForMaskedLM | BertForPreTraining,
    tokenizer: BertTokenizer,
    texts: str,
    top_k: int = 5,
) -> list[list[MaskGuess]]: ...


@overload
def fill_mask(
    model: BertForMaskedLM | BertForPreTraining,
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    top_k: int = 5,
) -> list[list[list[MaskGuess]]]: ...


def fill_mask(
    model: BertForMaskedLM | BertForPreTraining,
    tokenizer: BertTokenizer,
    texts: Texts,
    top_k: int = 5,
) -> list[list[MaskGuess]] | list[list[list[MaskGuess]]]:
    """Predict the most probable words behind each [MASK].

    Several [MASK] tokens in one text are predicted independently of each other.

    Args:
        model: A model with a masked language modeling head.
        tokenizer: Its tokenizer.
        texts: A text or several.
        top_k: How many words to return for each [MASK].

    Returns:
        For each text a list, for each [MASK] in it a list of `{"score", "token", "token_str"}`,
        best first. The score is the word's probability, `token` its id.

    Raises:
        TypeError: `model` has no masked language modeling head.
        ValueError: A text has no [MASK], or more tokens than the model takes, or `top_k` is less
            than 1.
    """
    require_model(model, BertForMaskedLM, BertForPreTraining)
    check_count("top_k", top_k)
    rows = as_text_list(texts)
    batch = tokenizer(rows, verbose=False)
    limit = token_limit(model, tokenizer)
    mask_counts = []
    for text, ids in zip(rows, batch["input_ids"], strict=True):
        mask_counts.append(_count_masks(text, ids, tokenizer, limit))

    ids, types = batch["input_ids"], batch["token_type_ids"]
    logits = _mask_logits(model, tokenizer.mask_token_id, ids, types, mask_counts)
    results = [_guesses(row_logits, tokenizer, top_k) for row_logits in logits]
    return results[0] if isinstance(texts, str) else results


def _count_masks(text: str, ids: Sequence[int], tokenizer: BertTokenizer, limit: int) -> int:
    """Count the [MASK] tokens of a text.

    Raises:
        ValueError: The text has no [MASK] or is too long.
    """
    count = list(ids).count(tokenizer.mask_token_id)
    if count == 0:
        raise ValueError(
            f"{excerpt(text)} has no {tokenizer.mask_token}. Write it where a word should be "
            "guessed."
        )
    if len(ids) > limit:
        raise ValueError(
            f"{excerpt(text)} has {len(ids)} tokens, but the model takes {limit}: shorten it."
        )
    return count


def _guesses(logits: Tensor, tokenizer: BertTokenizer, top_k: int) -> list[list[MaskGuess]]:
    """The best words of each [MASK] of a text, from `logits` (masks, vocab)."""
    # a vocabulary that was rounded up has rows without a word
    probabilities = logits.softmax(-1)[:, : len(tokenizer)]
    best = probabilities.topk(min(top_k, probabilities.shape[-1]))
    masks = []
    for ids, scores in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        tokens = tokenizer.convert_ids_to_tokens(ids)
        guesses = [
            MaskGuess(score=score, token=token_id, token_str=token)
            for token, token_id, score in zip(tokens, ids, scores, strict=True)
        ]
        masks.append(guesses)
    return masks
