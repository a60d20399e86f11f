"""Classes that people write for transformers, with only the import changed (own_classes.py)."""

from __future__ import annotations

import types
import warnings
from pathlib import Path
from typing import Any

import own_classes
import pytest
import torch
from own_classes import CLASSES, HeadsConfig
from torch import nn

from minibert import BertConfig, BertModel, BertPreTrainedModel

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "num_labels": 3,
    "attn_implementation": "eager",
}
BATCH = {
    "input_ids": torch.tensor([[1, 5, 6, 7, 8, 2], [1, 9, 10, 11, 2, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]]),
    "token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]]),
    "labels": torch.tensor([[0, 1, 2, 0, 1, 2], [2, 1, 0, 2, 1, 0]]),
}
NAMES = [model_class.__name__ for model_class in CLASSES]
each_class = pytest.mark.parametrize("name", NAMES)
# Their layers follow the encoder, and are saved and loaded as those of LinearTagger and RBERT are.
ORDINARY = {
    "AttentionPooled", "Biaffine", "ColBERT", "Documents", "EntityStart", "ExtraFeatures",
    "FocalLoss", "GRUHead", "Gated", "LSTMTagger", "LabelAttention", "LabelSmoothed",
    "LastFourLayers", "MarginRanker", "MeanPooled", "MultiSampleDropout", "Ordinal", "RDrop",
    "ScalarMix", "Siamese", "SimCSE", "SpanPointer", "SpanWidths", "TextCNN", "Triplets",
    "WeightedLoss",
}  # fmt: skip
each_class_quickly = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in ORDINARY else []) for name in NAMES],
)


def build(name: str, module: Any = own_classes) -> Any:
    torch.manual_seed(0)
    config_class = module.HeadsConfig if name == "OwnConfig" else module.BertConfig
    fields = {**SIZES, "head_layers": 2} if name == "OwnConfig" else SIZES
    return getattr(module, name)(config_class(**fields))


@pytest.fixture(scope="module")
def twins() -> Any:
    """The same file on transformers."""
    pytest.importorskip("transformers")
    source = Path(own_classes.__file__).read_text(encoding="utf-8")
    assert source.count("from minibert import (") == 1
    twins = types.ModuleType("own_classes_on_transformers")
    source = source.replace("from minibert import (", "from transformers import (")
    # which works in version 4, but not in version 5 of transformers
    source = source.replace("self.init_weights()", "self.post_init()")
    exec(compile(source, "own_classes_on_transformers", "exec"), vars(twins))
    return twins


def test_there_are_forty() -> None:
    assert len(CLASSES) >= 40


@each_class
def test_it_computes_what_it_does_on_transformers(name: str, twins: Any) -> None:
    ours, theirs = build(name).eval(), build(name, twins).eval()
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    theirs.load_state_dict(ours.state_dict())
    loss, scores = ours(**BATCH)
    their_loss, their_scores = theirs(**BATCH)
    assert torch.equal(scores, their_scores)
    assert torch.equal(loss, their_loss)
    trainable = {n for n, p in ours.named_parameters() if p.requires_grad}
    assert trainable == {n for n, p in theirs.named_parameters() if p.requires_grad}
    loss.backward()
    their_loss.backward()
    for (parameter_name, ours_p), theirs_p in zip(
        ours.named_parameters(), theirs.parameters(), strict=True
    ):
        assert (ours_p.grad is None) == (theirs_p.grad is None), parameter_name
        if ours_p.grad is not None:
            assert torch.equal(ours_p.grad, theirs_p.grad), parameter_name


@each_class_quickly
def test_it_trains_and_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    model = build(name).train()
    groups = model.parameter_groups() if name == "LayerwiseRates" else model.parameters()
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    for _ in range(2):
        loss = model(**BATCH)[0]
        assert loss.isfinite()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    expected = model(**BATCH)[1]
    if not hasattr(model, "save_pretrained"):
        again = build(name).eval()
        again.load_state_dict(model.state_dict())
    else:
        model.save_pretrained(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = type(model).from_pretrained(tmp_path, attn_implementation="eager")
    # The weights are equal. A product with one output may still be summed in another order, because
    # MKL's choice on some processors follows from where in memory its weight lies
    torch.testing.assert_close(again(**BATCH)[1], expected, rtol=1e-5, atol=1e-6)
    loaded = again.state_dict()
    for parameter_name, tensor in model.state_dict().items():
        assert torch.equal(loaded[parameter_name], tensor), parameter_name


@each_class
def test_it_starts_from_a_checkpoint_of_the_encoder(name: str, tmp_path: Path) -> None:
    model_class: Any = getattr(own_classes, name)
    if not issubclass(model_class, own_classes.BertPreTrainedModel):
        return
    encoder = BertModel(BertConfig(**SIZES))
    encoder.save_pretrained(tmp_path)
    if name in ("DualEncoder", "JointMaskedLM"):  # the encoder has another name
        with pytest.raises(ValueError, match=f"holds no tensor of a BERT that {name} has a place"):
            model_class.from_pretrained(tmp_path)
        return
    if name == "LongPositions":  # more positions than the file has
        with pytest.raises(ValueError, match="position_embeddings.weight is .32, 16. in the file"):
            model_class.from_pretrained(tmp_path)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # new parts are named in a warning
        model = model_class.from_pretrained(tmp_path)
    if name == "Mixout":  # its `__init__` copies weights that are not loaded yet
        return
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())
    if isinstance(getattr(model, "bert", None), BertModel):
        weight = model.bert.encoder.layer[0].intermediate.dense
        original = encoder.encoder.layer[0].intermediate.dense.weight
        assert torch.equal(weight.weight, original)
    assert model(**BATCH)[0].isfinite()


