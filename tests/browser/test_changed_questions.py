"""A verdict speaks only about the question of its scene, whatever the reader types or does.

Each scene is asked its own question once, by its button. Then the reader types foreign sentences
and does foreign acts. A verdict may appear only if the page shows what the button shows. Everything
else is called a changed question, and what is measured then has to be true of the texts shown.

test_every_scene.py makes a few changes in each scene, and a slow test makes all of them.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from opened import article_page, browser as browser
from test_lesson import Reader

from minibert.learn.lesson import article_texts

pytestmark = pytest.mark.browser

SENTENCES = {
    "en": [
        "Yesterday the cat sat on the mat.",
        "The sky is [MASK] today.",
        "The dog did not enter the house because it was too dirty.",
        "They stood by the bank of the lake.",
        "나는 한글을 읽는다.",
        "The man bit the dog",
        "the",
        "It was too wide.",
        "The nurse said that she was tired.",
        "The doctor said that [MASK] was not [MASK].",
        "Colorless green ideas sleep furiously.",
        "bank bank bank bank bank bank",
        "😀 😀",
        "The animal did not cross the street because it was too old.",
        "I am hungry. Let us eat something.",
        "He opened the [MASK] and went in!",
        "The [MASK] is shining in the sky today",
        "How old are you",
        "x" * 40,
        "The soup was [MASK], but the waiter smiled.",
    ],
    "ko": [
        "나물좀주세요.",
        "새 [MASK] 샀다.",
        "그는 배를 깎아서 먹었다.",
        "말을 타고 갔다.",
        "The cat sat on the mat.",
        "아버지 가방에 들어가신다.",
        "나는 컴퓨터[MASK] 읽었다.",
        "배",
        "배도 배를 배가 배는",
        "그 배우는 연기를 못한다.",
        "선생님이 [MASK]를 못한다.",
        "사람이 개를 물었다.",
        "할머니가 시장에서 사과를 사셨다.",
        "달콤한 배가 [MASK] 싶다.",
        "그는 매일 [MASK]를 타고 출근한다!",
        "😀 한글",
        "나이가 어떻게 되세요",
        "축구 경기가 끝났다.",
        "뙤약볕이 뜨겁다.",
        "가" * 30,
    ],
}
# Changes of the state, of which all concern the input of the model.
ACTS: list[dict[str, Any]] = [
    {"masked": [1]},
    {"off": [[0, 0]]},
    {"off": [[1]]},
    {"off": [[2], [0, 1]]},
    {"sides": "right"},
    {"sides": "none"},
    {"pad": 40},
    {"type": 1},
    {"pair": "And this?"},
    {"masked": [2], "sides": "left"},
    {"off": [[0], [1], [2]]},
    {"pair": "b", "type": 1},
    {"off": [[3, 0]]},
    {"masked": [1, 2, 3]},
    {"sides": "right", "pad": 30},
    {"pair": "", "off": [[4]]},
    {"off": [[0, 0], [0, 1], [0, 2], [0, 3]]},
    {"masked": [1], "off": [[3]]},
    {"sides": "left", "type": 1},
    {"off": [[4, 1], [2, 1]], "pair": "a b c"},
]
# Changes that concern only some scenes.
LOOKS: list[dict[str, Any]] = [
    {"layer": 2, "head": 3},
    {"token": 1, "key": 2},
    {"depth": 2},
    {"other": "Another sentence.", "same": "A third one."},
    {"rule": "next"},
    {"snapshot": 4},
]
# makes each change in the scene that has its verdict, and takes it back
TRY = """async (tries) => {
    const { scene } = state;
    const found = [];
    const say = () => ({
        may: $("scene-verdict").dataset.may,
        verdict: $("scene-found").textContent.trim(),
        guess: $("scene-guess").textContent,
        rows: [...$("scene-table").tBodies[0]?.rows ?? []].map(
            (row) => [...row.cells].map((cell) => cell.textContent)),
        shows: JSON.stringify([shown.request, ...(SCENES[scene].concerns ?? []).map(
            (name) => state[name])]),
        texts: [requestOf(firstState(SCENES[scene])), shown.request].map(
            ({ text, pair }) => [text, pair]),
        pieces: shown.tokens.map((token) => token.piece),
        goesOn: SCENES[scene].goesOn ?? [],
        error: String(judge.error ?? ""),
    });
    const settle = async () => {
        await refresh();
        for (let i = 0; i < 200 && !state.trouble; i++) {
            await judge.latest;
            await new Promise((wait) => setTimeout(wait, 10));
            if (!running && same(shown.request, requested())) break;
        }
        let latest = null;
        while (latest !== judge.latest) {
            latest = judge.latest;
            await latest;
        }
    };
    judge.error = null;
    const asked = say();
    for (const changes of tries) {
        const before = { ...state };
        Object.assign(state, changes);
        await settle();
        found.push(say());
        Object.assign(state, before);
    }
    await settle();
    return [asked, found, say()];
}"""


def names_in(text: str) -> list[str]:
    """Return the quoted names in a text."""
    return re.findall("“([^”]+)”", text.replace("\u2060", ""))


def some_changes(article: str, scene: int, concerns: list[str]) -> list[dict[str, Any]]:
    """Return a sentence or an act, and what concerns the scene.

    Where nothing concerns it, every fourth scene has something else to look at.
    """
    sentences = SENTENCES[article]
    texts = [{"text": sentences[scene % len(sentences)], "masked": []}, ACTS[scene % len(ACTS)]]
    looks = [look for look in LOOKS if set(look) & set(concerns)]
    if not looks and scene % 4 == 0:
        looks = LOOKS
    return [texts[scene % 2], *looks[scene % len(looks or LOOKS) :][:1]]


def check_changed(
    name: str,
    language: str,
    tries: list[dict[str, Any]],
    asked: dict[str, Any],
    found: list[dict[str, Any]],
    again: dict[str, Any],
) -> None:
    """Check what a scene said before its question was changed, after each change and at the end."""
    changed = article_texts(language)["changed"][language].split("{")[0].split("(")[0].strip()
    assert asked["error"] == "" and asked["may"] == "verdict", (name, asked["error"])
    assert not asked["verdict"].startswith(changed) and "undefined" not in asked["verdict"]
    assert "{" not in asked["verdict"] and "NaN" not in asked["verdict"], name
    assert again["may"] == "verdict" and again["verdict"] == asked["verdict"], name
    for changes, own in zip(tries, found, strict=True):
        where = (name, changes, own["verdict"][:200], own["error"])
        assert own["error"] == "", where
        if own["shows"] == asked["shows"]:
            assert own["may"] == "verdict" and own["verdict"] == asked["verdict"], where
            continue
        if set(changes) <= set(own["goesOn"]):  # what the scene asks the reader to do
            assert own["may"] == "verdict" and own["verdict"] != asked["verdict"], where
            continue
        assert own["may"] == "changed" and own["verdict"].startswith(changed), where
        assert own["guess"] == "" and own["rows"], where
        said = json.dumps([own["texts"], own["pieces"]], ensure_ascii=False)
        for row in own["rows"]:
            assert not any("undefined" in cell or "NaN" in cell for cell in row), where
            for word in names_in(row[0]):
                missing = word not in said
                assert not missing or set(row[1:]) & {"–"} or word in ("배",), (*where, row)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "ko"])
def test_forty_changes_have_no_verdict(
    browser: Any, tmp_path_factory: pytest.TempPathFactory, language: str
) -> None:
    texts = [{"text": text, "masked": []} for text in SENTENCES[language]]
    tries = [*texts, *ACTS, *LOOKS]
    with Reader(browser, article_page(tmp_path_factory, language), language=language) as reader:
        reader.page.set_default_timeout(600_000)  # ms
        reader.page.evaluate("page.lesson.labeled.train.length = 60")
        for scene in range(1, 1 + reader.page.evaluate("SCENE_COUNT")):
            reader.enter(scene)
            reader.page.evaluate("change({ guess: 0 })")
            reader.act()
            name = reader.page.evaluate("SCENES[state.scene].id")
            check_changed(name, language, tries, *reader.page.evaluate(TRY, tries))
        assert reader.trouble == []
