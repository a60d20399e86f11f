"""What is named as a checkpoint: single files, kinds of weights, and folders of something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from safetensors.torch import save_file

from minibert import BertConfig, BertModel, BertTokenizer

IDS = torch.tensor([[1, 5, 2]])


@pytest.fixture
def model() -> BertModel:
    return BertModel(tiny_config()).eval()


@pytest.mark.parametrize("name", ["bert_char16424.bin", "weights.pt", "weights.safetensors"])
def test_a_file_of_weights_of_any_name(name: str, model: BertModel, tmp_path: Path) -> None:
    if name.endswith("safetensors"):
        save_file(model.state_dict(), tmp_path / name)
    else:
        torch.save(model.state_dict(), tmp_path / name)
    model.config.to_json_file(tmp_path / "bert_config_char16424.json")
    config = BertConfig.from_pretrained(tmp_path / "bert_config_char16424.json")
    assert config.hidden_size == model.config.hidden_size
    expected = model(IDS).pooler_output
    for given in (config, tmp_path / "bert_config_char16424.json"):
        loaded = BertModel.from_pretrained(tmp_path / name, config=given)
        torch.testing.assert_close(loaded(IDS).pooler_output, expected)
    with pytest.raises(FileNotFoundError, match=f"no config.json. It has {name}. .*config=config"):
        BertModel.from_pretrained(tmp_path)
    config.save_pretrained(tmp_path)
    again = BertModel.from_pretrained(tmp_path / name)
    torch.testing.assert_close(again(IDS).pooler_output, expected)


def test_which_weights_are_read(model: BertModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    trained = BertModel(model.config).eval()
    torch.save(trained.state_dict(), tmp_path / "pytorch_model.bin")
    for choice, expected in ((None, model), (True, model), (False, trained)):
        loaded = BertModel.from_pretrained(tmp_path, use_safetensors=choice)
        torch.testing.assert_close(loaded(IDS).pooler_output, expected(IDS).pooler_output)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="holds no model.safetensors or model.safe"):
        BertModel.from_pretrained(tmp_path, use_safetensors=True)
    BertModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer_config.json"])
def test_a_link_to_nothing_is_not_an_absent_file(
    name: str, model: BertModel, tmp_path: Path
) -> None:
    """As in a cache of the Hub whose blobs were removed. Without its config, a tokenizer would
    lower-case in silence."""
    model.save_pretrained(tmp_path)
    BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]).save_pretrained(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("../blobs/gone")
    load = BertTokenizer.from_pretrained if "tokenizer" in name else BertModel.from_pretrained
    with pytest.raises(FileNotFoundError, match=rf"{name} is a link to \.\./blobs/gone, which"):
        load(tmp_path)


@pytest.mark.parametrize("options", [{}, {"from_tf": True}])
def test_a_folder_of_google_names_the_way(options: dict[str, Any], tmp_path: Path) -> None:
    for name in ("bert_config.json", "bert_model.ckpt.index", "vocab.txt"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    with pytest.raises((FileNotFoundError, ValueError), match="convert_bert_original_tf_check"):
        BertModel.from_pretrained(tmp_path, **options)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "weights.pt"])
def test_weights_are_no_vocabulary(name: str, model: BertModel, tmp_path: Path) -> None:
    if name.endswith("safetensors"):
        save_file(model.state_dict(), tmp_path / name)
    else:
        torch.save(model.state_dict(), tmp_path / name)
    with pytest.raises(ValueError, match="holds weights. Pass its folder, vocab.txt or token"):
        BertTokenizer.from_pretrained(tmp_path / name)


@pytest.mark.parametrize(
    "options",
    [
        {"mirror": "tuna"},
        {"tp_plan": None},
        {"use_kernels": False},
        {"key_mapping": None},
        {"use_auth_token": False},
    ],
)
def test_keywords_that_ask_for_nothing(
    options: dict[str, Any], model: BertModel, tmp_path: Path
) -> None:
    model.save_pretrained(tmp_path, save_config=True)
    BertModel.from_pretrained(tmp_path, **options)
    with pytest.raises(ValueError, match="use_auth_token=True is not supported: pass token="):
        BertModel.from_pretrained(tmp_path, use_auth_token=True)
