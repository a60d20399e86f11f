"""Outputs are dicts for the tools that look for one, and iterate over values for everyone else."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config, with_reference
from torch import Tensor

import minibert

transformers = pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.ecosystem,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning"),
]
CLASSES = ("BertModel", *HEADS)


def inputs(name: str) -> dict[str, Tensor]:
    batch = ragged_batch(tiny_config())
    if name == "BertForMultipleChoice":
        batch = {key: x[:, None] for key, x in batch.items()}
    return batch


@pytest.mark.parametrize("name", CLASSES)
def test_torchscript_traces_a_dict(name: str) -> None:
    model = getattr(minibert, name)(tiny_config()).eval()
    batch = inputs(name)
    traced = torch.jit.trace(model, example_kwarg_inputs=batch, strict=False)(**batch)
    expected = model(**batch)
    assert list(traced) == expected.keys()
    for key, tensor in traced.items():
        assert torch.equal(tensor, expected[key])


def test_an_encoder_is_traced_alone() -> None:
    model = minibert.BertModel(tiny_config()).eval()
    states = model.embeddings(inputs("BertModel")["input_ids"])
    traced = torch.jit.trace(model.encoder, (states,), strict=False)(states)
    assert torch.equal(traced["last_hidden_state"], model.encoder(states).last_hidden_state)


def test_the_older_exporter_to_onnx() -> None:
    model = minibert.BertForSequenceClassification(tiny_config()).eval()
    file = io.BytesIO()
    torch.onnx.export(model, (inputs("")["input_ids"],), file, dynamo=False)
    assert file.tell() > 1000


def test_tensorboard_draws_the_graph(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    model = minibert.BertForSequenceClassification(tiny_config()).eval()
    with tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, (inputs("")["input_ids"],), use_strict_trace=False)
    assert any(tmp_path.iterdir())


@pytest.mark.parametrize("has_labels", [True, False])
def test_predictions_of_the_trainer(has_labels: bool, tmp_path: Path) -> None:
    """It leaves out the loss of a dict, and the first value of anything else."""
    rows: list[dict[str, Tensor]] = [{"input_ids": torch.tensor([1, 5 + i, 2])} for i in range(5)]
    if has_labels:
        rows = [{**row, "labels": torch.tensor(i % 2)} for i, row in enumerate(rows)]
    predictions = []
    for model in with_reference("BertForSequenceClassification", tiny_config()):
        arguments = transformers.TrainingArguments(
            tmp_path, use_cpu=True, report_to=[], disable_tqdm=True
        )
        predictions.append(transformers.Trainer(model, arguments).predict(rows).predictions)
    assert predictions[0].shape == (5, 2) and (predictions[0] == predictions[1]).all()


def output(library: Any = minibert) -> Any:
    model = library.BertForSequenceClassification(library.BertConfig(**tiny_config().to_dict()))
    result = model(inputs("")["input_ids"], labels=torch.tensor([0, 1, 0]))
    result["loss"], result["logits"] = result.loss.detach(), result.logits.detach()
    return result


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda out: pickle.loads(pickle.dumps(out)),
        dataclasses.replace,
        lambda out: type(out)(dict(out)),
    ],
    ids=["copy", "deepcopy", "pickle", "replace", "dict"],
)
def test_copies(copied: Any) -> None:
    original = output()
    twin = copied(original)
    assert type(twin) is type(original) and twin.keys() == ["loss", "logits"]
    assert torch.equal(twin.logits, original.logits) and twin.logits is twin["logits"]


def test_a_dict_that_follows_its_attributes() -> None:
    out = output()
    assert isinstance(out, dict) and type(dict(out)) is dict and list(dict(out)) == out.keys()
    loss, logits = out
    assert loss is out.loss and logits is out[1] and out[-1] is logits
    out.loss = None
    assert {**out}.keys() == {"logits"} and "loss" not in out and len(out) == 1
    out.loss = loss
    assert out.keys() == ["loss", "logits"]  # in the order of the fields again
    out["further"] = loss
    assert out.further is loss and out.keys()[-1] == "further"
    assert list(out | {"more": 1})[-1] == "more"


def test_other_attributes_are_no_entries() -> None:
    """As in transformers: what a program notes down on an output is not one of its values."""
    for library in (minibert, transformers):
        out = output(library)
        out._note, out.seconds = "seen", 0.5
        assert (out._note, out.seconds) == ("seen", 0.5)
        assert list(out.keys()) == ["loss", "logits"] and len(out.to_tuple()) == 2
        out["seconds"] = 1.5
        assert out.seconds == 1.5 and list(out.keys()) == ["loss", "logits", "seconds"]
    out = output()
    out["further"] = out.loss
    out.loss = None
    out.loss = torch.tensor(1.0)
    assert out.keys() == ["loss", "logits", "further"]


@pytest.mark.parametrize(
    "change", ["pop('loss')", "update(x=1)", "clear()", "setdefault('x')", "__delitem__('loss')"]
)
def test_names_are_fields(change: str) -> None:
    """As in transformers: what would leave the attribute behind is an error."""
    for library in (minibert, transformers):
        out = output(library)
        if change != "clear()" or library is minibert:
            with pytest.raises(Exception):  # noqa: B017  # a bare Exception in transformers
                eval(f"out.{change}", {"out": out})
