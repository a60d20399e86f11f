"""BertModel against transformers: equal outputs and gradients, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import ragged_batch, sample_sentences, sts_dev, tiny_config, with_reference

import minibert
from minibert.encoder import ACTIVATIONS

PRESETS = ["tiny", "mini", "small", "medium", "base", "large"]
# The deep presets run a few layers only, because every layer is the same code.
# test_real_weights_on_real_sentences and test_outputs_of_all_layers have a whole vocabulary.
FEW_LAYERS = {"medium": 3, "base": 2, "large": 2}


def preset(name: str, **overrides: Any) -> minibert.BertConfig:
    """Return the config of a preset with few layers and a small vocabulary."""
    layers = {"num_hidden_layers": FEW_LAYERS[name]} if name in FEW_LAYERS else {}
    return minibert.BertConfig.from_preset(name, vocab_size=1000, **layers, **overrides)


def assert_same_outputs(ours: Any, theirs: Any) -> None:
    """Assert that all outputs are equal bit for bit, including padding positions."""
    # the reference's cross_attentions are always ()
    assert ours.keys() == [name for name in theirs.keys() if name != "cross_attentions"]
    for name in ours.keys():
        mine, reference = ours[name], theirs[name]
        mine, reference = (x if isinstance(x, tuple) else (x,) for x in (mine, reference))
        assert len(mine) == len(reference), name
        for i, (a, b) in enumerate(zip(mine, reference, strict=True)):
            assert torch.equal(a, b), f"{name}[{i}] differs by {(a - b).abs().max():.3g}"


# the smallest, the largest, and one between
DEFAULT_PRESETS = ("tiny", "small", "large")


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in DEFAULT_PRESETS else pytest.mark.slow)
        for name in PRESETS
    ],
)
def test_outputs_of_every_preset(name: str, attention: str) -> None:
    config = preset(name, attn_implementation=attention)
    ours, theirs = with_reference("BertModel", config)
    batch = ragged_batch(config, lengths=(24, 13, 3, 1))
    options = {"output_hidden_states": True, "output_attentions": attention == "eager"}
    with torch.no_grad():
        assert_same_outputs(ours(**batch, **options), theirs(**batch, **options))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["base", "large"])
def test_outputs_of_all_layers(name: str) -> None:
    config = minibert.BertConfig.from_preset(name)
    ours, theirs = with_reference("BertModel", config)
    batch = ragged_batch(config, lengths=(128, 77))
    with torch.no_grad():
        assert_same_outputs(
            ours(**batch, output_hidden_states=True), theirs(**batch, output_hidden_states=True)
        )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["tiny", "mini", "base"])
def test_training_with_dropout(name: str, attention: str) -> None:
    """The same seed gives the same dropout masks and the same gradients."""
    config = preset(name, attn_implementation=attention)
    ours, theirs = with_reference("BertModel", config)
    batch = ragged_batch(config, lengths=(12, 7))
    results = []
    for model in (ours, theirs):
        torch.manual_seed(1)
        output = model.train()(**batch)
        (output.last_hidden_state.square().mean() + output.pooler_output.sum()).backward()
        results.append((output, {name: p.grad for name, p in model.named_parameters()}))
    (our_output, our_grads), (their_output, their_grads) = results
    assert_same_outputs(our_output, their_output)
    assert our_grads.keys() == their_grads.keys()
    for parameter, grad in their_grads.items():
        assert torch.equal(our_grads[parameter], grad), parameter


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_every_activation(activation: str, attention: str) -> None:
    config = tiny_config(hidden_act=activation, attn_implementation=attention)
    ours, theirs = with_reference("BertModel", config)
    batch = ragged_batch(config)
    with torch.no_grad():
        assert_same_outputs(ours(**batch), theirs(**batch))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_way_to_call(attention: str, dtype: torch.dtype) -> None:
    config = tiny_config(attn_implementation=attention, type_vocab_size=3)
    ours, theirs = (model.to(dtype) for model in with_reference("BertModel", config))
    batch = ragged_batch(config)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    batch_size, seq = ids.shape
    embeds = ours.embeddings.word_embeddings(ids).detach()
    pairs = mask[:, None, :] * torch.ones(batch_size, seq, 1, dtype=torch.long)
    pairs = pairs.tril()  # only a mask per query can express this
    calls: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"input_ids": ids}, {"input_ids": ids}),
        (batch, batch),
        ({"input_ids": ids, "attention_mask": mask.bool()},) * 2,
        ({"input_ids": ids, "attention_mask": mask.float()},) * 2,
        ({"input_ids": ids, "attention_mask": torch.zeros_like(mask)},) * 2,
        ({"input_ids": ids, "position_ids": torch.arange(seq).flip(0)[None]},) * 2,
        ({"inputs_embeds": embeds, "attention_mask": mask},) * 2,
        # the reference accepts a mask per query in four dimensions only:
        # boolean for SDPA, added to the scores for eager
        (
            {"input_ids": ids, "attention_mask": pairs},
            {
                "input_ids": ids,
                "attention_mask": pairs[:, None].bool()
                if attention == "sdpa"
                else torch.where(pairs[:, None].bool(), 0.0, torch.finfo(dtype).min).to(dtype),
            },
        ),
    ]
    with torch.no_grad():
        for our_call, their_call in calls:
            output = ours(**our_call)
            assert not any(value.isnan().any() for value in output), our_call.keys()
            assert_same_outputs(output, theirs(**their_call))


def test_gradient_checkpointing_changes_nothing() -> None:
    config = tiny_config()
    ours, theirs = with_reference("BertModel", config)
    batch = ragged_batch(config)
    gradients = []
    for model, enable in ((ours, True), (ours, False), (theirs, True)):
        (model.gradient_checkpointing_enable if enable else model.gradient_checkpointing_disable)()
        model.zero_grad()
        torch.manual_seed(1)
        model.train()(**batch).pooler_output.sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for checkpointed, plain, reference in zip(*gradients, strict=True):
        assert torch.equal(checkpointed, plain) and torch.equal(plain, reference)


@pytest.mark.parametrize("source", ["sample", pytest.param("stsb", marks=pytest.mark.slow)])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_real_weights_on_real_sentences(minilm: str, attention: str, source: str) -> None:
    """all-MiniLM-L6-v2 on sentences tokenized and padded by transformers."""
    import transformers

    first, second = sample_sentences() if source == "sample" else sts_dev()[:2]
    texts = first + second
    if source == "stsb":
        texts = texts[::24]
    batch = transformers.AutoTokenizer.from_pretrained(minilm)(
        texts, padding=True, truncation=True, max_length=128, return_tensors="pt"
    )
    ours = minibert.BertModel.from_pretrained(minilm, attn_implementation=attention)
    theirs = transformers.BertModel.from_pretrained(minilm, attn_implementation=attention).eval()
    with torch.no_grad():
        assert_same_outputs(
            ours(**batch, output_hidden_states=True), theirs(**batch, output_hidden_states=True)
        )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attentions_with_every_implementation(attention: str) -> None:
    config = tiny_config(attn_implementation=attention)
    ours, theirs = with_reference("BertModel", config)
    theirs.set_attn_implementation("eager")
    batch = ragged_batch(config)
    with torch.no_grad():
        assert_same_outputs(
            ours(**batch, output_attentions=True), theirs(**batch, output_attentions=True)
        )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_mask_that_is_added_to_the_scores(attention: str) -> None:
    config = tiny_config(attn_implementation=attention)
    ours, theirs = with_reference("BertModel", config)
    batch = ragged_batch(config)
    visible = batch.pop("attention_mask")[:, None, None, :]
    for mask in (visible, torch.ones_like(visible)):
        added = (1.0 - mask) * torch.finfo(torch.float32).min
        with torch.no_grad():
            assert_same_outputs(
                ours(**batch, attention_mask=added), theirs(**batch, attention_mask=added)
            )


def test_double_precision() -> None:
    # 1 / sqrt(32) is not a power of two
    config = tiny_config(hidden_size=96, num_attention_heads=3)
    ours, theirs = (model.double() for model in with_reference("BertModel", config))
    batch = ragged_batch(config)
    with torch.no_grad():
        assert_same_outputs(ours(**batch), theirs(**batch))
