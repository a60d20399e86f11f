"""Users' subclasses: `from_pretrained` runs their `__init__` and loads the file's tensors."""

from __future__ import annotations

import copy
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config
from torch import Tensor, nn

from minibert import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)
from minibert.base import PreTrainedModel

LAYERS = 4


def config(**changes: Any) -> BertConfig:
    return tiny_config(num_hidden_layers=LAYERS, **changes)


def save_and_load(model: Any, folder: Path) -> Any:
    """Save a model, load it, and fail if loading warns."""
    model.save_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return type(model).from_pretrained(folder)


def assert_equal_tensors(model: nn.Module, again: nn.Module) -> None:
    state, again_state = model.state_dict(), again.state_dict()
    assert state.keys() == again_state.keys()
    for name, tensor in state.items():
        assert torch.equal(tensor, again_state[name]), name


class ExitAfterEachLayer(BertForSequenceClassification):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        size = config.hidden_size
        self.exits = nn.ModuleList(nn.Linear(size, 2) for _ in range(config.num_hidden_layers))


class WeightedLayers(BertModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.layer_weights = nn.Parameter(torch.ones(len(self.encoder.layer)))


class FewerLayers(BertModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.encoder.layer = self.encoder.layer[:2]


class NumberedLayers(BertModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        for index, layer in enumerate(self.encoder.layer):
            layer.index = index
            layer.adapter = nn.Linear(config.hidden_size, index + 1)


class SecondEncoder(BertModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.other = BertModel(config, add_pooling_layer=False)


class ReplacedLayer(BertModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.encoder.layer[-1].intermediate.dense = nn.Linear(config.hidden_size, 5)
        self.encoder.layer[-1].output.dense = nn.Linear(5, config.hidden_size)


@pytest.mark.parametrize(
    "model_class",
    [
        ExitAfterEachLayer,
        WeightedLayers,
        FewerLayers,
        NumberedLayers,
        SecondEncoder,
        ReplacedLayer,
    ],
)
def test_tensors_that_depend_on_the_layers_are_restored(model_class: Any, tmp_path: Path) -> None:
    model = model_class(config())
    again = save_and_load(model, tmp_path)
    assert_equal_tensors(model, again)
    assert len(again.base_model.encoder.layer) == len(model.base_model.encoder.layer)


def test_layers_keep_the_attributes_of_init(tmp_path: Path) -> None:
    again = save_and_load(NumberedLayers(config()), tmp_path)
    assert [layer.index for layer in again.encoder.layer] == list(range(LAYERS))


def test_hooks_belong_to_their_layers(tmp_path: Path) -> None:
    calls: list[int] = []

    class Hooked(BertModel):
        def __init__(self, config: BertConfig) -> None:
            super().__init__(config)
            for index, layer in enumerate(self.encoder.layer):
                layer.register_forward_hook(lambda *_, index=index: calls.append(index))

    again = save_and_load(Hooked(config()), tmp_path)
    again(torch.tensor([[1, 2]]))
    assert calls == list(range(LAYERS))


def test_init_sees_the_whole_config(tmp_path: Path) -> None:
    seen: list[int] = []

    class Watching(BertModel):
        def __init__(self, config: BertConfig) -> None:
            seen.append(config.num_hidden_layers)
            super().__init__(config)
            seen.append(len(self.encoder.layer))

    save_and_load(Watching(config()), tmp_path)
    assert set(seen) == {LAYERS}


class OwnTensors(BertModel):
    """A parameter, buffers of both kinds, a plain tensor, a weighted loss, running statistics."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("steps", torch.tensor([7]))
        self.register_buffer("temporary", torch.tensor([1.5]), persistent=False)
        self.plain = torch.tensor([3.0])
        self.loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]))
        self.norm = nn.BatchNorm1d(config.hidden_size)


def test_tensors_have_the_values_of_the_file(tmp_path: Path) -> None:
    model = OwnTensors(config())
    model.norm(torch.randn(16, 32) + 3)
    with torch.no_grad():
        model.scale.fill_(0.5)
        model.steps.fill_(11)
        model.loss.weight.fill_(4.0)
    again = save_and_load(model, tmp_path)
    assert_equal_tensors(model, again)
    assert again.scale.item() == 0.5
    assert again.steps.dtype == torch.long


def test_tensors_that_the_file_lacks_have_the_values_of_init(tmp_path: Path) -> None:
    BertModel(config()).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"scale, .* not in .*, newly initialized"):
        model = OwnTensors.from_pretrained(tmp_path)
    assert model.scale.item() == 2.0
    assert model.steps.tolist() == [7]
    assert model.temporary.tolist() == [1.5]
    assert model.plain.tolist() == [3.0]
    assert model.loss.weight.tolist() == [1.0, 5.0]
    assert model.norm.running_var.tolist() == [1.0] * 32
    assert {"scale", "steps", "loss.weight", "norm.weight"} <= set(model.load_report.missing)
    assert all(tensor.device.type == "cpu" for tensor in [*model.parameters(), *model.buffers()])


def test_half_precision_includes_the_tensors_of_a_subclass(tmp_path: Path) -> None:
    BertModel(config()).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="newly initialized"):
        model = OwnTensors.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert model.steps.dtype == torch.long


class OwnArguments(BertModel):
    def __init__(self, config: BertConfig, width: int, scale: float = 1.0) -> None:
        super().__init__(config)
        self.projection = nn.Linear(config.hidden_size, width)
        self.scale = scale


def test_arguments_of_init_follow_the_name(tmp_path: Path) -> None:
    BertModel(config()).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="projection"):
        model = OwnArguments.from_pretrained(tmp_path, 5, scale=2.0)
    assert (model.projection.out_features, model.scale) == (5, 2.0)
    message = "received 3 arguments after the name, but OwnArguments.__init__ has 2"
    with pytest.raises(TypeError, match=message):
        OwnArguments.from_pretrained(tmp_path, 5, 2.0, 3)


class NewLayers(BertForTokenClassification):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        size = config.hidden_size
        self.lstm = nn.LSTM(size, 4)
        self.gru = nn.GRU(size, 4)
        self.attention = nn.MultiheadAttention(size, 2)
        self.batch_norm = nn.BatchNorm1d(size)
        self.group_norm = nn.GroupNorm(2, size)
        self.rms_norm = nn.RMSNorm(size)
        self.slope = nn.PReLU()
        self.crf = Transitions(3)


class Transitions(nn.Module):
    def __init__(self, labels: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.full((labels, labels), -0.25))


def assert_initialized_as_torch_does(model: NewLayers) -> None:
    for norm in (model.batch_norm, model.group_norm, model.rms_norm):
        assert (norm.weight == 1).all()
    assert model.slope.weight.item() == 0.25
    assert (model.crf.transitions == -0.25).all()
    for recurrent in (model.lstm, model.gru):
        assert 0.2 < recurrent.weight_ih_l0.std() < 0.4  # uniform between -1/2 and 1/2
    query, key, value = model.attention.in_proj_weight.chunk(3)
    assert min(query.std(), key.std(), value.std()) > 0.05


def test_new_layers_of_any_kind_are_initialized_as_torch_does(tmp_path: Path) -> None:
    BertForTokenClassification(config()).bert.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="newly initialized"):
        assert_initialized_as_torch_does(NewLayers.from_pretrained(tmp_path))


def test_init_weights_leaves_other_modules_alone() -> None:
    model = NewLayers(config())
    model.init_weights()
    assert_initialized_as_torch_does(model)


def test_values_that_init_gives_a_new_layer_stay(tmp_path: Path) -> None:
    class Rare(BertModel):
        def __init__(self, config: BertConfig) -> None:
            super().__init__(config)
            self.rare = nn.Linear(config.hidden_size, 1)
            nn.init.constant_(self.rare.bias, -4.6)
            nn.init.zeros_(self.pooler.dense.weight)

    BertModel(config(), add_pooling_layer=False).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="newly initialized"):
        model = Rare.from_pretrained(tmp_path)
    assert model.rare.bias.item() == pytest.approx(-4.6)
    assert not model.pooler.dense.weight.any()


class CustomRule(BertForTokenClassification):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.extra = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.5)


@pytest.mark.parametrize("loaded", [False, True])
def test_a_subclass_decides_how_its_weights_are_initialized(loaded: bool, tmp_path: Path) -> None:
    if loaded:
        trained = BertModel(config(), add_pooling_layer=False)
        trained.save_pretrained(tmp_path)
        with pytest.warns(UserWarning, match="newly initialized"):
            model = CustomRule.from_pretrained(tmp_path)
        assert_equal_tensors(trained, model.bert)
    else:
        model = CustomRule(config())
    assert (model.classifier.weight == 0.5).all()
    assert (model.extra.weight == 0.5).all()


class TiedByKeys(BertModel):
    _tied_weights_keys = {"out.weight": "embeddings.word_embeddings.weight"}

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.out = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


class TiedInInit(BertModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.out = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.out.weight = self.embeddings.word_embeddings.weight


@pytest.mark.parametrize("model_class", [TiedByKeys, TiedInInit])
def test_tied_weights_of_a_subclass_stay_tied(model_class: Any, tmp_path: Path) -> None:
    BertModel(config()).save_pretrained(tmp_path / "encoder")
    for model in (
        model_class.from_pretrained(tmp_path / "encoder"),
        save_and_load(model_class(config()), tmp_path / "own"),
    ):
        assert model.out.weight is model.embeddings.word_embeddings.weight


class Towers(PreTrainedModel):
    """Two encoders, and no attribute called `bert`."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.question = BertModel(config)
        self.passage = BertModel(config)


class OtherName(PreTrainedModel):
    base_model_prefix = "encoder_model"

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.encoder_model = BertModel(config)


@pytest.mark.parametrize("model_class", [Towers, OtherName])
def test_a_model_without_an_attribute_bert(model_class: Any, tmp_path: Path) -> None:
    model = model_class(config())
    model.train()
    assert all(module.training for module in model.modules())
    model.eval()
    assert not any(module.training for module in model.modules())
    again = save_and_load(model, tmp_path)
    assert_equal_tensors(model, again)
    assert again.device.type == "cpu"
    again.gradient_checkpointing_enable()
    assert again.is_gradient_checkpointing


def test_a_plain_encoder_loads_below_another_prefix(tmp_path: Path) -> None:
    encoder = BertModel(config())
    encoder.save_pretrained(tmp_path)
    assert_equal_tensors(encoder, OtherName.from_pretrained(tmp_path).encoder_model)


def test_the_error_for_two_encoders_names_the_method_to_define() -> None:
    with pytest.raises(NotImplementedError, match="define get_input_embeddings"):
        Towers(config()).get_input_embeddings()


def test_a_copied_layer_that_the_file_lacks_has_initial_weights(tmp_path: Path) -> None:
    class CopiedLayer(BertModel):
        def __init__(self, config: BertConfig) -> None:
            super().__init__(config)
            self.more = BertModel(config.replace(num_hidden_layers=1), add_pooling_layer=False)

    BertModel(config()).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="newly initialized"):
        model = CopiedLayer.from_pretrained(tmp_path)
    for name, parameter in model.more.named_parameters():
        assert parameter.isfinite().all() and parameter.abs().max() <= 1, name
    weight = model.more.encoder.layer[0].output.dense.weight
    assert 0.015 < weight.std() < 0.025


def test_a_config_of_transformers_is_converted() -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertConfig(**config(num_labels=3).to_dict())
    model = BertForSequenceClassification(theirs)
    assert isinstance(model.config, BertConfig)
    assert model.bert.config is model.config
    model(torch.tensor([[1, 2]]))
    assert model.num_labels == 3
    with pytest.raises(ValueError, match="model_type='gpt2' is not supported"):
        BertModel(transformers.GPT2Config())
    with pytest.raises(TypeError, match="config should be a minibert.BertConfig, not dict"):
        BertModel({"hidden_size": 8})  # type: ignore[arg-type]


def threads_of_a_new_thread(_: Any = None) -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


def test_loading_leaves_the_number_of_threads_alone(tmp_path: Path) -> None:
    """It stays the same in threads that load, in threads that start meanwhile, and afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        BertModel(config()).save_pretrained(tmp_path)

        def load(_: int) -> tuple[int, int]:
            BertModel.from_pretrained(tmp_path)
            return torch.get_num_threads(), threads_of_a_new_thread()

        with ThreadPoolExecutor(8) as pool:
            numbers = list(pool.map(load, range(40)))
        assert set(numbers) == {(3, 3)}
        assert threads_of_a_new_thread() == 3
    finally:
        torch.set_num_threads(before)


def test_copies_compute_the_same(tmp_path: Path) -> None:
    model = save_and_load(WeightedLayers(config()), tmp_path).eval()
    batch = ragged_batch(model.config)
    expected: Tensor = model(**batch).last_hidden_state
    assert torch.equal(copy.deepcopy(model)(**batch).last_hidden_state, expected)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_quantized_checkpoints_raise_an_error(dtype: torch.dtype, tmp_path: Path) -> None:
    model = BertModel(config())
    state = {**model.state_dict()}
    name = "encoder.layer.0.output.dense.weight"
    state[name] = state[name].to(dtype)
    with pytest.raises(
        ValueError, match=f"tensor {name} is {dtype}, so the checkpoint is quantized"
    ):
        BertModel.from_pretrained(None, config=model.config, state_dict=state)


def test_a_config_with_a_quantization_raises_an_error(tmp_path: Path) -> None:
    BertModel(config(extra={"note": "fp8"})).config.save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text(encoding="utf-8")
    quantization = '"quantization_config": {"quant_method": "compressed-tensors"}, "note"'
    (tmp_path / "config.json").write_text(text.replace('"note"', quantization), encoding="utf-8")
    with pytest.raises(ValueError, match="quantization_config is not supported: the weights"):
        BertModel.from_pretrained(tmp_path)
