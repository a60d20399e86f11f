"""An optimized copy is close to its original, which stays unchanged."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conftest import CHECKOUT, HEADS, ragged_batch, sts_dev, tiny_config
from hypothesis import given, strategies as st
from torch.nn.utils import prune

import minibert
from minibert import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertModel,
    PackedLayout,
    optimize,
    unoptimize,
)
from minibert.attention import sdpa_attention
from minibert.inference import kernels, threads as inference_threads
from minibert.inference.attention_kernels import PackedAttention
from minibert.inference.fused import FusedEncoder
from minibert.inference.kernels import (
    GroupedKernel,
    Int8Kernel,
    Kernel,
    MklKernel,
    OneDnnKernel,
    runs_here,
)
from minibert.inference.packing import run_packed

CLASSES = ["BertModel", *HEADS[:-1]]
# The largest absolute error of hidden states, whose values have a magnitude of about 1. fp32 is
# not bit-identical, because products are summed in another order and GELU uses another
# approximation of erf. bf16 and int8 have 8 significant bits.
TOLERANCE = {"fp32": 2e-5, "bf16": 0.15, "int8": 0.15}
LARGEST_8_BITS = 63 if kernels.VNNI.isdisjoint(kernels.processor_features()) else 127
warn_once = kernels.warn_once  # the fixture below replaces it if the processor lacks a kernel


@pytest.fixture(autouse=True)
def _all_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test every precision and kernel on every machine: only their speed depends on the CPU.

    But 8-bit weights are larger with VNNI, and would overflow without it.
    """
    everything = frozenset({"GenuineIntel"}).union(*kernels.NEEDED_FEATURES.values())
    features = everything - (kernels.VNNI - kernels.processor_features())
    monkeypatch.setattr(kernels, "processor_features", lambda: features)
    if not runs_here(Int8Kernel) or not runs_here(OneDnnKernel):
        monkeypatch.setattr(kernels, "warn_once", lambda message: None)


def model_of(name: str = "BertModel", **overrides: Any) -> Any:
    """Return a model whose weights, biases and LayerNorms vary as much as trained ones."""
    torch.manual_seed(0)
    model = getattr(minibert, name)(tiny_config(**overrides)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def first(output: Any) -> torch.Tensor:
    return next(value for value in output.to_tuple() if value is not None)


@pytest.mark.parametrize("precision", list(TOLERANCE))
@pytest.mark.parametrize("name", CLASSES)
def test_close_to_the_original(name: str, precision: str) -> None:
    model = model_of(name)
    batch = ragged_batch(model.config)
    fast = optimize(model, precision=precision)

    with torch.no_grad():
        expected = model(**batch, output_hidden_states=True, output_attentions=True)
        received = fast(**batch, output_hidden_states=True, output_attentions=True)

    assert type(fast) is type(model)
    assert list(received.keys()) == list(expected.keys())
    visible = batch["attention_mask"].bool()
    for ours, theirs in zip(received.hidden_states, expected.hidden_states, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs)[visible].abs().max() < TOLERANCE[precision]
    for ours, theirs in zip(received.attentions, expected.attentions, strict=True):
        assert (ours - theirs).abs().max() < TOLERANCE[precision]
    assert (first(received) - first(expected)).abs().max() < 10 * TOLERANCE[precision]


@pytest.mark.parametrize("precision", list(TOLERANCE))
def test_packed_and_padded_results_are_close(precision: str) -> None:
    model = optimize(model_of(), precision=precision)
    batch = ragged_batch(model.config)
    visible = batch["attention_mask"].bool()
    layout = PackedLayout(visible.sum(1).tolist())

    with torch.no_grad():
        padded = model(**batch).last_hidden_state[visible]
        packed = model(
            batch["input_ids"][visible],
            token_type_ids=batch["token_type_ids"][visible],
            layout=layout,
        )

    assert (packed.last_hidden_state - padded).abs().max() < TOLERANCE[precision] / 10


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_packed_attention_computes_sdpa_attention(lengths: list[int]) -> None:
    """The test uses float64, because the order of summation changes float32 results by 1e-5."""
    generator = torch.Generator().manual_seed(sum(lengths))
    qkv = torch.randn(sum(lengths), 3, 2, 8, generator=generator, dtype=torch.float64).mul_(3)
    layout = PackedLayout(lengths)

    expected, _ = sdpa_attention(*qkv.unbind(1), layout, 0.0)
    received = PackedAttention(layout, sum(lengths), 2, 8)(qkv.flatten(1))

    torch.testing.assert_close(received, expected, rtol=0, atol=1e-12)


def test_multiple_choice() -> None:
    model = model_of("BertForMultipleChoice")
    assert isinstance(model, BertForMultipleChoice)
    ids = torch.randint(1, 99, (2, 3, 7))
    with torch.no_grad():
        assert torch.allclose(optimize(model)(ids).logits, model(ids).logits, atol=1e-5)


@pytest.mark.parametrize("hidden_act", ["gelu_new", "gelu_pytorch_tanh", "relu", "tanh"])
def test_other_activations(hidden_act: str) -> None:
    model = model_of(hidden_act=hidden_act)
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = model(**batch).last_hidden_state
        for precision in TOLERANCE:
            states = optimize(model, precision)(**batch).last_hidden_state
            assert (states - expected).abs().max() < TOLERANCE[precision]


@pytest.mark.parametrize("precision", list(TOLERANCE))
def test_the_original_is_not_changed(precision: str) -> None:
    model = model_of("BertForMaskedLM").train()
    batch = ragged_batch(model.config)
    before = {name: (x, x.clone(), x.requires_grad) for name, x in model.named_parameters()}
    layers = list(model.modules())
    torch.manual_seed(1)
    expected = model(**batch).logits

    fast = optimize(model, precision=precision)
    # this changes the copy only
    fast.state_dict()["bert.embeddings.word_embeddings.weight"].zero_()

    assert model.training and not fast.training
    assert list(model.modules()) == layers
    assert not any(module._forward_pre_hooks for module in model.modules())
    for name, parameter in model.named_parameters():
        original, values, requires_grad = before[name]
        assert parameter is original
        assert torch.equal(parameter, values)
        assert parameter.requires_grad == requires_grad
    torch.manual_seed(1)
    assert torch.equal(model(**batch).logits, expected)


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM"])
def test_the_state_dict_has_the_official_names_and_values(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    fast = optimize(model)
    state, expected = fast.state_dict(), model.state_dict()

    assert sorted(state) == sorted(expected)
    assert all(torch.equal(state[key], expected[key]) for key in expected)

    fast.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    batch = ragged_batch(model.config)
    with torch.no_grad():
        assert torch.equal(first(again(**batch)), first(model(**batch)))


@pytest.mark.parametrize(("precision", "step"), [("bf16", 2**-8), ("int8", 1 / LARGEST_8_BITS)])
def test_the_state_dict_holds_rounded_weights(precision: str, step: float) -> None:
    """The weights are those that a bf16 or int8 model computes with, so they restore the model."""
    model = model_of()
    fast = optimize(model, precision=precision)
    state, expected = fast.state_dict(), model.state_dict()

    assert sorted(state) == sorted(expected)
    for key in expected:
        assert state[key].dtype == torch.float32
        assert (state[key] - expected[key]).abs().max() <= step * expected[key].abs().max()

    batch = ragged_batch(model.config)
    with torch.no_grad():
        again = optimize(unoptimize(fast), precision=precision)(**batch).last_hidden_state
        assert torch.allclose(again, fast(**batch).last_hidden_state, atol=1e-5)


def test_an_unoptimized_model_equals_the_original_and_can_be_trained() -> None:
    model = model_of("BertForSequenceClassification")
    assert isinstance(model, BertForSequenceClassification)
    batch = ragged_batch(model.config)
    fast = optimize(model)

    plain = unoptimize(fast)

    assert torch.equal(plain(**batch).logits, model(**batch).logits)
    plain.train()(**batch, labels=torch.tensor([0, 1, 0])).loss.backward()
    assert all(parameter.grad is not None for parameter in plain.parameters())
    before = fast(**batch).logits
    torch.optim.SGD(plain.parameters(), lr=1.0).step()
    assert torch.equal(fast(**batch).logits, before)  # the models share no weight
    assert isinstance(fast.base_model.encoder, FusedEncoder)


def test_unoptimizing_a_plain_model_raises_an_error() -> None:
    with pytest.raises(
        ValueError, match="This BertModel is not optimized: there is nothing to undo"
    ):
        unoptimize(model_of())


@pytest.mark.parametrize("precision", list(TOLERANCE))
def test_copies_and_pickles_are_the_same_model(precision: str) -> None:
    fast = optimize(model_of("BertForTokenClassification"), precision=precision)
    batch = ragged_batch(fast.config)
    with torch.no_grad():
        expected = fast(**batch).logits
        for other in (
            copy.deepcopy(fast),
            pickle.loads(pickle.dumps(fast)),
            optimize(fast, precision=precision),
        ):
            assert torch.allclose(other(**batch).logits, expected, atol=1e-6)


def test_copies_have_the_parts_that_a_user_has_replaced() -> None:
    model = model_of()
    for layer in model.encoder.layer:
        layer.intermediate.intermediate_act_fn = torch.nn.ReLU()
        layer.output.LayerNorm.eps = 0.5
    batch = ragged_batch(model.config)
    fast = optimize(model)
    with torch.no_grad():
        expected = model(**batch).last_hidden_state
        for other in (
            fast,
            copy.deepcopy(fast),
            pickle.loads(pickle.dumps(fast)),
            unoptimize(fast),
        ):
            torch.testing.assert_close(
                other(**batch).last_hidden_state, expected, atol=2e-5, rtol=0
            )


def _own_forward(part: str) -> Callable[[BertModel], object]:
    def change(model: BertModel) -> None:
        module = model.get_submodule(part)
        module.forward = lambda *values, **_: values[0] * 0  # type: ignore[method-assign]

    return change


def _hook(part: str) -> Callable[[BertModel], object]:
    return lambda model: model.get_submodule(part).register_forward_hook(lambda *_: None)


def _replace(part: str, name: str, value: Any) -> Callable[[BertModel], object]:
    return lambda model: setattr(model.get_submodule(part), name, value)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_own_forward("encoder"), "encoder has a forward of its own"),
        (_own_forward("encoder.layer.1.output.dense"), "output.dense has a forward of its own"),
        (_replace("encoder.layer.1", "feed_forward_chunk", abs), "has a feed_forward_chunk of its"),
        (_hook("encoder"), "encoder has forward hooks"),
        (_hook("encoder.layer.0.attention.self"), "attention.self has forward hooks"),
        (_hook("encoder.layer.0.intermediate.intermediate_act_fn"), "act_fn has forward hooks"),
        (
            _replace("encoder.layer.0.output", "dropout", torch.nn.ReLU()),
            "dropout is of class ReLU",
        ),
        (_replace("encoder.layer.0.attention.self.query", "bias", None), "query has no bias"),
        (
            lambda model: prune.random_unstructured(
                model.get_submodule("encoder.layer.0.output.dense"), "weight", 0.5
            ),
            "output.dense has forward hooks",
        ),
    ],
)
def test_what_would_be_lost_raises_an_error(
    change: Callable[[BertModel], object], fault: str
) -> None:
    model = model_of()
    change(model)
    with pytest.raises(ValueError, match=f"{fault}.*, but optimize can rewrite only a plain"):
        optimize(model)


