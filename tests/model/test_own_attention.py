"""An attention function of one's own is part of the model: kept with it, or refused by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config
from tiny_folder import VOCABULARY
from torch import Tensor, nn

import minibert
from minibert import BertForSequenceClassification, BertModel, SentenceEmbedder
from minibert.attention import ATTENTION_FUNCTIONS, merge_heads, split_heads
from minibert.study import rollout

TEXTS = ["hello world", "trees grow in korea", "how do tall trees grow"]


def cosine(query: Tensor, key: Tensor, value: Tensor, layout: Any, dropout: float) -> Any:
    """Attention by cosines, which returns no probabilities."""
    contexts = []
    for q, k, v in split_heads(query, key, value, layout):
        scores = 10 * nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT
        if layout.mask is not None:
            scores = scores.masked_fill(~layout.mask, torch.finfo(scores.dtype).min)
        contexts.append(scores.softmax(-1) @ v)
    return merge_heads(contexts, layout), None


def with_probabilities(
    query: Tensor, key: Tensor, value: Tensor, layout: Any, dropout: float
) -> Any:
    """Half of attention, half of the mean: the context is not probabilities times value."""
    ((q, k, v),) = split_heads(query, key, value, layout)
    probabilities = (q @ k.mT / q.shape[-1]).softmax(-1)
    return merge_heads([(probabilities @ v + v) / 2], layout), probabilities


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    functions = {"cosine": cosine, "halves": with_probabilities}
    ATTENTION_FUNCTIONS.update(functions)
    yield
    for name in functions:
        ATTENTION_FUNCTIONS.pop(name, None)


def model_of(name: str = "BertModel", function: str = "cosine") -> Any:
    torch.manual_seed(0)
    return getattr(minibert, name)(tiny_config(attn_implementation=function)).eval()


def by_hand(model: BertModel, batch: dict[str, Tensor], function: Any, head: Any = None) -> Tensor:
    """The last hidden state, computed part by part, with the context of one head set to 0."""
    layout = minibert.PaddedLayout(batch["attention_mask"])
    states = model.embeddings(batch["input_ids"], batch["token_type_ids"])
    for number, layer in enumerate(model.encoder.layer):
        attention = layer.attention.self
        heads = [linear(states).unflatten(-1, (4, 8)) for linear in attention.children()][:3]
        context, _ = function(*heads, layout, 0.0)
        if head is not None and head[0] == number:
            context = context.clone()
            context[..., 8 * head[1] : 8 * head[1] + 8] = 0
        states = layer.feed_forward_chunk(layer.attention.output(context, states))
    return states


class TestFolder:
    def test_saved_and_loaded(self, tmp_path: Path) -> None:
        model, batch = model_of(), ragged_batch(tiny_config())
        model.save_pretrained(tmp_path)
        again = BertModel.from_pretrained(tmp_path)
        expected = by_hand(model, batch, cosine)
        for loaded in (model, again, minibert.AutoModel.from_pretrained(tmp_path)):
            assert loaded.config.attn_implementation == "cosine"
            torch.testing.assert_close(loaded(**batch).last_hidden_state, expected)
        assert not torch.allclose(
            expected, by_hand(model, batch, minibert.attention.eager_attention)
        )

    @pytest.mark.parametrize("name", ["eager", "sdpa"])
    def test_berts_own_are_not_written(self, name: str, tmp_path: Path) -> None:
        model_of(function=name).save_pretrained(tmp_path)
        assert "attn_implementation" not in json.loads(
            (tmp_path / "config.json").read_text(encoding="utf-8")
        )
        assert BertModel.from_pretrained(tmp_path).config.attn_implementation == "sdpa"
        loaded = BertModel.from_pretrained(tmp_path, attn_implementation="eager")
        assert loaded.config.attn_implementation == "eager"

    def test_not_registered(self, tmp_path: Path) -> None:
        model_of().save_pretrained(tmp_path)
        del ATTENTION_FUNCTIONS["cosine"]
        with pytest.raises(ValueError, match=r"ATTENTION_FUNCTIONS\[name\] = f, not 'cosine'"):
            BertModel.from_pretrained(tmp_path)

    @pytest.mark.parametrize("name", ["eager", "sdpa"])
    def test_loading_as_bert_is_refused(self, name: str, tmp_path: Path) -> None:
        model = model_of()
        model.save_pretrained(tmp_path)
        for options in ({}, {"config": model.config}):
            with pytest.raises(ValueError, match="'cosine', which is part of it"):
                BertModel.from_pretrained(tmp_path, attn_implementation=name, **options)
        model.set_attn_implementation(name)  # on purpose
        assert model.config.own_attention is None

    def test_transformers_refuses_it(self, tmp_path: Path) -> None:
        transformers = pytest.importorskip("transformers")
        model_of().save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="cosine"):
            transformers.BertModel.from_pretrained(tmp_path)


def embedder(folder: Path, function: str = "cosine") -> SentenceEmbedder:
    config = tiny_config(attn_implementation=function, vocab_size=len(VOCABULARY))
    torch.manual_seed(0)
    made = SentenceEmbedder(BertModel(config).eval(), minibert.BertTokenizer(VOCABULARY))
    made.save_pretrained(folder)
    return made


def test_embedders(tmp_path: Path) -> None:
    made = embedder(tmp_path)
    batch = made.tokenizer(TEXTS, padding=True, return_tensors="pt")
    states = by_hand(made.model, dict(batch), cosine)
    mask = batch["attention_mask"][..., None]
    expected = ((states * mask).sum(1) / mask.sum(1)).detach().numpy()
    for other in (made, SentenceEmbedder.from_pretrained(tmp_path), minibert.load(tmp_path).model):
        vectors = other.encode(TEXTS)
        assert abs(vectors - expected).max() < 1e-5


def test_evaluated() -> None:
    torch.manual_seed(0)
    config = tiny_config(attn_implementation="cosine", vocab_size=len(VOCABULARY), num_labels=2)
    model = BertForSequenceClassification(config).eval()
    tokenizer = minibert.BertTokenizer(VOCABULARY)
    texts = [*TEXTS, "korea", "hello", "how do trees"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = by_hand(model.bert, dict(batch), cosine)
        logits = model.classifier(model.bert.pooler(states))
        model.classifier.bias -= logits.median(0).values  # so that both labels are predicted
        logits = model.classifier(model.bert.pooler(states))
        nearly = by_hand(model.bert, dict(batch), minibert.attention.eager_attention)
    assert not torch.allclose(states, nearly)
    golds = torch.tensor([0, 1, 0, 1, 1, 0])
    expected_loss = nn.functional.cross_entropy(logits, golds).item()
    expected_accuracy = (logits.argmax(-1) == golds).float().mean().item()
    rows = [
        {"text": text, "label": config.id2label[gold]}
        for text, gold in zip(texts, golds.tolist(), strict=True)
    ]
    metrics = minibert.evaluate(model, tokenizer, rows).metrics
    assert metrics["accuracy"] == pytest.approx(expected_accuracy)
    assert metrics["loss"] == pytest.approx(expected_loss, abs=1e-5)


def test_exported(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from minibert.checkpoints.source import Source
    from minibert.encoders.onnx.export import export

    made = embedder(tmp_path / "model")
    export(Source.of(tmp_path / "model"), tmp_path / "onnx")
    onnx = minibert.OnnxEmbedder.from_pretrained(tmp_path / "onnx")
    assert abs(onnx.encode(TEXTS) - made.encode(TEXTS)).max() < 1e-4


def test_resuming_with_another_attention_is_refused(tmp_path: Path) -> None:
    from minibert.tasks.sequence import SequenceTask
    from minibert.training.options import TrainingOptions
    from minibert.training.run import Run

    rows = [
        {"input_ids": [1, 5 + i % 9, 2], "token_type_ids": [0, 0, 0], "labels": i % 2}
        for i in range(16)
    ]
    options = TrainingOptions(steps=2, batch_size=4, learning_rate=1e-3)

    def run(function: str, steps: int, **arguments: Any) -> Run:
        model = model_of("BertForSequenceClassification", function)
        changed = dataclasses.replace(options, steps=steps)
        return Run(model, lambda _: rows, SequenceTask().loss, tmp_path, changed, **arguments)

    run("cosine", 2).train()
    for function in ("sdpa", "eager", "halves"):
        with pytest.raises(ValueError, match="attn_implementation .*cosine"):
            run(function, 4, resume=True).train()
    run("cosine", 4, resume=True).train()


class TestTrace:
    @pytest.mark.parametrize("function", [cosine, with_probabilities])
    def test_records_the_truth(self, function: Any) -> None:
        name = "cosine" if function is cosine else "halves"
        model, batch = model_of(function=name), ragged_batch(tiny_config())
        with torch.no_grad(), minibert.trace(model) as t:
            traced = model(**batch).last_hidden_state
        assert torch.equal(traced, model(**batch).last_hidden_state)
        q, k, v = (t[f"layer.0.attention.{x}"].transpose(1, 2) for x in ("query", "key", "value"))
        layout = minibert.PaddedLayout(batch["attention_mask"])
        context, probabilities = function(q, k, v, layout, 0.0)
        assert torch.equal(t["layer.0.attention.context"], context)
        assert name in repr(t)
        for step in ("scores", "masked_scores"):
            with pytest.raises(KeyError, match="step of BERT's attention"):
                t[f"layer.0.attention.{step}"]
        if probabilities is None:
            with pytest.raises(KeyError, match="step of BERT's attention"):
                t["layer.0.attention.probabilities"]
            with pytest.raises(KeyError):
                rollout(t)
        else:
            assert torch.equal(t["layer.0.attention.probabilities"], probabilities)

    @pytest.mark.parametrize("step", ["scores", "masked_scores", "probabilities"])
    @pytest.mark.parametrize("function", ["cosine", "halves"])
    def test_setting_what_it_does_not_compute_with(self, function: str, step: str) -> None:
        model, batch = model_of(function=function), ragged_batch(tiny_config())
        t = minibert.trace(model)
        with pytest.raises(ValueError, match=f"function '{function}'"):
            t.set(f"layer.0.attention.{step}", lambda x: x)
        model.set_attn_implementation("eager")
        t = minibert.trace(model)
        t.set(f"layer.0.attention.{step}", lambda x: x)
        model.set_attn_implementation(function)  # meanwhile
        with t, pytest.raises(ValueError, match="step of BERT's attention"):
            model(**batch)

    @pytest.mark.parametrize("function", [cosine, with_probabilities])
    def test_switching_off_heads_and_setting_contexts(self, function: Any) -> None:
        name = "cosine" if function is cosine else "halves"
        model, batch = model_of(function=name), ragged_batch(tiny_config())
        expected = by_hand(model, batch, function, head=(1, 2))
        with minibert.trace(model) as t:
            t.switch_off_head(1, 2)
            torch.testing.assert_close(model(**batch).last_hidden_state, expected)
        t = minibert.trace(model)
        t.set("layer.1.attention.context", lambda x: x * (torch.arange(32) // 8 != 2))
        with t:
            torch.testing.assert_close(model(**batch).last_hidden_state, expected)

    def test_berts_attention_is_traced_as_before(self) -> None:
        batch = ragged_batch(tiny_config())
        for name in ("eager", "sdpa"):
            model = model_of(function=name)
            expected = by_hand(model, batch, ATTENTION_FUNCTIONS[name], head=(0, 1))
            with minibert.trace(model) as t:
                t.switch_off_head(0, 1)
                torch.testing.assert_close(model(**batch).last_hidden_state, expected)


def test_attentions_are_those_of_the_function() -> None:
    batch = ragged_batch(tiny_config())
    with pytest.raises(ValueError, match="attention probabilities of 2 layers"):
        model_of()(**batch, output_attentions=True)
    assert len(model_of(function="halves")(**batch, output_attentions=True).attentions) == 2


def test_verify_refuses_it(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from minibert.study.verify import verify

    model = BertForSequenceClassification(
        tiny_config(attn_implementation="cosine", vocab_size=len(VOCABULARY))
    )
    model.save_pretrained(tmp_path)
    minibert.BertTokenizer(VOCABULARY).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="'cosine', which is part of it"):
        verify(str(tmp_path))
