"""Kinds of what people reported of configs, models and tokenizers, beside transformers."""

from __future__ import annotations

import enum
import importlib
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from torch import Tensor, nn

import minibert
from minibert import BertConfig, BertForSequenceClassification, BertModel, BertTokenizer

transformers = importlib.import_module("transformers")
SIZES = {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 1, "vocab_size": 40}
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "well-known", "-", "well", "known"]


class TestChangesOfAConfig:
    """A change counts under each of its names, whatever the file has."""

    @pytest.mark.parametrize(
        ("name", "value", "field", "expected"),
        [
            ("torch_dtype", torch.bfloat16, "dtype", "bfloat16"),
            ("torch_dtype", "float16", "dtype", "float16"),
            ("_attn_implementation", "eager", "attn_implementation", "eager"),
            ("name_or_path", "x", "name_or_path", "x"),
        ],
    )
    def test_older_names(
        self, name: str, value: Any, field: str, expected: Any, tmp_path: Path
    ) -> None:
        BertModel(BertConfig(**SIZES, dtype="float32")).save_pretrained(tmp_path)
        content = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        loaded = BertConfig.from_pretrained(tmp_path)
        change: dict[str, Any] = {name: value}
        configs = [
            BertConfig.from_pretrained(tmp_path, **change),
            minibert.AutoConfig.from_pretrained(tmp_path, **change),
            BertConfig.from_dict(content, **change),
            loaded.replace(**change),
            minibert.AutoModel.from_config(loaded, **change).config,
        ]
        if name != "name_or_path":
            configs.append(BertModel.from_pretrained(tmp_path, config=loaded, **change).config)
            configs.append(BertConfig(**change))
        assert {getattr(config, field) for config in configs} == {expected}

    def test_keywords_of_from_config(self) -> None:
        config = BertConfig(**SIZES)
        model = minibert.AutoModel.from_config(
            config, trust_remote_code=False, add_pooling_layer=False
        )
        assert model.pooler is None
        with pytest.raises(TypeError, match="nonsense"):
            minibert.AutoModel.from_config(config, nonsense=1)

    def test_unused_keywords_of_from_dict(self) -> None:
        options = {"num_labels": 3, "nonsense": 1, "return_unused_kwargs": True}
        for library in (minibert, transformers):
            config, unused = library.BertConfig.from_dict({"hidden_size": 24}, **options)
            assert config.num_labels == 3 and unused == {"nonsense": 1}


class Star(enum.Enum):
    ONE = 1
    TWO = 2


@pytest.mark.parametrize("names", [[1, 2, 3], [False, True], [2.5, 5.0], ["1", 1], list(Star)])
def test_labels_stay_the_values_they_are(names: list[Any], tmp_path: Path) -> None:
    fields = {"id2label": dict(enumerate(names)), "label2id": {x: i for i, x in enumerate(names)}}
    for library in (minibert, transformers):
        config = library.BertConfig(**fields)
        assert list(config.id2label.values()) == names
        assert [config.label2id[name] for name in names] == list(range(len(names)))
        if isinstance(names[0], int | float):
            config.save_pretrained(tmp_path)
            again = library.BertConfig.from_pretrained(tmp_path)
            assert again.id2label == config.id2label


