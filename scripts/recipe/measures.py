"""What the models are measured by: hidden words, next sentences, sentence similarity, search across languages."""

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
from minibert.training.pretraining import PretrainingData, single_texts

TOKENS_PER_FORWARD = 2048


def wikitext(path: Path) -> list[list[str]]:
    """Articles of a WikiText file, a paragraph an entry, without headings; `<unk>` becomes [UNK], never asked for."""
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
    """15% of the pieces, each replaced by [MASK] and nothing else counted, in windows of 128.

    Returns:
        accuracy, share of the most frequent of the hidden pieces, how many pieces were asked for, tokens read.
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
    hits, asked = 0, []
    for batch in _forwards(examples):
        labels = batch.pop("labels")
        outputs = model(**batch, positions=labels != IGNORED, return_dict=True)
        logits = (
            outputs.prediction_logits if hasattr(outputs, "prediction_logits") else outputs.logits
        )
        asked.append(labels[labels != IGNORED])
        hits += int((logits.argmax(-1) == asked[-1]).sum())
    words = torch.cat(asked)
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
    """Share of pairs of texts, nothing masked, that are told rightly; chance is 0.5."""
    data = PretrainingData(documents, tokenizer, mask_probability=0.0, seed=7)
    right = []
    for batch in _forwards(data.epoch(0)):
        labels = batch.pop("next_sentence_label")
        asked = batch.pop("labels") != IGNORED
        found = model(**batch, positions=asked).seq_relationship_logits.argmax(-1)
        right.append((found == labels)[labels != IGNORED])
    return torch.cat(right).float().mean().item()


@torch.no_grad()
def vectors(model: BertModel, tokenizer: Any, texts: Sequence[str], unit: bool = True) -> Tensor:
    """Sentence vectors, of length 1 if so wanted: (texts, hidden)."""
    rows = tokenizer(list(texts), truncation=True, max_length=128)["input_ids"]
    found = torch.empty(len(texts), model.config.hidden_size)
    for batch in _forwards(
        [{"input_ids": np.array(row), "number": n} for n, row in enumerate(rows)]
    ):
        states = model(input_ids=batch["input_ids"], layout=batch["layout"]).last_hidden_state
        pooled = torch.segment_reduce(states, "mean", lengths=torch.tensor(batch["layout"].lengths))
        found[batch["number"]] = F.normalize(pooled, dim=-1) if unit else pooled
    return found


def sts_rows(path: Path) -> list[list[str]]:
    """Rows of STS-B or KorSTS: score in column 4, sentences in 5 and 6."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in rows if row[4] != "score"]


def sts_spearman(model: BertModel, tokenizer: Any, path: Path) -> float:
    """Spearman's correlation of cosines with people's scores."""
    rows = sts_rows(path)
    first, second = (vectors(model, tokenizer, [row[n] for row in rows]) for n in (5, 6))
    return float(spearmanr((first * second).sum(-1), [float(row[4]) for row in rows]).statistic)


def found_across(questions: Tensor, answers: Tensor, texts: Sequence[str]) -> float:
    """Share of questions (n, hidden) whose nearest answer (n, hidden) has the text of the answer in the same row."""
    nearest = (questions @ answers.T).argmax(-1).tolist()
    return sum(texts[found] == texts[row] for row, found in enumerate(nearest)) / len(texts)


def read_prompts(path: Path) -> list[tuple[str, list[str]]]:
    """Everyday sentences with a gap, and the words that fit."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(text, words.split()) for text, words in (line.split("\t") for line in lines)]


@torch.no_grad()
def fitting_words(
    model: BertForPreTraining, tokenizer: Any, prompts: Sequence[tuple[str, list[str]]]
) -> list[bool]:
    """For each prompt whether a fitting word is among the model's first five."""
    found = []
    for text, words in prompts:
        batch = tokenizer([text], return_tensors="pt")
        logits = model(**batch).prediction_logits[batch["input_ids"] == tokenizer.mask_token_id][0]
        first = tokenizer.convert_ids_to_tokens(logits.topk(5).indices.tolist())
        found.append(bool(set(first) & set(words)))
    return found
