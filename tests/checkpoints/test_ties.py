"""Tensors with several names: tied as long as they are one tensor, and else kept as they are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

import minibert
from minibert import BertForMaskedLM, BertForPreTraining, BertModel, PreTrainedModel
from minibert.checkpoints.ties import shared_names

IDS = torch.tensor([[1, 5, 6, 2]])
MLM_HEADS = pytest.mark.parametrize("model_class", [BertForMaskedLM, BertForPreTraining])


def own_weight(model: Any) -> None:
    decoder = model.cls.predictions.decoder
    decoder.weight = nn.Parameter(decoder.weight.detach() * 3)


def own_bias(model: Any) -> None:
    model.cls.predictions.decoder.bias = nn.Parameter(torch.ones(99))


def own_layer(model: Any) -> None:
    model.cls.predictions.decoder = nn.Linear(32, 99)


def own_layer_by_method(model: Any) -> None:
    model.set_output_embeddings(nn.Linear(32, 99))


class Mixed(nn.Linear):
    """A replaced linear layer, as mixout makes them."""


def replaced_linear_layers(model: Any) -> None:
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                mixed = Mixed(child.in_features, child.out_features)
                mixed.load_state_dict(child.state_dict())
                with torch.no_grad():
                    mixed.weight.mul_(1.5)
                setattr(module, name, mixed)


UNTIED = [own_weight, own_bias, own_layer, own_layer_by_method, replaced_linear_layers]


@MLM_HEADS
@pytest.mark.parametrize("change", UNTIED)
def test_a_decoder_of_its_own_is_saved_and_restored(
    model_class: Any, change: Callable[[Any], None], tmp_path: Path
) -> None:
    model = model_class(tiny_config()).eval()
    change(model)
    expected = model(IDS)[0]
    model.save_pretrained(tmp_path)
    assert torch.equal(model_class.from_pretrained(tmp_path)(IDS)[0], expected)
    assert torch.equal(model(IDS)[0], expected)
    for assign in (False, True):
        twin = copy.deepcopy(model)
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        twin.load_state_dict(state, assign=assign)
        assert torch.equal(twin(IDS)[0], expected)
        assert shared_names(twin) == shared_names(model)
    again = model_class.from_pretrained(tmp_path)
    again.save_pretrained(tmp_path / "again")
    assert torch.equal(model_class.from_pretrained(tmp_path / "again")(IDS)[0], expected)


def test_transformers_reads_a_decoder_of_its_own(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    for change in UNTIED:
        model = BertForMaskedLM(tiny_config(attn_implementation="eager")).eval()
        change(model)
        model.save_pretrained(tmp_path / change.__name__)
        theirs = transformers.BertForMaskedLM.from_pretrained(
            tmp_path / change.__name__, attn_implementation="eager"
        )
        assert torch.equal(theirs.eval()(IDS).logits, model(IDS).logits), change.__name__


class Twice(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def pruned_words(model: Any) -> Any:
    prune.l1_unstructured(model.bert.embeddings.word_embeddings, "weight", 0.5)
    return model


def pruned_decoder(model: Any) -> Any:
    prune.l1_unstructured(model.cls.predictions.decoder, "weight", 0.5)
    return model


def parametrized(model: Any) -> Any:
    parametrize.register_parametrization(model.cls.predictions.decoder, "weight", Twice())
    return model


def normed(model: Any) -> Any:
    nn.utils.parametrizations.weight_norm(model.cls.predictions.decoder)
    return model


def quantized(model: Any) -> Any:
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear})


@MLM_HEADS
@pytest.mark.parametrize("change", [pruned_words, pruned_decoder, parametrized, normed, quantized])
def test_a_changed_layer_loads_its_own_state(model_class: Any, change: Any) -> None:
    model = change(model_class(tiny_config()).eval())
    expected = model(IDS)[0]
    model.load_state_dict(model.state_dict())
    # weight_norm divides the row of [PAD], which is 0, by its norm
    torch.testing.assert_close(model(IDS)[0], expected, rtol=0, atol=0, equal_nan=True)


class SoftPrompt(nn.Module):
    def __init__(self, words: nn.Module, n: int) -> None:
        super().__init__()
        self.words, self.n = words, n
        self.prompt = nn.Parameter(torch.randn(n, 32))

    def forward(self, ids: Tensor) -> Tensor:
        prompt = self.prompt.expand(len(ids), -1, -1)
        return torch.cat([prompt, self.words(ids[:, self.n :])], 1)


class Noisy(nn.Module):
    def __init__(self, words: nn.Module) -> None:
        super().__init__()
        self.words = words

    @property
    def weight(self) -> Tensor:
        return self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.words(ids) + 1


@pytest.mark.parametrize("wrap", [lambda words: SoftPrompt(words, 2), Noisy])
@pytest.mark.parametrize("by_method", [True, False])
def test_word_embeddings_of_another_class(wrap: Any, by_method: bool) -> None:
    model = BertForMaskedLM(tiny_config()).eval()
    words = model.get_input_embeddings()
    if by_method:
        model.set_input_embeddings(wrap(words))
    else:
        model.bert.embeddings.word_embeddings = wrap(words)
    expected = model(IDS).logits
    model.load_state_dict(model.state_dict())
    assert torch.equal(model(IDS).logits, expected)
    assert model.cls.predictions.decoder.weight is words.weight
    assert model.vocab_size == model.config.vocab_size == 99


def test_a_layer_that_is_used_several_times_has_every_name_in_the_file(tmp_path: Path) -> None:
    model = BertModel(tiny_config(num_hidden_layers=3)).eval()
    model.encoder.layer = nn.ModuleList([model.encoder.layer[0]] * 3)
    expected = model(IDS).last_hidden_state
    model.save_pretrained(tmp_path)
    again = BertModel.from_pretrained(tmp_path)
    assert not again.load_report.missing
    assert torch.equal(again(IDS).last_hidden_state, expected)
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertModel.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(theirs(IDS).last_hidden_state, expected)


class SharedLayer(BertModel):
    def __init__(self, config: minibert.BertConfig) -> None:
        super().__init__(config)
        self.encoder.layer = nn.ModuleList([self.encoder.layer[0]] * config.num_hidden_layers)


class Siamese(PreTrainedModel):
    """One masked language model under two names, which itself has tied tensors."""

    def __init__(self, config: minibert.BertConfig) -> None:
        super().__init__(config)
        self.left = self.right = BertForMaskedLM(config)


@pytest.mark.parametrize("model_class", [SharedLayer, Siamese])
def test_what_a_class_shares_is_shared_after_loading(model_class: Any, tmp_path: Path) -> None:
    model = model_class(tiny_config(num_hidden_layers=3))
    model.save_pretrained(tmp_path)
    again = model_class.from_pretrained(tmp_path)
    assert not (again.load_report.missing or again.load_report.unexpected)
    assert shared_names(again) == shared_names(model) != {}
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    again.load_state_dict(model.state_dict(), assign=True)
    assert shared_names(again) == shared_names(model)


def test_a_declared_tie_is_written_once(tmp_path: Path) -> None:
    BertForMaskedLM(tiny_config()).save_pretrained(tmp_path)
    names = load_file(tmp_path / "model.safetensors").keys()
    assert not any("decoder" in name for name in names)


def test_new_embeddings_leave_a_decoder_of_its_own(tmp_path: Path) -> None:
    model = BertForMaskedLM(tiny_config()).eval()
    own_weight(model)
    decoder = model.cls.predictions.decoder
    before = decoder.weight.detach().clone()
    model.resize_token_embeddings(110)
    assert torch.equal(decoder.weight[:99], before)
    assert len(decoder.weight) == len(decoder.bias) == decoder.out_features == 110
    assert decoder.bias is model.cls.predictions.bias


def drawn_by_user(model: Any) -> None:
    nn.init.zeros_(model.pooler.dense.weight)


def drawn_through_data(model: Any) -> None:
    model.pooler.dense.weight.data.fill_(0)


def replaced_data(model: Any) -> None:
    model.pooler.dense.weight.data = torch.zeros(32, 32)


@pytest.mark.parametrize("draw", [drawn_by_user, drawn_through_data, replaced_data])
def test_a_value_that_init_gives_an_own_part_stays(draw: Any, tmp_path: Path) -> None:
    class Drawn(BertModel):
        def __init__(self, config: minibert.BertConfig) -> None:
            super().__init__(config)
            draw(self)

    BertModel(tiny_config(), add_pooling_layer=False).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="newly initialized"):
        assert not Drawn.from_pretrained(tmp_path).pooler.dense.weight.any()


def test_models_that_init_builds_or_copies_are_drawn(tmp_path: Path) -> None:
    """Copies of parts without values are drawn, and models that are no submodules."""

    class Momentum(BertModel):
        def __init__(self, config: minibert.BertConfig) -> None:
            super().__init__(config)
            self.slow = copy.deepcopy(self.encoder.layer[0])
            self.teachers = [BertModel(config)]

    BertModel(tiny_config()).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="newly initialized"):
        model = Momentum.from_pretrained(tmp_path)
    for part in (model.slow, model.teachers[0]):
        for name, parameter in part.named_parameters():
            assert parameter.isfinite().all() and parameter.abs().max() <= 1, name
        weights = [p for name, p in part.named_parameters() if name.endswith("dense.weight")]
        assert all(0.015 < weight.std() < 0.025 for weight in weights)


@pytest.mark.parametrize("head", ["BertForMaskedLM", "BertForPreTraining"])
@pytest.mark.parametrize("name", ["decoder.weight", "decoder.bias"])
def test_assign_keeps_a_decoder_with_values_of_its_own(head: str, name: str) -> None:
    """Such as a quantized one: both tensors are assigned, and none is passed over."""
    model = getattr(minibert, head)(tiny_config()).eval()
    state = model.state_dict()
    state[f"cls.predictions.{name}"] = torch.randn_like(state[f"cls.predictions.{name}"])
    model.load_state_dict(state, assign=True)
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key]), key
    tied = getattr(minibert, head)(tiny_config())
    tied.load_state_dict(tied.state_dict(), assign=True)
    assert tied.cls.predictions.decoder.weight is tied.bert.embeddings.word_embeddings.weight