def test_a_config_of_ones_own_is_loaded(tmp_path: Path) -> None:
    build("OwnConfig").save_pretrained(tmp_path)
    again = own_classes.OwnConfig.from_pretrained(tmp_path)
    assert isinstance(again.config, HeadsConfig) and len(again.layers) == 2


def test_a_config_that_checks_its_fields_is_loaded_by_the_plain_model(tmp_path: Path) -> None:
    class ExitConfig(BertConfig):
        def __init__(self, exit_layer: int = 0, **fields: Any) -> None:
            super().__init__(**fields)
            if exit_layer >= self.num_hidden_layers:
                raise ValueError("exit_layer")

    config = ExitConfig(exit_layer=1, **SIZES)
    BertModel(config).save_pretrained(tmp_path)
    model = BertModel.from_pretrained(tmp_path, config=config)
    assert len(model.encoder.layer) == config.num_hidden_layers == SIZES["num_hidden_layers"]
    assert model.encoder.layer[-1].attention.self.config is model.config
    assert model.config.num_hidden_layers == SIZES["num_hidden_layers"]


def test_an_init_that_takes_anything_gets_what_is_no_field_of_the_config(tmp_path: Path) -> None:
    """As in SimCSE's code, whose `__init__` takes `*model_args, **model_kargs`."""

    class Open(BertPreTrainedModel):
        def __init__(self, config: BertConfig, *model_args: Any, **model_kargs: Any) -> None:
            super().__init__(config)
            self.received = (model_args, model_kargs)
            self.bert = BertModel(config)

    BertModel(BertConfig(**SIZES)).save_pretrained(tmp_path)
    options: dict[str, Any] = {"temp": 0.05, "model_args": 7}
    model = Open.from_pretrained(tmp_path, "cls", **options, num_labels=5, torch_dtype="float16")
    assert model.received == (("cls",), options)
    assert model.config.num_labels == 5 and model.dtype == torch.float16
    again = Open.from_pretrained(tmp_path, config=model.config, **options)
    assert again.received == ((), options)
    with pytest.raises(TypeError, match="BertConfig has no field 'temp'"):
        BertModel.from_pretrained(tmp_path, temp=0.05)


def test_an_init_that_passes_everything_on(tmp_path: Path) -> None:
    class Passing(BertModel):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)

    BertModel(BertConfig(**SIZES)).save_pretrained(tmp_path)
    assert Passing.from_pretrained(tmp_path, False).pooler is None
    assert Passing.from_pretrained(tmp_path, add_pooling_layer=False).pooler is None
    assert Passing.from_pretrained(tmp_path).pooler is not None


def test_an_own_parameter_may_have_any_strides(tmp_path: Path) -> None:
    class Transposed(BertModel):
        def __init__(self, config: BertConfig) -> None:
            super().__init__(config)
            self.projection = nn.Parameter(torch.arange(12.0).view(3, 4).t())

    BertModel(BertConfig(**SIZES)).save_pretrained(tmp_path)
    model = Transposed.from_pretrained(tmp_path)
    assert torch.equal(model.projection, Transposed(model.config).projection)


def test_a_teacher_that_was_loaded_by_itself_is_not_missing(tmp_path: Path) -> None:
    class Student(BertPreTrainedModel):
        def __init__(self, config: BertConfig, teacher: BertModel | None = None) -> None:
            super().__init__(config)
            self.bert = BertModel(config)
            self.teacher = teacher

    BertModel(BertConfig(**SIZES)).save_pretrained(tmp_path)
    teacher = BertModel.from_pretrained(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "newly initialized"
        student = Student.from_pretrained(tmp_path, teacher=teacher)
    assert not student.load_report.missing
    with pytest.warns(UserWarning, match="teacher.* newly initialized"):
        Student.from_pretrained(tmp_path, teacher=BertModel(BertConfig(**SIZES)))
