"""The page as a file: its contents, and that a text in it is shown and never executed."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import math
import re
import shutil
import string
import webbrowser
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from hypothesis import given, strategies as st

import minibert
from minibert.cli import main
from minibert.learn import build as page_build, live
from minibert.learn.build import (
    MAIN,
    PAGE,
    compress,
    load_page_model,
    page_data,
    part,
    render,
    run,
    show,
    write_page,
)
from minibert.learn.lesson import article, article_texts
from minibert.learn.modules import join


def inflate(text: str) -> bytes:
    """Decode zlib data in base 85 as the script of the page does."""
    digits = string.digits + string.ascii_uppercase + string.ascii_lowercase
    letters = "".join(map(chr, range(ord("#"), ord("#") + 85))).replace("<", "x").replace("\\", "y")
    standard = str.maketrans(letters, digits + "!#$%&()*+-;<=>?@^_`{|}~")
    return zlib.decompress(base64.b85decode(text.translate(standard)))


def unpack(packed: dict[str, Any]) -> dict[str, np.ndarray]:
    """Unpack arrays as the page's script does."""
    content, start, arrays = inflate(packed["data"]), 0, {}
    for name, shape, decimals, bits in packed["table"]:
        end = start + math.prod(shape) * bits // 8
        whole = np.frombuffer(
            content[start:end], "<f4" if decimals is None else f"<i{bits // 8}"
        ).reshape(shape)
        arrays[name], start = whole / 10 ** (decimals or 0), end
    assert start == len(content)
    return arrays


@pytest.fixture(scope="module")
def tokenizer(minilm: str) -> Any:
    return minibert.BertTokenizer.from_pretrained(minilm)


def random_model(name: str = "BertForPreTraining", **overrides: Any) -> Any:
    overrides = {"attn_implementation": "eager", "vocab_size": 30522, **overrides}
    return getattr(minibert, name)(tiny_config(**overrides)).eval()


@given(st.lists(st.floats(-3e6, 3e6, width=32), min_size=1, max_size=20))
def test_packed_values_are_rounded_to_the_digits_shown(values: list[float]) -> None:
    packed = compress({"values": torch.tensor(values)})
    digits = packed["table"][0][2]
    for stored, value in zip(unpack(packed)["values"], values, strict=True):
        assert f"{stored:.{digits}f}".replace("-0.", "0.") == f"{value:.{digits}f}".replace(
            "-0.", "0."
        )


def test_packing_uses_four_decimals_if_they_fit_and_floats_if_requested() -> None:
    arrays = {
        "p": torch.tensor([1.0]),
        "s": torch.tensor([-30.0]),
        "big": torch.tensor([9e5]),
        "no": torch.empty(0, 3),
    }
    packed = compress(arrays, ["s"])
    assert [row[2:] for row in packed["table"]] == [[4, 16], [None, 32], [2, 32], [4, 16]]
    assert unpack(packed)["no"].shape == (0, 3) and unpack(packed)["s"] == [-30.0]


def test_the_data_are_the_outputs_of_the_model(tokenizer: Any) -> None:
    model = random_model()
    data = page_data(model, tokenizer, "I love Korea", "unaffable [MASK]", pad_to=14)
    batch = tokenizer(
        "I love Korea", "unaffable [MASK]", padding="max_length", max_length=14, return_tensors="pt"
    )
    with torch.no_grad():
        out = model(**batch, output_hidden_states=True, output_attentions=True)
        pooled = model.bert(**batch).pooler_output

    shown = unpack(data["arrays"])
    for i in range(2):
        np.testing.assert_array_equal(
            shown[f"layer.{i}.attention.probabilities"], out.attentions[i][0]
        )
        np.testing.assert_array_equal(shown[f"layer.{i}.output"], out.hidden_states[i + 1][0])
    np.testing.assert_allclose(shown["pooler.output"], pooled[0], atol=5.001e-5)
    np.testing.assert_allclose(shown["nsp.logits"], out.seq_relationship_logits[0], atol=5.001e-5)
    best = out.prediction_logits[0].softmax(-1).max(-1)
    words = tokenizer.convert_ids_to_tokens(best.indices.tolist())
    assert [row[0][0] for row in data["lens"][-1]] == words
    assert [row[0][1] for row in data["lens"][-1]] == [round(p, 4) for p in best.values.tolist()]
    assert [token["mask"] for token in data["tokens"]] == batch["attention_mask"][0].tolist()