def test_an_encoder_under_another_name_raises_an_error() -> None:
    class Own(minibert.BertPreTrainedModel):
        def __init__(self, config: minibert.BertConfig) -> None:
            super().__init__(config)
            self.text_encoder = BertModel(config)

    with pytest.raises(ValueError, match="has no attribute 'bert' with an encoder"):
        optimize(Own(tiny_config()))


def test_removed_dropout_changes_nothing() -> None:
    model = model_of()
    batch = ragged_batch(model.config)
    expected = optimize(model)(**batch).last_hidden_state
    model.encoder.layer[0].output.dropout = torch.nn.Identity()
    assert torch.equal(optimize(model)(**batch).last_hidden_state, expected)


def test_tied_weights_stay_tied_and_are_the_copys_own() -> None:
    model = model_of("BertForMaskedLM")
    assert isinstance(model, BertForMaskedLM)
    fast = optimize(model)
    assert fast.cls.predictions.decoder.weight is fast.get_input_embeddings().weight
    assert (
        fast.get_input_embeddings().weight.data_ptr()
        != model.get_input_embeddings().weight.data_ptr()
    )


def test_half_precision_checkpoints() -> None:
    model = model_of().to(torch.bfloat16)
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = copy.deepcopy(model).float()(**batch).last_hidden_state
        for precision in TOLERANCE:
            fast = optimize(model, precision=precision)
            assert fast.dtype == torch.float32
            assert (fast(**batch).last_hidden_state - expected).abs().max() < TOLERANCE[precision]
    assert model.dtype == torch.bfloat16


