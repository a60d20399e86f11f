"""The model and the tokenizer of the page, in Node.js, compute what PyTorch and Python do."""

from __future__ import annotations

import lzma
import random
from typing import Any

import pytest
import torch
from conftest import shared_data, tiny_config
from node_page import NodePage, node_page as node_page

import minibert
from minibert.learn import build, live
from minibert.study.trace import trace

ENGLISH = (
    "I love Korea",
    "The quick brown fox jumps over the lazy dog; it didn't ask, and nobody minded.",
    "Paris is the [MASK] of France.",
    "Café naïve — “quotes”, 北京 and 東京, 3.14% of $1,000,000",
    "unaffable internationalization",
    "x",
    "He said: [MASK] [SEP] and left.",
    "Ünïcödé ÀÉÎÕÜ and Å",
    "e-mail: someone@example.org, (see p. 7)",
    "나는 한국을 사랑한다",
)
KOREAN = (
    "나는 한국을 사랑한다.",
    "아버지가방에들어가신다!",
    "영화가 정말 [MASK] 재미있었어요 ㅋㅋㅋ",
    "배를 타고 바다로 나갔다",
    "오늘 날씨가 너무 좋네요^^ 산책 갈까요?",
    "BERT는 2018년에 나왔다",
    "세종대왕은 훈민정음을 만들었다",
    "커피 한 잔에 4,500원이라니…",
    "ㅠㅠ 너무 슬프다",
    "서울특별시 강남구",
)


@pytest.mark.parametrize(
    "name",
    [
        "minibert-tiny",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("minibert-en", "minibert-ko")),
    ],
)
def test_the_page_computes_what_pytorch_computes(node_page: NodePage, name: str) -> None:
    """Hidden states, attentions and the five best words of every token agree for twenty texts."""
    model, tokenizer = build.load_page_model(name)
    content: Any = live.embed_model(model, tokenizer)
    model = live.rounded(model)
    texts = ENGLISH + KOREAN
    largest = 0.0
    for number, text in enumerate(texts):
        options: dict[str, Any] = {}
        if number % 3 == 1:
            options = {"pair": texts[0], "masked": [1], "off": [[0, 1]]}
        if number % 3 == 2:
            options = {"off": [[1]]}
        found = node_page.ask(model=content, request={"text": text, **options}, words=True)
        content = None
        t, encoding = live.compute(model, tokenizer, text, **options)
        assert found["tokens"] == encoding["input_ids"], text
        assert found["pieces"] == tokenizer.convert_ids_to_tokens(encoding["input_ids"])
        layers = range(model.config.num_hidden_layers)
        steps = ["embeddings.output", *(f"layer.{i}.output" for i in layers)]
        for step in [*steps, *(f"layer.{i}.attention.probabilities" for i in layers)]:
            largest = max(largest, difference(found["steps"][step], t[step][0]))
        best = t["mlm.logits"][0].softmax(-1).topk(5)
        for place, words in enumerate(found["words"]):
            assert [word for word, _ in words] == tokenizer.convert_ids_to_tokens(
                best.indices[place].tolist()
            )
            shares = torch.tensor([share for _, share in words])
            largest = max(largest, (shares - best.values[place]).abs().max().item())
    assert largest < 1e-4


def as_tensor(step: dict[str, Any]) -> torch.Tensor:
    """Return the values of a step of the page."""
    return torch.tensor(step["data"], dtype=torch.float32).reshape(step["shape"])


def difference(step: dict[str, Any], expected: torch.Tensor) -> float:
    """Return the largest difference between a step of the page and a value of PyTorch."""
    return (as_tensor(step) - expected).abs().max().item()


def test_attention_can_be_limited_to_one_side(node_page: NodePage) -> None:
    """The page gives the values of PyTorch with the same mask, and hides the same keys."""
    model, tokenizer = build.load_page_model("minibert-tiny")
    content: Any = live.embed_model(model, tokenizer)
    model = live.rounded(model)
    for sides in live.VISIBLE_SIDES:
        request = {"text": ENGLISH[2], "sides": sides, "pair": "It is large."}
        found = node_page.ask(model=content, request=request)["steps"]
        content = None
        t, _ = live.compute(model, tokenizer, ENGLISH[2], "It is large.", sides=sides)
        step = "layer.0.attention.probabilities"
        ours = as_tensor(found[step])
        torch.testing.assert_close(ours, t[step][0], atol=1e-4, rtol=0)
        assert torch.equal(ours == 0, t[step][0] == 0)
        last = f"layer.{model.config.num_hidden_layers - 1}.output"
        torch.testing.assert_close(as_tensor(found[last]), t[last][0], atol=1e-4, rtol=0)


def test_the_page_tokenizes_like_the_tokenizer(node_page: NodePage) -> None:
    """The texts are real sentences, and random characters that both Unicode versions define.

    The tokenizers are the uncased one of the page, and a cased one with kcbert's vocabulary.
    """
    words = shared_data("data", "kcbert-base", "vocab.txt").read_text(encoding="utf-8").splitlines()
    uncased = build.load_page_model("minibert-tiny")[1]
    cased = minibert.BertTokenizer(words, do_lower_case=False)
    generator = random.Random(0)
    alphabet = [
        chr(code)
        for code in (
            *range(0x20, 0x250),
            *range(0x300, 0x370),
            *range(0x3A0, 0x400),
            *range(0xAC00, 0xAD00),
        )
    ]
    alphabet += list(" \t\n\u200b\u3000\u00a0—“”…가힣ㅋㅠ漢字かなカナ👩\u200d🇰🇷ﬁİßΣς") * 3
    random_texts = [
        "".join(generator.choices(alphabet, k=generator.randint(1, 30))) for _ in range(100)
    ]
    reviews = (
        lzma.decompress(shared_data("data", "korean", "nsmc-reviews.txt.xz").read_bytes())
        .decode()
        .splitlines()[:100]
    )
    everyday = (
        lzma.decompress(shared_data("data", "english", "everyday.txt.xz").read_bytes())
        .decode()
        .splitlines()[:100]
    )
    texts = random_texts + reviews + everyday
    small = minibert.BertModel(tiny_config(vocab_size=len(words)))
    for tokenizer in (uncased, cased):
        content: Any = live.embed_model(small, tokenizer)
        found = node_page.ask(model=content, encode=texts)["tokens"]
        for text, tokens in zip(texts, found, strict=True):
            encoding = tokenizer(text, return_offsets_mapping=True)
            assert [token[0] for token in tokens] == encoding["input_ids"], text
            if text not in random_texts:
                assert [tuple(token[1:]) for token in tokens] == encoding["offset_mapping"], text


def test_rounded_weights_are_those_of_the_page() -> None:
    model = minibert.BertForMaskedLM(tiny_config()).eval()
    small = live.rounded(model)
    for ours, theirs in zip(small.parameters(), model.parameters(), strict=True):
        if ours.dim() == 2:
            assert (ours - theirs).abs().max() <= theirs.abs().max() / 254 * 1.001
        else:
            assert torch.equal(ours, theirs)
    again = live.rounded(small)
    for ours, theirs in zip(again.parameters(), small.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
    with torch.no_grad(), trace(small) as t:
        small(torch.tensor([[1, 2, 3]]))
    assert t["mlm.logits"].shape == (1, 3, 99)
