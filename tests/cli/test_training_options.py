"""The options of the training commands are those of `TrainingOptions`, declared once."""

from __future__ import annotations

import dataclasses

import pytest

from minibert.cli import build_parser
from minibert.cli.pretrain import _start
from minibert.cli.training import training_options
from minibert.training.options import TrainingOptions

FINETUNE = ["finetune", "tokens", "--train", "a", "--dev", "b", "--output", "c"]
PRETRAIN = ["pretrain", "--config", "a", "--corpus", "b", "--output", "c"]


def test_defaults_are_those_of_the_class() -> None:
    assert training_options(build_parser().parse_args(FINETUNE)) == TrainingOptions()
    changed = TrainingOptions(steps=10_000, batch_size=256, learning_rate=1e-4, warmup=0.01, save_every=500)
    assert training_options(build_parser().parse_args(PRETRAIN)) == changed


def test_what_is_given_is_taken() -> None:
    given = ["--learning-rate", "3e-4", "--bf16", "--steps", "7"]
    options = training_options(build_parser().parse_args([*FINETUNE, *given]))
    assert options == TrainingOptions(learning_rate=3e-4, bf16=True, steps=7)


@pytest.mark.parametrize(("size", "layers"), [("tiny", 2), ("mini", 4)])
def test_a_published_size_is_a_config(size: str, layers: int) -> None:
    given = ["pretrain", "--config", size, "--vocab", "minibert-tiny", "--corpus", "b", "--output", "c"]
    model, tokenizer = _start(build_parser().parse_args(given), [])
    assert model.config.num_hidden_layers == layers and model.config.vocab_size == len(tokenizer)


def test_every_option_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["finetune", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for field in dataclasses.fields(TrainingOptions):
        assert f"--{field.name.replace('_', '-')} " in shown
    assert "evaluations without a better score before training stops early" in shown and "(default: 5e-05)" in shown