def test_unsupported_calls_of_an_optimized_model_raise_errors() -> None:
    fast = optimize(model_of())
    with pytest.raises(
        ValueError, match=r"cannot be trained: train the original, or unoptimize\(model\)"
    ):
        fast.train()
    vectors = torch.randn(1, 4, 32, requires_grad=True)
    with pytest.raises(
        ValueError, match=r"has no gradients: use the original, or unoptimize\(model\)"
    ):
        fast(inputs_embeds=vectors)
    assert not any(parameter.requires_grad for parameter in fast.parameters())
    assert fast.to("cpu").float().eval() is fast  # calls without an effect are allowed
    with pytest.raises(ValueError, match="moved or cast: .*the original, then optimize.*device="):
        fast.half()


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="precision should be one of fp32, bf16, int8, not 'fp8'"):
        optimize(model_of(), precision="fp8")
    with pytest.raises(ValueError, match="optimize takes .*such as BertModel, not Linear"):
        optimize(torch.nn.Linear(2, 2))  # type: ignore[type-var]


@pytest.mark.parametrize("precision", list(TOLERANCE))
def test_fallback_without_the_operators(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If PyTorch lacks the operators, plain linear layers are used, with a warning."""
    monkeypatch.setattr(kernels, "runs_here", lambda kernel, dtype=None: False)
    monkeypatch.setattr(kernels, "warn_once", warn_once.__wrapped__)
    model = model_of()
    batch = ragged_batch(model.config)

    with pytest.warns(
        UserWarning, match=f"lacks operators that optimize needs for {precision} here"
    ):
        fast = optimize(model, precision=precision)

    assert "8 PlainKernel" in repr(fast)
    with torch.no_grad():
        error = fast(**batch).last_hidden_state - model(**batch).last_hidden_state
    assert error.abs().max() < TOLERANCE[precision]


@pytest.mark.parametrize(
    ("features", "kernel"),
    [
        ({"GenuineIntel"}, MklKernel),
        ({"AuthenticAMD", "avx512f"}, OneDnnKernel),
        ({"AuthenticAMD", "avx2"}, GroupedKernel),
        (set(), OneDnnKernel),
    ],
)
def test_which_float32_kernel(
    features: set[str], kernel: type[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not runs_here(kernel):
        pytest.skip(f"{kernel.__name__} does not run here")
    monkeypatch.setattr(kernels, "processor_features", lambda: frozenset(features))
    assert f"8 {kernel.__name__}" in repr(optimize(model_of()))


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_fallback_without_the_instructions(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a precision would be slower than float32, float32 is used, with a single warning."""
    monkeypatch.setattr(kernels, "processor_features", frozenset)
    warn_once.cache_clear()
    monkeypatch.setattr(kernels, "warn_once", warn_once)
    model = model_of()

    with pytest.warns(UserWarning, match=f"This processor has no {precision} instructions"):
        fast = optimize(model, precision=precision)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimize(model, precision=precision)

    state, expected = fast.state_dict(), model.state_dict()
    assert all(torch.equal(state[key], expected[key]) for key in expected)


@pytest.mark.skipif(not runs_here(Int8Kernel), reason="this torch has no 8-bit operators here")
def test_products_that_lose_too_much_stay_in_float32() -> None:
    """Activations with one huge value, as in trained BERTs, lose all others in 8 bits."""
    model = model_of(intermediate_size=512)
    layer = model.encoder.layer[1]
    with torch.no_grad():
        layer.intermediate.dense.bias[7] = 500.0
        layer.output.dense.weight[:, 7] = 0.0
    batch = ragged_batch(model.config)

    fast = optimize(model, precision="int8")

    assert "7 Int8Kernel, 1 " in repr(fast)
    assert not isinstance(fast.encoder.layer[1].kernels[-1], Int8Kernel)
    with torch.no_grad():
        error = fast(**batch).last_hidden_state - model(**batch).last_hidden_state
    assert error.abs().max() < TOLERANCE["int8"]


def test_widths_that_are_not_multiples_of_four() -> None:
    """8-bit products need a multiple of four inputs. Other products stay in float32."""
    model = model_of(hidden_size=30, num_attention_heads=3, intermediate_size=64)
    fast, batch = optimize(model, precision="int8"), ragged_batch(model.config)
    with torch.no_grad():
        error = fast(**batch).last_hidden_state - model(**batch).last_hidden_state
    assert error.abs().max() < TOLERANCE["int8"]


def test_minibert_optimize_is_the_function_in_any_order_of_imports() -> None:
    assert importlib.util.find_spec("minibert.optimize") is None


@pytest.mark.parametrize(
    ("precision", "min_cosine", "max_change"), [("fp32", 0.99999, 1e-6), ("int8", 0.98, 0.01)]
)
def test_real_weights(precision: str, min_cosine: float, max_change: float, minilm: str) -> None:
    """all-MiniLM-L6-v2 keeps its vectors and its correlation with human scores on STS-B.

    scripts/benchmark.py covers the whole dev set. The Spearman correlation differs by 0.0004 there,
    and cosines are above 0.994.
    """
    from scipy.stats import spearmanr

    a, b, scores = (column[:50] for column in sts_dev())
    original = minibert.SentenceEmbedder.from_pretrained(minilm).encode([*a, *b])
    vectors = minibert.SentenceEmbedder.from_pretrained(minilm, precision=precision).encode(
        [*a, *b]
    )

    def spearman(vectors: Any) -> float:
        return float(spearmanr((vectors[: len(a)] * vectors[len(a) :]).sum(1), scores)[0])

    assert F.cosine_similarity(torch.tensor(original), torch.tensor(vectors)).min() > min_cosine
    assert abs(spearman(vectors) - spearman(original)) < max_change


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="reads the resident memory from /proc"
)
@pytest.mark.skipif(not runs_here(OneDnnKernel), reason="this torch has no oneDNN operators here")
def test_every_weight_is_in_memory_once(tmp_path: Path) -> None:
    """Packed weights replace those of the mapped file, so the file does not stay resident."""
    config = minibert.BertConfig(vocab_size=2000, num_hidden_layers=4)
    BertModel(config).save_pretrained(tmp_path)
    size = (tmp_path / "model.safetensors").stat().st_size / 1e6

    def added(precision: str) -> float:
        command = [
            sys.executable,
            str(CHECKOUT / "scripts" / "bench" / "memory_of_optimized.py"),
            str(tmp_path),
            precision,
        ]
        return float(
            subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
        )

    assert added("fp32") < 1.15 * size