@pytest.mark.parametrize(("name", "head"), [("BertModel", None), ("BertForMaskedLM", "lens")])
def test_missing_parts_of_a_model_are_left_out(tokenizer: Any, name: str, head: str | None) -> None:
    data = page_data(random_model(name), tokenizer, "I love Korea")
    names = [row[0] for row in data["arrays"]["table"]]
    assert "nsp.logits" not in names and (data["lens"] is None) == (head is None)
    assert ("pooler.output" in names) == (name == "BertModel")


class Reader(HTMLParser):
    """Collect tags, scripts with their attributes, and attributes that could fetch or run code."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, Any], str]] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [
            f"{tag} {name}"
            for name, value in attributes
            if (name in ("src", "href", "action") and value != "#") or name[:2] == "on"
        ]
        if tag in ("script", "style"):
            self.scripts.append((dict(attributes), ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


EMPTY_DATA: dict[str, Any] = {"name": "m", "tokens": [], "arrays": {}, "lens": None}


@pytest.fixture(scope="module")
def plain() -> Any:
    return read(render({**EMPTY_DATA, "texts": ["plain"]}))


@given(text=st.text())
def test_no_text_escapes_from_the_data(plain: Any, text: str) -> None:
    page = read(render({**EMPTY_DATA, "texts": [text]}))
    assert page.tags == plain.tags and page.links == []
    assert json.loads(page.scripts[1][1])["texts"] == [text]


@pytest.mark.parametrize(
    "text",
    ["</script><script>alert(1)</script>", "<!--<script>", "{{script}}", "\u2028'\"\\", "\ud800"],
)
def test_hostile_texts_do_not_escape_from_the_data(text: str) -> None:
    page = render({**EMPTY_DATA, "texts": [text]})
    assert json.loads(read(page).scripts[1][1])["texts"] == [text]
    assert read(page).tags.count("script") == 3


def test_the_policy_allows_only_the_script_and_style_of_the_page() -> None:
    page = render({**EMPTY_DATA, "texts": ["x"]})
    policy = re.search(r'Content-Security-Policy"\s+content="([^"]+)"', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    (_, style), _, _, (_, script) = read(page).scripts
    for kind, content in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        # the matrix product is WebAssembly, which a policy has to allow
        more = " 'wasm-unsafe-eval'" if kind == "script-src" else ""
        assert rules[kind] == f"'sha256-{digest}'{more}"
    assert rules["default-src"] == "'none'" and rules["worker-src"] == "blob:"
    assert not re.search(r"https?://", page)


def test_both_languages_have_every_word_that_the_page_uses() -> None:
    words = json.loads(part("state/words.json"))
    assert words["en"].keys() == words["ko"].keys()
    for key, sentence in words["en"].items():
        fields = re.findall(r"\{\w+\}", sentence)
        assert sorted(fields) == sorted(re.findall(r"\{\w+\}", words["ko"][key])), key
    known = set(words["en"])
    for language in ("en", "ko"):
        lesson = article_texts(language)
        known |= {f"lesson.{key}" for key in lesson}
        for key, texts in lesson.items():
            fields = [set(re.findall(r"\{\w+\}", texts[reader])) for reader in ("en", "ko")]
            assert texts["en"] and texts["ko"] and fields[0] == fields[1], (language, key)
    html = part("page.html")
    script = join(PAGE, MAIN)
    used = set(re.findall(r'data-(?:t|label)="([^"]+)"', html)) | set(
        re.findall(r'\bt\("([^"]+)"', script)
    )
    assert used and used <= known


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_end_of_the_article_names_files_that_exist(language: str) -> None:
    texts = article_texts(language)
    doors = " ".join(text[language] for name, text in texts.items() if "end.door" in name)
    root = Path(__file__).resolve().parents[2]
    files = re.findall(r"(?:docs|scripts)/\S+\.(?:ipynb|py|sh)", doors)
    assert len(files) == 3 and all((root / file).exists() for file in files), files


def test_a_model_too_large_for_the_article_is_an_error(
    tmp_path: Path, minilm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "--model", minilm, "--output", str(tmp_path / "learn.html")]) == 1
    assert "too large for the article" in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "sizes", "lack"),
    [
        ("BertModel", {}, "has no MLM head"),
        ("BertForPreTraining", {"max_position_embeddings": 16}, "only 16 positions"),
    ],
)
def test_a_model_without_what_the_article_asks_for_is_an_error(
    tmp_path: Path, name: str, sizes: dict[str, int], lack: str
) -> None:
    tokenizer = minibert.BertTokenizer.from_pretrained("minibert-en")
    random_model(name, vocab_size=len(tokenizer), **sizes).save_pretrained(tmp_path / "own")
    tokenizer.save_pretrained(tmp_path / "own")
    with pytest.raises(ValueError, match=lack):
        write_page(tmp_path / "page.html", str(tmp_path / "own"), "hello", more=article("en"))
    assert not (tmp_path / "page.html").exists()


def test_the_command_writes_the_page(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    command = ["view", "tall trees grow", "--model", str(tiny_model), "--output", str(out)]
    assert main([*command, "--pad-to", "7"]) == 0
    assert (
        capsys.readouterr().out
        == f"{out} written (7 tokens): {out.resolve().as_uri()} (--open opens it)\n"
    )
    assert main([*command, "--pair", "how do trees", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "output": str(out),
        "tokens": 9,
        "bytes": out.stat().st_size,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.fixture
def fresh_webbrowser() -> Iterator[None]:
    """The module reads the environment once, so it is loaded before and after the test."""
    importlib.reload(webbrowser)
    yield
    importlib.reload(webbrowser)


def test_the_command_opens_the_page(
    fresh_webbrowser: None, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens in the browser that the environment names."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/opened"\n', encoding="utf-8")
    browser.chmod(0o755)
    page = tmp_path / "나의 page.html"
    for name, value in {"BROWSER": str(browser), "PATH": "", "DISPLAY": ""}.items():
        monkeypatch.setenv(name, value)
    assert main(["view", "hi", "--model", str(tiny_model), "--open", "-o", str(page)]) == 0
    assert (tmp_path / "opened").read_text(encoding="utf-8") == page.resolve().as_uri()


def test_a_missing_browser_is_an_error(
    tmp_path: Path,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    page = tmp_path / "page.html"
    assert main(["view", "hi", "-m", str(tiny_model), "--open", "-o", str(page)]) == 1
    message = f"minibert view: no browser was found. Open {page.resolve().as_uri()} in one.\n"
    assert page.exists() and capsys.readouterr().err == message


def test_errors_say_what_is_wrong(
    tmp_path: Path, minilm: str, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    with pytest.raises(ValueError, match="202 tokens, .*up to 128"):
        write_page(page, minilm, "word " * 200)
    with pytest.raises(ValueError, match="up to 128 tokens, .*padded to 1000000000"):
        write_page(page, minilm, "word", pad_to=10**9)
    with pytest.raises(ValueError, match="5 tokens, .*more than the 4 to pad to"):
        write_page(page, minilm, "I love Korea", pad_to=4)
    with pytest.raises(ValueError, match="text should be a single string, not list"):
        write_page(page, minilm, ["I love Korea"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no text to show"):
        write_page(page, minilm, " ")
    model = random_model()
    with torch.no_grad():
        model.bert.encoder.layer[0].attention.self.query.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="are not finite numbers: the checkpoint is damaged"):
        page_data(model, tokenizer, "x")
    assert (
        main(["view", "x", "--model", minilm, "--output", str(tmp_path / "no" / "page.html")]) == 1
    )
    assert "no" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_called_model_is_shown_with_its_parent(
    tmp_path: Path, tiny_model: Path
) -> None:
    folder = tmp_path / "my-bert" / "model"
    shutil.copytree(tiny_model, folder)
    write_page(tmp_path / "page.html", str(folder), "I love Korea")
    scripts = read((tmp_path / "page.html").read_text(encoding="utf-8")).scripts
    assert json.loads(scripts[1][1])["name"] == "my-bert/model"


def test_a_pooler_that_the_checkpoint_does_not_have_is_not_shown(
    tmp_path: Path, minilm: str
) -> None:
    random_model("BertForQuestionAnswering").save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(Path(minilm, "vocab.txt").read_bytes())
    pages = [tmp_path / "1.html", tmp_path / "2.html"]
    for page in pages:
        write_page(page, str(tmp_path), "hello")
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_a_padded_vocabulary(tokenizer: Any) -> None:
    """If the head has more rows than the tokenizer has words, only words are shown."""
    model = random_model(vocab_size=30600)
    with torch.no_grad():
        model.cls.predictions.bias[30522:] = 100.0
    assert page_data(model, tokenizer, "hello [MASK]")["tokens"][1]["piece"] == "hello"


def test_run_computes_the_values_of_the_page(minilm: str) -> None:
    plain = run(minilm, "I love Korea", pair="so do I", pad_to=12)
    assert plain["layer.0.attention.scores"].shape == (1, 12, 12, 12)
    changed = run(minilm, "I love Korea", masked=[2], off=[(0, 1), (5,)], rounded=True)
    assert torch.count_nonzero(changed["layer.0.attention.probabilities"][0, 1]) == 0
    assert torch.equal(changed["layer.5.output"], changed["layer.4.output"])
    with pytest.raises(ValueError, match="token 9 .*the text has 5, counted from 0"):
        run(minilm, "I love Korea", masked=[9])


def test_a_notebook_shows_the_page_in_a_frame(tokenizer: Any) -> None:
    page = show(random_model(), tokenizer, "I love <Korea>")
    assert repr(page).startswith("A page of 7 tokens, ")
    reader = read(page._repr_html_())
    assert reader.tags == ["iframe"]
    assert (
        "&lt;!doctype html&gt;" in page._repr_html_()
        and "allow-same-origin" not in page._repr_html_()
    )


@pytest.mark.parametrize(
    "name",
    ["minibert-en", pytest.param("minibert-ko", marks=pytest.mark.slow)],  # the larger one first
)
def test_the_page_of_a_bundled_model_stays_below_20_mb(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for the longest text with all arrays in the page and for the longest of all."""
    model, tokenizer = load_page_model(name)
    embedded = live.embed_model(model, tokenizer)
    # pack the model once for all pages
    monkeypatch.setattr(page_build, "embed_model", lambda *_: embedded)

    def build_page(count: int) -> dict[str, Any]:
        data = page_data(model, tokenizer, ". " * (count - 2))
        size = len(render({"name": name, "source": name, **data}))
        print(f"{name}, {count} tokens: {size / 1e6:.1f} MB")
        assert len(data["tokens"]) == count and size <= 20e6
        return data

    names_and_shapes = [row[:2] for row in build_page(10)["arrays"]["table"]]
    each = (
        sum(
            math.prod(shape)
            for name, shape in names_and_shapes
            if page_build._DETAILS.fullmatch(name)
        )
        // 10
    )
    longest = page_build.MAX_LIVE_DETAILS // each
    assert build_page(longest)["complete"] and not build_page(longest + 1)["complete"]
    assert build_page(page_build.MAX_TOKENS)["arrays"]["table"] == []
