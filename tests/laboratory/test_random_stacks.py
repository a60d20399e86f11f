"""Random stacks of modules beside sentence-transformers: vectors of every call, and folders."""

from __future__ import annotations

import importlib
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from programs import Failure, outcome, programs, rounding, seed
from tiny_folder import WORDS, tiny_folder
from torch import nn

from minibert import SentenceEmbedder
from minibert.encoders.arithmetic.pooling_names import MODES
from minibert.encoders.arithmetic.steps import Dense, Normalize

library = importlib.import_module("sentence_transformers")
modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
base_modules = importlib.import_module("sentence_transformers.base.modules")
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]
WIDTH = 8
ACTIVATIONS = ("Tanh", "Identity", "ReLU", "Sigmoid", "GELU")
PROMPTS = {"query": "query: ", "document": "how tall ", "passage": "", "x": "do ! "}


@st.composite
def stacks(draw: st.DrawFn) -> dict[str, Any]:
    """The modules behind the Transformer, and the settings of an embedder."""
    poolings = draw(st.lists(st.sampled_from(list(MODES)), min_size=1, max_size=3, unique=True))
    width = WIDTH * len(poolings)
    steps: list[dict[str, Any] | None] = []  # a Dense, or None: Normalize
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            steps.append(None)
            continue
        out = draw(st.integers(1, 12))
        steps.append(
            {
                "in_features": width,
                "out_features": out,
                "bias": draw(st.booleans()),
                "activation": draw(st.sampled_from(ACTIVATIONS)),
            }
        )
        width = out
    prompts = draw(st.lists(st.sampled_from(list(PROMPTS)), unique=True))
    names = [None, "query", "document", *prompts]
    return {
        "poolings": poolings,
        "steps": steps,
        "width": width,
        "include_prompt": draw(st.booleans()),
        "prompts": {name: PROMPTS[name] for name in prompts},
        "default_prompt_name": draw(st.sampled_from([None, *prompts])),
        "truncate_dim": draw(st.sampled_from([None, None, 1, 3, 200])),
        "max_length": draw(st.sampled_from([8, 9, 13, 64])),
        "metric": draw(st.sampled_from(["cosine", "dot", "euclidean", "manhattan"])),
        "seed": draw(st.integers(0, 1000)),
        "names": names,
    }


TEXT = st.one_of(
    st.lists(st.sampled_from([*WORDS, "Hello", "!", "x", "  ", "é"]), max_size=9).map(" ".join),
    st.text(max_size=5),
)
TEXTS = st.one_of(
    TEXT,
    st.lists(TEXT, min_size=1, max_size=6),
    st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4),
    st.lists(TEXT, min_size=2, max_size=4).map(np.array),
    st.lists(TEXT, min_size=1, max_size=3).map(tuple),
)