@pytest.mark.parametrize("name", ["BertModel", "BertForSequenceClassification"])
def test_a_call_that_raises_an_error_changes_nothing(name: str) -> None:
    fast = optimize(model_of(name))
    batch = ragged_batch(fast.config)
    before = first(fast(**batch))
    for call in (fast.train, fast.half, lambda: fast.to("meta")):
        with pytest.raises(ValueError, match="An optimized model"):
            call()
        assert not any(module.training for module in fast.modules())
        assert torch.equal(first(fast(**batch)), before)


def test_a_row_does_not_depend_on_its_neighbors() -> None:
    """8 bits amplify a last bit that differs, so attention is the same in every batch."""
    fast = optimize(model_of(max_position_embeddings=256), precision="int8")
    lengths = [3, 17, 90, 200]
    ids = torch.randint(5, 90, (sum(lengths),), generator=torch.Generator().manual_seed(0))

    together = fast(ids, layout=PackedLayout(lengths)).last_hidden_state.split(lengths)
    alone = [fast(row, layout=PackedLayout([len(row)])) for row in ids.split(lengths)]

    for received, expected in zip(together, alone, strict=True):
        torch.testing.assert_close(received, expected.last_hidden_state, rtol=0, atol=1e-5)


def test_neighbors_in_a_pack_do_not_share_a_nan() -> None:
    model = model_of()
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[7] = torch.nan
    ids, layout = torch.tensor([1, 2, 3, 7, 8, 9, 4, 5, 6]), PackedLayout([3, 3, 3])
    for each in (model, optimize(model)):
        finite = each(ids, layout=layout).last_hidden_state.isfinite().all(-1)
        assert finite.tolist() == [True] * 3 + [False] * 3 + [True] * 3


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_under_autocast(precision: str) -> None:
    fast = optimize(model_of(), precision=precision)
    batch = ragged_batch(fast.config)
    with torch.autocast("cpu", torch.bfloat16):
        states = fast(**batch).last_hidden_state
    torch.testing.assert_close(states, fast(**batch).last_hidden_state, rtol=0, atol=0.05)


