"""Random models and requests on the page of `minibert learn`, in Node.js, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from hypothesis import strategies as st
from node_page import NodePage, node_page as node_page
from programs import Failure, outcome, programs, rounding, seed

from minibert import BertForPreTraining, BertModel, BertTokenizer
from minibert.learn import live

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*"abcdeé한글木1!,-", *(f"##{x}" for x in "abcd1é글"), "ab", "##cd", "café", "i"]
LETTERS = [*"abcdABé한글木1!,-$", " ", "\t", "\n", "\u00a0", "\u200b", "\ufffd", "e\u0301"]
LETTERS += ["[MASK]", "[SEP]", "[mask]", "İ", "ß", "ﬁ", "Ａ", "🙂", "Café", "cd"]
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")
# small numbers may be differences of states, which are about 1
ROUNDING_OF_STATES = rounding(1.0)
texts = st.lists(st.sampled_from(LETTERS), max_size=8).map("".join)


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    """A config, a vocabulary and the options of a tokenizer."""
    config = {
        "num_attention_heads": draw(st.sampled_from([1, 2, 4])),
        # LayerNorm of fewer numbers may divide by nearly nothing
        "hidden_size": draw(st.sampled_from([8, 12, 16])),
        "num_hidden_layers": draw(st.integers(1, 2)),
        "intermediate_size": draw(st.integers(1, 20)),
        "hidden_act": draw(st.sampled_from(ACTIVATIONS)),
        "max_position_embeddings": draw(st.sampled_from([8, 40])),
        "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-5])),
    }
    options = {
        "do_lower_case": draw(st.booleans()),
        "strip_accents": draw(st.sampled_from([None, True, False])),
        "tokenize_chinese_chars": draw(st.booleans()),
    }
    vocabulary = draw(st.lists(st.sampled_from(PIECES), unique=True, min_size=1))
    return {
        "config": config,
        "options": options,
        "vocabulary": vocabulary,
        "has_heads": draw(st.booleans()),
        "number": draw(st.integers(0, 1000)),
    }


@st.composite
def requests(draw: st.DrawFn, layers: int, heads: int) -> dict[str, Any]:
    """A request to the page. Most of its properties stay as they are."""
    head = st.tuples(st.integers(0, layers - 1), st.integers(0, heads - 1)).map(list)
    properties: dict[str, Any] = {
        "pair": texts,
        "masked": st.lists(st.integers(0, 9), max_size=2),
        "off": st.lists(head | st.integers(0, layers - 1).map(lambda n: [n]), max_size=3),
        "sides": st.sampled_from(sorted(live.VISIBLE_SIDES)),
        "padTo": st.sampled_from([0, 8, 12]),
        "type": st.integers(0, 1),
    }
    names = draw(st.lists(st.sampled_from(list(properties)), unique=True, max_size=3))
    return {"text": draw(texts), **{name: draw(properties[name]) for name in names}}


@programs("pages", quick=8, model=models(), data=st.data())
def test_requests(node_page: NodePage, model: dict[str, Any], data: st.DataObject) -> None:
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *model["vocabulary"]])}
    tokenizer = BertTokenizer(vocab=vocabulary, **model["options"])
    seed(model["number"])
    model_class = BertForPreTraining if model["has_heads"] else BertModel
    # where all keys are hidden, eager attention takes the mean of all values, as the page
    config = tiny_config(vocab_size=len(vocabulary), attn_implementation="eager", **model["config"])
    network = model_class(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    rounded = live.rounded(network)
    embedded: Any = live.embed_model(network, tokenizer)
    sizes = (model["config"]["num_hidden_layers"], model["config"]["num_attention_heads"])
    for _ in range(3):
        request = data.draw(requests(*sizes))
        # Padding never shortens a text on the page, whose control offers no fewer than its tokens.
        tokens = len(tokenizer(request["text"], request.get("pair"))["input_ids"])
        if "padTo" in request:
            request["padTo"] = max(request["padTo"], tokens)
        answer = node_page.ask(model=embedded, request=request)
        embedded = None
        names = {"padTo": "pad_to", "type": "token_type"}
        options = {names.get(name, name): value for name, value in request.items()}
        expected = outcome(lambda o=options: live.compute(rounded, tokenizer, **o))
        if isinstance(expected, Failure):
            assert "error" in answer, f"only PyTorch raises: {expected.error!r}"
            continue
        assert "error" not in answer, answer["error"]
        steps, encoding = expected
        assert answer["tokens"] == encoding["input_ids"]
        for name, found in answer["steps"].items():
            value = steps[name][0]
            assert found["shape"] == list(value.shape), name
            this = np.array(found["data"]).reshape(value.shape)
            limit = max(rounding(value), ROUNDING_OF_STATES)
            if not (np.abs(this - value.numpy()) <= limit).all():  # also infinities and NaN
                np.testing.assert_allclose(this, value, rtol=0, atol=limit, err_msg=name)
