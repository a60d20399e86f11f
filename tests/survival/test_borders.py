"""What surrounds a call: a full standard output, a default type, autocast, a half-filled cache, odd options."""

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
from minibert.corpus.formats import WRITERS
from minibert.inference.batching import BATCH_TOKENS
from minibert.sentences.rows import CHUNK_TEXTS

TEXTS = ["how tall do trees grow in Korea", "hello"]


@pytest.mark.parametrize("precision", [None, "fp32", "bf16", "int8"])
@pytest.mark.filterwarnings("ignore:This processor has no:UserWarning")
def test_precision_is_the_model_s(precision: str | None) -> None:
    """Whatever torch's default type and autocast are around the call, or around loading."""
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
    """A standard output on a disk that is full."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_standard_output_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["tokenize", "hello"]) == 1
    assert capsys.readouterr().err.startswith(
        "minibert tokenize: standard output could not be written (No space left"
    )


def test_help_states_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["embed", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"tokens per batch. (default: {BATCH_TOKENS})" in text
    options = build_parser().parse_args(["embed", "text"])
    assert options.shard_size == CHUNK_TEXTS and "{" + ",".join(WRITERS) + "}" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["embed", "hello", "--layers", "1,2", "--layer-weights", "nan,1"],
            "layer_weights should be finite numbers",
        ),
        (
            ["embed", "hello", "--max-length", "-3"],
            "max_length should be a whole number of 1 or more, not -3",
        ),
        (
            ["embed", "--file", __file__, "--output", "DIR", "--shard-size", str(10**30)],
            "shard_size should be a whole",
        ),
        (
            ["view", "hello", "--pad-to", str(10**12), "--output", "DIR/page.html"],
            "so it cannot be padded to 1000000000000",
        ),
    ],
)
def test_options_of_the_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert main([argument.replace("DIR", str(tmp_path)) for argument in arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_rank_that_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "x")
    assert main(["embed", "hello"]) == 2
    assert (
        "RANK and WORLD_SIZE should be whole numbers, as torchrun sets them"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("value", [0, -3, 2.5, True])
def test_a_dimension_that_is_none(value: Any) -> None:
    with pytest.raises(ValueError, match="truncate_dim should be a whole number of 1 or more"):
        SentenceEmbedder.from_pretrained("minibert-tiny", truncate_dim=value)
    with pytest.raises(ValueError, match="truncate_dim should be a whole number of 1 or more"):
        SentenceEmbedder.from_pretrained("minibert-tiny").encode(TEXTS, truncate_dim=value)


class TestHalfFilledCache:
    """An offline Hub cache that lacks a file which nobody has looked for yet."""

    @pytest.fixture
    def cache(self, tmp_path: Path) -> Path:
        pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        repository = tmp_path / "models--some--one"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("abc", encoding="utf-8")
        sentence_folder(repository / "snapshots" / "abc", ("Pooling", pooling))
        return tmp_path

    def test_what_is_assumed_is_said(self, cache: Path) -> None:
        snapshot = cache / "models--some--one" / "snapshots" / "abc"
        source: dict[str, Any] = {"cache_dir": cache, "local_files_only": True, "precision": None}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            SentenceEmbedder.from_pretrained("some/one", **source)
        whole = [str(warning.message) for warning in told]
        assert not [m for m in whole if "modules.json" in m or "tokenizer_config.json" in m]
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
        known = cache / "models--some--one" / ".no_exist" / "abc"
        known.mkdir(parents=True)
        (known / "modules.json").touch()  # the Hub was asked, and has none
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            SentenceEmbedder.from_pretrained("some/one", **source)
        assert not [warning for warning in told if "modules.json of" in str(warning.message)]

    def test_info_shows_it(
        self, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (cache / "models--some--one" / "snapshots" / "abc" / "modules.json").unlink()
        monkeypatch.setattr(
            "minibert.cli.info.source_of", lambda _: Source("some/one", cache_dir=cache)
        )
        assert main(["info", "some/one", "--offline"]) == 0
        assert "modules.json: a plain BERT, with mean pooling" in capsys.readouterr().out