class TestCodeOfACheckpoint:
    """It is never run, and never taken for a plain BERT without a word."""

    def folder(self, folder: Path) -> Path:
        BertModel(BertConfig(**SIZES)).save_pretrained(folder)
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        content["auto_map"] = {"AutoModel": "modeling_gated.GatedBertModel"}
        (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
        (folder / "vocab.txt").write_text("\n".join(TOKENS), encoding="utf-8")
        auto_map = {"AutoTokenizer": ["tokenization_kmers.KmerTokenizer", None]}
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"auto_map": auto_map}), encoding="utf-8"
        )
        return folder

    @pytest.mark.parametrize("options", [{}, {"trust_remote_code": True}])
    def test_a_warning_names_it(self, options: dict[str, Any], tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        for load in (minibert.AutoModel, minibert.AutoModelForSequenceClassification):
            with pytest.warns(UserWarning, match=r"modeling_gated\.GatedBertModel"):
                load.from_pretrained(folder, **options)
        with pytest.warns(UserWarning, match=r"tokenization_kmers\.KmerTokenizer"):
            minibert.AutoTokenizer.from_pretrained(folder, **options)

    def test_a_class_of_ones_own_is_that_code(self, tmp_path: Path) -> None:
        class Gated(BertModel):
            pass

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Gated.from_pretrained(self.folder(tmp_path))


class Wrapped(nn.Module):
    """A part, and then something else of its own."""

    def __init__(self, part: nn.Module, then: Any) -> None:
        super().__init__()
        self.part, self.then = part, then

    def forward(self, hidden_states: Tensor, attention_mask: Any = None, *_: Any, **__: Any) -> Any:
        output = self.part(hidden_states, attention_mask)
        if isinstance(output, tuple):
            return (self.then(output[0]), *output[1:])
        if isinstance(output, Tensor):
            return self.then(output)
        output.last_hidden_state = self.then(output.last_hidden_state)
        return output


NARROW = nn.Linear(24, 12)


@pytest.mark.parametrize("place", ["layer", "encoder"])
@pytest.mark.parametrize(
    "then",
    [
        lambda x: x[:, :2],
        lambda x: torch.cat([x, x], 1),
        lambda x: x.repeat(3, 1, 1),
        lambda x: x.mean(1, keepdim=True),
    ],
    ids=["fewer tokens", "more tokens", "larger batch", "one token"],
)
def test_parts_that_change_the_shape(place: str, then: Any) -> None:
    ids, outputs = torch.tensor([[2, 7, 4, 9, 3], [2, 5, 5, 6, 3]]), []
    torch.manual_seed(0)
    weights = transformers.BertModel(transformers.BertConfig(**SIZES)).state_dict()
    for library in (minibert, transformers):
        model = library.BertModel(library.BertConfig(**SIZES)).eval()
        model.load_state_dict(weights)
        if place == "layer":
            model.encoder.layer[0] = Wrapped(model.encoder.layer[0], then)
        else:
            model.encoder = Wrapped(model.encoder, then)
        outputs.append(model(ids))
    assert torch.equal(outputs[0].last_hidden_state, outputs[1].last_hidden_state)
    assert torch.equal(outputs[0].pooler_output, outputs[1].pooler_output)


def test_an_encoder_that_projects() -> None:
    model = BertModel(BertConfig(**SIZES), add_pooling_layer=False).eval()
    model.encoder = Wrapped(model.encoder, NARROW)
    assert model(torch.tensor([[2, 7, 3]])).last_hidden_state.shape == (1, 3, 12)
    with pytest.raises(ValueError, match=r"shape \(1, 3, 24\), not \(1, 3, 12\)"):
        model(torch.tensor([2, 7, 3]), layout=minibert.PackedLayout([3]))


def test_gradient_accumulation_of_the_trainer(tmp_path: Path) -> None:
    """A batch of four and four batches of one have the same loss, with the guide's remedy."""
    losses = []
    for size, steps in ((4, 1), (1, 4), (2, 2)):
        torch.manual_seed(0)
        config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        rows = [
            {"input_ids": torch.tensor([2, 5 + i % 2, 3]), "labels": torch.tensor(i % 2)}
            for i in range(8)
        ]
        arguments = transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=size, gradient_accumulation_steps=steps,
            max_steps=2, learning_rate=0.1, optim="sgd", max_grad_norm=0.0, report_to=[],
            use_cpu=True, save_strategy="no", logging_steps=1, disable_tqdm=True,
        )  # fmt: skip
        model: Any = BertForSequenceClassification(config)
        model.accepts_loss_kwargs = False
        trainer = transformers.Trainer(model, arguments, train_dataset=rows)
        trainer.train()
        losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    for other in losses[1:]:
        assert other == pytest.approx(losses[0], abs=1e-3)


@pytest.mark.parametrize(
    "name",
    [
        "_supports_sdpa",
        "_keep_in_fp32_modules",
        "_keep_in_fp32_modules_strict",
        "_keys_to_ignore_on_load_missing",
        "_keys_to_ignore_on_load_unexpected",
        "_skip_keys_device_placement",
        "_tp_plan",
        "_is_stateful",
        "_hf_peft_config_loaded",
        "model_tags",
    ],
)
def test_attributes_that_tools_read(name: str) -> None:
    ours, theirs = (x.BertModel(x.BertConfig(**SIZES)) for x in (minibert, transformers))
    assert (getattr(ours, name) or None) == (getattr(theirs, name) or None)


