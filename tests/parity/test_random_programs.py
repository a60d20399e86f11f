"""What random programs on both libraries have found, each as its smallest program."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path

import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config, with_reference

import minibert
from minibert.encoder import ACTIVATIONS

transformers = importlib.import_module("transformers")

CLASSES = ("BertModel", *HEADS)
MLM_CLASSES = ("BertForMaskedLM", "BertForPreTraining")
SIZES = {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "vocab_size": 40}


def assert_same_gradients(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    """Compare the gradients of all parameters."""
    for name, parameter in ours.named_parameters():
        expected = theirs.get_parameter(name).grad
        if parameter.grad is None or expected is None:
            assert parameter.grad is expected, name
        else:
            assert torch.equal(parameter.grad, expected), name


@pytest.mark.parametrize("hidden_act", sorted(ACTIVATIONS))
def test_gradients_and_second_derivatives_of_activations(hidden_act: str) -> None:
    config = tiny_config(hidden_act=hidden_act, attn_implementation="eager")
    ours, theirs = with_reference("BertModel", config)
    batch = ragged_batch(ours.config)
    for model in (ours, theirs):
        output = model(**batch).last_hidden_state
        first = model.embeddings.LayerNorm.weight
        (gradient,) = torch.autograd.grad(output.pow(2).sum(), first, create_graph=True)
        gradient.pow(2).sum().backward()
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize(
    "weights, dtype",
    [
        (torch.float32, torch.bfloat16),
        (torch.float32, torch.float16),
        (torch.bfloat16, torch.bfloat16),
    ],
)
def test_masks_under_autocast(
    attention: str, mode: str, weights: torch.dtype, dtype: torch.dtype
) -> None:
    """The mask is added in the dtype of the hidden states, whatever that of queries is."""
    config = tiny_config(attn_implementation=attention)
    ours, theirs = with_reference("BertForSequenceClassification", config)
    batch = ragged_batch(config)
    states = []
    for model in (ours.to(weights), theirs.to(weights)):
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype):
            output = model.train(mode == "train")(**batch, output_hidden_states=True)
        output.hidden_states[-1].float().pow(2).sum().backward()
        states.append(output.hidden_states)
    for state, expected in zip(*states, strict=True):
        assert torch.equal(state, expected)
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize("heads", [24, 12, 3])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_small_heads(heads: int, batch_size: int) -> None:
    """Down to heads of one dimension."""
    config = tiny_config(**{**SIZES, "num_attention_heads": heads, "attn_implementation": "eager"})
    ours, theirs = with_reference("BertModel", config)
    batch = {name: x[:batch_size] for name, x in ragged_batch(config).items()}
    outputs = [model(**batch).last_hidden_state for model in (ours, theirs)]
    assert torch.equal(*outputs)
    for output in outputs:
        output.pow(2).sum().backward()
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", CLASSES)
def test_initial_weights_and_the_random_numbers_after_them(name: str, tied: bool) -> None:
    models, states = [], []
    for library in (minibert, transformers):
        torch.manual_seed(0)
        config = library.BertConfig(**SIZES, tie_word_embeddings=tied)
        models.append(getattr(library, name)(config))
        states.append(torch.get_rng_state())
    for key, tensor in models[1].named_parameters():
        assert torch.equal(models[0].get_parameter(key), tensor), key
    assert torch.equal(*states)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_weights_of_another_type_are_drawn_in_it(dtype: str, tmp_path: Path) -> None:
    """Those of a new model, and a classifier that a folder has for other labels."""
    new, loaded = [], []
    for library in (minibert, transformers):
        torch.manual_seed(0)
        config = library.BertConfig(**SIZES)
        new.append(library.BertForTokenClassification._from_config(config, dtype=dtype))
        new[0].save_pretrained(tmp_path)
        loaded.append(
            library.BertForTokenClassification.from_pretrained(
                tmp_path, num_labels=5, ignore_mismatched_sizes=True
            )
        )
    for ours, theirs in (new, loaded):
        for key, tensor in theirs.named_parameters():
            assert torch.equal(ours.get_parameter(key), tensor), key
            assert ours.get_parameter(key).dtype == tensor.dtype, key


@pytest.mark.parametrize("name", MLM_CLASSES)
class TestUntiedDecoder:
    """Its bias and `cls.predictions.bias` are two tensors, of which only the first computes."""

    def models(self, name: str, folder: Path) -> tuple[torch.nn.Module, torch.nn.Module]:
        config = transformers.BertConfig(**SIZES, tie_word_embeddings=False)
        theirs = getattr(transformers, name)(config).eval()
        with torch.no_grad():
            for parameter in theirs.parameters():
                parameter.normal_()
        theirs.save_pretrained(folder)
        return getattr(minibert, name).from_pretrained(folder), theirs

    def assert_equal(self, ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
        ids = torch.tensor([[2, 5, 3]])
        assert torch.equal(ours(ids)[0], theirs(ids)[0])

    def test_state_dicts(self, name: str, tmp_path: Path) -> None:
        loaded, theirs = self.models(name, tmp_path)
        for source in (loaded, theirs):
            new = getattr(minibert, name)(loaded.config).eval()
            new.load_state_dict(source.state_dict())
            self.assert_equal(new, theirs)
            for key, tensor in theirs.state_dict().items():
                assert torch.equal(new.state_dict()[key], tensor), key

    def test_tying_again(self, name: str, tmp_path: Path) -> None:
        ours, theirs = self.models(name, tmp_path)
        for model in (ours, theirs):
            model.tie_weights()
        self.assert_equal(ours, theirs)

    @pytest.mark.parametrize("size", [30, 50])
    def test_resizing_and_saving(self, name: str, size: int, tmp_path: Path) -> None:
        ours, _ = self.models(name, tmp_path)
        resized = copy.deepcopy(ours)
        resized.resize_token_embeddings(size)
        resized.save_pretrained(tmp_path / "resized")
        for library in (minibert, transformers):
            self.assert_equal(
                getattr(library, name).from_pretrained(tmp_path / "resized").eval(), resized
            )

    @pytest.mark.parametrize("missing", ["cls.predictions.decoder.bias", "cls.predictions.bias"])
    def test_a_file_with_one_name(self, name: str, missing: str, tmp_path: Path) -> None:
        """Of transformers 4: both names get the value, and do not share it."""
        loaded, _ = self.models(name, tmp_path)
        state = {key: tensor for key, tensor in loaded.state_dict().items() if key != missing}
        again = getattr(minibert, name).from_pretrained(
            None, config=loaded.config, state_dict=state
        )
        predictions = again.cls.predictions
        assert again.load_report.missing == []
        assert torch.equal(predictions.bias, predictions.decoder.bias)
        assert predictions.bias.data_ptr() != predictions.decoder.bias.data_ptr()


def test_a_single_label_is_not_a_classification() -> None:
    """Its loss would be 0 whatever the model says. transformers refuses it as well."""
    fields = {"num_labels": 1, "problem_type": "single_label_classification"}
    for config_class in (minibert.BertConfig, transformers.BertConfig):
        with pytest.raises(ValueError, match="num_labels=2"):
            config_class(**fields)


def test_the_newer_of_two_names_of_a_dtype(tmp_path: Path) -> None:
    transformers.BertModel(transformers.BertConfig(**SIZES)).save_pretrained(tmp_path)
    for library in (minibert, transformers):
        model = library.BertModel.from_pretrained(tmp_path, dtype="float16", torch_dtype="float32")
        assert model.dtype == torch.float16
        model = library.BertModel.from_pretrained(tmp_path, torch_dtype="float64")
        assert model.dtype == torch.float64


@pytest.mark.parametrize("name", ["cls_token", "sep_token"])
def test_a_token_of_rows_that_the_vocabulary_lacks(name: str) -> None:
    """Rows would have [UNK] there. What adds the token works."""
    tokenizer = minibert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
    before = tokenizer("a")["input_ids"]
    with pytest.raises(ValueError, match="<s>.*add_special_tokens"):
        setattr(tokenizer, name, "<s>")
    assert tokenizer("a")["input_ids"] == before
    tokenizer.add_special_tokens({name: "<s>"})
    assert 6 in tokenizer("a")["input_ids"]
