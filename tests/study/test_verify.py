"""verify: equal models pass, any changed tensor is located, and errors say what to install."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from conftest import HEADS, tiny_config
from safetensors.torch import load_file, save_file

import minibert
from minibert.cli import main
from minibert.study.verify import TEXTS, verify


@pytest.fixture
def checkpoint(tmp_path: Path, minilm: str, request: pytest.FixtureRequest) -> Path:
    """A small random checkpoint of the test's class, with a part of MiniLM's vocabulary."""
    words = Path(minilm, "vocab.txt").read_text(encoding="utf-8").splitlines()[:4000]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    config = tiny_config(vocab_size=len(words), max_position_embeddings=128)
    getattr(minibert, getattr(request, "param", "BertForPreTraining"))(config).save_pretrained(
        tmp_path
    )
    return tmp_path


def change_the_reference(monkeypatch: pytest.MonkeyPatch, tensor: str) -> None:
    """Patch transformers so that one tensor of its models differs slightly."""
    load = transformers.PreTrainedModel.from_pretrained.__func__  # type: ignore[attr-defined]

    def changed(cls: Any, *arguments: Any, **options: Any) -> Any:
        model = load(cls, *arguments, **options)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if tensor.endswith(name):  # names in BertModel have no "bert." prefix
                    parameter.add_(0.01 * torch.randn_like(parameter))
        return model

    monkeypatch.setattr(transformers.PreTrainedModel, "from_pretrained", classmethod(changed))


@pytest.mark.parametrize("checkpoint", ["BertModel", *HEADS], indirect=True)
def test_every_kind_of_checkpoint_is_equal_bit_for_bit(
    checkpoint: Path, request: pytest.FixtureRequest
) -> None:
    result = verify(str(checkpoint), TEXTS[:4])
    parts = [comparison.part for comparison in result.comparisons]
    assert result.head == request.node.callspec.params["checkpoint"]
    assert all(comparison.bit_equal for comparison in result.comparisons), str(result)
    assert parts[0] == "tokenizer.text.input_ids" and "layer.1.attention.probabilities" in parts
    assert any(part.startswith(result.head) for part in parts) == (result.head != "BertModel")


def test_a_real_trained_model_is_equal_bit_for_bit(minilm: str) -> None:
    result = verify(minilm)
    assert result.passed()
    assert all(comparison.bit_equal for comparison in result.comparisons), str(result)


@pytest.mark.parametrize(
    ("tensor", "first"),
    [
        ("bert.embeddings.LayerNorm.bias", "embeddings.output"),
        ("bert.encoder.layer.1.attention.self.query.weight", "layer.1.attention.probabilities"),
        ("bert.encoder.layer.0.output.dense.bias", "layer.0.output"),
        ("bert.pooler.dense.bias", "pooler.output"),
        ("cls.predictions.bias", "BertForPreTraining.prediction_logits"),
        ("cls.seq_relationship.weight", "BertForPreTraining.seq_relationship_logits"),
    ],
)
def test_a_changed_tensor_is_located_where_it_first_matters(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tensor: str, first: str
) -> None:
    change_the_reference(monkeypatch, tensor)
    result = verify(str(checkpoint), TEXTS[:2])

    different = [comparison.part for comparison in result.comparisons if not comparison.bit_equal]
    assert different[0] == first
    assert not result.passed() and not result.passed(1e-6) and result.passed(10.0)


def test_a_different_tokenization_is_reported(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = minibert.BertTokenizer.from_pretrained(str(checkpoint))

    class Shifted:
        def __call__(self, *texts: object, **options: object) -> dict[str, torch.Tensor]:
            encoding = dict(other(*texts, **options))
            return {**encoding, "input_ids": encoding["input_ids"][:, :-1]}

    monkeypatch.setattr(minibert.BertTokenizer, "from_pretrained", lambda *_, **__: Shifted())
    result = verify(str(checkpoint), ["I love Korea"])
    assert result.comparisons[0].max_difference == float("inf") and not result.passed(1e9)
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_command_prints_a_table_or_json_and_sets_its_exit_code(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["verify", "--model", str(checkpoint), "--text", "I love Korea"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[1].split() == ["part", "max", "mean"] and table[-1] == "passed: tolerance 0"

    assert main(["verify", "--model", str(checkpoint), "--text", "a", "--text", "b", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["output"]
    assert result["passed"] and result["comparisons"][0]["part"] == "tokenizer.text.input_ids"

    change_the_reference(monkeypatch, "bert.pooler.dense.bias")
    assert main(["verify", "--model", str(checkpoint), "--text", "a"]) == 1
    assert capsys.readouterr().out.endswith("FAILED: tolerance 0\n")
    assert main(["verify", "--model", str(checkpoint), "--text", "a", "--tolerance", "0.1"]) == 0


def test_without_transformers_the_error_says_what_to_install(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(["verify", "--model", str(checkpoint)]) == 1
    message = capsys.readouterr().err
    assert (
        "transformers, which is not installed: pip install " in message and "[parity]'" in message
    )


@pytest.mark.needs("names in bytes")
def test_a_name_that_the_reference_cannot_open(checkpoint: Path) -> None:
    named = checkpoint.parent / os.fsdecode(b"\xff")
    named.symlink_to(checkpoint)
    with pytest.raises(ValueError, match="has a name that is not UTF-8"):
        verify(named)


def test_a_single_file_is_not_what_the_reference_loads(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").rename(checkpoint / "best.safetensors")
    with pytest.raises(ValueError, match="best.safetensors is a file"):
        verify(checkpoint / "best.safetensors")


def test_missing_tensors_are_named(checkpoint: Path) -> None:
    file = checkpoint / "model.safetensors"
    tensors = load_file(file)
    del tensors["cls.seq_relationship.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.warns(UserWarning, match="newly initialized"):
        result = verify(checkpoint, ["a"])
    assert result.to_dict()["missing"] == ["cls.seq_relationship.weight"]
    assert "drawn by each library: cls.seq_relationship.weight" in str(result)
    different = [comparison.part for comparison in result.comparisons if not comparison.bit_equal]
    assert different == ["BertForPreTraining.seq_relationship_logits"]


def test_an_empty_list_of_texts_is_an_error(minilm: str) -> None:
    with pytest.raises(ValueError, match="verify needs at least one text"):
        verify(minilm, [])


def test_a_single_text_is_not_taken_apart(minilm: str) -> None:
    shapes: list[tuple[int, ...]] = []
    forward = minibert.BertModel.forward

    def noted(self: Any, input_ids: torch.Tensor, **batch: Any) -> Any:
        shapes.append(tuple(input_ids.shape))
        return forward(self, input_ids, **batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minibert.BertModel, "forward", noted)
        assert verify(minilm, "I love Korea").passed()
    assert {shape[0] for shape in shapes} == {1}


def test_a_model_with_one_segment(checkpoint: Path) -> None:
    config = tiny_config(vocab_size=4000, max_position_embeddings=128, type_vocab_size=1)
    minibert.BertModel(config).save_pretrained(checkpoint)
    assert verify(checkpoint, ["a", "b c"]).passed()


def test_a_config_that_asks_for_tuples(checkpoint: Path) -> None:
    file = checkpoint / "config.json"
    content = {**json.loads(file.read_text(encoding="utf-8")), "return_dict": False}
    file.write_text(json.dumps(content), encoding="utf-8")
    assert verify(checkpoint, iter(["a", "b c"])).passed()


def test_another_type_is_a_difference(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where every value is the same: half precision that was loaded as float32."""
    minibert.BertModel.from_pretrained(checkpoint).half().save_pretrained(checkpoint)
    load = minibert.BertModel.from_pretrained.__func__  # type: ignore[attr-defined]

    def in_float32(cls: Any, *arguments: Any, **options: Any) -> Any:
        return load(cls, *arguments, **options, dtype=torch.float32)

    monkeypatch.setattr(minibert.BertModel, "from_pretrained", classmethod(in_float32))
    result = verify(checkpoint, ["a"])
    assert not result.passed(1e9)


def test_no_tolerance_excuses_another_id(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = minibert.BertTokenizer.from_pretrained(str(checkpoint))

    def shifted(*texts: object, **options: object) -> dict[str, torch.Tensor]:
        encoding = dict(other(*texts, **options))
        return {**encoding, "input_ids": encoding["input_ids"] + 1}

    monkeypatch.setattr(minibert.BertTokenizer, "from_pretrained", lambda *_, **__: shifted)
    assert not verify(checkpoint, ["a"]).passed(5.0)
    assert main(["verify", "--model", str(checkpoint), "--tolerance", "inf"]) == 2
    assert "--tolerance should be 0 or more and finite" in capsys.readouterr().err