def test_what_a_class_can_do() -> None:
    assert BertModel._can_set_attn_implementation()
    assert BertModel._can_record_outputs["hidden_states"].__name__ == "BertLayer"
    model = minibert.BertForMaskedLM(BertConfig(**SIZES))
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))
    assert model.all_tied_weights_keys == theirs.all_tied_weights_keys
    assert torch.equal(model.dummy_inputs["input_ids"], theirs.dummy_inputs["input_ids"])
    model(**model.dummy_inputs)


def test_all_linear_layers_of_peft() -> None:
    """Only the guide's line leaves out the decoder here: peft asks for a class of transformers."""
    peft = pytest.importorskip("peft")
    names = []
    for library, options in ((minibert, {"exclude_modules": ["decoder"]}), (transformers, {})):
        model = library.BertForMaskedLM(library.BertConfig(**SIZES))
        config = peft.LoraConfig(target_modules="all-linear", **options)
        adapted = peft.get_peft_model(model, config)
        names.append(sorted(adapted.base_model.targeted_module_names))
    assert names[0] == names[1] and len(names[0]) == 7


class TestRowsOfATokenizer:
    """A BERT class has BERT's rows, whatever a tokenizer.json beside it has."""

    def folder(self, folder: Path, class_name: str | None, **change: Any) -> Path:
        (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
        (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
        config = {} if class_name is None else {"tokenizer_class": class_name}
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        model = {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": change.pop("max_input_chars_per_word", 100),
            "vocab": {token: i for i, token in enumerate(TOKENS)},
        }
        normalizer = {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        }
        content = {
            "added_tokens": [],
            "normalizer": normalizer,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": model,
            **change,
        }
        (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    @pytest.mark.parametrize("class_name", ["BertTokenizer", "BertTokenizerFast", None])
    @pytest.mark.parametrize(
        "change",
        [
            {"post_processor": None},
            {"pre_tokenizer": {"type": "WhitespaceSplit"}},
            {"max_input_chars_per_word": 3},
        ],
    )
    def test_the_class_decides(
        self, change: dict[str, Any], class_name: str | None, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path, class_name, **change)
        expected = transformers.AutoTokenizer.from_pretrained(folder)("Well-known red")
        for reader in (BertTokenizer, minibert.AutoTokenizer, minibert.BertTokenizerFast):
            with pytest.warns(UserWarning, match=r"tokenizer\.json.*does not follow"):
                tokenizer = reader.from_pretrained(folder)
            assert tokenizer("Well-known red")["input_ids"] == expected["input_ids"]

    def test_a_file_alone_is_followed(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, None, post_processor=None)
        for read in (BertTokenizer.from_pretrained, BertTokenizer):
            with pytest.warns(UserWarning, match=r"tokenizer\.json has another post_processor"):
                tokenizer = read(str(folder / "tokenizer.json"))
            assert tokenizer("red").tokens() == ["red"]

    def test_a_file_under_the_name_of_a_vocabulary(self, tmp_path: Path) -> None:
        content = self.folder(tmp_path, None).joinpath("tokenizer.json").read_text(encoding="utf-8")
        (tmp_path / "vocab.txt").write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=r"call it tokenizer\.json"):
            BertTokenizer(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize(
    "steps", [["NFD", "Lowercase", "StripAccents"], ["NFD", "StripAccents", "Lowercase"]]
)
def test_the_normalizer_of_the_course(steps: list[str], tmp_path: Path) -> None:
    tokenizers = importlib.import_module("tokenizers")
    words = [
        "[UNK]",
        "[PAD]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "cafe",
        "open",
        "!",
        "##s",
        "i",
        "木",
        "k",
    ]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.normalizer = tokenizers.normalizers.Sequence(
        [getattr(tokenizers.normalizers, step)() for step in steps]
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.decoder = tokenizers.decoders.WordPiece()
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    for text in ("Café open!", "CAFÉS\u0301 İ I\u0307", "a木b \u212a", "x\u0000y\u200bz \u00a0 K"):
        expected = made.encode(text)
        batch = tokenizer(text, return_offsets_mapping=True)
        assert batch["input_ids"] == expected.ids
        assert batch["offset_mapping"] == expected.offsets


def test_names_of_a_tokenizer() -> None:
    tokenizer = BertTokenizer(TOKENS)
    tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
    assert tokenizer.deprecation_warnings == {"Asking-to-pad-a-fast-tokenizer": True}
    with pytest.raises(AttributeError, match="to_transformers"):
        _ = tokenizer._tokenizer
    with pytest.raises(ValueError, match="save it"):
        BertTokenizer(TOKENS, tokenizer_object=object())


def test_an_adapter_is_named_as_such(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    name = "base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight"
    save_file({name: torch.zeros(2, 8)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(FileNotFoundError, match=r"peft\.PeftModel\.from_pretrained"):
        BertModel.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"peft\.PeftModel\.from_pretrained"):
        BertModel.from_pretrained(
            tmp_path / "adapter_model.safetensors", config=BertConfig(**SIZES)
        )
    with pytest.raises(ValueError, match=r"peft\.get_peft_model"):
        BertModel(BertConfig(**SIZES)).load_adapter(tmp_path)


def test_the_code_of_a_config_is_named(tmp_path: Path) -> None:
    config = BertConfig(**SIZES)
    config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(
        json.dumps({**content, "auto_map": {"AutoConfig": "own.OwnConfig"}}), encoding="utf-8"
    )
    with pytest.warns(UserWarning, match=r"own\.OwnConfig"):
        minibert.AutoConfig.from_pretrained(tmp_path, trust_remote_code=True)


def test_the_warning_of_a_long_row_is_silenced_as_in_transformers() -> None:
    tokenizer = BertTokenizer(TOKENS, model_max_length=4)
    name = "sequence-length-is-longer-than-the-specified-maximum"
    tokenizer.deprecation_warnings[name] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer("red red red red")
    with pytest.warns(UserWarning, match="truncation=True"):
        BertTokenizer(TOKENS, model_max_length=4)("red red red red")


@pytest.mark.parametrize("extra", ["additional_special_tokens", "extra_special_tokens"])
def test_ids_of_special_tokens_that_are_added_together(extra: str) -> None:
    """The older name of the extra tokens comes last, wherever it stands, as in transformers."""
    ids = []
    for library in (minibert, transformers):
        tokenizer = library.BertTokenizer({token: i for i, token in enumerate(TOKENS)})
        tokenizer.add_special_tokens({extra: ["<x>"], "bos_token": "<b>", "eos_token": "<e>"})
        ids.append(tokenizer.convert_tokens_to_ids(["<x>", "<b>", "<e>"]))
    assert ids[0] == ids[1]


def test_a_tokenizer_takes_the_config_that_chooses_its_class(tmp_path: Path) -> None:
    config = BertConfig(**SIZES)
    BertTokenizer(TOKENS).save_pretrained(tmp_path)
    tokenizer = minibert.AutoTokenizer.from_pretrained(tmp_path, config=config)
    assert tokenizer("red").input_ids == [2, 5, 3]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: BertModel.register_for_auto_class("AutoModel"), ValueError),
        (lambda: BertConfig.register_for_auto_class(), ValueError),
        (lambda: BertTokenizer.register_for_auto_class(), ValueError),
        (lambda: BertModel(BertConfig(**SIZES)).active_adapters(), ValueError),
        (lambda: BertModel(BertConfig(**SIZES)).get_position_embeddings(), NotImplementedError),
        (lambda: minibert.PreTrainedTokenizerFast, AttributeError),
    ],
)
def test_what_there_is_not_is_said(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="minibert has no|BERT"):
        call()


def test_token_types_of_a_folder_that_names_no_inputs(tmp_path: Path) -> None:
    """PreTrainedTokenizerFast had them in transformers 4, with which such models were trained."""
    spec = BertTokenizer(TOKENS, components={"pre_tokenizer": {"type": "WhitespaceSplit"}}).spec
    spec.to_folder(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_bytes())
    assert config.pop("tokenizer_class") == "PreTrainedTokenizerFast"
    named = config.pop("model_input_names")
    for inputs in (None, named, ["input_ids"]):
        content = {**config, "tokenizer_class": "PreTrainedTokenizerFast"}
        if inputs is not None:
            content["model_input_names"] = inputs
        path.write_text(json.dumps(content), encoding="utf-8")
        ours = minibert.AutoTokenizer.from_pretrained(tmp_path)("red", "red")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)("red", "red")
        expected = dict(theirs)
        if inputs is None:
            assert "token_type_ids" not in theirs
            expected["token_type_ids"] = [0, 0, 0, 1, 1]
        assert dict(ours) == expected
