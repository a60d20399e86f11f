"""Loading with all that a checkpoint holds, and how few objects that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import HEADS, tiny_config

import minibert
from minibert import BertConfig, BertModel, SentenceEmbedder
from minibert.auto import load_with_heads
from minibert.checkpoints.source import Source
from minibert.study.page.build import write_page


@pytest.mark.parametrize("name", ["BertModel", *HEADS])
def test_the_class_follows_the_tensors(name: str, tmp_path: Path) -> None:
    getattr(minibert, name)(tiny_config()).save_pretrained(tmp_path)
    minibert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]).save_pretrained(tmp_path)
    model, tokenizer = load_with_heads(tmp_path)
    assert type(model).__name__ == name and tokenizer.tokenize("a") == ["a"]
    assert model.load_report is not None
    assert not (model.load_report.missing or model.load_report.left_out or model.load_report.unexpected)


@pytest.mark.parametrize("name", ["AutoModel", *(head.replace("BertFor", "AutoModelFor") for head in HEADS)])
def test_auto_classes_make_new_models(name: str) -> None:
    config = tiny_config()
    model = getattr(minibert, name).from_config(config)
    assert type(model).__name__ == name.replace("AutoModel", "Bert" if "For" in name else "BertModel")
    assert model.config is config and model.training


def test_no_pooler_is_drawn_for_a_checkpoint_without_one(tmp_path: Path) -> None:
    BertModel(tiny_config(), add_pooling_layer=False).save_pretrained(tmp_path)
    minibert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]).save_pretrained(tmp_path)
    model, _ = load_with_heads(tmp_path)
    assert model.base_model.pooler is None


LOADS: dict[str, Callable[[str, Path], object]] = {
    "BertModel": lambda name, _: BertModel.from_pretrained(name),
    "SentenceEmbedder": lambda name, _: SentenceEmbedder.from_pretrained(name, precision=None),
    "write_page": lambda name, folder: write_page(folder / "page.html", name, "Paris is in France"),
}


@pytest.mark.parametrize("what", LOADS)
def test_one_source_is_made_and_handed_on(
    what: str, minilm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[str] = Counter()
    for kind, method in ((Source, "__init__"), (BertConfig, "_set")):  # each config is filled by `_set`
        original = getattr(kind, method)

        def counted(self: object, *args: object, _original: Any = original, **options: object) -> None:
            made[type(self).__name__] += 1
            _original(self, *args, **options)

        monkeypatch.setattr(kind, method, counted)
    LOADS[what]("minibert-tiny" if what == "write_page" else minilm, tmp_path)
    assert made["Source"] == 1
    assert 1 <= made["BertConfig"] <= 2


def test_a_source_has_its_options_already() -> None:
    source = Source("minibert-tiny")
    assert Source.of(source) is source
    with pytest.raises(ValueError, match="revision belongs to the Source"):
        BertModel.from_pretrained(source, revision="main")
