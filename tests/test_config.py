"""BertConfig: reading and writing config.json, and errors that name the field."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from conftest import CHECKOUT, shared_data
from hypothesis import given, strategies as st

from minibert import BertConfig, BertModel
from minibert.config import CHOICES
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
    """Sizes match google-research/bert's README."""
    config = BertConfig.from_preset(name)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (
        layers,
        hidden,
        heads,
    )
    assert config.intermediate_size == 4 * hidden and hidden == 64 * heads
    assert BertConfig.from_preset(name, num_labels=3).num_labels == 3


def test_unknown_preset() -> None:
    with pytest.raises(
        ValueError,
        match="'huge'.* base, large, medium, mini, small, tiny",
    ):
        BertConfig.from_preset("huge")


def test_the_config_files_are_the_presets() -> None:
    assert {path.stem for path in (CHECKOUT / "configs").iterdir()} == {
        "tiny",
        "mini",
        "small",
        "medium",
        "base",
        "large",
    }


def test_defaults_equal_those_of_transformers() -> None:
    ours, theirs = BertConfig(), transformers.BertConfig()
    for field in dataclasses.fields(ours):
        if field.name in ("extra", "attn_implementation"):
            continue
        if hasattr(theirs, field.name):
            assert getattr(ours, field.name) == getattr(theirs, field.name), field.name


@pytest.mark.parametrize("name", ["kcbert-base", "kcbert-large"])
def test_official_files(name: str, tmp_path: Path) -> None:
    """Missing fields get BERT's defaults, and unknown fields are written back."""
    folder = shared_data("data", name)
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = BertConfig.from_pretrained(folder)
    assert (config.max_position_embeddings, config.vocab_size) == (300, 30000)
    assert config.layer_norm_eps == 1e-12 and config.pad_token_id == 0
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert content.items() <= saved.items()
    assert BertConfig.from_pretrained(tmp_path) == config


def test_a_file_without_model_type_is_bert() -> None:
    """prajjwal1/bert-tiny's config.json has only sizes."""
    config = BertConfig(
        hidden_size=128, num_attention_heads=2, num_hidden_layers=2, vocab_size=30522
    )
    assert config.model_type == "bert"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "roberta"}, "model_type='roberta' is not supported: minibert loads BERT"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type='relative_key' is not supported",
        ),
        ({"is_decoder": True}, "is_decoder=True is not supported"),
        ({"add_cross_attention": True}, "add_cross_attention=True is not supported"),
        ({"hidden_act": "glu"}, "hidden_act should be one of gelu, .*, not 'glu'"),
        ({"hidden_size": -1}, "hidden_size should be a whole number of 1 or more, not -1"),
        ({"vocab_size": "many"}, "vocab_size should be a whole number of 1 or more, not 'many'"),
        (
            {"hidden_dropout_prob": 1.5},
            "hidden_dropout_prob should be a probability between 0 and 1, not 1.5",
        ),
        ({"layer_norm_eps": "1e-12"}, "layer_norm_eps should be a number of 0 or more"),
        ({"pad_token_id": 30522}, r"pad_token_id should be below vocab_size \(30522\), not 30522"),
        ({"attn_implementation": "flash"}, "attn_implementation should be one of sdpa, eager"),
        ({"problem_type": "guess"}, "problem_type should be one of regression"),
        ({"id2label": {"1": "a"}}, r"id2label should number one or more labels from 0, not \[1\]"),
        ({"num_labels": 0}, "id2label should number one or more labels"),
        ({"num_labels": 3, "id2label": {0: "a"}}, "num_labels is 3, but id2label names 1"),
    ],
)
def test_errors_name_the_field(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BertConfig.from_dict(values)


def test_labels() -> None:
    assert BertConfig().id2label == {0: "LABEL_0", 1: "LABEL_1"}
    named = BertConfig(id2label={"1": "no", "0": "yes"})
    assert named.label2id == {"yes": 0, "no": 1} and named.num_labels == 2
    assert BertConfig(label2id={"yes": 0, "no": 1}) == named
    assert named.replace(num_labels=2) == named  # an unchanged number keeps the names
    assert named.replace(num_labels=3).id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    assert BertConfig.from_dict(named.to_dict()) == named


def test_a_hidden_size_that_the_heads_do_not_divide() -> None:
    """The config accepts it, as fields are set one by one, and building a model raises an error."""
    config = BertConfig(hidden_size=37)
    with pytest.raises(
        ValueError, match=r"hidden_size \(37\) should be a multiple of num_attention_heads \(12\)"
    ):
        BertModel(config)
    config.num_attention_heads = 37
    assert BertModel(config.replace(num_hidden_layers=1)).config.hidden_size == 37


def test_fields_can_be_assigned() -> None:
    config = BertConfig()
    assert config.replace(hidden_size=24).hidden_size == 24
    assert config.hidden_size == 768
    config.hidden_size = 24
    assert config.hidden_size == 24
    config.torch_dtype = torch.float16
    assert config.dtype == "float16"
    assert config.torch_dtype is torch.float16
    config.dtype = torch.float64  # type: ignore[assignment]
    assert json.loads(config.to_json_string())["dtype"] == config.replace().dtype == "float64"
    assert config.torch_dtype is torch.float64
    config._attn_implementation = "eager"
    assert config.attn_implementation == "eager"
    config.update({"output_attentions": True, "problem_type": "regression"})
    assert config.output_attentions
    assert config.problem_type == "regression"
    config.note = "mine"
    assert config.to_dict()["note"] == "mine"


def test_labels_can_be_assigned() -> None:
    config = BertConfig()
    config.num_labels = 3
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    config.id2label = {1: "b", 0: "a"}
    assert config.label2id == {"a": 0, "b": 1}
    assert config.num_labels == 2
    config.label2id = {"x": 0}
    assert config.id2label == {0: "x"}


def test_fields_of_other_tools_are_in_vars() -> None:
    """TransformerLens sets its own fields on a copy and reads them from `vars`."""
    config = copy.deepcopy(BertConfig(hidden_size=24))
    config.d_model = config.hidden_size
    config.num_labels = 3
    assert vars(config)["d_model"] == vars(config)["hidden_size"] == 24
    assert config.replace(num_labels=2).d_model == 24
    assert "d_model" not in config.extra and config.to_dict()["d_model"] == 24


def test_the_constructor_shows_its_keywords() -> None:
    parameters = inspect.signature(BertConfig).parameters
    assert {"hidden_size", "num_labels", "label2id"} <= parameters.keys()
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hidden_size", "wide", "hidden_size should be a whole number of 1 or more, not 'wide'"),
        ("num_labels", 0, "id2label should number one or more labels"),
        ("return_dict", 1, "return_dict should be true or false, not 1"),
        ("is_decoder", True, "is_decoder=True is not supported: minibert is an encoder"),
    ],
)
def test_assigned_values_are_checked_when_a_model_is_built(
    name: str, value: Any, message: str
) -> None:
    config = BertConfig(num_hidden_layers=0)
    setattr(config, name, value)
    with pytest.raises(ValueError, match=message):
        BertModel(config)


def test_a_misspelled_field_raises_an_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'hiden_size'"):
        BertConfig(hiden_size=64)
    with pytest.raises(TypeError, match="no field 'hiden_size'. Did you mean 'hidden_size'"):
        BertConfig().replace(hiden_size=1)
    with pytest.raises(TypeError, match="no field 'xyz'. Keep fields of your own in extra"):
        BertConfig().replace(xyz=1)
    with pytest.raises(AttributeError, match="BertConfig has no field 'quantization_config'"):
        BertConfig().quantization_config  # noqa: B018


def test_unknown_fields_of_a_file_are_kept() -> None:
    config = BertConfig.from_dict({"hiden_size": 64}, num_labels=3)
    assert (config.hidden_size, config.num_labels, config.hiden_size) == (768, 3, 64)
    assert config.to_dict()["hiden_size"] == 64
    assert BertConfig(extra={"hiden_size": 64}).hiden_size == 64


def test_every_field_of_the_reference_can_be_read_and_passed_on() -> None:
    theirs = transformers.BertConfig(num_labels=3, hidden_size=24, num_attention_heads=2)
    ours = BertConfig.from_dict(theirs.to_dict())
    for name in (*theirs.to_dict(), "name_or_path", "use_return_dict", "_attn_implementation"):
        if name not in ("_attn_implementation", "transformers_version"):
            assert getattr(ours, name) == getattr(theirs, name), name
    ours.use_cache, ours.chunk_size_feed_forward = False, 7
    assert transformers.BertConfig(**ours.to_dict()).use_cache is ours.use_cache is False
    assert BertConfig.from_dict(ours.to_dict()) == ours
    assert ours.to_dict()["chunk_size_feed_forward"] == 7


def test_a_config_is_a_mapping(tmp_path: Path) -> None:
    config = BertConfig(num_labels=3, num_hidden_layers=1)
    assert config.get_text_config() is config
    assert dict(config) == {**config} == config.to_dict() and "hidden_size" in config
    assert config.get("hidden_size") == config["hidden_size"] == 768
    assert config.get("nothing", 5) == 5
    assert config.to_diff_dict().keys() == {
        "model_type",
        "num_hidden_layers",
        "id2label",
        "label2id",
    }
    assert repr(config) == f"BertConfig {config.to_json_string()}"
    assert '\n  "hidden_size": 768,' in repr(config)
    assert config.to_json_string(use_diff=True) == json.dumps(config.to_diff_dict(), indent=2)
    config.to_json_file(tmp_path / "mine.json", use_diff=True)
    assert BertConfig.from_json_file(tmp_path / "mine.json") == config
    for again in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        again.num_labels = 4
        assert again.num_labels == 4 and config.num_labels == 3


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_labels": 10**9},
        {"num_hidden_layers": 10**6, "hidden_size": 1, "intermediate_size": 1},
        {"vocab_size": 10**18},
        {"hidden_size": 10**18},
        {"intermediate_size": 10**18},
        {"max_position_embeddings": 10**18},
        {"type_vocab_size": 10**18},
        {"num_labels": 10**18},
    ],
)
def test_a_file_with_impossible_sizes_raises_an_error(
    sizes: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(sizes), encoding="utf-8")
    with pytest.raises(ValueError, match="would be .*, more than .*. Pass limits="):
        BertConfig.from_pretrained(tmp_path)


def test_limits_can_be_raised(tmp_path: Path) -> None:
    BertConfig(vocab_size=6_000_000).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="Pass limits={'parameters': 4[0-9]{9}}"):
        BertConfig.from_pretrained(tmp_path)
    config = BertConfig.from_pretrained(tmp_path, limits={"parameters": 5 * 10**9})
    assert config.vocab_size == 6_000_000
    assert "limits" not in config.to_dict()


def test_pad_token_id_and_classifier_dropout_may_be_none() -> None:
    assert BertConfig(pad_token_id=None).pad_token_id is None
    assert BertConfig(classifier_dropout=None).classifier_dropout is None


def test_activations_are_those_of_the_encoder() -> None:
    assert set(CHOICES["hidden_act"]) == ACTIVATIONS.keys()


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for content, message in [
        (b"{", "is not JSON"),
        (b"\xff\xfe", "line 1 of .* is not UTF-8"),
        (b'{"hidden_size": 1' + b"0" * 5000 + b"}", "is not JSON .*4300"),
        (b"[]", "should hold a JSON object but holds a list"),
        (b'{"model_type": "gpt2"}', "config.json: model_type='gpt2' is not supported"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            BertConfig.from_pretrained(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
FIELDS = [field.name for field in dataclasses.fields(BertConfig)]


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), JSON, max_size=6))
def test_any_json_object_is_a_config_or_a_clear_error(values: dict[str, Any]) -> None:
    """Any config.json gives a config that can be saved and read back, or a ValueError."""
    try:
        config = BertConfig.from_dict(values)
    except ValueError as error:
        assert str(error)
        return
    text = config.to_json_string()
    assert BertConfig.from_dict(json.loads(text)).to_json_string() == text


