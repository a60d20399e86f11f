"""Every head against its transformers counterpart.

Logits, losses and gradients are equal bit for bit, and each library loads the other's files.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config, with_reference
from torch import Tensor

import minibert

transformers = importlib.import_module("transformers")

Batch = dict[str, Tensor]


def word_labels(config: minibert.BertConfig, batch: Batch) -> Batch:
    chosen = torch.rand(batch["input_ids"].shape) < 0.3
    chosen[0, 0] = True
    words = torch.randint(0, config.vocab_size, batch["input_ids"].shape)
    return {"labels": words.masked_fill(~chosen, -100)}


def word_and_pair_labels(config: minibert.BertConfig, batch: Batch) -> Batch:
    return {**word_labels(config, batch), "next_sentence_label": torch.tensor([0, 1, 1])}


def token_labels(config: minibert.BertConfig, batch: Batch) -> Batch:
    labels = torch.randint(0, config.num_labels, batch["input_ids"].shape)
    return {"labels": labels.masked_fill(batch["attention_mask"] == 0, -100)}


def always(**labels: Any) -> Callable[[minibert.BertConfig, Batch], Batch]:
    return lambda config, batch: {name: torch.tensor(values) for name, values in labels.items()}


# head, changes to the config, labels for a batch of three
CASES = {
    "pretraining": ("BertForPreTraining", {}, word_and_pair_labels),
    "mlm": ("BertForMaskedLM", {}, word_labels),
    "nsp": ("BertForNextSentencePrediction", {}, always(labels=[1, 0, -100])),
    "classification": (
        "BertForSequenceClassification",
        {"num_labels": 3},
        always(labels=[2, 0, 1]),
    ),
    "regression": (
        "BertForSequenceClassification",
        {"num_labels": 1},
        always(labels=[0.5, -1.5, 4.0]),
    ),
    "multi-label": (
        "BertForSequenceClassification",
        {"num_labels": 2},
        always(labels=[[1.0, 0.0], [1, 1], [0, 0]]),
    ),
    "tokens": ("BertForTokenClassification", {"num_labels": 5}, token_labels),
    "question": (
        "BertForQuestionAnswering",
        {},
        always(start_positions=[1, 6, 0], end_positions=[3, 6, 0]),
    ),
    "choice": ("BertForMultipleChoice", {}, always(labels=[1, 0, 1])),
}
every_head = pytest.mark.parametrize("case", CASES)


def batch_for(case: str, config: minibert.BertConfig) -> Batch:
    """Three ragged sequences, or three pairs of them for multiple choice, and the labels."""
    batch = ragged_batch(config)
    labels = CASES[case][2](config, batch)
    if case == "choice":
        other = ragged_batch(config)
        # (batch, choices, seq)
        batch = {name: torch.stack([x, other[name]], dim=1) for name, x in batch.items()}
    return {**batch, **labels}


def assert_equal_outputs(ours: Any, theirs: Any) -> None:
    assert ours.keys() == list(theirs.keys())
    for name in ours.keys():
        assert torch.equal(ours[name], theirs[name]), name


def assert_equal_steps(ours: Any, theirs: Any, batch: Batch) -> None:
    """Run forward and backward with the same seed, and compare outputs and all gradients."""
    outputs = []
    for model in (ours, theirs):
        torch.manual_seed(1)
        outputs.append(model(**batch))
        outputs[-1].loss.backward()
    assert_equal_outputs(*outputs)
    for name, parameter in ours.named_parameters():
        reference = theirs.get_parameter(name).grad
        if parameter.grad is None or reference is None:  # a pooler that the head does not use
            assert parameter.grad is reference, name
        else:
            assert torch.equal(parameter.grad, reference), name


@every_head
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_logits_loss_and_gradients(case: str, training: bool, attention: str) -> None:
    name, changes, _ = CASES[case]
    config = tiny_config(attn_implementation=attention, classifier_dropout=0.2, **changes)
    ours, theirs = (model.train(training) for model in with_reference(name, config))
    assert_equal_steps(ours, theirs, batch_for(case, config))


@functools.cache
def encoders(preset: str) -> tuple[Any, Any]:
    """Both encoders, shared by all heads because initialization takes longer than the test."""
    return with_reference("BertModel", minibert.BertConfig.from_preset(preset, vocab_size=1000))


# Heads do not depend on the depth, and test_outputs_of_every_preset has the encoders of all sizes.
LARGER = [pytest.param(name, marks=pytest.mark.slow) for name in ("mini", "small", "medium")]


@every_head
@pytest.mark.parametrize("preset", ["tiny", *LARGER])
def test_presets(case: str, preset: str) -> None:
    name, changes, _ = CASES[case]
    without_layers = encoders(preset)[0].config.replace(num_hidden_layers=0, **changes)
    heads = with_reference(name, without_layers)
    for head, encoder in zip(heads, encoders(preset), strict=True):
        encoder.zero_grad()
        head.bert = encoder
        head.tie_weights()
        head.train()
    assert_equal_steps(*heads, batch_for(case, without_layers))


def test_the_official_vocabulary() -> None:
    config = minibert.BertConfig.from_preset("tiny")
    assert_equal_steps(*with_reference("BertForMaskedLM", config), batch_for("mlm", config))


@pytest.mark.slow
@every_head
def test_base_size(case: str) -> None:
    name, changes, _ = CASES[case]
    config = minibert.BertConfig.from_preset("base", **changes)
    ours, theirs = (model.train() for model in with_reference(name, config))
    assert_equal_steps(ours, theirs, batch_for(case, config))


@every_head
def test_inputs_embeds_instead_of_input_ids(case: str) -> None:
    name, changes, _ = CASES[case]
    config = tiny_config(**changes)
    ours, theirs = with_reference(name, config)
    batch = batch_for(case, config)
    batch["inputs_embeds"] = torch.randn(*batch.pop("input_ids").shape, config.hidden_size)
    assert_equal_outputs(ours(**batch), theirs(**batch))


@every_head
def test_input_ids_only_without_labels(case: str) -> None:
    name, changes, _ = CASES[case]
    ours, theirs = with_reference(name, tiny_config(**changes))
    ids = batch_for(case, ours.config)["input_ids"]
    assert_equal_outputs(ours(ids), theirs(ids))
    for mine, reference in zip(
        ours(ids, return_dict=False), theirs(ids, return_dict=False), strict=True
    ):
        assert torch.equal(mine, reference)


@every_head
def test_hidden_states_and_attentions(case: str) -> None:
    name, changes, _ = CASES[case]
    config = tiny_config(attn_implementation="eager", **changes)
    ours, theirs = with_reference(name, config)
    batch = batch_for(case, config)
    mine, reference = (
        model(**batch, output_hidden_states=True, output_attentions=True)
        for model in (ours, theirs)
    )
    assert mine.keys() == list(reference.keys())
    for kind in ("hidden_states", "attentions"):
        assert all(torch.equal(a, b) for a, b in zip(mine[kind], reference[kind], strict=True))


# this limits the reference only: minibert computes the gradient with every torch version
MIXED_MSE = pytest.mark.skipif(
    torch.__version__ < "2.8", reason="torch 2.7 has no gradient of mse_loss with mixed dtypes"
)


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({"num_labels": 1}, torch.tensor([[0.5], [-1.5], [4.0]])),
        pytest.param({"num_labels": 1}, torch.tensor([1, -1, 4]), marks=MIXED_MSE),
        ({"num_labels": 2, "problem_type": "regression"}, torch.randn(3, 2)),
        (
            {"num_labels": 3, "problem_type": "single_label_classification"},
            torch.tensor([[2], [0], [-100]]),
        ),
        (
            {"num_labels": 2, "problem_type": "multi_label_classification"},
            torch.tensor([[1.0, 0], [0, 0], [0.5, 1]]),
        ),
    ],
    ids=["column", "whole numbers", "two numbers", "column of classes", "multi-label"],
)
def test_problem_types_and_shapes_of_labels(changes: dict[str, Any], labels: Tensor) -> None:
    config = tiny_config(**changes)
    ours, theirs = with_reference("BertForSequenceClassification", config)
    assert_equal_steps(ours, theirs, {**ragged_batch(config), "labels": labels})
    # unlike the reference, which writes the inferred problem type into its config
    assert ours.config == config


@pytest.mark.parametrize(
    ("start", "end"),
    [([1, 6, 0], [2, 99, 0]), ([11, 12, 99], [1, 1, 1]), ([[1], [6], [0]], [[2], [6], [0]])],
    ids=["an end out of range", "every start out of range", "(batch, 1)"],
)
def test_answer_positions(start: list[Any], end: list[Any]) -> None:
    config = tiny_config()
    ours, theirs = with_reference("BertForQuestionAnswering", config)
    batch = {
        **ragged_batch(config),
        "start_positions": torch.tensor(start),
        "end_positions": torch.tensor(end),
    }
    mine, reference = ours(**batch), theirs(**batch)
    # nan where every position is ignored: the mean of an empty tensor, as in the reference
    assert torch.equal(mine.loss.nan_to_num(-1), reference.loss.nan_to_num(-1))
    assert mine.loss.isnan() == (min(start) == 11)


@pytest.mark.parametrize("case", ["mlm", "tokens", "nsp"])
def test_only_ignored_labels_give_nan_as_in_the_reference(case: str) -> None:
    name, changes, _ = CASES[case]
    ours, theirs = with_reference(name, tiny_config(**changes))
    batch = batch_for(case, ours.config)
    batch["labels"].fill_(-100)
    assert ours(**batch).loss.isnan() and theirs(**batch).loss.isnan()


def test_untied_decoder() -> None:
    config = tiny_config(tie_word_embeddings=False)
    ours, theirs = with_reference("BertForMaskedLM", config)
    batch = batch_for("mlm", config)
    for model in (ours, theirs):
        model(**batch).loss.backward()
    assert not torch.equal(
        ours.cls.predictions.decoder.weight, ours.bert.embeddings.word_embeddings.weight
    )
    for name, parameter in ours.named_parameters(remove_duplicate=False):
        # the reference unties this bias, too, and then never uses it
        if name != "cls.predictions.bias":
            assert torch.equal(parameter.grad, theirs.get_parameter(name).grad), name


FILES = {**CASES, "untied": ("BertForMaskedLM", {"tie_word_embeddings": False}, word_labels)}
either_way = pytest.mark.parametrize("case", FILES)


@either_way
def test_transformers_loads_what_we_save(case: str, tmp_path: Path) -> None:
    name, changes, _ = FILES[case]
    saved, _ = with_reference(name, tiny_config(**changes))
    saved.save_pretrained(tmp_path)
    theirs, report = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    # both models come from the file, because memory alignment can change the last bit
    ours = getattr(minibert, name).from_pretrained(tmp_path)
    loaded = ours.state_dict()
    for key, tensor in saved.state_dict().items():
        assert torch.equal(loaded[key], tensor), key
    assert theirs.config.id2label == ours.config.id2label
    assert theirs.config.problem_type == ours.config.problem_type
    batch = batch_for("mlm" if case == "untied" else case, ours.config)
    assert_equal_outputs(ours(**batch), theirs.eval()(**batch))


@either_way
def test_we_load_what_transformers_saves_without_a_warning(case: str, tmp_path: Path) -> None:
    name, changes, _ = FILES[case]
    labels = {"id2label": {0: "no", 1: "yes"}} if "num_labels" not in changes else {}
    _, theirs = with_reference(name, tiny_config(**changes, **labels))
    theirs.save_pretrained(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = getattr(minibert, name).from_pretrained(tmp_path)
    report = ours.load_report
    assert not (report.missing or report.mismatched or report.unexpected or report.left_out)
    loaded = ours.state_dict()
    for key, tensor in theirs.state_dict().items():
        assert torch.equal(loaded[key], tensor), key
    # loaded again for the same memory alignment, as above
    theirs = getattr(transformers, name).from_pretrained(tmp_path).eval()
    batch = batch_for("mlm" if case == "untied" else case, ours.config)
    assert_equal_outputs(ours(**batch), theirs(**batch))
    assert ours.config.id2label == theirs.config.id2label


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", ["regression", "multi-label"])
def test_losses_of_fp32_labels_and_half_precision_logits(case: str, dtype: torch.dtype) -> None:
    name, changes, _ = CASES[case]
    ours, theirs = with_reference(name, tiny_config(**changes))
    batch = batch_for(case, ours.config)
    batch["labels"] = batch["labels"] * 0.123456789
    losses = [model.to(dtype)(**batch).loss for model in (ours, theirs)]
    assert losses[0].dtype == losses[1].dtype and torch.equal(*losses)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(*(model.float()(**batch).loss for model in (ours, theirs)))
