"""The page without a browser: its model, tokenizer, scenes, questions and address in Node.js.

The tests themselves are in tests/page. A scene is compared with what it measured before. After a
change that is wanted, `RECORD=1 python -m pytest tests/browser/test_in_node.py` records it anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from opened import article_page

from minibert.learn import live
from minibert.learn.build import load_page_model
from minibert.learn.lesson import article, articles

TESTS = Path(__file__).parents[1] / "page"
ODD = [
    "",
    " \t\n",
    "Wörter für Ärzte, naïve café — ½ €5!",
    "don't [MASK]; [mask] [SEP]x",
    "日本語 かな 한국어ㅋㅋ 나는 학교에 갔다.",
    "😀 ꙮ \u200b\u00ad\ufeff\x00a",
    "İstanbul Straße ΣΊΣΥΦΟΣ",
    "x" * 101 + " " + "y" * 100,
    unicodedata.normalize("NFD", "각각의 é"),
]
REQUESTS: list[dict[str, Any]] = [
    {},
    {"pair": "So be it."},
    {"masked": [2], "off": [[0, 1], [1]]},
    {"sides": "left"},
    {"padTo": 16},
    {"type": 1},
]
ARGUMENTS = {"padTo": "pad_to", "type": "token_type"}


def expected(language: str) -> dict[str, Any]:
    """Return what Python computes of some texts, with the weights of the page."""
    content = articles()[language]
    name, text = content["model"], content["text"]
    model, tokenizer = load_page_model(name)
    network = live.rounded(model)
    sentences = article(language)["lesson"]["sentences"][:50]
    pairs = [(text, None) for text in [*ODD, *sentences]] + [("one", "two"), ("", "")]
    last = model.config.num_hidden_layers - 1
    steps = [f"layer.{last}.output", "layer.0.attention.probabilities", "nsp.logits"]
    runs = []
    for request in REQUESTS:
        options = {ARGUMENTS.get(key, key): value for key, value in request.items()}
        t, encoding = live.compute(network, tokenizer, text, **options)
        values = {step: t[step][0] for step in steps}
        runs.append(
            {
                "request": {"text": text, **request},
                "tokens": tokenizer.convert_ids_to_tokens(encoding["input_ids"]),
                "values": {
                    step: {"shape": list(value.shape), "data": value.flatten().tolist()}
                    for step, value in values.items()
                },
            }
        )
    tokens = [[one, other, tokenizer(one, other)["input_ids"]] for one, other in pairs]
    return {"tokens": tokens, "runs": runs}


@pytest.mark.parametrize("name", ["english", "korean"])
def test_the_page_in_node(name: str, tmp_path: Path, tmp_path_factory: Any) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.fail("needs Node.js 20 or newer: https://nodejs.org, or apt-get install nodejs")
    language = name[:2] if name == "english" else "ko"
    (tmp_path / "expected.json").write_text(json.dumps({language: expected(language)}), "utf-8")
    environment = {
        **os.environ,
        f"PAGE_{language.upper()}": str(article_page(tmp_path_factory, language)),
        "EXPECTED": str(tmp_path / "expected.json"),
    }
    result = subprocess.run(
        [node, "--test", "--test-reporter=spec", str(TESTS / f"{name}.test.js")],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr
