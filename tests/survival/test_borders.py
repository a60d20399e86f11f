"""The environment of a call: full disks, default dtypes, autocast, partial caches, odd options."""

from __future__ import annotations

import errno
import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import sentence_folder

from minibert import SentenceEmbedder
from minibert.checkpoints.source import Source
from minibert.cli import build_parser, main
from minibert.encoders.rows.token_rows import CHUNK_TEXTS
from minibert.inference.batching import BATCH_TOKENS
from minibert.text.formats import SHARD_FORMATS

TEXTS = ["how tall do trees grow in Korea", "hello"]


@pytest.mark.parametrize("precision", [None, "fp32", "bf16", "int8"])
@pytest.mark.filterwarnings("ignore:This processor has no:UserWarning")
def test_default_dtype_and_autocast_change_nothing(precision: str | None) -> None:
    """The model's precision holds, whatever torch's settings are during loading or the call."""
    expected = SentenceEmbedder.from_pretrained("minibert-tiny", precision=precision).encode(TEXTS)
    torch.set_default_dtype(torch.float64)
    try:
        embedder = SentenceEmbedder.from_pretrained("minibert-tiny", precision=precision)
        vectors = embedder.encode(TEXTS)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        cast = embedder.encode(TEXTS)
    for other in (vectors, cast):
        assert other.dtype == np.float32 and np.array_equal(other, expected)


class Full(io.StringIO):
    """A standard output on a full disk."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_standard_output_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["tokenize", "hello"]) == 1
    assert capsys.readouterr().err.startswith(
        "minibert tokenize: standard output could not be written (No space left"
    )


def test_help_states_the_defaults_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["embed", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"tokens per batch. (default: {BATCH_TOKENS})" in text
    assert f"else {CHUNK_TEXTS}." in text and "{" + ",".join(SHARD_FORMATS) + "}" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["embed", "hello", "--layers", "1,2", "--layer-weights", "nan,1"],
            "--layer-weights should be finite numbers",
        ),
        (
            ["embed", "hello", "--max-length", "-3"],
            "--max-length should be a whole number of 1 or more, not -3",
        ),
        (
            ["embed", "--file", __file__, "--output", "DIR", "--shard-size", str(10**30)],
            "--shard-size should be a whole",
        ),
        (
            ["view", "hello", "--pad-to", str(10**12), "--output", "DIR/page.html"],
            "so it cannot be padded to 1000000000000",
        ),
    ],
)
def test_invalid_options_of_the_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    # whether a text fits is known only when the model reads it
    code = 1 if arguments[0] == "view" else 2
    assert main([argument.replace("DIR", str(tmp_path)) for argument in arguments]) == code
    assert message in capsys.readouterr().err


def test_a_rank_that_is_not_a_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "x")
    assert main(["embed", "hello"]) == 1
    assert (
        "RANK and WORLD_SIZE should be whole numbers, as torchrun sets them"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("value", [0, -3, 2.5, True])
def test_an_invalid_truncate_dim(value: Any) -> None:
    with pytest.raises(ValueError, match="truncate_dim should be a whole number of 1 or more"):
        SentenceEmbedder.from_pretrained("minibert-tiny", truncate_dim=value)
    with pytest.raises(ValueError, match="truncate_dim should be a whole number of 1 or more"):
        SentenceEmbedder.from_pretrained("minibert-tiny").encode(TEXTS, truncate_dim=value)


class TestPartialCache:
    """An offline Hub cache without a file that was never requested."""

    @pytest.fixture
    def cache(self, tmp_path: Path) -> Path:
        pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        repository = tmp_path / "models--some--one"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("abc", encoding="utf-8")
        sentence_folder(repository / "snapshots" / "abc", ("Pooling", pooling))
        return tmp_path

    def test_assumed_defaults_are_reported(self, cache: Path) -> None:
        snapshot = cache / "models--some--one" / "snapshots" / "abc"
        source: dict[str, Any] = {"cache_dir": cache, "local_files_only": True, "precision": None}
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            SentenceEmbedder.from_pretrained("some/one", **source)
        messages = [str(warning.message) for warning in records]
        for name in ("modules.json", "tokenizer_config.json"):
            assert not [message for message in messages if name in message]
        for name, default in (
            ("modules.json", "mean pooling"),
            ("tokenizer_config.json", "lower case"),
        ):
            (snapshot / name).unlink()
            with pytest.warns(
                UserWarning,
                match=f"{name} of some/one is not in the cache, .* which means .*{default}",
            ):
                SentenceEmbedder.from_pretrained("some/one", **source)
        missing = cache / "models--some--one" / ".no_exist" / "abc"
        missing.mkdir(parents=True)
        (missing / "modules.json").touch()  # records that the Hub does not have the file
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            SentenceEmbedder.from_pretrained("some/one", **source)
        assert not [warning for warning in records if "modules.json of" in str(warning.message)]

    def test_info_shows_the_default(
        self, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (cache / "models--some--one" / "snapshots" / "abc" / "modules.json").unlink()
        monkeypatch.setattr(
            "minibert.cli.look.source_of", lambda _: Source("some/one", cache_dir=cache)
        )
        assert main(["info", "-m", "some/one", "--offline"]) == 0
        assert "modules.json: a plain BERT, with mean pooling" in capsys.readouterr().out
