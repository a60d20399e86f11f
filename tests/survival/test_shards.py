"""Shards that are damaged, belong to another run, or are in use.

Incomplete shards are never skipped, and shards of different runs are never mixed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import kill_when, start
from tiny_folder import LINES, WORDS, as_if_stopped, contents

from minibert import SentenceEmbedder
from minibert.vectors.shards import encode_to_shards

pytestmark = pytest.mark.usefixtures("one_thread")


def flip(path: Path, draw: random.Random) -> None:
    """Flip one random bit of a file."""
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda shard: os.truncate(shard, shard.stat().st_size // 2),
    "emptied": lambda shard: os.truncate(shard, 0),
    "flipped": lambda shard: flip(shard, random.Random(1)),
    "replaced": lambda shard: shard.write_bytes(shard.with_stem("shard-000002").read_bytes()),
}


@pytest.mark.parametrize("file_format", ["npy", "safetensors", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_encoded_again(
    embedder: SentenceEmbedder, tmp_path: Path, damage: str, file_format: str
) -> None:
    encode_to_shards(embedder, LINES, tmp_path, shard_size=10, file_format=file_format)
    before = contents(tmp_path)
    DAMAGES[damage](tmp_path / f"shard-000001.{file_format}")
    assert contents(tmp_path) != before
    with pytest.warns(
        UserWarning,
        match=f"shard-000001.{file_format} has been damaged or deleted since it was written",
    ):
        report = encode_to_shards(embedder, LINES, tmp_path, shard_size=10, file_format=file_format)
    assert (report.shards, report.skipped) == (1, 4)
    assert contents(tmp_path) == before


def test_a_shard_with_a_damaged_record_is_encoded_again(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    before = contents(tmp_path)
    as_if_stopped(tmp_path)
    for number, damage in enumerate((b"", b"{", b"\xff", b"[]", b"null")):
        (tmp_path / f".shard-{number:06d}").write_bytes(damage)
    report = encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    assert report.shards == 5
    assert contents(tmp_path) == before


def test_without_a_manifest_nothing_is_mixed(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    (tmp_path / ".manifest").unlink()
    with pytest.raises(ValueError, match=r"has shards, but no \.manifest: give another folder"):
        encode_to_shards(embedder, LINES, tmp_path, shard_size=10)


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"pooling": ["me',
        b'{"pooling": ["mean"]}',
        b"\0" * 500,
        b"\xff\xfe{}",
    ],
)
def test_a_damaged_manifest_is_an_error(
    embedder: SentenceEmbedder, tmp_path: Path, manifest: bytes
) -> None:
    encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    (tmp_path / ".manifest").write_bytes(manifest)
    with pytest.raises(ValueError, match=r"\.manifest .*is damaged: give another folder"):
        encode_to_shards(embedder, LINES, tmp_path, shard_size=10)


def test_a_shortened_input_is_an_error(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    """It may lack a line of another rank's last shard, or whole shards of this rank."""
    for rank in (0, 1):
        encode_to_shards(embedder, LINES, tmp_path / "two", shard_size=10, rank=rank, world_size=2)
    with pytest.raises(ValueError, match="47 lines, .*has 46: .*changed"):
        encode_to_shards(
            embedder, LINES[:46], tmp_path / "two", shard_size=10, rank=1, world_size=2
        )
    # rank 1 writes shards 1 and 3
    encode_to_shards(embedder, LINES, tmp_path / "one", shard_size=10, rank=1, world_size=2)
    with pytest.raises(ValueError, match="holds more than the 2 shards of this input"):
        encode_to_shards(
            embedder, LINES[:20], tmp_path / "one", shard_size=10, rank=1, world_size=2
        )


SHARDS = 12  # of 100 lines


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "lines.txt"
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 40))) for _ in range(SHARDS * 100)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def command(tiny_model: Path, corpus: Path, out: Path) -> list[str]:
    options = [
        "--file",
        str(corpus),
        "--output",
        str(out),
        "--shard-size",
        "100",
        "--precision",
        "exact",
    ]
    return [sys.executable, "-m", "minibert", "embed", "--model", str(tiny_model), *options]


@pytest.mark.parametrize("tries", [1, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.needs("locks")
@pytest.mark.slow
def test_two_processes_in_one_folder(
    tiny_model: Path, corpus: Path, tmp_path: Path, tries: int
) -> None:
    """One finishes, and the other stops with an error that names the folder and the first."""
    whole = subprocess.run(command(tiny_model, corpus, tmp_path / "whole"), capture_output=True)
    assert whole.returncode == 0
    for number in range(tries):
        out, pipe = tmp_path / str(number), tmp_path / f"pipe-{number}"
        os.mkfifo(pipe)  # the first one waits for its input until the other has stopped
        pair = [
            subprocess.Popen(
                command(tiny_model, pipe, out), stderr=subprocess.PIPE, encoding="utf-8"
            )
            for _ in range(2)
        ]
        deadline = time.monotonic() + 120
        while all(process.poll() is None for process in pair) and time.monotonic() < deadline:
            time.sleep(0.01)
        stopped, working = sorted(pair, key=lambda process: process.poll() is None)
        if stopped.poll() is None or working.poll() is not None:
            for process in pair:
                process.kill()
            messages = [process.communicate()[1] for process in pair]
            pytest.fail(f"expected exactly one of two runs to stop: {messages}")
        pipe.write_bytes(corpus.read_bytes())
        _, message = stopped.communicate()
        assert stopped.returncode == 1 and message.count("\n") == 1
        assert f"{out} is in use by process {working.pid} on " in message
        assert working.communicate()[1] == "" and working.returncode == 0
        assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:.*has been damaged or deleted since it was written")
@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.needs("fork")
def test_kills_and_flipped_bits(
    embedder: SentenceEmbedder, tiny_model: Path, corpus: Path, tmp_path: Path, kills: int
) -> None:
    """Resuming repairs a run that was killed, and a flipped bit in a shard."""
    torch.set_num_threads(1)  # as in the forked process, because two threads round differently
    lines, draw = corpus.read_text(encoding="utf-8").splitlines(), random.Random(kills)
    encode_to_shards(embedder, lines, tmp_path / "whole", shard_size=100)
    for kill in range(kills):
        out, shards = tmp_path / str(kill), draw.randrange(SHARDS)
        process = start(command(tiny_model, corpus, out)[3:], tmp_path / "log.txt")
        kill_when(process, lambda: len(list(out.glob("shard-*.npy"))) > shards, 0.02)  # noqa: B023
        if finished := sorted(out.glob("shard-*.npy")):
            flip(draw.choice(finished), draw)
        encode_to_shards(embedder, lines, out, shard_size=100)
        assert contents(out) == contents(tmp_path / "whole")
