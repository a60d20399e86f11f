"""Loading a checkpoint with its heads, and AutoModel classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import HEADS, tiny_config

import minibert
from minibert import BertModel
from minibert.checkpoints.source import Source
from minibert.encoders.auto import load_with_heads
from minibert.util.files import write_json


@pytest.mark.parametrize("name", ["BertModel", *HEADS])
def test_the_tensors_determine_the_class(name: str, tmp_path: Path) -> None:
    getattr(minibert, name)(tiny_config()).save_pretrained(tmp_path)
    minibert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]).save_pretrained(
        tmp_path
    )
    model, tokenizer = load_with_heads(tmp_path)
    assert type(model).__name__ == name and tokenizer.tokenize("a") == ["a"]
    assert model.load_report is not None
    assert not (
        model.load_report.missing or model.load_report.left_out or model.load_report.unexpected
    )


@pytest.mark.parametrize(
    "name", ["AutoModel", *(head.replace("BertFor", "AutoModelFor") for head in HEADS)]
)
def test_auto_classes_build_and_load_bert_and_reject_other_models(
    name: str, tmp_path: Path
) -> None:
    auto, config = getattr(minibert, name), tiny_config()
    model = auto.from_config(config)
    assert type(model).__name__ == name.replace(
        "AutoModel", "Bert" if "For" in name else "BertModel"
    )
    assert model.config is config and model.training
    model.save_pretrained(tmp_path)
    assert type(auto.from_pretrained(tmp_path)) is type(model)
    write_json(tmp_path / "config.json", {**config.to_dict(), "model_type": "roberta"})
    with pytest.raises(ValueError, match="model_type='roberta' is not supported"):
        auto.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "name", ["AutoConfig", "AutoModel", "AutoModelForMaskedLM", "AutoTokenizer"]
)
def test_there_is_nothing_to_register(name: str) -> None:
    with pytest.raises(ValueError, match="Load your own classes by their names"):
        getattr(minibert, name).register("mine", minibert.BertConfig)


def test_a_checkpoint_without_a_pooler_gets_none(tmp_path: Path) -> None:
    BertModel(tiny_config(), add_pooling_layer=False).save_pretrained(tmp_path)
    minibert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]).save_pretrained(tmp_path)
    model, _ = load_with_heads(tmp_path)
    assert model.base_model.pooler is None


def test_a_huge_missing_head_raises_an_error(tmp_path: Path) -> None:
    """The error comes before the memory is allocated."""
    BertModel(tiny_config(hidden_size=64)).save_pretrained(tmp_path)
    with pytest.raises(
        ValueError, match=r"is missing 6[0-9,]+ parameters .* num_labels 1,000,000: correct it"
    ):
        minibert.BertForSequenceClassification.from_pretrained(tmp_path, num_labels=1_000_000)


def test_a_source_takes_no_further_options() -> None:
    source = Source("minibert-tiny")
    assert Source.of(source) is source
    with pytest.raises(ValueError, match="revision belongs to the Source"):
        BertModel.from_pretrained(source, revision="main")