@st.composite
def calls(draw: st.DrawFn, stack: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """A method, its texts and its options. Most options stay as they are."""
    options: dict[str, Any] = {
        "prompt_name": st.sampled_from([*stack["names"], "nowhere"]),
        "prompt": st.sampled_from([None, "", "query: ", "how tall"]),
        "batch_size": st.sampled_from([1, 2, 32, 0]),
        "show_progress_bar": st.sampled_from([None, False]),
        "output_value": st.sampled_from(["sentence_embedding", "token_embeddings"]),
        "precision": st.sampled_from([None, "float32", "int8", "uint8", "binary", "ubinary", "x"]),
        "convert_to_numpy": st.booleans(),
        "convert_to_tensor": st.booleans(),
        "device": st.sampled_from([None, "cpu", torch.device("cpu")]),
        "normalize_embeddings": st.booleans(),
        "truncate_dim": st.sampled_from([None, 1, 2, 7, 100]),
    }
    names = draw(st.lists(st.sampled_from(list(options)), unique=True, max_size=4))
    chosen = {name: draw(options[name]) for name in names}
    if chosen.get("output_value") == "token_embeddings":
        chosen.pop("precision", None)  # it has no meaning for the states of tokens
    limit = stack["truncate_dim"]
    if limit is not None and (chosen.get("truncate_dim") or 0) > limit:
        chosen.pop("truncate_dim")  # a known difference
    method = draw(st.sampled_from(["encode", "encode", "encode_query", "encode_document"]))
    return method, draw(TEXTS), chosen


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[SentenceEmbedder, Any]:
    """An embedder without steps, and the Transformer of sentence-transformers of its weights."""
    sizes = {"hidden_size": WIDTH, "num_attention_heads": 2, "intermediate_size": 16}
    folder = tiny_folder(tmp_path_factory.mktemp("tiny"), num_hidden_layers=1, **sizes)
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    return embedder, base_modules.Transformer(str(folder))


def both(tiny: tuple[SentenceEmbedder, Any], stack: dict[str, Any]) -> tuple[Any, Any]:
    """The same stack in both libraries."""
    embedder, transformer = tiny
    transformer.max_seq_length = stack["max_length"]
    theirs: list[nn.Module] = [
        transformer,
        modules.Pooling(
            WIDTH,
            [MODES[name].name for name in stack["poolings"]],
            include_prompt=stack["include_prompt"],
        ),
    ]
    ours: list[nn.Module] = []
    seed(stack["seed"])
    for step in stack["steps"]:
        if step is None:
            ours.append(Normalize())
            theirs.append(base_modules.Normalize())
            continue
        sizes = (step["in_features"], step["out_features"], step["bias"])
        dense = Dense(*sizes, step["activation"])
        ours.append(dense)
        theirs.append(base_modules.Dense(*sizes, getattr(nn, step["activation"])()))
        theirs[-1].linear.load_state_dict(dense.linear.state_dict())
    shared = {"prompts": dict(stack["prompts"])}
    shared["default_prompt_name"] = stack["default_prompt_name"]
    this = SentenceEmbedder(
        embedder.model,
        embedder.tokenizer,
        pooling=stack["poolings"],
        steps=ours,
        max_length=stack["max_length"],
        include_prompt=stack["include_prompt"],
        **shared,
    )
    this.truncate_dim = stack["truncate_dim"]
    that = library.SentenceTransformer(
        modules=theirs, device="cpu", truncate_dim=stack["truncate_dim"], **shared
    )
    this.similarity_fn_name = that.similarity_fn_name = stack["metric"]
    return this, that


def run(model: Any, call: tuple[str, Any, dict[str, Any]]) -> Any:
    method, texts, options = call
    with np.errstate(invalid="ignore"):
        return getattr(model, method)(texts, **options)


@contextmanager
def lengths() -> Iterator[list[float]]:
    """Collect the shortest length by which each normalization divides."""
    shortest: list[float] = []
    normalize = nn.functional.normalize

    def recorded(vectors: torch.Tensor, *options: Any, **named: Any) -> torch.Tensor:
        shortest.append(float(vectors.norm(dim=-1).min()))
        return normalize(vectors, *options, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "normalize", recorded)
        yield shortest


def assert_close(found: Any, expected: Any, amplified: float = 1.0) -> None:
    """Fail unless types, shapes and dtypes are the same, and numbers up to rounding.

    A batch is packed here and padded there, so sums have another order.
    """
    assert type(found) is type(expected), f"{type(found)}, not {type(expected)}"
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for this, that in zip(found, expected, strict=True):
            assert_close(this, that, amplified)
        return
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if found.dtype in (np.float32, torch.float32):
        limit = max(rounding(expected, amplified), rounding(1.0, amplified))
        np.testing.assert_allclose(found, expected, rtol=0, atol=limit)


def compare_calls(this: Any, that: Any, call: tuple[str, Any, dict[str, Any]]) -> None:
    """Fail unless a call returns the same, or fails in both."""
    method, texts, options = call
    task = method.removeprefix("encode").removeprefix("_")
    names_none = options.get("prompt") is None and options.get("prompt_name") is None
    if task and task not in this.prompts and names_none:
        call = (method, texts, {**options, "prompt": this.prompt_for(task)})  # a known difference
        options = call[2]
    found = outcome(lambda: run(this, call))
    with lengths() as divisors:
        expected = outcome(lambda: run(that, call))
    precision = options.get("precision") or "float32"
    if isinstance(found, Failure) or isinstance(expected, Failure):
        assert isinstance(found, Failure), f"only the reference raises: {expected.error!r}"
        assert isinstance(expected, Failure), f"only minibert raises: {found.error!r}"
        return
    amplified = math.prod(1 / min(1.0, max(length, 1e-12)) for length in divisors)
    assert_close(found, expected, amplified)
    if precision == "float32":
        return
    # A difference of rounding can cross a step, so both quantize the same vectors.
    floats = np.atleast_2d(run(this, (method, texts, {**options, **PLAIN})))
    with np.errstate(all="ignore"):
        codes = library.util.quantize_embeddings(floats, precision)
    quantized = np.stack([np.asarray(x) for x in found]).reshape(codes.shape)
    varied = slice(None)
    if precision.endswith("int8"):
        varied = np.ptp(floats, axis=0) > 0  # a known difference where all vectors are equal
    assert np.array_equal(quantized[:, varied], codes[:, varied])


PLAIN = {"precision": "float32", "convert_to_numpy": True, "convert_to_tensor": False}


@programs("stacks", share=0.9, quick=10, stack=stacks(), data=st.data())
def test_calls(
    tiny: tuple[SentenceEmbedder, Any], stack: dict[str, Any], data: st.DataObject
) -> None:
    this, that = both(tiny, stack)
    for _ in range(3):
        compare_calls(this, that, data.draw(calls(stack)))
    assert this.get_embedding_dimension() == that.get_embedding_dimension()
    vectors = that.encode(["how", "tall", "trees"])
    for name in ("similarity", "similarity_pairwise"):
        pairs = [getattr(model, name)(vectors, vectors[::-1].copy()) for model in (this, that)]
        assert_close(*pairs)


@programs("stacks", share=0.1, quick=3, stack=stacks(), data=st.data())
def test_saved(
    tiny: tuple[SentenceEmbedder, Any], stack: dict[str, Any], data: st.DataObject
) -> None:
    """A folder of either library, read by both."""
    this, that = both(tiny, stack)
    with tempfile.TemporaryDirectory() as folder:
        this.save_pretrained(Path(folder, "ours"))
        that.save_pretrained(str(Path(folder, "theirs")), create_model_card=False)
        call = data.draw(calls(stack))
        for name in ("ours", "theirs"):
            path = str(Path(folder, name))
            ours = SentenceEmbedder.from_pretrained(path, precision=None)
            theirs = library.SentenceTransformer(path, device="cpu")
            compare_calls(ours, theirs, call)
            compare_calls(ours, that, call)
            assert ours.max_seq_length == theirs.max_seq_length == stack["max_length"]
            assert ours.similarity_fn_name == theirs.similarity_fn_name == stack["metric"]
            assert ours.default_prompt_name == theirs.default_prompt_name
            for key, prompt in stack["prompts"].items():
                assert ours.prompts[key] == theirs.prompts[key] == prompt
