"""Heads: formulas, tied, missing and unused weights, and logits at chosen positions.

tests/parity/test_heads_parity.py compares their outputs with transformers.
"""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config
from safetensors.torch import load, load_file, save, save_file
from torch import Tensor, nn

import minibert
from minibert.losses import IGNORED

MLM_HEADS = HEADS[:2]

each_head = pytest.mark.parametrize("name", HEADS)
each_mlm_head = pytest.mark.parametrize("name", MLM_HEADS)


def build(name: str, **changes: Any) -> Any:
    return getattr(minibert, name)(tiny_config(**changes)).eval()


def word_embeddings(model: Any) -> nn.Parameter:
    weight: nn.Parameter = model.bert.embeddings.word_embeddings.weight
    return weight


def assert_tied(model: Any) -> None:
    """Check that the decoder's weight and the word embeddings are one tensor, used by forward."""
    predictions = model.cls.predictions
    assert predictions.decoder.weight is word_embeddings(model)
    assert predictions.decoder.bias is predictions.bias
    assert predictions.decoder.out_features == model.config.vocab_size
    assert len(predictions.bias) == len(word_embeddings(model)) == model.config.vocab_size
    ids = torch.tensor([[3, 5, 8]])
    before = model(ids)[0]
    with torch.no_grad():
        # Not an input, so only a tied decoder notices. The states, after LayerNorm, sum to 0.
        word_embeddings(model)[20] *= 2
        predictions.bias[21] += 1
    changed = (model(ids)[0] != before).any(dim=(0, 1)).nonzero().flatten().tolist()
    assert changed == [20, 21]


def test_the_formulas() -> None:
    """Linear layers on the pooler's output or on every state, and the head of words on a state."""
    ids = torch.randint(1, 99, (2, 5))
    texts, words = build("BertForSequenceClassification"), build("BertForMaskedLM")
    pooled = texts.bert(ids).pooler_output
    logits = pooled @ texts.classifier.weight.T + texts.classifier.bias
    torch.testing.assert_close(texts(ids).logits, logits)

    transform, states = words.cls.predictions.transform, words.bert(ids).last_hidden_state
    changed = nn.functional.gelu(states @ transform.dense.weight.T + transform.dense.bias)
    deviation = changed.var(-1, keepdim=True, unbiased=False) + words.config.layer_norm_eps
    changed = (changed - changed.mean(-1, keepdim=True)) / deviation.sqrt()
    changed = changed * transform.LayerNorm.weight + transform.LayerNorm.bias
    logits = changed @ word_embeddings(words).T + words.cls.predictions.bias
    torch.testing.assert_close(words(ids).logits, logits)


class TestCls:
    """`model.cls` is called as a whole, so it can be called alone, replaced and observed."""

    @pytest.mark.parametrize("name", HEADS[:3])
    def test_it_is_called_by_the_model(self, name: str) -> None:
        model, ids = build(name), torch.randint(1, 99, (2, 5))
        encoded = model.bert(ids)
        states = {
            "BertForMaskedLM": (encoded.last_hidden_state,),
            "BertForPreTraining": (encoded.last_hidden_state, encoded.pooler_output),
            "BertForNextSentencePrediction": (encoded.pooler_output,),
        }[name]
        seen = []
        model.cls.register_forward_hook(lambda _, __, output: seen.append(output))
        logits = model(ids).to_tuple()
        alone = model.cls(*states)
        alone = alone if isinstance(alone, tuple) else (alone,)
        assert all(map(torch.equal, logits, alone)) and len(seen) == 2

    def test_another_head(self) -> None:
        model, ids = build("BertForMaskedLM"), torch.randint(1, 99, (2, 5))
        model.cls = nn.Linear(32, 7)
        states = model.bert(ids).last_hidden_state
        assert torch.equal(model(ids).logits, model.cls(states))
        positions = torch.zeros(2, 5, dtype=torch.bool).fill_diagonal_(True)
        assert torch.equal(model(ids, positions=positions).logits, model.cls(states[positions]))


