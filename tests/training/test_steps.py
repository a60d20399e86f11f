"""Steps without a folder: they update a model, and equal those of a run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config

from minibert import BertForSequenceClassification
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.task import Example
from minibert.training.data import epoch_order
from minibert.training.options import TrainingOptions
from minibert.training.run import Run
from minibert.training.steps import Steps

pytestmark = pytest.mark.usefixtures("one_thread")
OPTIONS = TrainingOptions(steps=6, batch_size=8, learning_rate=1e-3, tokens_per_forward=40)


def examples() -> list[Example]:
    rng = np.random.default_rng(0)
    texts = [rng.integers(5, 99, rng.integers(2, 21)) for _ in range(48)]
    return [
        {"input_ids": ids, "token_type_ids": np.zeros_like(ids), "labels": int(ids[0] % 2)}
        for ids in texts
    ]


def model() -> Any:
    torch.manual_seed(0)
    return BertForSequenceClassification(tiny_config())


def test_steps_are_those_of_a_run(tmp_path: Path) -> None:
    data, whole, alone = examples(), model(), model()
    loss = SequenceTask().loss
    torch.manual_seed(1)
    Run(whole, lambda _: data, loss, tmp_path, OPTIONS).train()
    torch.manual_seed(1)
    steps = Steps(alone, loss, OPTIONS, total=6)
    order = epoch_order([len(example["input_ids"]) for example in data], 8, 0, 0)
    for number, batch in enumerate(order):
        update = steps.take([data[index] for index in batch], number)
        assert math.isfinite(update.losses["labels"]) and update.norm > 0 and not update.stops
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, alone.state_dict()[name]), name


@pytest.mark.parametrize(
    ("objective", "returned"),
    [
        (lambda m, b: SequenceTask().loss(m, b)["labels"], "a Tensor"),
        (lambda m, b: {"mine": SequenceTask().loss(m, b)["labels"]}, r"\['mine'\]"),
    ],
)
def test_a_loss_belongs_to_labels_of_the_examples(objective: Any, returned: str) -> None:
    steps = Steps(model(), objective, OPTIONS, total=1)
    with pytest.raises(TypeError, match=rf"\(input_ids, token_type_ids, labels\).* is {returned}"):
        steps.take(examples()[:8], 0)


def test_a_head_with_embeddings_of_its_own_is_not_frozen() -> None:
    own = model()
    own.label_embeddings = torch.nn.Embedding(2, 4)
    Steps(own, SequenceTask().loss, replace(OPTIONS, freeze=1), total=1)
    assert own.label_embeddings.weight.requires_grad and own.classifier.weight.requires_grad
    assert not own.bert.embeddings.word_embeddings.weight.requires_grad


def test_without_a_limit_gradients_are_not_clipped() -> None:
    updates = []
    for limit in (0.0, 1e9):
        torch.manual_seed(0)
        steps = Steps(model(), SequenceTask().loss, replace(OPTIONS, max_grad_norm=limit), total=1)
        steps.take(examples()[:8], 0)
        updates.append(steps.model.classifier.weight.clone())
    assert torch.equal(*updates)


def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    changed = model()
    before = {name: weight.clone() for name, weight in changed.state_dict().items()}
    steps = Steps(changed, lambda m, b: {"labels": SequenceTask().loss(m, b)["labels"] * math.nan},
                  OPTIONS, total=6)  # fmt: skip
    with pytest.raises(FloatingPointError, match="The loss is nan"):
        steps.take(examples()[:8], 0)
    assert all(torch.equal(before[name], weight) for name, weight in changed.state_dict().items())
