"""What the checks and guesses that configs, loading and saving gave up do now, one a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from torch import nn

from minibert import BertConfig, BertForMaskedLM, BertModel
from minibert.checkpoints.source import Source


class OwnFields(BertConfig):
    def __init__(self, exits: int = 1, **fields: Any) -> None:
        super().__init__(**fields)
        self.exits = exits


def only_a_bin(folder: Path) -> Path:
    config = tiny_config()
    config.save_pretrained(folder)
    torch.save(BertModel(config).state_dict(), folder / "pytorch_model.bin")
    return folder


def another_file(folder: Path) -> Path:
    (folder / "bert.h5").touch()
    return folder / "bert.h5"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        # options of text generation were passed over when they were given as fields
        (lambda folder: BertConfig.from_dict({}, max_length=5), "no field 'max_length'"),
        (lambda folder: BertConfig().replace(num_beams=5), "no field 'num_beams'"),
        # a file was refused in place of a folder, whatever it was
        (lambda folder: Source(another_file(folder)), "is a file. Pass the folder that holds it"),
        # use_safetensors was passed over
        (
            lambda folder: BertModel.from_pretrained(only_a_bin(folder), use_safetensors=True),
            "holds no model.safetensors",
        ),
        # the connection was probed before the Hub was asked
        (
            lambda folder: BertModel.from_pretrained("a/b", cache_dir=folder),
            "the repository is not in the cache, and offline mode is on",
        ),
    ],
)
def test_an_error_says_what_to_do(
    call: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises((FileNotFoundError, TypeError, ValueError), match=message):
        call(tmp_path)


def test_options_of_generation_in_a_file_are_kept() -> None:
    assert BertConfig.from_dict({"max_length": 20}).to_dict()["max_length"] == 20


def test_a_users_config_takes_any_field() -> None:
    """A misspelled field of such a class was an error. It is kept in `extra`, as the others."""
    assert OwnFields(exits=2, exitz=3).extra == {"exitz": 3}


def test_the_decoder_follows_only_the_embeddings_that_it_shares() -> None:
    """Every tie of the config was made again whenever the embeddings changed."""
    model = BertForMaskedLM(tiny_config())
    decoder = model.cls.predictions.decoder
    decoder.weight = nn.Parameter(torch.ones(99, 32))
    model.set_input_embeddings(nn.Embedding(99, 32))
    assert (decoder.weight == 1).all()


def test_a_tensor_of_another_part_does_not_decide_what_is_drawn(tmp_path: Path) -> None:
    """Parts were drawn or not by the endings of the names in the file."""

    class Two(BertModel):
        def __init__(self, config: BertConfig) -> None:
            super().__init__(config)
            self.other = BertModel(config, add_pooling_layer=False)

    BertModel(tiny_config()).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"other\..* not in .*, newly initialized"):
        model = Two.from_pretrained(tmp_path)
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())