HELPERS = ("_encode", "_logits", "_loss", "_score_words", "_pool", "_join_choices", "loss_of")


@each_head
@pytest.mark.parametrize("helper", HELPERS)
def test_helpers_of_a_subclass_are_never_called(name: str, helper: str) -> None:
    """A class that is built on a head may have methods of any name that transformers has not."""
    head = getattr(minibert, name)
    ids = torch.randint(1, 99, (2, 3, 5) if name == HEADS[-1] else (2, 5))
    own = type("Own", (head,), {helper: lambda *_, **__: pytest.fail("called by minibert")})
    model = own(tiny_config()).eval()
    model.bert.__class__ = type("OwnBert", (minibert.BertModel,), {helper: vars(own)[helper]})
    keys = ("start_positions", "end_positions") if "Answering" in name else ("labels",)
    shape = (2, 5) if "Masked" in name or "Token" in name or "Training" in name else (2,)
    labels = dict.fromkeys(keys, torch.zeros(shape, dtype=torch.long))
    if "Training" in name:
        labels["next_sentence_label"] = torch.zeros(2, dtype=torch.long)
    assert model(ids, **labels).loss.isfinite()


class TestTying:
    @each_mlm_head
    def test_when_new(self, name: str) -> None:
        model = build(name)
        assert_tied(model)
        assert model.get_output_embeddings() is model.cls.predictions.decoder
        names = [n for n, _ in model.named_parameters()]
        assert "bert.embeddings.word_embeddings.weight" in names and "cls.predictions.bias" in names
        assert not any("decoder" in n for n in names)

    @each_mlm_head
    def test_after_copying_saving_and_converting(self, name: str, tmp_path: Path) -> None:
        model = build(name)
        model.save_pretrained(tmp_path)
        whole = tmp_path / "whole.pt"
        torch.save(model, whole)
        assert_tied(copy.deepcopy(model))
        assert_tied(pickle.loads(pickle.dumps(model)))
        assert_tied(torch.load(whole, weights_only=False))
        assert_tied(getattr(minibert, name).from_pretrained(tmp_path))
        assert_tied(copy.deepcopy(model).to(torch.float64))
        assert_tied(copy.deepcopy(model).to("cpu", torch.bfloat16).float())
        assert_tied(model.requires_grad_(False))

    @each_mlm_head
    @pytest.mark.parametrize("assign", [False, True])
    def test_after_load_state_dict(self, name: str, assign: bool) -> None:
        model, other = build(name), build(name)
        wrapped = nn.ModuleDict({"model": model})  # a wrapper, as in training code
        wrapped.load_state_dict(
            {f"model.{n}": t.clone() for n, t in other.state_dict().items()}, assign=assign
        )
        assert torch.equal(word_embeddings(model), word_embeddings(other))
        assert_tied(model)

    @each_mlm_head
    @pytest.mark.parametrize("tied", [True, False])
    def test_a_state_dict_shares_no_memory(self, name: str, tied: bool) -> None:
        """`transformers.Trainer` uses safetensors, which rejects tensors that share memory."""
        model = build(name, tie_word_embeddings=tied)
        state = model.state_dict()
        written = load(save(state))
        itself = model.state_dict(keep_vars=True)
        assert written.keys() == state.keys() == itself.keys()
        for path, parameter in itself.items():
            assert torch.equal(written[path], parameter)
            assert parameter is model.get_parameter(path)
        with torch.inference_mode():
            model.load_state_dict(model.state_dict())

    @each_mlm_head
    def test_loading_ignores_the_alias_in_a_state_dict(self, name: str) -> None:
        """The alias is a copy of the tied weight and may be outdated. The original is not."""
        model, other = build(name), build(name)
        state = nn.ModuleDict({"model": model}).state_dict()
        before = word_embeddings(model).detach().clone()
        with torch.no_grad():
            word_embeddings(model).add_(1)  # trained on
        for loaded in (model, other):
            nn.ModuleDict({"model": loaded}).load_state_dict(state)
            assert torch.equal(word_embeddings(loaded), before + 1)
        assert_tied(model)
        assert_tied(other)

    @each_mlm_head
    def test_after_new_embeddings(self, name: str) -> None:
        model = build(name)
        model.set_input_embeddings(nn.Embedding(99, 32))
        assert_tied(model)
        model.set_input_embeddings(nn.Embedding(120, 32))
        assert_tied(model)

    @each_mlm_head
    @pytest.mark.parametrize("vocab_size", [130, 60])
    @pytest.mark.parametrize("tied", [True, False])
    def test_resizing(self, name: str, vocab_size: int, tied: bool, tmp_path: Path) -> None:
        model = build(name, tie_word_embeddings=tied)
        nn.init.normal_(model.cls.predictions.bias)
        ids = torch.tensor([[3, 5, 8]])
        before = model(ids)[0]
        model.resize_token_embeddings(vocab_size)
        old_size = min(vocab_size, 99)
        after = model(ids)[0]
        assert after.shape[-1] == vocab_size
        # Not equal: a matrix product of another size may round differently.
        torch.testing.assert_close(after[..., :old_size], before[..., :old_size])
        bias = model.cls.predictions.bias
        mean = bias[:old_size].mean().expand(vocab_size - old_size)
        torch.testing.assert_close(bias[old_size:], mean, rtol=0, atol=1e-3)
        model.save_pretrained(tmp_path)
        again = getattr(minibert, name).from_pretrained(tmp_path)
        assert again.config.vocab_size == vocab_size
        assert torch.equal(again(ids)[0], after)
        if tied:
            assert_tied(model)

    @pytest.mark.parametrize("tied", [True, False])
    def test_resizing_without_the_mean(self, tied: bool) -> None:
        model = build("BertForMaskedLM", tie_word_embeddings=tied)
        nn.init.constant_(model.cls.predictions.decoder.weight, 5.0)
        nn.init.constant_(model.cls.predictions.bias, 3.0)
        model.resize_token_embeddings(130, mean_resizing=False)
        new = model.cls.predictions.decoder.weight[99:]
        assert new.abs().max() < 1 and 0.01 < new.std() < 0.03
        assert model.cls.predictions.bias[99:].eq(0).all()
        assert model.cls.predictions.bias is model.cls.predictions.decoder.bias

    def test_untied(self, tmp_path: Path) -> None:
        model = build("BertForMaskedLM", tie_word_embeddings=False)
        decoder = model.cls.predictions.decoder
        assert decoder.weight is not word_embeddings(model)
        assert decoder.bias is not model.cls.predictions.bias  # as in transformers
        model.save_pretrained(tmp_path)
        again = minibert.BertForMaskedLM.from_pretrained(tmp_path)
        assert torch.equal(again.cls.predictions.decoder.weight, decoder.weight)
        assert again.cls.predictions.decoder.weight is not word_embeddings(again)

    def test_a_file_may_hold_either_name(self, tmp_path: Path) -> None:
        """The file has `decoder.weight` instead of the word embeddings, and no `bias`."""
        model = build("BertForMaskedLM")
        nn.init.normal_(model.cls.predictions.bias)
        model.save_pretrained(tmp_path)
        tensors = load_file(tmp_path / "model.safetensors")
        tensors["cls.predictions.decoder.weight"] = tensors.pop(
            "bert.embeddings.word_embeddings.weight"
        )
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
        save_file(tensors, tmp_path / "model.safetensors")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = minibert.BertForMaskedLM.from_pretrained(tmp_path)
        batch = ragged_batch(model.config)
        assert torch.equal(again(**batch).logits, model(**batch).logits)
        assert_tied(again)


