"""The questions of the page: every answer opens a state of the page, and search finds them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from opened import Opened, browser as browser

from minibert.learn.build import part, write_page
from minibert.study import run

pytestmark = pytest.mark.browser

QUESTIONS = json.loads(part("ask/questions.json"))
# what the page has to show for a question, as a selector and a text in it
SHOWN = {
    "mask": ("#steps", "−3.4e+38"),
    "unknown": ("#pieces", "[UNK]"),
    "pieces": ("#pieces", "##"),
    "token-types": ("#off", "cosine"),
    "explanation": ("#off", "animal"),
    "pad-states": ("#tokens", "[PAD]"),
    "root-d": ("#film-say", "√"),
    "qkv": ("#film-say", "looks for"),
    "next-sentence": ("#next", "follows"),
    "heads": ("#patterns", "previous token"),
    "512": ("#embeddings-sum", "position"),
    "context": ("#compare-verdict", "h6"),
    "logits": ("#best", "tea"),
}


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    path = tmp_path_factory.mktemp("questions") / "page.html"
    write_page(path, "minibert-tiny", "The cat sat on the mat.")
    with Opened(browser, path) as opened:
        yield opened


def go(opened: Opened, question: str) -> None:
    """Open a question by its address and wait until the page shows it."""
    opened.page.evaluate(
        "id => { clearTimeout(remember.later); location.hash = `ask=${id}`; }", question
    )
    opened.page.wait_for_function(
        "id => state.ask === id && !running && same(shown.request, requested())", arg=question
    )


def test_questions_are_complete() -> None:
    assert len(QUESTIONS) == len({question["id"] for question in QUESTIONS}) >= 100
    for question in QUESTIONS:
        assert set(question) == {"id", "en", "ko", "door", "scene"} and question["scene"]
        for language in ("en", "ko"):
            texts = question[language]
            assert texts["question"].strip().endswith("?") and texts["also"]
            assert 150 <= len(texts["answer"]) * (1 + (language == "ko")) <= 520, question["id"]
            assert {"section", "text"} <= set(question["door"][language])


def check_door(opened: Opened, question: dict[str, Any], language: str) -> None:
    """Open a question and check the state of the page.

    Layers and heads that the model does not have are replaced by its last ones.
    """
    go(opened, question["id"])
    state, sizes = opened.page.evaluate("[state, sizes]")
    state["off"] = "_".join(".".join(map(str, heads)) for heads in state["off"])
    limits = {"layer": sizes["layers"] - 1, "head": sizes["heads"] - 1, "depth": sizes["layers"]}
    for name, value in question["door"][language].items():
        expected = value
        if name in limits:
            expected = min(value, limits[name])
        if name in ("text", "section", "pair", "other", "same", "pad", "type", *limits):
            assert state[name] == expected, (question["id"], name)
    assert state["trouble"] == "" and opened.page.is_visible(f"#{state['section']}")
    assert opened.page.inner_text("#ask-title") == question[language]["question"]
    assert opened.page.inner_text("#ask-text") == question[language]["answer"]


def test_doors_open(opened: Opened) -> None:
    """One door of each kind. `test_every_door_shows_the_answer`, which is slow, opens all."""
    kinds: dict[Any, Any] = {}
    for question in QUESTIONS:
        door = question["door"]["en"]
        changed = set(door) - {"text", "token", "key", "layer", "head", "depth", "stage", "view"}
        kinds.setdefault((door["section"], *sorted(changed)), question)
    assert len(kinds) >= 15
    for question in kinds.values():
        check_door(opened, question, "en")
    assert opened.trouble == []


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_door_shows_the_answer(browser: Any, tmp_path: Path, language: str) -> None:
    path = tmp_path / "page.html"
    write_page(path, f"minibert-{language}", "BERT")
    with Opened(browser, path, language=language) as opened:
        for question in QUESTIONS:
            check_door(opened, question, language)
            door = question["door"][language]
            rest = {name: door[name] for name in ("token", "key", "stage", "off") if name in door}
            state = opened.page.evaluate("state")
            state["off"] = "_".join(".".join(map(str, heads)) for heads in state["off"])
            assert rest.items() <= state.items(), question["id"]
            if language == "en" and question["id"] in SHOWN:
                selector, text = SHOWN[question["id"]]
                shown = opened.page.locator(selector).filter(has_text=text)
                shown.wait_for(timeout=60_000)  # ms, because comparisons take a moment
        assert opened.trouble == []


def test_the_nearest_questions_and_their_answer(opened: Opened) -> None:
    page = opened.page
    page.evaluate("closeAsk()")
    page.click("#ask-open")
    page.fill("#ask-box", "")
    assert page.locator("#ask-list button").count() == len(QUESTIONS)
    for text, expected_id in (
        ("maximum sequence length", "512"),
        ("왜 루트로 나누나요?", "root-d"),
    ):
        page.fill("#ask-box", text)
        page.wait_for_selector("#ask-list:not([data-by=all])")
        nearest = page.evaluate("text => rankByLetters(text).slice(0, 3).map(([{id}]) => id)", text)
        assert page.locator("#ask-list button").count() == 3 and expected_id in nearest
    # a click shows all questions again
    page.click("#ask-whole")
    assert page.locator("#ask-list button").count() == len(QUESTIONS)
    assert not page.is_visible("#ask-whole")
    page.fill("#ask-box", "vectors of padding tokens")
    page.wait_for_selector("#ask-list[data-by=vectors]")
    page.press("#ask-box", "Enter")
    page.wait_for_selector("#ask-answer:not([hidden])")
    opened.settle()
    assert page.evaluate("[state.ask, state.pad]") == ["pad-states", 12]
    panel, tabs = (page.locator(name).bounding_box() for name in ("#ask", "#tabs"))
    assert panel and tabs and panel["height"] < 200  # the answer leaves room for the tab
    assert panel["y"] + panel["height"] <= tabs["y"] < 500
    page.click("#ask-other")
    page.press("#ask-box", "Escape")
    assert not page.is_visible("#ask") and page.evaluate("state.ask") == ""
    assert opened.trouble == []


def test_sentence_vectors_find_the_nearest(opened: Opened) -> None:
    page = opened.page
    page.evaluate("closeAsk()")
    page.click("#ask-open")
    title = QUESTIONS[11]["en"]["question"]
    page.fill("#ask-box", title)
    page.wait_for_selector("#ask-list[data-by=vectors]")
    assert page.locator("#ask-list button").first.inner_text() == title
    text = "Why the root of d?"
    vector = page.evaluate("t => vectorOf(t)", text)
    weights = page.evaluate(
        "text => live.tokens({ text }).map(({ id }) => rarity(pieceCounts().get(id)))", text
    )
    assert weights[0] == weights[-1] < weights[1] < weights[3]  # [CLS], [SEP], "why" and "root"
    t = run("minibert-tiny", text, rounded=True)
    states = t[f"layer.{t.model.config.num_hidden_layers - 1}.output"][0]
    mean = torch.tensor(weights) @ states / sum(weights)
    assert vector == pytest.approx(mean.tolist(), abs=2e-3)
    assert opened.trouble == []


def test_korean_texts_are_read_in_usual_forms(opened: Opened) -> None:
    read = {
        "Loss가 안 줄어요": "손실가 안 줄어요",
        "finetuning할 때 lr은?": "파인튜닝할 때 학습률은?",
        "[CLS] 상태와 GELU": "[cls] 상태와 gelu",
        "The Loss": "The Loss",
    }
    assert {text: opened.page.evaluate("text => inUsualForms(text)", text) for text in read} == read


def test_a_failed_computation_is_tried_again(opened: Opened) -> None:
    outcomes = opened.page.evaluate("""async () => {
        live.ask = async () => { delete live.ask; throw new Error("no memory"); };
        const outcome = () => vectorOf("never asked before").then(() => "computed", () => "failed");
        return [await outcome(), await outcome()];
    }""")
    assert outcomes == ["failed", "computed"] and opened.trouble == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "queries"),
    [
        (
            "en",
            {
                "how do I read a whole book with BERT?": "512",
                "could BERT write a story?": "decoder",
                "should only the last classifier be trained?": "freeze",
                "which head looks at the word before?": "heads",
                "the same word means something else": "context",
                "why not just multiply by zero": "mask",
            },
        ),
        (
            "ko",
            {
                "책 한 권을 통째로 넣을 수 있나요?": "512",
                "BERT로 소설을 쓸 수 있나요?": "decoder",
                "분류기만 학습하면 되나요?": "freeze",
                "같은 단어가 다른 뜻일 때": "context",
            },
        ),
    ],
)
def test_paraphrased_questions_are_found(
    browser: Any, tmp_path: Path, language: str, queries: dict[str, str]
) -> None:
    write_page(tmp_path / "page.html", f"minibert-{language}", "BERT")
    with Opened(browser, tmp_path / "page.html") as opened:
        opened.page.set_default_timeout(120_000)  # ms
        opened.page.click("#ask-open")
        for text, expected_id in queries.items():
            opened.page.fill("#ask-box", text)
            opened.page.wait_for_selector("#ask-list[data-by=vectors]")
            nearest = opened.page.locator("#ask-list button").all_inner_texts()
            (expected,) = (q[language]["question"] for q in QUESTIONS if q["id"] == expected_id)
            assert expected in nearest, (text, nearest)


def test_the_answer_takes_the_focus_of_the_list(opened: Opened) -> None:
    opened.page.evaluate("change({ ask: '' })")
    opened.page.evaluate("openAsk()")
    opened.page.fill("#ask-box", "what are query, key and value vectors")
    opened.page.wait_for_selector("#ask-list[data-by=vectors]")
    opened.press("Enter")
    opened.page.wait_for_selector("#ask-answer:not([hidden])")
    opened.page.wait_for_function("() => document.activeElement.id === 'ask-title'")


def test_padding_and_type_ids_are_those_of_python(opened: Opened) -> None:
    page = opened.page
    page.evaluate("ask({text: 'My dog is old.', pad: 9, type: 1, section: 'text', token: 2})")
    opened.settle()
    page.evaluate("fillEdits()")
    assert page.input_value("#pad") == "9" and page.is_checked("#types")
    assert page.evaluate("tokens.map(({segment, mask}) => [segment, mask])") == (
        [[1, 1]] * 7 + [[1, 0]] * 2
    )
    states = page.evaluate("hiddenState(sizes.layers).row(2)")
    altered, plain = (
        run("minibert-tiny", "My dog is old.", pad_to=9, rounded=True, token_type=token_type)
        for token_type in (1, None)
    )
    last = f"layer.{altered.model.config.num_hidden_layers - 1}.output"
    assert states == pytest.approx(altered[last][0, 2].tolist(), abs=2e-3)
    cosine = torch.cosine_similarity(plain[last][0, 2], altered[last][0, 2], dim=0).item()
    match = re.search(r"cosine (\S+)", page.inner_text("#off"))
    assert match and float(match[1]) == pytest.approx(cosine, abs=2e-4) and cosine < 0.9999
    assert "pad_to=9, token_type=1" in page.evaluate("pythonRun()")
    page.click("#all-on")
    opened.settle()
    assert not page.is_visible("#off") and opened.trouble == []


BEGINNERS = {
    "en": {
        "what is a token": "token",
        "Why are some words cut into bits?": "wordpiece",
        "what does the feed forward network do": "feed-forward",
        "how was BERT trained": "pre-training",
        "what happens when I fine-tune": "fine-tuning",
        "What is LayerNorm for": "LayerNorm",
        "what is dropout": "dropout",
        "why 15%": "masked language modeling",
        "which layer for word embeddings": "which-layer",
        "why do we need several heads": "multi-head",
        "how do I get a vector for a whole sentence": "sentence vector",
        "how long can a text be": "512",
        "is nsp necessary": "next-sentence prediction",
        "Who invented BERT and when?": "who-made",
        "My text is longer than the limit, what now?": "512",
        "do I need a GPU to run this": "gpu",
        "why divide by the root of d": "root-d",
        "how much data do I need to train a classifier": "how-many-examples",
        "Is BERT biased against women?": "bias",
        "can it handle Korean or German": "languages",
        "why does the loss never reach zero": "loss-floor",
        "how can I speed it up": "faster",
        "why is my GPU memory full": "memory",
        "What's GELU": "activation",
        "what is finetuning": "fine-tuning",
        "could I hide two words": "several-masks",
        "is there a list of facts in the model": "where-knowledge",
        "would one matrix for Q and K not do": "why-two",
        "my model predicts the same class for everything": "not-learning",
        "bidirectional means it reads backwards too?": "bidirectional",
        "which football team is the best": None,
        "What will the weather be like tomorrow?": None,
        "how do I bake bread": None,
        "who won the football match": None,
        "what is the best recipe for apple pie": None,
        "what's the difference between a frog and a toad": None,
    },
    "ko": {
        "토큰이 뭐예요": "token",
        "파인튜닝하면 뭐가 바뀌나요": "fine-tuning",
        "NSP는 정말 필요한가요": "next-sentence prediction",
        "조사는 어떻게 쪼개지나요": "particle",
        "왜 12번째 레이어만 쓰나요": "which-layer",
        "헤드가 왜 여러 개예요": "multi-head",
        "피드포워드는 무슨 일을 해요": "feed-forward",
        "임베딩이란": "embedding",
        "BERT는 어떻게 배웠어요": "pre-training",
        "문장 벡터 만드는 법": "sentence vector",
        "BERT는 누가 언제 만들었나요": "who-made",
        "그래픽 카드가 꼭 있어야 하나요": "gpu",
        "조각 앞에 붙은 샵 두 개는 무슨 뜻이에요": "pieces",
        "왜 루트 d로 나눠요?": "root-d",
        "분류기를 학습시키려면 데이터가 얼마나 필요해요": "how-many-examples",
        "두 문장이 비슷한지 어떻게 재나요": "compare-sentences",
        "BERT도 편견이 있나요": "bias",
        "한국어 말고 영어도 되나요": "languages",
        "손실이 0이 안 되는 까닭은요?": "loss-floor",
        "속도를 높이고 싶어요": "faster",
        "메모리가 부족하대요": "memory",
        "잔차연결은 왜 있죠": "residual",
        "두 단어를 같이 가려도 되나요": "several-masks",
        "Q와 K는 왜 행렬이 따로 있어요": "why-two",
        "loss가 안 줄어요 ㅠㅠ": "not-learning",
        "처음 상태로 돌리려면?": "controls",
        "형태소 분석이랑 워드피스는 뭐가 달라요?": "morphemes",
        "내일 비가 올까요": None,
        "서울에서 부산까지 얼마나 걸려요": None,
        "빵은 어떻게 굽나요": None,
        "축구 경기는 누가 이겼나요": None,
        "오늘 점심 뭐 먹지": None,
        "거미는 다리가 몇 개예요": None,
    },
}
NEAREST = """async (text) => {
    const found = await rankByVectors(text);
    return isAnswer(found, "vectors") ? found[0][0].id : null;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "ko"])
