"""Training for similarity is as good as with sentence-transformers' trainer."""

from __future__ import annotations

import csv
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shared_data, sts_dev
from torch.utils.data import BatchSampler, SequentialSampler

from minibert import SentenceEmbedder
from minibert.tasks.metrics import regression_scores
from minibert.tasks.similarity import SimilarityTask
from minibert.text import Table
from minibert.training.data import epoch_order
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions

PAIRS, STEPS, BATCH, MAX_LENGTH = 20_000, 60, 32, 32


def read_rows(*name: str) -> list[list[str]]:
    path = shared_data("data", *name)
    open_file = lzma.open if path.suffix == ".xz" else open
    with open_file(path, "rt", encoding="utf-8") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def pairs() -> list[dict[str, str]]:
    """Return similar sentences of STS-B and KLUE, entailments of KLUE, and translations."""
    texts = [(row[5], row[6]) for row in read_rows("stsb", "stsb-train.csv") if float(row[4]) >= 4]
    klue_sts = read_rows("klue", "sts-train.tsv.xz")[1:]
    texts += [(row[1], row[2]) for row in klue_sts if float(row[0]) >= 4]
    klue_nli = read_rows("klue", "nli-train.tsv.xz")[1:]
    texts += [(row[3], row[4]) for row in klue_nli if row[2] == "entailment"]
    translations = read_rows("parallel", "ko-en.tsv.xz")
    order = np.random.default_rng(0).permutation(len(translations))
    texts += [(translations[n][0], translations[n][1]) for n in order[: PAIRS - len(texts)]]
    return [{"anchor": first, "positive": second} for first, second in texts]


def scored() -> list[dict[str, Any]]:
    rows = [(row[5], row[6], float(row[4]) / 5) for row in read_rows("stsb", "stsb-train.csv")]
    return [{"anchor": first, "positive": second, "score": score} for first, second, score in rows]


def spearman(folder: Path | str) -> float:
    first, second, scores = sts_dev()
    embedder = SentenceEmbedder.from_pretrained(folder)
    cosines = embedder.similarity_pairwise(embedder.encode(first), embedder.encode(second))
    return regression_scores(scores, np.asarray(cosines).tolist())["spearman"]


def in_order(dataset: Any, batch_size: int, **_: Any) -> BatchSampler:
    return BatchSampler(SequentialSampler(dataset), batch_size, drop_last=False)


def train_theirs(
    model: str, rows: list[dict[str, Any]], loss: str, options: TrainingOptions, folder: Path
) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses

    embedder = SentenceTransformer(model, device="cpu")
    embedder.max_seq_length = MAX_LENGTH
    arguments = SentenceTransformerTrainingArguments(
        str(folder / "run"),
        max_steps=options.steps,
        per_device_train_batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        warmup_steps=int(options.warmup * (options.steps or 0)),
        weight_decay=options.weight_decay,
        max_grad_norm=options.max_grad_norm,
        batch_sampler=in_order,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        embedder,
        arguments,
        train_dataset=Dataset.from_list(rows),
        loss=getattr(losses, loss)(embedder),
    )
    trainer.train()
    embedder.save_pretrained(str(folder / "theirs"))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["MultipleNegativesRankingLoss", "CosineSimilarityLoss"])
def test_as_good_as_sentence_transformers(minilm: str, tmp_path: Path, loss: str) -> None:
    """Spearman's correlations on STS-B dev differ by less than 0.005.

    Batches, steps and options are the same. Dropout masks and rounding are not.
    """
    rows = pairs() if loss.startswith("Multiple") else scored()
    scored_table = Table("anchor", pair="positive", label="score")
    table = Table("anchor", pair="positive") if loss.startswith("Multiple") else scored_table
    task = SimilarityTask(table, dev_table=scored_table)
    options = TrainingOptions(
        steps=STEPS, batch_size=BATCH, learning_rate=2e-5, evaluate_every=STEPS, pool=1
    )
    (tmp_path / "train.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    first, second, scores = sts_dev()
    dev = zip(first, second, scores, strict=True)
    lines = [
        json.dumps({"anchor": a, "positive": b, "score": score / 5}) + "\n" for a, b, score in dev
    ]
    (tmp_path / "dev.jsonl").write_text("".join(lines), encoding="utf-8")

    files = (tmp_path / "train.jsonl", tmp_path / "dev.jsonl")
    finetune(task, minilm, *files, tmp_path / "ours", options, max_length=MAX_LENGTH)
    batches = epoch_order([1] * len(rows), BATCH, options.seed, 0, pool=1)[:STEPS]
    train_theirs(minilm, [rows[n] for batch in batches for n in batch], loss, options, tmp_path)
    before, ours, theirs = (
        spearman(folder) for folder in (minilm, tmp_path / "ours", tmp_path / "theirs")
    )
    print(f"\n{loss}, {STEPS} steps: before {before:.5f}, ours {ours:.5f}, theirs {theirs:.5f}")
    assert abs(ours - theirs) < 0.005
    assert min(ours, theirs) > before