def test_products_have_few_row_counts() -> None:
    """Batches are padded to few row counts, because oneDNN compiles a product for each count.

    Between two powers of two there are at most eight, for padded and packed batches.
    """
    fast = optimize(model_of(), precision="int8")  # oneDNN's on every processor
    assert fast.base_model.encoder.is_compiled
    kernels = fast.base_model.encoder.layer[0].kernels
    widen = kernels[2]
    row_counts = set()

    def count_rows(x: torch.Tensor) -> torch.Tensor:
        row_counts.add(len(x))
        return widen(x)

    kernels[2] = count_rows
    for batch in range(1, 12):
        for length in range(1, 12):
            padded = ragged_batch(fast.config, (length,) * batch)
            fast(**padded)
            fast(padded["input_ids"].flatten(), layout=PackedLayout([length] * batch))
    assert row_counts <= {*range(1, 17), *range(18, 33, 2), *range(36, 65, 4), *range(72, 129, 8)}


@pytest.mark.parametrize("precision", list(TOLERANCE))
def test_hooks_receive_the_batch_without_extra_padding(precision: str) -> None:
    fast = optimize(model_of(), precision=precision)
    batch = ragged_batch(fast.config, (9, 5, 7))
    expected = fast(**batch).last_hidden_state
    shapes = []
    layer = fast.base_model.encoder.layer[-1]
    handle = layer.register_forward_pre_hook(lambda _, x: shapes.append(x[0].shape))
    received = fast(**batch).last_hidden_state
    assert shapes == [expected.shape]
    visible = batch["attention_mask"].bool()
    assert (received - expected)[visible].abs().max() < TOLERANCE[precision] / 10
    handle.remove()
    assert torch.equal(fast(**batch).last_hidden_state, expected)