def test_questions_of_beginners(browser: Any, tmp_path: Path, language: str) -> None:
    """The first answer fits, or the panel says that none does."""
    write_page(tmp_path / "page.html", f"minibert-{language}", "BERT")
    with Opened(browser, tmp_path / "page.html", language=language) as opened:
        found = {text: opened.page.evaluate(NEAREST, text) for text in BEGINNERS[language]}
        assert found == BEGINNERS[language]
        opened.page.click("#ask-open")
        opened.page.fill("#ask-box", next(t for t, e in BEGINNERS[language].items() if e is None))
        opened.page.wait_for_selector("#ask-list[data-by=vectors][data-far]")
        assert opened.trouble == []


def test_a_term_is_explained_in_the_list_and_work_is_kept(opened: Opened) -> None:
    page = opened.page
    page.evaluate("closeAsk()")
    opened.open("text")
    page.fill("#edit", "My own sentence.")
    opened.settle()
    page.click("#ask-open")
    page.fill("#ask-box", "what is dropout")
    page.locator("#ask-list button[aria-expanded]").first.click()
    assert "random numbers to 0" in page.inner_text("#ask-list p")
    assert page.evaluate("[state.ask, state.text]") == ["", "My own sentence."]
    # a door shows another text, and gives the page back as it was
    page.evaluate("openDoor(questions.find(({ id }) => id === 'pad-states'))")
    page.wait_for_function("() => state.ask === 'pad-states' && !running")
    assert page.input_value("#edit") != "My own sentence."
    page.click("#ask-close")
    page.wait_for_function("() => state.ask === '' && !running")
    assert page.input_value("#edit") == "My own sentence." and opened.trouble == []
