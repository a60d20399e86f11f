"""BertConfig: official files in, the same fields out, and refusals by name."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from conftest import CHECKOUT, shared_data
from hypothesis import given, strategies as st

from minibert import BertConfig
from minibert.config import _CHOICES
from minibert.encoder import ACTIVATIONS


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads"),
    [
        ("tiny", 2, 128, 2),
        ("mini", 4, 256, 4),
        ("small", 4, 512, 8),
        ("medium", 8, 512, 8),
        ("base", 12, 768, 12),
        ("large", 24, 1024, 16),
    ],
)
def test_presets(name: str, layers: int, hidden: int, heads: int) -> None:
    """The sizes of google-research/bert's README, feed-forward layers 4 H wide, 64 numbers a head."""
    config = BertConfig.from_preset(name)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (layers, hidden, heads)
    assert config.intermediate_size == 4 * hidden and hidden == 64 * heads
    assert BertConfig.from_preset(name, num_labels=3).num_labels == 3


def test_unknown_preset() -> None:
    with pytest.raises(ValueError, match="no preset 'huge'; the presets are base, large, medium, mini, small, tiny"):
        BertConfig.from_preset("huge")


def test_every_preset_file_is_one() -> None:
    assert {path.stem for path in (CHECKOUT / "configs").iterdir()} == {
        "tiny",
        "mini",
        "small",
        "medium",
        "base",
        "large",
    }


def test_defaults_are_the_reference_s() -> None:
    ours, theirs = BertConfig(), transformers.BertConfig()
    for field in dataclasses.fields(ours):
        if field.name not in ("extra", "attn_implementation"):
            assert getattr(ours, field.name) == getattr(theirs, field.name), field.name


@pytest.mark.parametrize("name", ["kcbert-base", "kcbert-large"])
def test_official_files(name: str, tmp_path: Path) -> None:
    """What kcbert leaves out has BERT's defaults, and what only it has is written back."""
    folder = shared_data("data", name)
    content = json.loads((folder / "config.json").read_text())
    config = BertConfig.from_pretrained(folder)
    assert (config.max_position_embeddings, config.vocab_size) == (300, 30000)
    assert config.layer_norm_eps == 1e-12 and config.pad_token_id == 0
    config.save_pretrained(tmp_path)
    assert content.items() <= json.loads((tmp_path / "config.json").read_text()).items()
    assert BertConfig.from_pretrained(tmp_path) == config


def test_a_file_without_model_type_is_bert() -> None:
    """prajjwal1/bert-tiny's config.json has nothing but sizes."""
    config = BertConfig(hidden_size=128, num_attention_heads=2, num_hidden_layers=2, vocab_size=30522)
    assert config.model_type == "bert"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "roberta"}, "model_type 'roberta' is not bert"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key' is not supported"),
        ({"is_decoder": True}, "is_decoder=true is not supported"),
        ({"add_cross_attention": True}, "add_cross_attention=true is not supported"),
        ({"hidden_act": "glu"}, "hidden_act should be one of gelu, .*, not 'glu'"),
        ({"hidden_size": 100}, r"hidden_size \(100\) should be a multiple of num_attention_heads \(12\)"),
        ({"hidden_size": -1}, "hidden_size should be a whole number of 1 or more, not -1"),
        ({"vocab_size": "many"}, "vocab_size should be a whole number of 1 or more, not 'many'"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob should be a probability between 0 and 1, not 1.5"),
        ({"layer_norm_eps": "1e-12"}, "layer_norm_eps should be a number of 0 or more"),
        ({"pad_token_id": 30522}, r"pad_token_id should be below vocab_size \(30522\), not 30522"),
        ({"attn_implementation": "flash"}, "attn_implementation should be one of sdpa, eager"),
        ({"problem_type": "guess"}, "problem_type should be one of regression"),
        ({"id2label": {"1": "a"}}, r"id2label should number one or more labels from 0, not \[1\]"),
        ({"num_labels": 0}, "id2label should number one or more labels"),
        ({"num_labels": 3, "id2label": {0: "a"}}, "num_labels is 3, but id2label names 1"),
    ],
)
def test_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BertConfig(**values)


def test_labels() -> None:
    assert BertConfig().id2label == {0: "LABEL_0", 1: "LABEL_1"}
    named = BertConfig(id2label={"1": "no", "0": "yes"})
    assert named.label2id == {"yes": 0, "no": 1} and named.num_labels == 2
    assert BertConfig(label2id={"yes": 0, "no": 1}) == named
    assert named.replace(num_labels=2) == named  # the same number keeps the names
    assert named.replace(num_labels=3).id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    assert BertConfig(**named.to_dict()) == named


def test_it_does_not_change() -> None:
    config = BertConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_size = 5  # type: ignore[misc]
    assert config.replace(hidden_size=24).hidden_size == 24 and config.hidden_size == 768


def test_no_padding_word_is_a_choice() -> None:
    assert BertConfig(pad_token_id=None).pad_token_id is None
    assert BertConfig(classifier_dropout=None).classifier_dropout is None


def test_activations_are_those_of_the_encoder() -> None:
    assert set(_CHOICES["hidden_act"]) == ACTIVATIONS.keys()


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for content, message in [
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8 in line 1"),
        (b'{"hidden_size": 1' + b"0" * 5000 + b"}", "is not JSON .*4300 digits"),
        (b"[]", "should hold a JSON object but holds a list"),
        (b'{"model_type": "gpt2"}', "model_type 'gpt2' is not bert.*config.json"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            BertConfig.from_pretrained(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [field.name for field in dataclasses.fields(BertConfig)]


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), JSON, max_size=6))
def test_any_json_object_is_a_config_or_a_clear_error(values: dict[str, Any]) -> None:
    """Whatever a config.json holds: a config that survives being saved, or one ValueError."""
    try:
        config = BertConfig(**values)
    except ValueError as error:
        assert str(error)
        return
    assert BertConfig(**json.loads(config.to_json_string())).to_dict() == json.loads(config.to_json_string())


@pytest.mark.parametrize("old_first", [True, False])
def test_the_new_name_of_a_field_counts(old_first: bool) -> None:
    both = {"torch_dtype": "float16", "dtype": "float32"}
    assert BertConfig(**(both if old_first else dict(reversed(both.items())))).dtype == "float32"
    assert BertConfig(torch_dtype="float16", dtype=None).dtype == "float16"