@pytest.fixture
def shared(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split even small batches among two threads."""
    monkeypatch.setattr(inference_threads, "MIN_TOKENS_PER_THREAD", 1)


def threads_of(model: Any) -> list[bool]:
    """Return a list that records for each run of the last layer if the calling thread ran it."""
    in_caller: list[bool] = []
    caller = threading.current_thread()
    last = model.base_model.encoder.layer[-1]
    last.register_forward_hook(lambda *_: in_caller.append(threading.current_thread() is caller))
    return in_caller


@pytest.mark.parametrize("precision", list(TOLERANCE))
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_batch_is_split_among_threads(
    precision: str, mode: Any, shared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = optimize(model_of(), precision=precision)
    batch = ragged_batch(fast.config, (9, 5, 7, 7))
    visible = batch["attention_mask"].bool()
    packed = {
        "input_ids": batch["input_ids"][visible],
        "layout": PackedLayout(visible.sum(1).tolist()),
    }
    in_caller = threads_of(fast)
    with mode():
        for inputs in (batch, packed):
            in_caller.clear()
            received = fast(**inputs, output_hidden_states=True)
            assert in_caller == [False, False]
            with monkeypatch.context() as patch:
                patch.setattr(inference_threads, "MIN_TOKENS_PER_THREAD", 1000)
                expected = fast(**inputs, output_hidden_states=True)
            assert in_caller == [False, False, True]
            assert received.last_hidden_state.is_inference() == (mode is torch.inference_mode)
            for ours, theirs in zip(received.hidden_states, expected.hidden_states, strict=True):
                assert ours.shape == theirs.shape
                compared = visible if ours.dim() == 3 else slice(None)
                assert (ours - theirs)[compared].abs().max() < TOLERANCE[precision] / 10


@pytest.mark.parametrize(
    ("lengths", "options"),
    [
        ((8, 8, 8), {}),  # with shares of two and one rows, a thread would wait half of the time
        ((8,), {}),
        ((8, 8), {"output_attentions": True}),
    ],
)
def test_batches_that_are_not_split(
    lengths: tuple[int, ...], options: dict[str, bool], shared: None
) -> None:
    fast = optimize(model_of())
    in_caller = threads_of(fast)
    fast(**ragged_batch(fast.config, lengths), **options)
    assert in_caller == [True]


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_are_divided_and_restored(threads: int, shared: None) -> None:
    """Each of two shares uses half of the threads. Other threads keep their thread count."""
    torch.set_num_threads(threads)
    inference_threads.workers.cache_clear()
    fast = optimize(model_of())
    inside: list[int] = []
    fast.encoder.layer[0].register_forward_hook(lambda *_: inside.append(torch.get_num_threads()))
    fast(**ragged_batch(fast.config, (8, 8)))
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert inside == [threads // 2] * 2
    assert torch.get_num_threads() == threads and later == [threads]


def test_several_threads_use_one_model_at_once(shared: None) -> None:
    """Requests of a server use one model in several threads."""
    fast = optimize(model_of())
    batches = [ragged_batch(fast.config, (length, length)) for length in range(1, 13)]
    expected = [fast(**batch).last_hidden_state for batch in batches]
    with ThreadPoolExecutor(4) as requests:
        received = list(requests.map(lambda batch: fast(**batch).last_hidden_state, batches * 5))
    for ours, theirs in zip(received, expected * 5, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_an_error_in_a_split_batch_is_raised(shared: None) -> None:
    fast = optimize(model_of())
    batch = ragged_batch(fast.config, (8, 8))

    def refuse(*_: Any) -> None:
        raise ValueError("no")

    handle = fast.encoder.layer[0].register_forward_hook(refuse)
    with pytest.raises(ValueError, match="no"):
        fast(**batch)
    handle.remove()
    assert fast(**batch).last_hidden_state.isfinite().all()


# each row is a batch of its own if batch_tokens is 1
ROWS = [list(range(1, 1 + length)) for length in range(8, 0, -1)]


def test_many_batches_run_in_parallel(shared: None) -> None:
    """With eight batches, each runs in one thread. Fewer batches are split, one after another."""
    fast = optimize(model_of())
    expected = [fast(torch.tensor([row])).last_hidden_state[0] for row in ROWS]
    inside: list[tuple[bool, int]] = []
    caller = threading.current_thread()

    def forward(
        ids: torch.Tensor, layout: PackedLayout, types: torch.Tensor | None
    ) -> torch.Tensor:
        inside.append((threading.current_thread() is caller, torch.get_num_threads()))
        return fast(ids, layout=layout).last_hidden_state

    in_caller = threads_of(fast)
    for ours, theirs in zip(run_packed(fast, forward, ROWS, batch_tokens=1), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert inside == [(False, 1)] * 8
    assert in_caller == [False] * 8  # 16 if each batch were split among two threads
    inside.clear()
    assert len(run_packed(fast, forward, ROWS[1:], batch_tokens=1)) == 7
    assert inside == [(True, 2)] * 7


def test_many_rows_are_computed_in_small_batches(shared: None) -> None:
    """Their values stay in the cache. Fewer rows go together, and each batch is split."""
    fast = optimize(model_of())
    row = list(range(1, 9))

    def sizes(rows: int, batch_tokens: int) -> list[int]:
        tokens: list[int] = []

        def forward(ids: torch.Tensor, *_: object) -> torch.Tensor:
            tokens.append(len(ids))
            return ids

        run_packed(fast, forward, [row] * rows, batch_tokens=batch_tokens)
        return tokens

    assert sizes(1024, 4096) == [1024] * 8
    assert sizes(512, 4096) == [4096]
    assert sizes(1024, 512) == [512] * 16


def test_batches_of_a_plain_model_run_one_by_one(shared: None) -> None:
    here: list[bool] = []
    caller = threading.current_thread()

    def forward(ids: torch.Tensor, *_: object) -> torch.Tensor:
        here.append(threading.current_thread() is caller)
        return ids

    assert [ids.tolist() for ids in run_packed(model_of(), forward, ROWS, batch_tokens=1)] == ROWS
    assert here == [True] * 8


def test_an_error_in_one_of_many_batches_is_raised(shared: None) -> None:
    started: list[int] = []

    def forward(ids: torch.Tensor, *_: object) -> torch.Tensor:
        started.append(len(ids))
        if len(started) == 3:
            raise ValueError("no")
        time.sleep(0.001)
        return ids

    with pytest.raises(ValueError, match="no"):
        run_packed(optimize(model_of()), forward, [[1]] * 1000, batch_tokens=1)
    assert len(started) < 1000  # the remaining batches are not started


def test_no_tokens() -> None:
    fast = optimize(model_of())
    assert fast(torch.zeros(0, 4, dtype=torch.long)).last_hidden_state.shape == (
        0,
        4,
        fast.config.hidden_size,
    )


def test_unoptimizing_another_module_raises_an_error() -> None:
    with pytest.raises(ValueError, match="This Linear is not optimized"):
        unoptimize(torch.nn.Linear(1, 1))  # type: ignore[type-var]
