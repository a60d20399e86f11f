"""Metrics of the models: masked words, next sentences, similarity, search across languages."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor

from minibert import BertForPreTraining, BertModel
from minibert.losses import IGNORED
from minibert.training.corpora import Document
from minibert.training.data import Example, pack, split_by_tokens
from minibert.training.options import PretrainOptions
from minibert.training.pretraining import PretrainingData, single_texts

TOKENS_PER_FORWARD = 2048


def wikitext(path: Path) -> list[list[str]]:
    """Reads the articles of a WikiText file as lists of paragraphs, without headings.

    `<unk>` becomes [UNK], which `masked_words` never masks.
    """
    articles: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        line = re.sub(r" @([-,.])@ ", r"\1", line.strip()).replace("<unk>", "[UNK]")
        if re.fullmatch(r"= [^=].*[^=] =", line):
            articles.append([])
        elif line and not line.startswith("="):
            articles[-1].append(line)
    return [article for article in articles if article]


def _forwards(examples: Sequence[Example]) -> Iterator[dict[str, Any]]:
    for part in split_by_tokens(examples, TOKENS_PER_FORWARD):
        yield pack(part)


@torch.no_grad()
def masked_words(
    model: BertForPreTraining,
    tokenizer: Any,
    documents: Sequence[Document],
    max_windows: int | None = None,
) -> dict[str, float]:
    """Measures the accuracy of masked words in windows of 128 tokens.

    15% of the pieces are replaced by [MASK], and only these are counted.

    Args:
        model: A model with a masked-language head.
        tokenizer: Its tokenizer.
        documents: Texts as ids.
        max_windows: Maximum number of windows. None: all.

    Returns:
        Accuracy, share of the most frequent masked piece, number of masked pieces, and number of
        tokens.
    """
    rng = np.random.default_rng(7)
    texts = [text for text, _, _ in single_texts(documents, 126, rng)]
    special = np.array(sorted(tokenizer.all_special_ids))
    cls, sep = np.array([tokenizer.cls_token_id]), np.array([tokenizer.sep_token_id])
    examples = []
    for number in rng.permutation(len(texts))[:max_windows]:
        ids = np.concatenate([cls, texts[number], sep])
        chosen = (rng.random(len(ids)) < 0.15) & ~np.isin(ids, special)
        seen = np.where(chosen, tokenizer.mask_token_id, ids)
        examples.append({"input_ids": seen, "labels": np.where(chosen, ids, IGNORED)})
    hits = 0
    masked: list[Tensor] = []
    for batch in _forwards(examples):
        labels = batch.pop("labels")
        outputs = model(**batch, positions=labels != IGNORED, return_dict=True)
        logits = (
            outputs.prediction_logits if hasattr(outputs, "prediction_logits") else outputs.logits
        )
        masked.append(labels[labels != IGNORED])
        hits += int((logits.argmax(-1) == masked[-1]).sum())
    words = torch.cat(masked)
    return {
        "accuracy": hits / len(words),
        "most_frequent": words.bincount().max().item() / len(words),
        "pieces": len(words),
        "tokens": sum(len(example["input_ids"]) for example in examples),
    }


@torch.no_grad()
def next_sentences(
    model: BertForPreTraining, tokenizer: Any, documents: Sequence[Document]
) -> float:
    """Measures the accuracy of next-sentence prediction without masks. Chance is 0.5."""
    data = PretrainingData(documents, tokenizer, PretrainOptions(mask_probability=0.0, seed=7))
    correct = []
    for batch in _forwards(data.epoch(0)):
        labels = batch.pop("next_sentence_label")
        masked = batch.pop("labels") != IGNORED
        predictions = model(**batch, positions=masked).seq_relationship_logits.argmax(-1)
        correct.append((predictions == labels)[labels != IGNORED])
    return torch.cat(correct).float().mean().item()


@torch.no_grad()
def vectors(model: BertModel, tokenizer: Any, texts: Sequence[str], unit: bool = True) -> Tensor:
    """Computes mean-pooled sentence vectors, (texts, hidden), L2-normalized if `unit`."""
    rows = tokenizer(list(texts), truncation=True, max_length=128)["input_ids"]
    examples = [{"input_ids": np.array(row), "number": n} for n, row in enumerate(rows)]
    result = torch.empty(len(texts), model.config.hidden_size)
    for batch in _forwards(examples):
        states = model(input_ids=batch["input_ids"], layout=batch["layout"]).last_hidden_state
        pooled = torch.segment_reduce(states, "mean", lengths=torch.tensor(batch["layout"].lengths))
        result[batch["number"]] = F.normalize(pooled, dim=-1) if unit else pooled
    return result


def sts_rows(path: Path) -> list[list[str]]:
    """Reads rows of STS-B or KorSTS: the score is in column 4, the sentences in 5 and 6."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in rows if row[4] != "score"]


def sts_spearman(model: BertModel, tokenizer: Any, path: Path) -> float:
    """Computes the rank correlation of cosines with human scores."""
    rows = sts_rows(path)
    first, second = (vectors(model, tokenizer, [row[n] for row in rows]) for n in (5, 6))
    return float(spearmanr((first * second).sum(-1), [float(row[4]) for row in rows]).statistic)


def retrieval_accuracy(questions: Tensor, answers: Tensor, texts: Sequence[str]) -> float:
    """Computes the share of questions whose nearest answer is that of the same row.

    Args:
        questions: L2-normalized vectors, (n, hidden).
        answers: L2-normalized vectors, (n, hidden).
        texts: Texts of the answers. An answer with the same text counts as well.
    """
    nearest = (questions @ answers.T).argmax(-1).tolist()
    hits = sum(texts[answer] == texts[question] for question, answer in enumerate(nearest))
    return hits / len(texts)


def read_prompts(path: Path) -> list[tuple[str, list[str]]]:
    """Reads everyday sentences with one [MASK], and the words that fit."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(text, words.split()) for text, words in (line.split("\t") for line in lines)]


@torch.no_grad()
def fitting_words(
    model: BertForPreTraining, tokenizer: Any, prompts: Sequence[tuple[str, list[str]]]
) -> list[bool]:
    """Returns for each prompt whether a fitting word is among the top five predictions."""
    hits = []
    for text, words in prompts:
        batch = tokenizer([text], return_tensors="pt")
        logits = model(**batch).prediction_logits[batch["input_ids"] == tokenizer.mask_token_id][0]
        predictions = tokenizer.convert_ids_to_tokens(logits.topk(5).indices.tolist())
        hits.append(bool(set(predictions) & set(words)))
    return hits