@pytest.fixture
def headless(tmp_path: Path) -> Path:
    """Folder of a checkpoint of BertModel with its pooler."""
    minibert.BertModel(tiny_config(initializer_range=0.5)).save_pretrained(tmp_path / "headless")
    return tmp_path / "headless"


class TestHeadlessCheckpoint:
    new = {
        "BertForPreTraining": 7,
        "BertForMaskedLM": 5,
        "BertForNextSentencePrediction": 2,
        "BertForSequenceClassification": 2,
        "BertForTokenClassification": 2,
        "BertForQuestionAnswering": 2,
        "BertForMultipleChoice": 2,
    }

    @each_head
    def test_one_warning_names_exactly_the_new_weights(self, headless: Path, name: str) -> None:
        with pytest.warns(UserWarning) as caught:
            model = getattr(minibert, name).from_pretrained(headless)
        (warning,) = caught
        missing = model.load_report.missing
        assert len(missing) == self.new[name]
        assert f"{name}: {', '.join(missing[:6])}" in str(warning.message)
        assert "newly initialized: train before you use" in str(warning.message)
        assert warning.filename == __file__
        # A head without a pooler leaves out the checkpoint's pooler.
        assert bool(model.load_report.left_out) == (model.bert.pooler is None)

    @each_head
    def test_new_weights_are_initialized_as_in_bert(self, headless: Path, name: str) -> None:
        with pytest.warns(UserWarning, match="newly initialized"):
            model = getattr(minibert, name).from_pretrained(headless, vocab_size=99)
        for path in model.load_report.missing:
            parameter = model.get_parameter(path)
            if path.endswith("bias"):
                assert not parameter.any(), path
            elif "LayerNorm" in path:
                assert torch.equal(parameter, torch.ones_like(parameter))
            else:
                assert 0.3 < parameter.std() < 0.7, path
                assert abs(parameter.mean()) < 0.3, path

    @each_head
    def test_seeded(self, headless: Path, name: str) -> None:
        def load(seed: int) -> dict[str, Tensor]:
            torch.manual_seed(seed)
            state: dict[str, Tensor] = (
                getattr(minibert, name).from_pretrained(headless).state_dict()
            )
            return state

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, again, other = load(3), load(3), load(4)
        assert all(torch.equal(first[path], again[path]) for path in first)
        drawn = [path for path in first if not torch.equal(first[path], other[path])]
        assert drawn and all(path.startswith(("cls", "classifier", "qa_outputs")) for path in drawn)

    def test_a_missing_pooler_is_reported_only_if_the_head_uses_it(
        self, headless: Path, tmp_path: Path
    ) -> None:
        tagger = build("BertForTokenClassification")
        tagger.save_pretrained(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            minibert.BertForTokenClassification.from_pretrained(tmp_path)
        with pytest.warns(
            UserWarning, match=r"bert.pooler.dense.weight, bert.pooler.dense.bias are not in"
        ):
            minibert.BertForSequenceClassification.from_pretrained(tmp_path)

    def test_unused_heads_of_a_checkpoint_give_no_warning(self, tmp_path: Path) -> None:
        build("BertForPreTraining").save_pretrained(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name in ("BertForMaskedLM", "BertForNextSentencePrediction", "BertModel"):
                model = getattr(minibert, name).from_pretrained(tmp_path)
                assert model.load_report.left_out and not model.load_report.unexpected
        with pytest.warns(UserWarning) as caught:
            minibert.BertForSequenceClassification.from_pretrained(tmp_path)
        (warning,) = caught
        assert "classifier.weight, classifier.bias are not in" in str(warning.message)
        assert "cls" not in str(warning)

    @each_head
    def test_the_encoder_comes_from_the_checkpoint(self, headless: Path, name: str) -> None:
        with pytest.warns(UserWarning, match="newly initialized"):
            model = getattr(minibert, name).from_pretrained(headless)
        batch = ragged_batch(model.config)
        expected = minibert.BertModel.from_pretrained(headless)(**batch).last_hidden_state
        assert torch.equal(model.bert(**batch).last_hidden_state, expected)


class TestLabelNames:
    def test_read_and_saved(self, tmp_path: Path) -> None:
        names = {0: "O", 1: "B-PER", 2: "I-PER"}
        build("BertForTokenClassification", id2label=names).save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        assert config["id2label"] == {"0": "O", "1": "B-PER", "2": "I-PER"}
        assert config["label2id"] == {"O": 0, "B-PER": 1, "I-PER": 2}
        model = minibert.BertForTokenClassification.from_pretrained(tmp_path)
        assert model.config.id2label == names and model.classifier.out_features == 3

    @pytest.mark.parametrize(
        "name", ["BertForSequenceClassification", "BertForTokenClassification"]
    )
    def test_a_different_number_of_labels_needs_ignore_mismatched_sizes(
        self, name: str, tmp_path: Path
    ) -> None:
        build(name, num_labels=2).save_pretrained(tmp_path)
        message = (
            r"classifier.weight is \(2, 32\) in the file but \(5, 32\) in the model"
            ".*ignore_mismatched_sizes=True"
        )
        with pytest.raises(ValueError, match=message):
            getattr(minibert, name).from_pretrained(tmp_path, num_labels=5)
        with pytest.warns(
            UserWarning, match=r"classifier.weight \(file \(2, 32\), model \(5, 32\)\).*newly init"
        ):
            model = getattr(minibert, name).from_pretrained(
                tmp_path, num_labels=5, ignore_mismatched_sizes=True
            )
        assert {entry[0] for entry in model.load_report.mismatched} == {
            "classifier.weight",
            "classifier.bias",
        }
        assert model.load_report.missing == [] and model.config.num_labels == 5
        assert model(**ragged_batch(model.config)).logits.shape[-1] == 5

    def test_answers_have_a_start_and_an_end(self, tmp_path: Path) -> None:
        build("BertForTokenClassification", num_labels=9).save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="scores start and end: num_labels should be 2, not 9"):
            minibert.BertForQuestionAnswering.from_pretrained(tmp_path)
        with pytest.warns(UserWarning, match="qa_outputs.weight, qa_outputs.bias are not in"):
            minibert.BertForQuestionAnswering.from_pretrained(tmp_path, num_labels=2)


@pytest.mark.parametrize("labels", [[[0.5], [3.0]], [0.5, 3.0], [[1], [4]], [1, 4]])
def test_regression_code_of_a_blog_post(headless: Path, labels: list[Any]) -> None:
    """Code for transformers (klue/bert-base, num_labels=1) runs with only its import changed."""
    with pytest.warns(UserWarning, match="classifier.weight, classifier.bias are not in"):
        model = minibert.AutoModelForSequenceClassification.from_pretrained(headless, num_labels=1)
    input_ids = torch.randint(1, 99, (2, 9))
    target = torch.tensor(labels)
    output = model(input_ids, labels=target)
    assert output.keys() == ["loss", "logits"]
    assert output["logits"].shape == (2, 1) and output["loss"].shape == ()
    assert output["loss"].grad_fn.name() == "MseLossBackward0"
    assert torch.equal(output["loss"], nn.MSELoss()(output["logits"].squeeze(), target.squeeze()))


class TestChosenPositions:
    """Logits at chosen positions equal those of a full pass up to rounding.

    A matrix product of fewer rows may sum in another order.
    """

    @each_mlm_head
    def test_same_logits_loss_and_gradients(self, name: str) -> None:
        model = build(name)
        batch = ragged_batch(model.config)
        labels = torch.full_like(batch["input_ids"], IGNORED)
        labels[0, [1, 4]] = torch.tensor([7, 9])
        labels[1, 2] = 3
        positions = labels != IGNORED
        extra = (
            {"next_sentence_label": torch.tensor([0, 1, 1])} if name == "BertForPreTraining" else {}
        )
        whole = model(**batch, labels=labels, **extra)
        whole.loss.backward()
        expected = {path: parameter.grad.clone() for path, parameter in model.named_parameters()}
        model.zero_grad()
        chosen = model(**batch, labels=labels, positions=positions, **extra)
        chosen.loss.backward()
        assert chosen[1].shape == (3, 99)
        torch.testing.assert_close(chosen[1], whole[1][positions])
        torch.testing.assert_close(chosen.loss, whole.loss)
        for path, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, expected[path])

    @each_mlm_head
    def test_no_positions(self, name: str) -> None:
        model = build(name)
        nowhere = torch.zeros(2, 5, dtype=torch.bool)
        assert model(torch.randint(1, 99, (2, 5)), positions=nowhere)[0].shape == (0, 99)

    @each_mlm_head
    @pytest.mark.parametrize(
        "positions", [torch.tensor([[1, 2]]), torch.ones(5, 2, dtype=torch.bool)]
    )
    def test_only_a_boolean_mask_is_accepted(self, name: str, positions: Tensor) -> None:
        received = f"not {positions.dtype} of {tuple(positions.shape)}"
        with pytest.raises(
            ValueError,
            match=re.escape(f"positions should be torch.bool of shape (2, 5), {received}"),
        ):
            build(name)(torch.randint(1, 99, (2, 5)), positions=positions)

    def test_labels_of_another_shape(self) -> None:
        ids = torch.randint(1, 99, (2, 5))
        with pytest.raises(ValueError, match=r"labels should be of shape \(2, 5\), not \(2, 4\)"):
            build("BertForMaskedLM")(
                ids, positions=torch.ones(2, 5, dtype=torch.bool), labels=ids[:, :4]
            )