@pytest.mark.parametrize("old_first", [True, False])
def test_the_new_name_of_a_field_takes_precedence(old_first: bool) -> None:
    values = {"torch_dtype": "float16", "dtype": "float32"}
    if not old_first:
        values = {"dtype": "float32", "torch_dtype": "float16"}
    assert BertConfig.from_dict(values).dtype == "float32"
    assert BertConfig.from_dict({"torch_dtype": "float16", "dtype": None}).dtype == "float16"


class NamedInInit(BertConfig):
    def __init__(self, exits: int = 1, **fields: Any) -> None:
        super().__init__(**fields)
        self.exits = exits


class NamedBefore(BertConfig):
    def __init__(self, exits: int = 1, **fields: Any) -> None:
        self.exits = exits
        self.widths = [8] * exits
        super().__init__(**fields)


class Popped(BertConfig):
    def __init__(self, **fields: Any) -> None:
        self.exits = fields.pop("exits", 1)
        super().__init__(**fields)


class Looked(BertConfig):
    model_type = "exits"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.exits = fields.get("exits", 1)


class Narrower(NamedInInit):
    def __init__(self, hidden_size: int = 24, **fields: Any) -> None:
        super().__init__(hidden_size=hidden_size, **fields)


@dataclasses.dataclass(kw_only=True)
class AsDataclass(BertConfig):
    exits: int = 1


class Annotated(BertConfig):
    exits: int = 1  # without @dataclass, as transformers 5 takes it


class Mapped(NamedInInit):
    attribute_map = {"width": "hidden_size", "labels": "num_labels"}


class OwnType(NamedInInit):
    model_type = "bert-with-exits"


OWN_CONFIGS = [
    NamedInInit,
    NamedBefore,
    Popped,
    Looked,
    Narrower,
    AsDataclass,
    Annotated,
    Mapped,
    OwnType,
]


@pytest.mark.parametrize("config_class", OWN_CONFIGS)
def test_a_config_of_a_users_class_comes_back_as_it_was(config_class: Any, tmp_path: Path) -> None:
    config = config_class(exits=3, hidden_size=24, num_attention_heads=2, num_labels=5)
    config.save_pretrained(tmp_path)
    again = config_class.from_pretrained(tmp_path)
    assert (again.exits, again.hidden_size, again.num_labels) == (3, 24, 5)
    again.name_or_path = config.name_or_path
    assert again.to_dict() == config.to_dict()
    for changed in (
        config_class.from_pretrained(tmp_path, exits=2),
        config_class.from_dict(config.to_dict(), exits=2),
        config.replace(exits=2),
    ):
        assert (changed.exits, changed.hidden_size) == (2, 24)
    assert config.replace(num_labels=2).exits == copy.deepcopy(config).exits == 3

    class Exits(BertModel):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.heads = torch.nn.ModuleList(torch.nn.Linear(24, 2) for _ in range(config.exits))

    Exits.config_class = config_class
    Exits(config.replace(num_hidden_layers=1)).save_pretrained(tmp_path)
    model = Exits.from_pretrained(tmp_path)
    assert len(model.heads) == 3 and isinstance(model.config, config_class)
    with pytest.warns(UserWarning, match="heads.2.bias.*not loaded"):
        assert len(Exits.from_pretrained(tmp_path, exits=2).heads) == 2


def test_a_misspelled_field_of_a_config_class_is_an_error(tmp_path: Path) -> None:
    NamedInInit(exits=3, note="kept").save_pretrained(tmp_path)
    with pytest.raises(TypeError, match="NamedInInit has no field 'exit'. Did you mean 'exits'"):
        NamedInInit.from_pretrained(tmp_path, exit=2)
    with pytest.raises(TypeError, match="NamedInInit has no field 'exit'. Did you mean 'exits'"):
        NamedInInit(exits=3).replace(exit=2)
    assert NamedInInit(exits=3, note="kept").replace(note="changed").note == "changed"
    config = NamedInInit.from_pretrained(tmp_path, note="changed")
    assert (config.exits, config.note) == (3, "changed")


