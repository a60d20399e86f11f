"""Distillation: losses equal their formulas, and a student learns the vectors of its teacher."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import tiny_config
from recipe.distillation import (
    SENTENCE,
    TaughtPretraining,
    TaughtSentences,
    TokenTeacher,
    sentence_loss,
)
from recipe.mixtures import Mixture

from minibert import BertForMaskedLM, BertForPreTraining, BertModel, BertTokenizer
from minibert.losses import IGNORED
from minibert.training.corpora import TokenCache
from minibert.training.data import pack
from minibert.training.options import TrainingOptions
from minibert.training.pretraining import pretraining_losses
from minibert.training.run import Run

pytestmark = pytest.mark.usefixtures("one_thread")
LABELS = {"token_labels": ["labels"], "labels": ["next_sentence_label", SENTENCE]}
RNG = np.random.default_rng(0)
PAIRS = [
    {
        "input_ids": RNG.integers(5, 99, 12),
        "token_type_ids": np.repeat([0, 1], 6),
        "labels": np.where(np.arange(12) == n % 10 + 1, RNG.integers(5, 99, 12), IGNORED),
        "next_sentence_label": n % 2,
    }
    for n in range(8)
]
SENTENCES = [{"input_ids": RNG.integers(5, 99, 3 + n), SENTENCE: n} for n in range(6)]


def test_the_sentence_loss_equals_its_formula() -> None:
    torch.manual_seed(0)
    vectors = 3 * torch.randn(4, 8)
    targets = F.normalize(torch.randn(4, 8), dim=-1)
    expected = 0.0
    for i in range(4):
        expected += 1 - float(F.cosine_similarity(vectors[i], targets[i], dim=0))
        for j in range(4):
            similarity = float(F.cosine_similarity(vectors[i], vectors[j], dim=0))
            expected += 5 * (similarity - float(targets[i] @ targets[j])) ** 2 / 4
    loss = float(sentence_loss(vectors, targets, similarity_weight=5))
    assert loss == pytest.approx(expected, rel=1e-5)
    assert float(sentence_loss(7 * targets, targets)) == pytest.approx(0, abs=1e-5)


def test_without_teachers_the_losses_are_those_of_pretraining() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(tiny_config()).eval()
    batch = pack(list(Mixture([lambda _: PAIRS], **LABELS).epoch(0)))
    losses = TaughtPretraining(np.zeros((1, 1)), pair_weight=3.0)(model, batch)
    inputs = {name: value for name, value in batch.items() if name != SENTENCE}
    plain = pretraining_losses(model, inputs)
    torch.testing.assert_close(losses["labels"], plain["labels"])
    torch.testing.assert_close(losses["next_sentence_label"], 3 * plain["next_sentence_label"])
    assert losses[SENTENCE] == 0


def test_losses_of_mean_pooled_sentences_and_of_soft_labels() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(tiny_config()).eval()
    teacher = BertForMaskedLM(tiny_config()).eval()
    vectors = RNG.normal(size=(6, tiny_config().hidden_size)).astype(np.float16)
    batch = pack(list(Mixture([lambda _: PAIRS, lambda _: SENTENCES], **LABELS).epoch(0)))
    losses = TaughtPretraining(vectors, teacher, soft_share=0.25)(model, batch)

    states = [
        model.bert(input_ids=torch.from_numpy(example["input_ids"])[None]).last_hidden_state
        for example in SENTENCES
    ]
    pooled = torch.cat([state.mean(1) for state in states])
    targets = F.normalize(torch.from_numpy(vectors).float(), dim=-1)
    torch.testing.assert_close(
        losses[SENTENCE], sentence_loss(pooled, targets), rtol=1e-4, atol=1e-4
    )

    positions = batch["labels"] != IGNORED
    inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "layout")}
    log_probs = model(**inputs, positions=positions).prediction_logits.log_softmax(-1)
    teacher_probs = teacher(**inputs, positions=positions).logits.softmax(-1)
    hard = -log_probs[torch.arange(len(log_probs)), batch["labels"][positions]].sum()
    soft = -(teacher_probs * log_probs).sum()
    torch.testing.assert_close(losses["labels"], 0.75 * hard + 0.25 * soft, rtol=1e-4, atol=1e-4)


def test_token_states_learn_from_those_of_the_teacher() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(tiny_config()).eval()
    teacher = BertModel(tiny_config(hidden_size=48)).eval()
    weight, bias = torch.randn(32, 48), torch.randn(32)
    vectors = RNG.normal(size=(6, 32)).astype(np.float32)
    batch = pack(list(Mixture([lambda _: PAIRS, lambda _: SENTENCES], **LABELS).epoch(0)))
    without = TaughtPretraining(vectors)(model, batch)
    losses = TaughtPretraining(
        vectors, token_teacher=TokenTeacher(teacher, weight, bias), token_weight=3.0
    )(model, batch)
    distance = 0.0
    for example in SENTENCES:
        ids = torch.from_numpy(example["input_ids"])[None]
        states = model.bert(input_ids=ids).last_hidden_state[0]
        targets = teacher(input_ids=ids).last_hidden_state[0] @ weight.T + bias
        distance += float((1 - F.cosine_similarity(states, targets, dim=-1)).mean().detach())
    assert (losses[SENTENCE] - without[SENTENCE]).item() == pytest.approx(3 * distance, rel=1e-3)
    torch.testing.assert_close(losses["labels"], without["labels"])


def test_a_student_learns_the_vectors_of_its_teacher(tmp_path: Path) -> None:
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *[f"word{n}" for n in range(94)]]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    texts = [[f"word{n} word{n + 1} word{n + 40}"] for n in range(20)]
    TokenCache.write(texts, tokenizer, tmp_path / "cache")
    cache = TokenCache(tmp_path / "cache")
    vectors = RNG.normal(size=(20, tiny_config().hidden_size)).astype(np.float32)
    sentences = TaughtSentences(cache, tokenizer, sentences_per_epoch=16)
    assert [example[SENTENCE] for example in sentences.epoch(1)] == [*range(16, 20), *range(12)]
    assert sentences.epoch(0)[3]["input_ids"].tolist() == tokenizer(texts[3])["input_ids"][0]

    model = BertForPreTraining(
        tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    )
    options = TrainingOptions(steps=150, batch_size=16, learning_rate=1e-2, pool=1)
    data = Mixture([sentences.epoch, lambda _: PAIRS], **LABELS)
    Run(model, data.epoch, TaughtPretraining(vectors), tmp_path / "run", options).train()
    losses = [
        json.loads(line)["loss"]
        for line in (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    states = [
        model.eval().bert(input_ids=torch.tensor(tokenizer(text)["input_ids"])).last_hidden_state
        for text in texts
    ]
    pooled = torch.cat([state.mean(1) for state in states])
    with torch.no_grad():
        assert float(F.cosine_similarity(pooled, torch.from_numpy(vectors)).mean()) > 0.8
