"""Fine-tuning speed: packed batches here against the usual loop in transformers, MiniLM on SST-2.

    python scripts/bench_training.py --model FOLDER --data DATA/sst2/train.tsv

Both do the same updates: batches of 32, the same AdamW (fused), clipping, learning rate and dropout, fp32. The other
loop is the one of the transformers course: random batches, each padded to its longest text. Needs transformers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from statistics import median
from typing import Any

import numpy as np
import torch

from minibert import BertForSequenceClassification, BertTokenizer
from minibert.training.data import Example, Examples, pad
from minibert.training.finetuning import SequenceTask
from minibert.training.loop import Trainer, TrainingOptions, make_optimizer


def bench_training(model: str, data: str, batches: int = 20, rounds: int = 3) -> dict[str, float]:
    """Examples a second of both loops, measured in turns on the threads that torch has.

    Args:
        model: folder of a BERT checkpoint.
        data: tab-separated text and label, without a header line.
        batches: updates in a round.
        rounds: how often each loop is measured; the median counts.
    """
    import transformers

    tokenizer = BertTokenizer.from_pretrained(model)
    task = SequenceTask(text="text", label="label", columns=["text", "label"])
    rows = task.read(data)
    theirs = transformers.BertForSequenceClassification.from_pretrained(model).train()
    ours = BertForSequenceClassification.from_pretrained(model, **task.config(rows))
    examples = task.examples(rows, tokenizer, ours.config, 128)
    options = TrainingOptions(steps=batches * (rounds + 1), batch_size=32)
    optimizer = make_optimizer(theirs, options)
    order = np.random.default_rng(0).permutation(len(examples))[: batches * 32].reshape(batches, 32)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(ours, Examples(examples), task.losses, folder, options)
        trainer._one_step(trainer._next_batch())
        padded_step(theirs, optimizer, [examples[i] for i in order[0]])
        packed, padded = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            for _ in range(batches):
                trainer._one_step(trainer._next_batch())
            packed.append(batches * 32 / (time.perf_counter() - began))
            began = time.perf_counter()
            for numbers in order:
                padded_step(theirs, optimizer, [examples[i] for i in numbers])
            padded.append(batches * 32 / (time.perf_counter() - began))
    return {
        "packed_examples_per_second": median(packed),
        "transformers_examples_per_second": median(padded),
        "ratio": median(a / b for a, b in zip(packed, padded, strict=True)),
    }


def padded_step(model: Any, optimizer: torch.optim.Optimizer, batch: list[Example]) -> None:
    loss = model(**pad(batch, 0)).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares the speed of fine-tuning with that of transformers.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(json.dumps(bench_training(options.model, options.data, options.batches), indent=2))


if __name__ == "__main__":
    main()