def test_other_names_of_fields(tmp_path: Path) -> None:
    config = Mapped(width=24, num_attention_heads=2)
    assert config.width == config.hidden_size == 24 and "width" not in config.to_dict()
    config.labels = 3
    config.save_pretrained(tmp_path)
    assert Mapped.from_pretrained(tmp_path, width=48).hidden_size == 48
    assert Mapped.from_pretrained(tmp_path).labels == 3


def test_a_value_assigned_over_a_class_attribute_comes_back(tmp_path: Path) -> None:
    config = Annotated()
    config.exits = 3
    config.save_pretrained(tmp_path)
    assert Annotated.from_pretrained(tmp_path).exits == 3 and Annotated().exits == 1
    with pytest.raises(TypeError, match="unexpected keyword argument 'exit'"):
        Annotated(exit=2)


def test_a_config_inside_a_config(tmp_path: Path) -> None:
    config = BertConfig()
    config.teacher = BertConfig(hidden_size=24, num_attention_heads=2)
    config.save_pretrained(tmp_path)
    assert BertConfig.from_pretrained(tmp_path).teacher["hidden_size"] == 24


@pytest.mark.parametrize("helper", ["_check", "_field_values", "_notes", "check", "notes"])
def test_helpers_of_a_users_config_are_never_called(helper: str, tmp_path: Path) -> None:
    own = type("Own", (BertConfig,), {helper: lambda *_: pytest.fail("called by minibert")})
    own().replace(num_labels=3).save_pretrained(tmp_path)
    assert own.from_pretrained(tmp_path).num_labels == 3


def test_a_model_type_of_ones_own_needs_its_class(tmp_path: Path) -> None:
    OwnType(num_hidden_layers=1).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="model_type='bert-with-exits' is not supported"):
        BertConfig.from_pretrained(tmp_path)
    BertConfig(num_hidden_layers=1).save_pretrained(tmp_path)
    assert OwnType.from_pretrained(tmp_path).num_hidden_layers == 1


@pytest.mark.parametrize("labels", [{1: "a", 2: "b"}, {0: "a", 2: "c"}])
def test_labels_that_do_not_count_from_0_name_the_argument(
    labels: dict[int, str], tmp_path: Path
) -> None:
    config = BertConfig(num_hidden_layers=1)
    config.id2label = labels
    config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"id2label .* from 0, not .*Pass id2label=\{0: ..."):
        BertConfig.from_pretrained(tmp_path)
    named = BertConfig.from_pretrained(tmp_path, id2label={0: "a", 1: "b"})
    assert named.id2label == {0: "a", 1: "b"}


@pytest.mark.parametrize("name", ["model_type", "transformers_version", "my_field"])
def test_the_error_for_an_unknown_field_names_from_dict(name: str) -> None:
    with pytest.raises(TypeError, match=f"argument '{name}'.* BertConfig.from_dict"):
        BertConfig(**{name: "roberta"})


@pytest.mark.parametrize("values", [{}, {"num_labels": 3}, {"hidden_size": 24, "dtype": "float16"}])
def test_a_config_is_made_again_from_its_dict(values: dict[str, Any]) -> None:
    config = BertConfig(**values)
    assert type(config)(**config.to_dict()) == config


def test_the_api_of_autoconfig(tmp_path: Path) -> None:
    assert BertConfig.for_model("bert", hidden_size=24).hidden_size == 24
    with pytest.raises(ValueError, match="model_type='gpt2' is not supported"):
        BertConfig.for_model("gpt2")
    BertConfig(num_labels=3).save_pretrained(save_directory=tmp_path, push_to_hub=False)
    content, rest = BertConfig.get_config_dict(tmp_path, revision="main", exits=2)
    assert content["model_type"] == "bert" and rest == {"exits": 2}
    config, unused = BertConfig.from_pretrained(
        tmp_path, return_unused_kwargs=True, num_labels=4, exits=2
    )
    assert config.num_labels == 4 and unused == {"exits": 2}
    assert BertConfig().to_dict()["id2label"][0] == "LABEL_0"
    with pytest.raises(ValueError, match="push_to_hub=True is not supported"):
        BertConfig().save_pretrained(tmp_path, push_to_hub=True)