@pytest.mark.parametrize("name", HEADS[:-1])  # multiple choice has one more axis
def test_packed(name: str) -> None:
    """Packed sequences have the outputs that each has alone."""
    model = build(name)
    sequences = [torch.randint(1, 99, (length,)) for length in (7, 7, 3)]
    layout = minibert.PackedLayout([7, 7, 3])
    packed = model(torch.cat(sequences), layout=layout)
    for key in packed.keys():
        alone = [model(sequence[None])[key] for sequence in sequences]
        per_sequence = packed[key].shape[0] == 3
        torch.testing.assert_close(
            packed[key], torch.cat([out if per_sequence else out[0] for out in alone])
        )


def test_the_number_of_labels_of_the_model_chooses_the_loss() -> None:
    """A head that was replaced, with its number beside it, as code for transformers does it."""
    model = build("BertForSequenceClassification")
    model.classifier, model.num_labels = nn.Linear(32, 1), 1
    ids, labels = torch.tensor([[3, 5], [8, 2]]), torch.tensor([[0.0], [1.0]])
    output = model(ids, labels=labels)
    assert torch.equal(output.loss, (output.logits - labels).square().mean())


def test_one_of_two_labels_gives_no_loss() -> None:
    ids, sequence = torch.tensor([[3, 5], [8, 2]]), torch.tensor([0, 1])
    pretraining, answers = build("BertForPreTraining"), build("BertForQuestionAnswering")
    assert pretraining(ids, labels=ids).loss is None
    assert pretraining(ids, next_sentence_label=sequence).loss is None
    assert answers(ids, start_positions=sequence).loss is None
    assert answers(ids, end_positions=sequence).loss is None


def test_choices_share_a_mask() -> None:
    model, ids = build("BertForMultipleChoice"), torch.randint(1, 99, (2, 3, 4))
    mask = torch.tensor([[1, 1, 1, 0]])
    expected = model(ids, attention_mask=mask.expand(2, 3, 4)).logits
    assert torch.equal(model(ids, attention_mask=mask).logits, expected)
